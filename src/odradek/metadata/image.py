"""What a broker knows about its cluster: an immutable picture, and how to draw the next one.

An image is never changed; `ImageBuilder` makes a new one from the old and from the nodes
that were read again. Untouched topics are shared between images, so a change of one topic
costs a copy of the table of topics (a C-level dictionary copy) and nothing per partition of
the others. Which replicas are offline follows from which brokers live, and is not stored.
"""

from collections.abc import Collection, KeysView, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from odradek.config import Listener
from odradek.metadata import acl_nodes
from odradek.metadata.layout import (
    BROKER_CONFIGS,
    BROKER_IDS,
    CLUSTER_DEFAULT,
    CLUSTER_ID,
    CONTROLLER,
    CONTROLLER_EPOCH,
    DELETE_TOPICS,
    GROUP_CONFIGS,
    NO_LEADER,
    STORE_ID,
    TOPIC_CONFIGS,
    TOPICS,
    BrokerRegistration,
    ClusterId,
    ConfigOverrides,
    Controller,
    PartitionState,
    TopicAssignment,
    decode_controller_epoch,
    group_of_config_path,
    topic_config_path,
    topic_id_path,
    topic_path,
)
from odradek.metadata.store import EVERYTHING, Check, Node, Operation
from odradek.protocol.acls import AccessEntry, ResourcePattern
from odradek.protocol.types import BrokerId, LeaderEpoch, TopicId

_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})
_SINGLES_UNDER: Final = (
    BROKER_CONFIGS + "/",
    GROUP_CONFIGS + "/",
    DELETE_TOPICS + "/",
    *acl_nodes.ROOTS,
)


class BrokerImage(NamedTuple):
    """A live broker. `epoch` rises with every registration of the same id."""

    id: BrokerId
    epoch: int
    listeners: tuple[Listener, ...]
    security_protocols: Mapping[str, str]
    rack: str | None

    def listener(self, name: str) -> Listener | None:
        return next((listener for listener in self.listeners if listener.name == name), None)


class PartitionImage(NamedTuple):
    """`version` is that of the node, for the compare-and-set that changes it; -1 if the node
    is missing, and then nobody leads."""

    partition: int
    replicas: tuple[int, ...]
    leader: BrokerId
    leader_epoch: LeaderEpoch
    isr: tuple[int, ...]
    controller_epoch: int
    version: int
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    is_recovering: bool = False
    eligible: tuple[int, ...] = ()
    last_known: tuple[int, ...] = ()


class TopicImage(NamedTuple):
    """`version` is that of the node with the assignment. `has_id_node` is true unless Kafka or
    another version has made the topic (see `layout.topic_id_path`)."""

    name: str
    topic_id: TopicId
    partitions: tuple[PartitionImage, ...]
    overrides: Mapping[str, str]
    version: int
    has_id_node: bool = False

    def checks(self) -> list[Operation]:
        """What lets a multi happen only to this topic: the nodes of the next topic of its name may
        have the same versions."""
        return [Check(topic_id_path(self.name, self.topic_id))] if self.has_id_node else []


class ClusterImage(NamedTuple):
    """`number` rises with every image that a keeper publishes. `controller_epoch_version` is
    the version of that epoch's node, for the check that goes with changes of leadership; -1
    if there is no node yet."""

    number: int = 0
    cluster_id: str = ""
    controller_id: BrokerId = NO_LEADER
    controller_epoch: int = 0
    brokers: Mapping[int, BrokerImage] = MappingProxyType({})
    # Proxies by type, because their `copy` is one memory copy and `dict(proxy)` a slow loop.
    topics: MappingProxyType[str, TopicImage] = MappingProxyType({})
    topics_by_id: MappingProxyType[TopicId, TopicImage] = MappingProxyType({})
    broker_configs: Mapping[str, Mapping[str, str]] = MappingProxyType({})
    topics_to_delete: frozenset[str] = frozenset()
    controller_epoch_version: int = -1
    store_id: str = ""
    group_configs: Mapping[str, Mapping[str, str]] = MappingProxyType({})
    acls: Mapping[ResourcePattern, tuple[AccessEntry, ...]] = MappingProxyType({})

    def partition(self, topic: str, partition: int) -> PartitionImage | None:
        image = self.topics.get(topic)
        if image is None or not 0 <= partition < len(image.partitions):
            return None
        return image.partitions[partition]

    def live_leader(self, partition: PartitionImage) -> BrokerId:
        """The leader that clients are told: `NO_LEADER` if the one in office is not alive."""
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


