"""Generates the id of a broker that has no `broker.id` in its settings
(`broker.id.generation.enable`).

A log directory has the id of its broker in `meta.properties`, and the broker keeps that id. A
broker with empty directories writes to the node `/brokers/seqid`, as in Kafka: its id is the new
version of the node plus `reserved.broker.max.id`. The version rises by one with each write, so no
two brokers get the same id, and the id of a broker that never started is not used again.
"""

from collections.abc import Iterable
from typing import Final

from odradek.metadata import MetadataCache
from odradek.metadata.compare_and_set import Tries, attempt
from odradek.metadata.store import BadVersion, Create, NodeExists, OutcomeUnknown, Set
from odradek.protocol.types import BrokerId
from odradek.storage.text_files import read_directory_properties
from odradek.world import Disk

BROKER_SEQUENCE_PATH: Final = "/brokers/seqid"


def id_of_directories(disk: Disk, directories: Iterable[str]) -> BrokerId | None:
    """Returns the id in the first directory that has one. `DirectoryOwnership.claim` checks later
    that the other directories do not belong to another broker."""
    for directory in directories:
        try:
            properties = read_directory_properties(disk, directory)
        except OSError:
            continue
        text = properties.get("node.id") or properties.get("broker.id")
        if text is not None and text.isdigit():
            return BrokerId(int(text))
    return None


async def next_broker_id(cache: MetadataCache, reserved: int) -> BrokerId:
    """Returns a new id above `reserved` that no other broker of the cluster has."""
    tries = Tries(BROKER_SEQUENCE_PATH)
    while True:
        node = await cache.store.read(BROKER_SEQUENCE_PATH)
        try:
            if node is None:
                await attempt(cache, Create(BROKER_SEQUENCE_PATH))
                continue
            await attempt(cache, Set(BROKER_SEQUENCE_PATH, b"", node.version))
        except (BadVersion, NodeExists):
            tries.lost_race()
        except OutcomeUnknown:
            # It is unknown whether this broker or another one wrote the new version. The loop
            # writes again and gets a version of its own.
            tries.unknown_outcome()
        else:
            return BrokerId(reserved + node.version + 1)
