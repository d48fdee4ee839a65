"""Takes over logs that are there before any metadata is.

A new metadata store beside existing partition directories (copied from a Kafka broker, or
left after the store was lost) means topics nobody has written down yet: they are written down
with the ids and partitions their directories show. Overrides of their settings are unknown
and stay at the defaults.
"""

from collections.abc import Iterable
from typing import Final

from odradek.metadata import ImageKeeper
from odradek.metadata.layout import PartitionState, TopicAssignment, create_topic
from odradek.protocol.types import NO_TOPIC_ID, BrokerId, LeaderEpoch, TopicId
from odradek.storage import Log
from odradek.world import Randomness

# Where Kafka's own controllers keep their metadata, in a log that is no topic.
_KAFKA_METADATA: Final = "__cluster_metadata"


async def adopt(
    images: ImageKeeper, logs: Iterable[Log], broker_id: BrokerId, randomness: Randomness
) -> list[str]:
    """Makes a topic of every partition directory; returns their names."""
    partitions: dict[str, dict[int, Log]] = {}
    for log in logs:
        name, index = log.topic_partition
        if name != _KAFKA_METADATA:
            partitions.setdefault(name, {})[index] = log
    for name, found in partitions.items():
        known = [log.topic_id for log in found.values() if log.topic_id != NO_TOPIC_ID]
        topic_id = known[0] if known else TopicId(randomness.uuid().bytes)
        count = max(found) + 1
        states = [
            PartitionState(broker_id, LeaderEpoch(_next_epoch(found.get(index))), (broker_id,), 1)
            for index in range(count)
        ]
        assignment = TopicAssignment(topic_id, ((broker_id,),) * count)
        await images.write(*create_topic(name, assignment, states, {}))
    return sorted(partitions)


def _next_epoch(log: Log | None) -> int:
    return 0 if log is None else log.leader_epochs.latest + 1