class ImageChange(NamedTuple):
    """Two images in a row and what differs: names of topics made, changed or removed (their
    settings included), ids of brokers, and whether brokers' settings changed.

    Both are in the order of the changes, not sets: what follows from a change would else come in
    another order in every process."""

    before: ClusterImage
    after: ClusterImage
    topics: KeysView[str]
    brokers: KeysView[int]
    broker_configs: bool


class Affected:
    """What changed paths are about: which parts of the image to read again."""

    __slots__ = ("brokers", "everything", "singles", "topics")

    def __init__(self) -> None:
        self.everything = False
        # Topics to partitions whose state alone changed; `None` means the whole topic.
        self.topics: dict[str, dict[int, None] | None] = {}
        self.brokers: dict[str, None] = {}
        self.singles: dict[str, None] = {}

    def add(self, path: str) -> None:
        if path == EVERYTHING:
            self.everything = True
        elif path.startswith(TOPICS + "/"):
            self._add_topic(path.split("/"))
        elif path.startswith(TOPIC_CONFIGS + "/"):
            self.topics[path[len(TOPIC_CONFIGS) + 1 :]] = None
        elif path.startswith(BROKER_IDS + "/"):
            self.brokers[path[len(BROKER_IDS) + 1 :]] = None
        elif path.startswith(_SINGLES_UNDER) or path in (
            CONTROLLER,
            CONTROLLER_EPOCH,
            CLUSTER_ID,
            STORE_ID,
        ):
            self.singles[path] = None

    def _add_topic(self, parts: list[str]) -> None:
        # "", brokers, topics, NAME[, partitions[, NUMBER[, state]]]
        topic = parts[3]
        if len(parts) == 7 and parts[5].isdigit():
            partitions = self.topics.setdefault(topic, {})
            if partitions is not None:
                partitions[int(parts[5])] = None
        elif len(parts) == 4:
            self.topics[topic] = None


def image_of(nodes: Mapping[str, Node], number: int = 1) -> ClusterImage:
    """The image of a whole tree."""
    builder = ImageBuilder(ClusterImage(number=number - 1))
    states = states_in(nodes)
    prefix = TOPICS + "/"
    for path, node in nodes.items():
        if path.startswith(prefix):
            topic = path[len(prefix) :]
            if "/" not in topic:
                config = nodes.get(topic_config_path(topic))
                builder.set_topic(topic, node, states.get(topic, {}), config, nodes)
        elif path.startswith(BROKER_IDS + "/"):
            builder.set_broker(path[len(BROKER_IDS) + 1 :], node)
        else:
            builder.set_single(path, node)
    return builder.build()


def change_of(
    before: ClusterImage, affected: Affected, nodes: Mapping[str, Node]
) -> ImageChange | None:
    """What follows from those nodes that were read again; one that is not there is gone."""
    builder = ImageBuilder(before)
    states = states_in(nodes)
    for topic, partitions in affected.topics.items():
        if partitions is None or topic not in before.topics:
            node, config = nodes.get(topic_path(topic)), nodes.get(topic_config_path(topic))
            builder.set_topic(topic, node, states.get(topic, {}), config, nodes)
        else:
            for partition in partitions:
                builder.set_partition(topic, partition, states.get(topic, {}).get(partition))
    for broker in affected.brokers:
        builder.set_broker(broker, nodes.get(f"{BROKER_IDS}/{broker}"))
    for path in affected.singles:
        builder.set_single(path, nodes.get(path))
    return builder.change()


def states_in(nodes: Mapping[str, Node]) -> dict[str, dict[int, Node]]:
    """The state nodes of partitions in a tree, by topic and partition."""
    states: dict[str, dict[int, Node]] = {}
    for path, node in nodes.items():
        if path.endswith("/state"):
            parts = path.split("/")
            if len(parts) == 7 and parts[5].isdigit() and path.startswith(TOPICS + "/"):
                states.setdefault(parts[3], {})[int(parts[5])] = node
    return states


