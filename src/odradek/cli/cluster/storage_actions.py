"""The actions of `odradek storage`, after its flags are parsed."""

import argparse
import asyncio
import base64
import binascii
from collections.abc import Callable, Sequence

from odradek.broker.identity import new_cluster_id, proposed_cluster_id
from odradek.cli.cluster.metadata_stores import opened_for_writing
from odradek.cli.running.broker import require_settings
from odradek.client.admin.users import ScramUpsertion
from odradek.config import BrokerSettings, InvalidSetting
from odradek.local.first_users import write_users
from odradek.metadata import Metadata
from odradek.metadata.node_values import ClusterId
from odradek.metadata.paths import CLUSTER_ID
from odradek.tools.client_properties import read_properties
from odradek.tools.failures import CommandFailed, MissingFlag, UsageError
from odradek.tools.hints import hint
from odradek.tools.scram_flags import credential_of_flag
from odradek.tools.terminal import print_json
from odradek.world import World
from odradek.world.disk import OsDisk

_STORE = "metadata.sqlite"


def format_store(arguments: argparse.Namespace) -> int:
    users = [credential_of_flag(text) for text in arguments.add_scram]
    settings = _settings(arguments)
    wanted = _cluster_id(arguments)
    idle = [
        f"--{name.replace('_', '-')}"
        for name in ("standalone", "no_initial_controllers", "feature", "release_version")
        if getattr(arguments, name)
    ]
    if idle or arguments.initial_controllers:
        hint(f"{', '.join(idle) or '--initial-controllers'} has no effect: there is no quorum")

    is_repeated = arguments.ignore_formatted
    cluster_id = asyncio.run(_format(settings, wanted, users, is_repeated=is_repeated))
    names = [user.user for user in users]
    if arguments.json:
        print_json({"cluster_id": cluster_id, "users": names})
    else:
        added = f", with the users {', '.join(names)}" if names else ""
        print(f"The metadata store is formatted for cluster {cluster_id}{added}.")
    return 0


async def _format(
    settings: BrokerSettings,
    wanted: str | None,
    users: Sequence[ScramUpsertion],
    *,
    is_repeated: bool,
) -> str:
    async with opened_for_writing(settings) as metadata:
        known = await _known_id(metadata)
        if known is not None and not is_repeated:
            raise CommandFailed(
                f"the metadata store has the cluster id {known} already; add users to it with"
                " --ignore-formatted while no broker runs, or with `odradek configs --alter --user"
                " NAME --add-config` while brokers run"
            )
        if known is not None and wanted is not None and known != wanted:
            raise CommandFailed(f"the metadata store has the cluster id {known}, not {wanted}")
        proposed = wanted or proposed_cluster_id(settings, World())
        return await write_users(metadata, users, cluster_id=proposed)


def info(arguments: argparse.Namespace) -> int:
    settings = _settings(arguments)
    store = settings.odradek_metadata_store
    path = f"{settings.data_directories[0]}/{_STORE}"
    if store == "sqlite" and not OsDisk().exists(settings.odradek_metadata_path or path):
        cluster_id = None  # Looking at it must not make it.
    else:
        cluster_id = asyncio.run(_find_id(settings))
    if arguments.json:
        print_json({"directories": [*settings.data_directories], "cluster_id": cluster_id})
        return 0 if cluster_id else 1
    print(
        "Found log directories:",
        *(f"\n  {data_directory}" for data_directory in settings.data_directories),
        sep="",
    )
    print(f"Found cluster id: {cluster_id}" if cluster_id else "The store is not formatted yet.")
    return 0 if cluster_id else 1


async def _find_id(settings: BrokerSettings) -> str | None:
    async with opened_for_writing(settings) as metadata:
        return await _known_id(metadata)


def random_uuid(arguments: argparse.Namespace) -> int:
    print(new_cluster_id(World()))
    return 0


ACTIONS: dict[str, Callable[[argparse.Namespace], int]] = {
    "format": format_store,
    "info": info,
    "random-uuid": random_uuid,
}


def _settings(arguments: argparse.Namespace) -> BrokerSettings:
    if arguments.config is None:
        raise MissingFlag(f"{arguments.action} needs the settings of a broker: --config FILE")
    properties = read_properties(arguments.config)
    require_settings(properties, arguments.config)
    try:
        settings = BrokerSettings.from_properties(properties)
    except InvalidSetting as problem:
        raise CommandFailed(f"{arguments.config}: {problem}") from None
    if settings.odradek_metadata_store == "memory":
        raise CommandFailed("odradek.metadata.store=memory keeps nothing, so it cannot be prepared")
    return settings


def _cluster_id(arguments: argparse.Namespace) -> str | None:
    text: str | None = arguments.cluster_id
    if text is None:
        return None
    try:
        if len(base64.urlsafe_b64decode(f"{text}==")) == 16:
            return text
    except binascii.Error:
        pass
    raise UsageError(f"{text} is not a cluster id; `odradek storage random-uuid` makes one")


async def _known_id(metadata: Metadata) -> str | None:
    """Returns the cluster id of the store; None if it is new."""
    session = metadata.connect()
    try:
        node = await session.read(CLUSTER_ID)
        return None if node is None else ClusterId.decode(node.value).id
    finally:
        await session.close()
