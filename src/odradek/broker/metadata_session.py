"""How a broker opens the metadata store that its settings name, and how long a session lasts there.

odradek.metadata.store   store
sqlite                   a file of this broker, in its own process
memory                   nothing is kept: for tests and `odradek up --memory`
socket                   the service on a Unix socket that `odradek up` runs for its brokers
zookeeper                a ZooKeeper ensemble
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from odradek.config import BrokerSettings, InvalidSetting
from odradek.metadata import Metadata, MetadataStore
from odradek.metadata.memory import MemoryMetadata
from odradek.metadata.sqlite import SqliteMetadata
from odradek.storage import StorageError
from odradek.world import World


@asynccontextmanager
async def metadata_session(
    given: Metadata | None, settings: BrokerSettings, world: World
) -> AsyncIterator[MetadataStore]:
    """Opens a session with the store that is `given`, or else with the one that the settings name,
    which is closed at the end."""
    metadata = given or _open(settings, world)
    session = metadata.connect()
    try:
        yield session
    finally:
        await session.close()
        if metadata is not given:
            await metadata.close()


def _open(settings: BrokerSettings, world: World) -> Metadata:
    store = settings.odradek_metadata_store
    if store == "memory":
        return MemoryMetadata()
    if store == "socket":
        return _open_socket(settings, world)
    if store == "zookeeper":
        return _open_zookeeper(settings, world)
    directory = settings.data_directories[0]
    try:
        world.disk.make_directories(directory)
    except OSError as error:
        raise StorageError(
            f"cannot make the directory {directory}: {error.strerror}; choose another one"
        ) from error
    return SqliteMetadata(settings.odradek_metadata_path or f"{directory}/metadata.sqlite", world)


def _open_socket(settings: BrokerSettings, world: World) -> Metadata:
    from odradek.metadata.remote import SocketMetadata  # noqa: PLC0415 - only in clusters

    if settings.odradek_metadata_path is None:
        raise InvalidSetting(
            "odradek.metadata.path", "(unset)", "name the Unix socket of the metadata service"
        )
    return SocketMetadata(
        settings.odradek_metadata_path,
        world,
        session_timeout_ms=settings.odradek_metadata_session_timeout_ms,
    )


def _open_zookeeper(settings: BrokerSettings, world: World) -> Metadata:
    from odradek.metadata.remembered_session import (  # noqa: PLC0415 - only in clusters
        FILE_NAME,
        RememberedSession,
    )
    from odradek.metadata.zookeeper import ZookeeperMetadata  # noqa: PLC0415 - needs kazoo
    from odradek.metadata.zookeeper_security import zookeeper_security  # noqa: PLC0415

    if settings.zookeeper_connect is None:
        raise InvalidSetting(
            "zookeeper.connect", "(unset)", "name the ensemble, as in host:2181/chroot"
        )
    directory = settings.data_directories[0]
    return ZookeeperMetadata(
        settings.zookeeper_connect,
        world,
        session_timeout_ms=settings.zookeeper_session_timeout_ms,
        connection_timeout_ms=settings.zookeeper_connection_timeout_ms,
        remembered=RememberedSession(world.disk, f"{directory}/{FILE_NAME}"),
        security=zookeeper_security(settings, world.disk, world.randomness),
    )


def is_shared(given: Metadata | None, settings: BrokerSettings) -> bool:
    """Returns whether other brokers may use the same metadata store."""
    return given is not None or settings.odradek_metadata_store not in ("sqlite", "memory")


def session_timeout_s(settings: BrokerSettings) -> float:
    if settings.odradek_metadata_store == "zookeeper":
        return settings.zookeeper_session_timeout_ms / 1000
    return settings.odradek_metadata_session_timeout_ms / 1000


def registration_timeout_s(settings: BrokerSettings) -> float:
    """Returns how long the registration of this broker's previous run may take to expire."""
    if settings.odradek_metadata_store == "zookeeper":
        # An ensemble may grant a longer timeout than the one that was asked for, counts in ticks of
        # some seconds, and begins to count again when it elects another leader.
        return 2 * session_timeout_s(settings) + 10.0
    return session_timeout_s(settings) + 1.0
