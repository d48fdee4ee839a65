"""What a broker knows about its cluster: an immutable image of the metadata store.

An image is never changed; `metadata.image_builder` builds a new one from the old one and from the
nodes that were read again. Unchanged topics are shared between images, so a change of one topic
costs a copy of the table of topics (a C-level dictionary copy) and nothing per partition of
the others. Which replicas are offline is derived from which brokers are live, and is not stored.
"""

from collections.abc import Iterable, Iterator, KeysView, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from odradek.config import Listener
from odradek.invariants import InvariantViolation
from odradek.metadata.node_values import NO_LEADER
from odradek.metadata.paths import CLUSTER_DEFAULT, topic_id_path, topic_path
from odradek.metadata.store import Check, Operation
from odradek.protocol.acls import AccessEntry, ResourcePattern
from odradek.protocol.roles import RoleBinding
from odradek.protocol.types import BrokerId, LeaderEpoch, TopicId
from odradek.security.quotas.entities import QuotaEntity

_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})


class BrokerImage(NamedTuple):
    """A live broker. `epoch` rises with every registration of the same id. `session_timeout_ms` is
    0 if it is not known."""

    id: BrokerId
    epoch: int
    listeners: tuple[Listener, ...]
    security_protocols: Mapping[str, str]
    rack: str | None
    session_timeout_ms: int = 0

    def listener(self, name: str) -> Listener | None:
        return next((listener for listener in self.listeners if listener.name == name), None)


class PartitionImage(NamedTuple):
    """`version` is that of the partition's node, for the compare-and-set that changes it; -1 if the
    node is missing, and then the partition has no leader."""

    partition: int
    replicas: tuple[BrokerId, ...]
    leader: BrokerId
    leader_epoch: LeaderEpoch
    isr: tuple[BrokerId, ...]
    controller_epoch: int
    version: int
    adding: tuple[BrokerId, ...] = ()
    removing: tuple[BrokerId, ...] = ()
    is_recovering: bool = False
    eligible: tuple[BrokerId, ...] = ()
    last_known: tuple[BrokerId, ...] = ()


class TopicImage(NamedTuple):
    """`version` is that of the node with the assignment. `has_id_node` is true unless Kafka or
    another version has created the topic (see `paths.topic_id_path`)."""

    name: str
    topic_id: TopicId
    partitions: tuple[PartitionImage, ...]
    overrides: Mapping[str, str]
    version: int
    has_id_node: bool = False

    def checks(self) -> list[Operation]:
        """Returns the checks that bind a multi to this topic: the nodes of a later topic of the
        same name may have the same versions."""
        return [Check(topic_id_path(self.name, self.topic_id))] if self.has_id_node else []

    def check_assignment(self) -> Check:
        """Returns the check that lets a multi fail if the topic has another assignment by now. A
        multi that brings a replica into an ISR needs it: a reassignment may have dropped
        the replica, without a change of the partition's state that its version would show."""
        return Check(topic_path(self.name), self.version)