class ImageBuilder:
    """Collects changes on top of an image. Tables are copied when they are first changed."""

    def __init__(self, before: ClusterImage) -> None:
        self._before = before
        self._fields: dict[str, object] = {}
        self._topics: dict[str, TopicImage] | None = None
        self._topics_by_id: dict[TopicId, TopicImage] = {}
        self._brokers: dict[int, BrokerImage] | None = None
        self._configs: dict[str, Mapping[str, str]] | None = None
        self._acls: dict[ResourcePattern, tuple[AccessEntry, ...]] | None = None
        self._changed_topics: dict[str, None] = {}
        self._changed_brokers: dict[int, None] = {}

    def topic(self, name: str) -> TopicImage | None:
        topics = self._before.topics if self._topics is None else self._topics
        return topics.get(name)

    def set_topic(
        self,
        name: str,
        node: Node | None,
        states: Mapping[int, Node],
        config: Node | None,
        nodes: Collection[str],
    ) -> None:
        """The topic as its nodes say; without a node it is gone. `nodes` are all paths read."""
        image = None if node is None else _topic_image(name, node, states, config)
        if image is not None and topic_id_path(name, image.topic_id) in nodes:
            image = image._replace(has_id_node=True)
        self._put_topic(name, image)

    def set_partition(self, name: str, partition: int, state: Node | None) -> None:
        """The state of one partition, the rest of its topic staying as it is."""
        topic = self.topic(name)
        if topic is None or partition >= len(topic.partitions):
            return
        old = topic.partitions[partition]
        new = _partition_image(name, partition, old.replicas, state, old.adding, old.removing)
        if new != old:
            partitions = (*topic.partitions[:partition], new, *topic.partitions[partition + 1 :])
            self._put_topic(name, topic._replace(partitions=partitions))

    def _put_topic(self, name: str, image: TopicImage | None) -> None:
        old = self.topic(name)
        if old == image:
            return
        if self._topics is None:
            self._topics = self._before.topics.copy()
            self._topics_by_id = self._before.topics_by_id.copy()
        self._changed_topics[name] = None
        if old is not None and (image is None or image.topic_id != old.topic_id):
            self._topics_by_id.pop(old.topic_id, None)
        if image is None:
            del self._topics[name]
        else:
            self._topics[name] = image
            self._topics_by_id[image.topic_id] = image

    def set_broker(self, name: str, node: Node | None) -> None:
        if not name.isascii() or not name.isdigit():
            return
        broker_id = BrokerId(int(name))
        image = None
        if node is not None:
            registered = BrokerRegistration.decode(f"{BROKER_IDS}/{name}", node.value)
            image = BrokerImage(
                broker_id,
                registered.epoch if registered.epoch >= 0 else node.created,
                registered.listeners,
                registered.security_protocols,
                registered.rack,
            )
        current = self._before.brokers if self._brokers is None else self._brokers
        if current.get(broker_id) == image:
            return
        brokers = dict(current)
        if image is None:
            del brokers[broker_id]
        else:
            brokers[broker_id] = image
        self._brokers = dict(sorted(brokers.items()))
        self._changed_brokers[broker_id] = None

    def set_single(self, path: str, node: Node | None) -> None:
        """A node that stands for itself: the controller, the cluster's id, the settings of a
        broker or a group, the access rules of a resource."""
        if path == CONTROLLER:
            self._fields["controller_id"] = (
                NO_LEADER if node is None else Controller.decode(node.value).broker_id
            )
        elif path == CONTROLLER_EPOCH:
            self._fields["controller_epoch"] = (
                0 if node is None else decode_controller_epoch(node.value)
            )
            self._fields["controller_epoch_version"] = -1 if node is None else node.version
        elif path == STORE_ID:
            self._fields["store_id"] = "" if node is None else node.value.decode(errors="replace")
        elif path == CLUSTER_ID:
            self._fields["cluster_id"] = "" if node is None else ClusterId.decode(node.value).id
        elif path.startswith(BROKER_CONFIGS + "/"):
            self._set_broker_config(path, node)
        elif path.startswith(GROUP_CONFIGS + "/"):
            self._set_group_config(path, node)
        elif path.startswith(DELETE_TOPICS + "/"):
            self._set_topic_to_delete(path[len(DELETE_TOPICS) + 1 :], node)
        elif path.startswith(acl_nodes.ROOTS):
            self._set_acls(path, node)

    def _set_broker_config(self, path: str, node: Node | None) -> None:
        if self._configs is None:
            self._configs = dict(self._before.broker_configs)
        name = path[len(BROKER_CONFIGS) + 1 :]
        self._configs.pop(name, None)
        settings = {} if node is None else ConfigOverrides.decode(path, node.value).settings
        if settings:
            self._configs[name] = settings

    def _set_group_config(self, path: str, node: Node | None) -> None:
        current = self._fields.get("group_configs", self._before.group_configs)
        assert isinstance(current, Mapping)  # only this method sets it
        changed = dict(current)
        changed.pop(group_of_config_path(path), None)
        settings = {} if node is None else ConfigOverrides.decode(path, node.value).settings
        if settings:
            changed[group_of_config_path(path)] = settings
        self._fields["group_configs"] = MappingProxyType(changed)

    def _set_topic_to_delete(self, name: str, node: Node | None) -> None:
        current = self._fields.get("topics_to_delete", self._before.topics_to_delete)
        assert isinstance(current, frozenset)  # only this method sets it
        changed = current - {name} if node is None else current | {name}
        self._fields["topics_to_delete"] = changed

    def _set_acls(self, path: str, node: Node | None) -> None:
        resource = acl_nodes.resource_of(path)
        if resource is None:
            return
        if self._acls is None:
            self._acls = dict(self._before.acls)
        self._acls.pop(resource, None)
        entries = () if node is None else acl_nodes.decode_entries(path, node.value)
        if entries:
            # A pattern whose entries were all removed keeps its node, but is no rule.
            self._acls[resource] = entries

    def build(self) -> ClusterImage:
        fields = self._fields
        if self._topics is not None:
            fields["topics"] = MappingProxyType(self._topics)
            fields["topics_by_id"] = MappingProxyType(self._topics_by_id)
        if self._brokers is not None:
            fields["brokers"] = MappingProxyType(self._brokers)
        if self._configs is not None:
            fields["broker_configs"] = MappingProxyType(self._configs)
        if self._acls is not None:
            fields["acls"] = MappingProxyType(self._acls)
        values = {**self._before._asdict(), **fields, "number": self._before.number + 1}
        return ClusterImage(**values)

    def change(self) -> ImageChange | None:
        """The new image and what differs, or nothing if nothing does."""
        before = self._before
        configs_changed = self._configs is not None and self._configs != before.broker_configs
        if not (
            self._changed_topics
            or self._changed_brokers
            or configs_changed
            or (self._acls is not None and self._acls != before.acls)
            or any(getattr(before, name) != value for name, value in self._fields.items())
        ):
            return None
        return ImageChange(
            before,
            self.build(),
            self._changed_topics.keys(),
            self._changed_brokers.keys(),
            configs_changed,
        )


