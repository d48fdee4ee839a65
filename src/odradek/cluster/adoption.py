"""Takes over logs that the metadata store has never heard of.

A new metadata store beside existing partition directories (copied from a Kafka broker, or
left after the store was lost) means topics nobody has written down yet: each broker writes down
what its own directories show, with the ids they carry. Overrides of settings are unknown and
stay at the defaults.

Where several brokers hold a replica, the first to come has the partition, alone; the logs of the
others are set aside, not deleted, for nobody knows which of them is the longest. A partition
in the middle that the first broker lacks has no leader until somebody comes who has it; a broker
that is alone makes an empty one.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from odradek.metadata import (
    ImageKeeper,
    Operation,
    Set,
    TopicImage,
)
from odradek.metadata.compare_and_set import Outcome, Tries, write
from odradek.metadata.layout import (
    NO_LEADER,
    PartitionState,
    TopicAssignment,
    create_partitions,
    create_topic,
    partition_state_path,
    topic_path,
)
from odradek.protocol.types import NO_TOPIC_ID, BrokerId, LeaderEpoch, TopicId
from odradek.storage import Log
from odradek.world import Randomness

# Where Kafka's own controllers keep their metadata, in a log that is no topic.
_KAFKA_METADATA: Final = "__cluster_metadata"


async def adopt(
    images: ImageKeeper,
    logs: Iterable[Log],
    broker_id: BrokerId,
    randomness: Randomness,
    *,
    is_alone: bool,
) -> list[str]:
    """Makes a topic of every partition directory that is of none; returns their names."""
    topics: dict[str, dict[int, Log]] = {}
    for log in logs:
        name, index = log.topic_partition
        if name != _KAFKA_METADATA:
            topics.setdefault(name, {})[index] = log
    adopted = []
    for name, logs_of in topics.items():
        known = [log.topic_id for log in logs_of.values() if log.topic_id != NO_TOPIC_ID]
        topic_id = known[0] if known else NO_TOPIC_ID
        found = _Found(name, topic_id, logs_of, broker_id, is_alone)
        new_id = topic_id if known else TopicId(randomness.uuid().bytes)
        tries = Tries(f"topic '{name}'")
        while operations := _operations(images.image.topics.get(name), found, new_id):
            # Another broker may adopt the same topic.
            outcome = await write(images, *operations)
            tries.count(outcome)
            if outcome is Outcome.WRITTEN:
                adopted.append(name)
                break
    return sorted(adopted)


class _Found(NamedTuple):
    """What one broker has of a topic."""

    name: str
    topic_id: TopicId
    logs: Mapping[int, Log]
    broker_id: BrokerId
    is_alone: bool

    def state(self, index: int) -> PartitionState:
        log = self.logs.get(index)
        if log is None and not self.is_alone:
            return PartitionState(NO_LEADER, LeaderEpoch(0), (), 1)
        epoch = 0 if log is None else log.leader_epochs.latest + 1
        return PartitionState(self.broker_id, LeaderEpoch(epoch), (self.broker_id,), 1)


def _operations(topic: TopicImage | None, found: _Found, new_id: TopicId) -> list[Operation]:
    """What writes down the partitions found; nothing if all of them have their place."""
    name, alone = found.name, (found.broker_id,)
    count = max(found.logs) + 1
    if topic is None:
        assignment = TopicAssignment(new_id, (alone,) * count)
        return create_topic(name, assignment, [found.state(index) for index in range(count)], {})
    if found.topic_id not in (topic.topic_id, NO_TOPIC_ID):
        return []
    vacant = [index for index in _vacant(topic) if index in found.logs]
    before = len(topic.partitions)
    added = range(before, max(count, before))
    if not vacant and not added:
        return []
    replicas = [alone if one.partition in vacant else one.replicas for one in topic.partitions]
    assignment = TopicAssignment(
        topic.topic_id,
        (*replicas, *(alone for _ in added)),
        {one.partition: one.adding for one in topic.partitions if one.adding},
        {one.partition: one.removing for one in topic.partitions if one.removing},
    )
    operations: list[Operation] = [Set(topic_path(name), assignment.encode(), topic.version)]
    for index in vacant:
        version = topic.partitions[index].version
        state = found.state(index).encode()
        operations.append(Set(partition_state_path(name, index), state, version))
    return operations + create_partitions(name, before, [found.state(index) for index in added])


def _vacant(topic: TopicImage) -> list[int]:
    """Partitions that were written down because of their neighbours."""
    return [one.partition for one in topic.partitions if one.leader == NO_LEADER and not one.isr]
