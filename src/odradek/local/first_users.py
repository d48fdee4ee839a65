"""Writes users with their SCRAM credentials into a metadata store that no broker has opened yet.

Brokers that log in to each other by SCRAM, and the first administrator, need their credentials
before the first broker starts. `odradek up --secure`, `odradek storage format --add-scram` and
`odradek configs --zookeeper` call this; afterwards AlterUserScramCredentials does it, which is
checked and audited.
"""

import asyncio
from collections.abc import Iterable, Mapping

from odradek.broker.identity import new_cluster_id, proposed_cluster_id
from odradek.client.admin.users import ScramUpsertion
from odradek.config import BrokerSettings, InvalidSetting
from odradek.metadata import Metadata, MetadataCache, MetadataError
from odradek.metadata.compare_and_set import change_node
from odradek.metadata.node_values import ConfigOverrides
from odradek.metadata.paths import user_config_path
from odradek.metadata.store_setup import prepare_store
from odradek.security.scram import ScramCredential
from odradek.tools.failures import CommandFailed
from odradek.world import World


def write_first_passwords(
    path: str, zookeeper: str | None, settings: BrokerSettings, passwords: Mapping[str, str]
) -> None:
    """Writes users with these passwords for SCRAM-SHA-512 into the SQLite file at `path`, or into a
    ZooKeeper ensemble. Raises `CommandFailed`."""
    asyncio.run(_write_first_passwords(path, zookeeper, settings, passwords))


async def _write_first_passwords(
    path: str, zookeeper: str | None, settings: BrokerSettings, passwords: Mapping[str, str]
) -> None:
    world = World()
    users = [ScramUpsertion.of_password(*user) for user in passwords.items()]
    try:
        metadata = _open(path, zookeeper, settings, world)
        try:
            await write_users(metadata, users, cluster_id=proposed_cluster_id(settings, world))
        finally:
            await metadata.close()
    except (MetadataError, InvalidSetting) as error:
        raise CommandFailed(f"cannot write the first users: {error}") from None
    finally:
        world.workers.close()


def _open(path: str, zookeeper: str | None, settings: BrokerSettings, world: World) -> Metadata:
    if zookeeper is not None:
        from odradek.metadata.zookeeper import ZookeeperMetadata
        from odradek.metadata.zookeeper_security import zookeeper_security

        security = zookeeper_security(settings, world.disk, world.randomness)
        return ZookeeperMetadata(zookeeper, world, security=security)
    from odradek.metadata.sqlite import SqliteMetadata

    return SqliteMetadata(path, world, has_durable_sessions=True)


async def write_users(
    metadata: Metadata, users: Iterable[ScramUpsertion], *, cluster_id: str = ""
) -> str:
    """Writes the credentials, and prepares a store that is new; other settings of the users stay.
    Returns the id of the cluster, which is `cluster_id`, or a new one, if the store is new. Raises
    `MetadataError`. The caller closes the store."""
    session = metadata.connect()
    try:
        known_id = await prepare_store(session, cluster_id or new_cluster_id(World()))
        cache = MetadataCache(session)
        for user in users:
            await _write(cache, user)
        return known_id
    finally:
        await session.close()


async def _write(cache: MetadataCache, user: ScramUpsertion) -> None:
    path = user_config_path(user.user)
    credential = ScramCredential.derive(
        user.mechanism, user.iterations, user.salt, user.salted_password
    )

    def changed(value: bytes | None) -> bytes:
        before = {} if not value else ConfigOverrides.decode(path, value).settings
        name = user.mechanism.kafka_name
        return ConfigOverrides({**before, name: credential.encode()}).encode()

    await change_node(cache, path, changed)