def difference(before: ClusterImage, after: ClusterImage) -> ImageChange:
    """What differs between any two images: for a picture drawn from scratch."""
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


def _state_path(topic: str, partition: int) -> str:
    return f"{topic_path(topic)}/partitions/{partition}/state"


def _topic_image(
    name: str, node: Node, states: Mapping[int, Node], config: Node | None
) -> TopicImage:
    assignment = TopicAssignment.decode(topic_path(name), node.value)
    partitions = [
        _partition_image(
            name,
            partition,
            replicas,
            states.get(partition),
            assignment.adding.get(partition, ()),
            assignment.removing.get(partition, ()),
        )
        for partition, replicas in enumerate(assignment.replicas)
    ]
    overrides = _NOTHING
    if config is not None:
        overrides = ConfigOverrides.decode(topic_config_path(name), config.value).settings
    return TopicImage(name, assignment.topic_id, tuple(partitions), overrides, node.version)


def _partition_image(  # noqa: PLR0917 - called for each of thousands of partitions
    topic: str,
    partition: int,
    replicas: tuple[int, ...],
    node: Node | None,
    adding: tuple[int, ...],
    removing: tuple[int, ...],
) -> PartitionImage:
    # By position: a topic may have thousands of partitions, and is read whole when it changes.
    if node is None:
        nobody = LeaderEpoch(-1)
        return PartitionImage(partition, replicas, NO_LEADER, nobody, (), 0, -1, adding, removing)
    state = PartitionState.decode(_state_path(topic, partition), node.value)
    return PartitionImage(
        partition,
        replicas,
        state.leader,
        state.leader_epoch,
        state.isr,
        state.controller_epoch,
        node.version,
        adding,
        removing,
        state.is_recovering,
        state.eligible,
        state.last_known,
    )
