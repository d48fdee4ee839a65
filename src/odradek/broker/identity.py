"""The ids of the cluster and of the broker, where the settings do not say them."""

import logging

from odradek.config import BrokerSettings
from odradek.metadata import MetadataCache
from odradek.protocol.types import BrokerId
from odradek.storage.text_files import encode_uuid, read_directory_properties
from odradek.world import World

logger = logging.getLogger("odradek.server")


def proposed_cluster_id(settings: BrokerSettings, world: World) -> str:
    """Returns the id to be used if the metadata store has none: the one in `meta.properties` of
    the first log directory, or a new one."""
    try:
        properties = read_directory_properties(world.disk, settings.data_directories[0])
    except OSError:
        properties = {}
    return properties.get("cluster.id") or new_cluster_id(world)


def new_cluster_id(world: World) -> str:
    """Returns an id as Kafka writes it: 22 characters, of which the first is no `-`, so that it can
    be the value of a flag."""
    while True:
        made = encode_uuid(world.randomness.uuid().bytes)
        if not made.startswith("-"):
            return made


async def generated_broker_id(
    settings: BrokerSettings, world: World, cache: MetadataCache
) -> BrokerId:
    """Returns the id of a broker whose settings have none: the one in `meta.properties` of its log
    directories, or the next one that is free (`broker.id.generation.enable`)."""
    from odradek.cluster.broker_ids import (  # noqa: PLC0415 - seldom needed
        id_of_directories,
        next_broker_id,
    )

    kept = id_of_directories(world.disk, settings.data_directories)
    if kept is not None:
        return kept
    made = await next_broker_id(cache, settings.reserved_broker_max_id)
    logger.info("broker %d has been given its id", made)
    return made