class ClusterImage(NamedTuple):
    """`number` rises with every image that the metadata cache publishes. `controller_epoch_version`
    is the version of that epoch's node, for the check that goes with changes of leadership; -1 if
    there is no node yet."""

    number: int = 0
    cluster_id: str = ""
    controller_id: BrokerId = NO_LEADER
    controller_epoch: int = 0
    brokers: Mapping[BrokerId, BrokerImage] = MappingProxyType({})
    # Proxies by type, because their `copy` is one memory copy and `dict(proxy)` a slow loop.
    topics: MappingProxyType[str, TopicImage] = MappingProxyType({})
    topics_by_id: MappingProxyType[TopicId, TopicImage] = MappingProxyType({})
    broker_configs: Mapping[str, Mapping[str, str]] = MappingProxyType({})
    topics_to_delete: frozenset[str] = frozenset()
    controller_epoch_version: int = -1
    store_id: str = ""
    group_configs: Mapping[str, Mapping[str, str]] = MappingProxyType({})
    # The subscriptions to client metrics, by name.
    client_metrics_configs: Mapping[str, Mapping[str, str]] = MappingProxyType({})
    acls: Mapping[ResourcePattern, tuple[AccessEntry, ...]] = MappingProxyType({})
    # The role bindings of each principal.
    roles: Mapping[str, tuple[RoleBinding, ...]] = MappingProxyType({})
    quotas: Mapping[QuotaEntity, Mapping[str, float]] = MappingProxyType({})

    def partition(self, topic: str, partition: int) -> PartitionImage | None:
        image = self.topics.get(topic)
        if image is None or not 0 <= partition < len(image.partitions):
            return None
        return image.partitions[partition]

    def live_leader(self, partition: PartitionImage) -> BrokerId:
        """Returns the leader that clients are told: `NO_LEADER` if its broker is not live."""
        return partition.leader if partition.leader in self.brokers else NO_LEADER

    def offline_replicas(self, partition: PartitionImage) -> list[int]:
        brokers = self.brokers
        return [replica for replica in partition.replicas if replica not in brokers]

    def topic_overrides(self, topic: str) -> Mapping[str, str]:
        image = self.topics.get(topic)
        return _NOTHING if image is None else image.overrides

    def broker_config(self, broker_id: int) -> Mapping[str, str]:
        return self.broker_configs.get(str(broker_id), _NOTHING)

    def group_config(self, group_id: str) -> Mapping[str, str]:
        return self.group_configs.get(group_id, _NOTHING)

    @property
    def cluster_default_config(self) -> Mapping[str, str]:
        return self.broker_configs.get(CLUSTER_DEFAULT, _NOTHING)

    def check(self, before: "ClusterImage", changed: Iterable[str]) -> None:
        """Raises `InvariantViolation` if the changed topics contradict themselves or go back in
        time. Walks over their partitions, so it is only called while `invariants.is_thorough()`."""
        if before.store_id != self.store_id:
            before = ClusterImage()  # The store was replaced: its versions and epochs begin anew.
        for name in changed:
            topic, old = self.topics.get(name), before.topics.get(name)
            if topic is None:
                if old is not None and old.topic_id in self.topics_by_id:
                    raise InvariantViolation(name, "a deleted topic can still be found by its id")
                continue
            if self.topics_by_id.get(topic.topic_id) is not topic:
                raise InvariantViolation(name, "its id leads to another topic")
            known = () if old is None or old.topic_id != topic.topic_id else old.partitions
            for index, partition in enumerate(topic.partitions):
                _check_partition(name, index, partition, known[index : index + 1])


def _check_partition(
    topic: str, index: int, partition: PartitionImage, before: Sequence[PartitionImage]
) -> None:
    """`before` holds the partition of the image before, or nothing."""
    broken: str | None = None
    if partition.partition != index:
        broken = "it is at another index"
    elif partition.leader != NO_LEADER and partition.leader not in partition.isr:
        broken = "its leader is not in the ISR"
    elif partition.version < 0 or not before:
        pass  # A topic that is deleted in parts loses the nodes of its partitions first.
    elif partition.version < before[0].version:
        broken = f"its node goes back from version {before[0].version}"
    elif partition.leader_epoch < before[0].leader_epoch:
        broken = f"its leader epoch falls from {before[0].leader_epoch}"
    if broken is not None:
        raise InvariantViolation(f"{topic}-{index}", f"{broken}: {partition}")


class ImageChange(NamedTuple):
    """Two consecutive images and what differs: the names of topics that were created, changed (also
    in their settings) or deleted, the ids of brokers, and whether settings of brokers changed.

    Topics and brokers are in the order of the changes, not sets: otherwise the reactions to a
    change would come in another order in every process."""

    before: ClusterImage
    after: ClusterImage
    topics: KeysView[str]
    brokers: KeysView[BrokerId]
    broker_configs: bool

    def is_reconfigured(self, topic: TopicImage) -> bool:
        """Whether a topic of `after` is new or has other settings of its own than before."""
        old = self.before.topics.get(topic.name)
        return old is None or old.topic_id != topic.topic_id or old.overrides != topic.overrides

    def partitions(self, topic: TopicImage) -> Iterator[PartitionImage]:
        """The partitions of a topic of `after` that are new or differ from `before`. A topic of
        thousands of partitions changes a few at a time, and the others cost a comparison."""
        old = self.before.topics.get(topic.name)
        if old is None or old.topic_id != topic.topic_id:
            yield from topic.partitions
            return
        old_partitions = old.partitions
        if old_partitions is topic.partitions:
            return
        for state, was in zip(topic.partitions, old_partitions, strict=False):
            if state is not was and state != was:
                yield state
        yield from topic.partitions[len(old_partitions) :]


def difference(before: ClusterImage, after: ClusterImage) -> ImageChange:
    """Returns what differs between any two images; for an image that was built from all nodes."""
    return ImageChange(
        before,
        after,
        dict.fromkeys(
            name
            for name in {**before.topics, **after.topics}
            if before.topics.get(name) != after.topics.get(name)
        ).keys(),
        dict.fromkeys(
            broker
            for broker in {**before.brokers, **after.brokers}
            if before.brokers.get(broker) != after.brokers.get(broker)
        ).keys(),
        before.broker_configs != after.broker_configs,
    )
