"""The metadata of the cluster as a client knows it: brokers, topics and leaders.

`Cluster` keeps it fresh; producer, consumer and admin client read it.

Invariant: the leader epoch of a partition never goes back while its topic's id stays the same, so
an old answer of a slow broker does not undo a newer one.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from operator import attrgetter

from odradek.protocol.errors import ErrorCode, KafkaError, error_for
from odradek.protocol.messages.metadata import MetadataResponse, MetadataResponseTopic
from odradek.protocol.types import NO_TOPIC_ID, BrokerId, LeaderEpoch, TopicId, TopicPartition

NO_BROKER = BrokerId(-1)
_UNKNOWN_EPOCH = LeaderEpoch(-1)


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker and the address that it advertises."""

    id: BrokerId
    host: str
    port: int
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition as brokers describe it, with its leader and replicas."""

    index: int
    leader: BrokerId
    leader_epoch: LeaderEpoch
    replicas: tuple[BrokerId, ...]
    in_sync: tuple[BrokerId, ...]
    offline: tuple[BrokerId, ...]
    error_code: int = 0


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as brokers describe it. `partitions` is ordered by index."""

    name: str
    id: TopicId
    is_internal: bool
    partitions: dict[int, Partition]
    all_partitions: tuple[int, ...] = field(default=())
    available_partitions: tuple[int, ...] = field(default=())


def topic_from(described: MetadataResponseTopic, known: Topic | None) -> Topic:
    """Returns a topic from a broker's answer; partitions that are newer in `known` are kept."""
    keep = known.partitions if known is not None and known.id == described.topic_id else {}
    partitions = {}
    for answer in sorted(described.partitions, key=attrgetter("partition_index")):
        partition = Partition(
            index=answer.partition_index,
            leader=BrokerId(answer.leader_id),
            leader_epoch=LeaderEpoch(answer.leader_epoch),
            replicas=tuple(map(BrokerId, answer.replica_nodes)),
            in_sync=tuple(map(BrokerId, answer.isr_nodes)),
            offline=tuple(map(BrokerId, answer.offline_replicas)),
            error_code=answer.error_code,
        )
        before = keep.get(partition.index)
        if before is not None and _UNKNOWN_EPOCH < partition.leader_epoch < before.leader_epoch:
            partition = before
        partitions[partition.index] = partition
    return _with_indexes(
        Topic(described.name or "", described.topic_id, described.is_internal, partitions)
    )


def _with_indexes(topic: Topic) -> Topic:
    return replace(
        topic,
        all_partitions=tuple(topic.partitions),
        available_partitions=tuple(
            index for index, partition in topic.partitions.items() if partition.leader >= 0
        ),
    )


def _error_of(name: str, code: int, hint: str = "") -> KafkaError:
    """Returns the error of a topic, with the topic's name; `hint` may name one that was meant."""
    if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return error_for(code, f"There is no topic {name}{hint or '.'}")
    if code == ErrorCode.INVALID_TOPIC_EXCEPTION:
        return error_for(
            code,
            f"{name!r} is not a valid name of a topic: letters, digits, '.', '_' and '-' are, up to"
            " 249 of them.",
        )
    if code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        return error_for(code, f"No permission for topic {name}.")
    return error_for(code)


class ClusterView:
    """Brokers, topics and leaders as the last answers described them; it does no I/O.

    `version` rises with every change, so a user of the view can tell whether what it derived from
    the view is still valid.
    """

    def __init__(self) -> None:
        self.version = 0
        self.cluster_id: str | None = None
        self.controller = NO_BROKER
        self.brokers: dict[BrokerId, Broker] = {}
        self.topics: dict[str, Topic] = {}
        self.names: dict[TopicId, str] = {}
        self.errors: dict[str, KafkaError] = {}
        # For topics that do not exist: `; did you mean X?`, if there is a similar name.
        self.hints: dict[str, str] = {}

    def update(self, response: MetadataResponse, asked: Iterable[str] | None) -> None:
        """Takes over a broker's answer about the topics `asked`, or about all if that is None."""
        self.version += 1
        self.cluster_id = response.cluster_id
        self.controller = BrokerId(response.controller_id)
        if response.brokers:
            self.brokers = {
                BrokerId(broker.node_id): Broker(
                    BrokerId(broker.node_id), broker.host, broker.port, broker.rack
                )
                for broker in response.brokers
            }
        if asked is None:
            present = {topic.name for topic in response.topics}
            for name in [name for name in self.topics if name not in present]:
                self._drop(name)
        for described in response.topics:
            self._update_topic(described)

    def _update_topic(self, described: MetadataResponseTopic) -> None:
        name = described.name or self.names.get(described.topic_id)
        if name is None:
            return
        if described.error_code:
            self.errors[name] = _error_of(name, described.error_code, self.hints.get(name, ""))
            # A topic without a leader still exists; one that is gone or forbidden does not.
            if described.error_code != ErrorCode.LEADER_NOT_AVAILABLE:
                self._drop(name)
            return
        self.errors.pop(name, None)
        self.hints.pop(name, None)
        known = self.topics.get(name)
        if known is not None and known.id != described.topic_id:
            self.names.pop(known.id, None)
        self.topics[name] = topic_from(described, known)
        if described.topic_id != NO_TOPIC_ID:
            self.names[described.topic_id] = name

    def note_missing(self, name: str, hint: str) -> None:
        """Adds to the error of a topic that does not exist which one was probably meant."""
        self.hints[name] = hint
        self.errors[name] = _error_of(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, hint)

    def forget(self, name: str) -> None:
        """Drops all that is known of a topic which is not refreshed any more."""
        self.version += 1
        self._drop(name)
        self.errors.pop(name, None)
        self.hints.pop(name, None)

    def _drop(self, name: str) -> None:
        topic = self.topics.pop(name, None)
        if topic is not None:
            self.names.pop(topic.id, None)

    def partition(self, topic_partition: TopicPartition) -> Partition | None:
        topic = self.topics.get(topic_partition.topic)
        return None if topic is None else topic.partitions.get(topic_partition.partition)

    def leader(self, topic_partition: TopicPartition) -> BrokerId:
        partition = self.partition(topic_partition)
        return NO_BROKER if partition is None else partition.leader

    def leader_moved(
        self,
        topic_partition: TopicPartition,
        leader: int,
        leader_epoch: int,
        endpoints: Iterable[Broker] = (),
    ) -> bool:
        """Takes over a broker's hint about the current leader (KIP-951).

        Returns False if the hint is not newer than what is known.
        """
        topic = self.topics.get(topic_partition.topic)
        before = self.partition(topic_partition)
        if topic is None or before is None or leader < 0 or leader_epoch <= before.leader_epoch:
            return False
        for endpoint in endpoints:
            self.brokers[endpoint.id] = endpoint
        if leader not in self.brokers:
            return False
        after = replace(before, leader=BrokerId(leader), leader_epoch=LeaderEpoch(leader_epoch))
        partitions = topic.partitions | {before.index: after}
        self.topics[topic.name] = _with_indexes(replace(topic, partitions=partitions))
        self.version += 1
        return True
