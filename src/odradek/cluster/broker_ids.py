"""Generates the id of a broker whose settings have none (`broker.id.generation.enable`).

A log directory has the id of its broker in `meta.properties`, and that id is kept for ever. A
broker with empty directories takes the next number from `/brokers/seqid`, as Kafka does: the
version of that node, which rises by one with each write, plus `reserved.broker.max.id`. So no two
brokers get the same id, and a number that was taken by a broker that never started is not used
again.
"""

from collections.abc import Iterable
from typing import Final

from odradek.metadata import MetadataCache
from odradek.metadata.compare_and_set import Tries, attempt
from odradek.metadata.store import BadVersion, Create, NodeExists, OutcomeUnknown, Set
from odradek.protocol.types import BrokerId
from odradek.storage.text_files import read_directory_properties
from odradek.world import Disk

SEQUENCE: Final = "/brokers/seqid"


def id_of_directories(disk: Disk, directories: Iterable[str]) -> BrokerId | None:
    """Returns the id in the first directory that has one. The broker checks later, when it locks
    the directories, that all of them agree."""
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
    """Takes a number above `reserved` that no other broker of the cluster has."""
    tries = Tries(SEQUENCE)
    while True:
        node = await cache.store.read(SEQUENCE)
        try:
            if node is None:
                await attempt(cache, Create(SEQUENCE))
                continue
            await attempt(cache, Set(SEQUENCE, b"", node.version))
        except (BadVersion, NodeExists):
            tries.lost_race()
        except OutcomeUnknown:
            # The number may be this broker's or another's: the next one is certainly free.
            tries.unknown_outcome()
        else:
            return BrokerId(reserved + node.version + 1)
