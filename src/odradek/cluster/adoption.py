"""Registers the topics of logs that the metadata store does not know.

A new metadata store beside existing partition directories (copied from a Kafka broker, or
left after the store was lost) lacks their topics. Each broker registers the topics of its own
directories, with the topic ids that they carry.

What else the lost store knew is chosen so that no record is lost or taken for another:

- Overrides of settings are unknown. Internal topics get the settings that the coordinators need.
  All others are kept for ever (`retention.ms` and `retention.bytes` of -1) until an operator sets
  them, because the defaults might delete records that their owner wanted to keep.
- Leader epochs go on far above the last one in the log, so that clients that have seen later ones
  accept them. In the transaction log they also lie above every coordinator epoch in a log,
  or the markers of open transactions would be refused.
- Producer ids go on above those in the logs (`producer_ids.start_above`).
- Controller and broker epochs begin anew: only the store remembers those.

If several brokers hold a replica, the first to start gets the partition as its sole replica. The
logs of the others are renamed and kept, because it is not known which one is the longest. A
partition number that the first broker lacks, below others that it has, has no leader until a broker
starts that has it; a lone broker creates an empty log.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from odradek.cluster.internal_settings import (
    GROUPS,
    INTERNAL_TOPICS,
    TRANSACTIONS,
    internal_topic,
)
from odradek.config import BrokerSettings
from odradek.metadata import (
    ChangeTooBig,
    MetadataCache,
    Node,
    Operation,
    Set,
    TopicImage,
)
from odradek.metadata.compare_and_set import Outcome, Tries, write
from odradek.metadata.node_values import NO_LEADER, PartitionState, TopicAssignment
from odradek.metadata.paths import partition_state_path, topic_config_path, topic_path
from odradek.metadata.topic_operations import create_partitions, create_topic
from odradek.protocol.types import NO_TOPIC_ID, BrokerId, LeaderEpoch, TopicId
from odradek.storage import Log
from odradek.world import Randomness

# Kafka's own controllers keep their metadata in this log, which is not a topic.
_KAFKA_METADATA: Final = "__cluster_metadata"
# More than the elections in which this replica took no part.
_EPOCHS_SKIPPED: Final = 10_000
_KEPT: Final = {"retention.ms": "-1", "retention.bytes": "-1"}


async def adopt(
    cache: MetadataCache,
    logs: Iterable[Log],
    broker_id: BrokerId,
    randomness: Randomness,
    settings: BrokerSettings,
    *,
    is_alone: bool,
) -> list[str]:
    """Creates the topics of partition directories that belong to none; returns their names."""
    topics: dict[str, dict[int, Log]] = {}
    logs = list(logs)
    coordinator_epoch = _latest_coordinator_epoch(logs)
    for log in logs:
        name, index = log.topic_partition
        if name != _KAFKA_METADATA:
            topics.setdefault(name, {})[index] = log
    adopted = []
    for name, logs_of in topics.items():
        known = [log.topic_id for log in logs_of.values() if log.topic_id != NO_TOPIC_ID]
        topic_id = known[0] if known else NO_TOPIC_ID
        new_id = topic_id if known else TopicId(randomness.uuid().bytes)
        found = _Found(
            name,
            topic_id,
            logs_of,
            broker_id,
            is_alone,
            min_epoch=LeaderEpoch(coordinator_epoch + 1 if name == TRANSACTIONS else 0),
            partitions=_partition_count(name, max(logs_of) + 1, settings, is_alone=is_alone),
            overrides=internal_topic(name, 1, settings, 1).overrides
            if name in INTERNAL_TOPICS
            else _KEPT,
        )
        if await _adopt_topic(cache, found, new_id):
            adopted.append(name)
    return sorted(adopted)


async def _adopt_topic(cache: MetadataCache, found: "_Found", new_id: TopicId) -> bool:
    """Registers a topic, in parts if the store does not take it at once. Returns whether anything
    was registered."""
    tries = Tries(f"topic '{found.name}'")
    most = found.partitions
    is_adopted = False
    while True:
        topic = cache.image.topics.get(found.name)
        leftover = None
        if topic is None:
            leftover = await cache.store.read(topic_config_path(found.name))
        operations = _operations(topic, found, new_id, most, leftover)
        if not operations:
            return is_adopted
        try:
            # Another broker may adopt the same topic.
            outcome = await write(cache, *operations)
        except ChangeTooBig:
            if most == 1:
                raise
            most = (most + 1) // 2
            continue
        tries.count(outcome)
        is_adopted = is_adopted or outcome is not Outcome.LATE


def _latest_coordinator_epoch(logs: Iterable[Log]) -> int:
    """Returns the latest epoch of a transaction coordinator of which any log has a marker."""
    return max(
        (entry.coordinator_epoch for log in logs for entry in log.producers.entries.values()),
        default=-1,
    )


def _partition_count(name: str, found: int, settings: BrokerSettings, *, is_alone: bool) -> int:
    """Returns how many partitions the topic gets. The coordinator of a group or transactional id
    depends on that number, so a broker that may hold only some of them uses the settings."""
    if is_alone or name not in INTERNAL_TOPICS:
        return found
    usual = (
        settings.offsets_topic_num_partitions
        if name == GROUPS
        else settings.transaction_state_log_num_partitions
    )
    return max(found, usual)


class _Found(NamedTuple):
    """The logs that one broker has of a topic."""

    name: str
    topic_id: TopicId
    logs: Mapping[int, Log]
    broker_id: BrokerId
    is_alone: bool
    min_epoch: LeaderEpoch
    partitions: int
    overrides: Mapping[str, str]

    def state(self, index: int) -> PartitionState:
        log = self.logs.get(index)
        if log is None and not self.is_alone:
            return PartitionState(NO_LEADER, LeaderEpoch(0), (), 1)
        latest = max(0 if log is None else log.leader_epochs.latest, self.min_epoch)
        epoch = LeaderEpoch(latest + _EPOCHS_SKIPPED)
        return PartitionState(self.broker_id, epoch, (self.broker_id,), 1)


def _operations(
    topic: TopicImage | None, found: _Found, new_id: TopicId, most: int, leftover: Node | None
) -> list[Operation]:
    """Returns the operations that register the partitions found, `most` of them at a time; none if
    all are registered. `leftover` is the node of settings that the store has for this topic name
    although it lacks the topic."""
    name, alone = found.name, (found.broker_id,)
    if topic is None:
        count = min(found.partitions, most)
        states = [found.state(index) for index in range(count)]
        return create_topic(
            name, TopicAssignment(new_id, (alone,) * count), states, found.overrides, leftover
        )
    if found.topic_id not in (topic.topic_id, NO_TOPIC_ID):
        return []
    vacant = [index for index in _vacant(topic) if index in found.logs][:most]
    before = len(topic.partitions)
    added = range(before, max(min(found.partitions, before + most), before))
    if not vacant and not added:
        return []
    replicas = [
        alone if partition.partition in vacant else partition.replicas
        for partition in topic.partitions
    ]
    assignment = TopicAssignment(
        topic.topic_id,
        (*replicas, *(alone for _ in added)),
        {
            partition.partition: partition.adding
            for partition in topic.partitions
            if partition.adding
        },
        {
            partition.partition: partition.removing
            for partition in topic.partitions
            if partition.removing
        },
    )
    operations: list[Operation] = [Set(topic_path(name), assignment.encode(), topic.version)]
    for index in vacant:
        version = topic.partitions[index].version
        state = found.state(index).encode()
        operations.append(Set(partition_state_path(name, index), state, version))
    return operations + create_partitions(name, before, [found.state(index) for index in added])


def _vacant(topic: TopicImage) -> list[int]:
    """Returns the partitions without any replica: another broker registered them only because it
    had a partition with a higher number."""
    return [
        partition.partition
        for partition in topic.partitions
        if partition.leader == NO_LEADER and not partition.isr and not partition.last_known
    ]
