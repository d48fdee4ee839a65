"""Builds a `ClusterImage` from the nodes of the metadata store, from all of them or from changes.

Building a topic of thousands of partitions takes tens of milliseconds, so it is done in steps
(`build_image`, `build_change`): the metadata cache lets other tasks run in between
(`world.timeslice`).
"""

from collections.abc import Collection, Generator, Mapping
from types import MappingProxyType
from typing import Final, TypeVar

from odradek.metadata import acl_nodes, quota_nodes, role_nodes
from odradek.metadata.image import (
    BrokerImage,
    ClusterImage,
    ImageChange,
    PartitionImage,
    TopicImage,
)
from odradek.metadata.node_values import (
    NO_LEADER,
    BrokerRegistration,
    ClusterId,
    ConfigOverrides,
    Controller,
    PartitionState,
    TopicAssignment,
    decode_controller_epoch,
)
from odradek.metadata.paths import (
    BROKER_CONFIGS,
    BROKER_IDS,
    CLIENT_METRICS_CONFIGS,
    CLUSTER_ID,
    CONTROLLER,
    CONTROLLER_EPOCH,
    DELETE_TOPICS,
    GROUP_CONFIGS,
    ID_NODE,
    STORE_ID,
    TOPIC_CONFIGS,
    TOPICS,
    group_of_config_path,
    subscription_of_config_path,
    topic_config_path,
    topic_id_path,
    topic_path,
)
from odradek.metadata.store import EVERYTHING, Node
from odradek.protocol.acls import AccessEntry, ResourcePattern
from odradek.protocol.types import BrokerId, LeaderEpoch, TopicId

T = TypeVar("T")

_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})
# Each takes about half a millisecond.
_NODES_PER_STEP: Final = 1000
_PARTITIONS_PER_STEP: Final = 200
_SINGLES_UNDER: Final = (
    BROKER_CONFIGS + "/",
    GROUP_CONFIGS + "/",
    CLIENT_METRICS_CONFIGS + "/",
    DELETE_TOPICS + "/",
    role_nodes.ROLES + "/",
    *acl_nodes.ROOTS,
    *quota_nodes.ROOTS,
)


class AffectedParts:
    """The parts of the image to read again, by the paths that changed."""

    __slots__ = ("brokers", "everything", "singles", "topics")

    def __init__(self) -> None:
        self.everything = False
        # For each topic the partitions of which only the state changed; None for the whole topic.
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
        # "", brokers, topics, NAME[, id-ID] or [, partitions[, NUMBER[, state]]]
        topic = parts[3]
        if len(parts) == 7 and parts[5].isdigit():
            partitions = self.topics.setdefault(topic, {})
            if partitions is not None:
                partitions[int(parts[5])] = None
        elif len(parts) == 4 or (len(parts) == 5 and parts[4].startswith(ID_NODE)):
            # A node of its id comes and goes with the topic.
            self.topics[topic] = None


Steps = Generator[None, None, T]
"""A generator whose steps take a millisecond or less; it returns what was built."""


def build_image(
    nodes: Mapping[str, Node], number: int = 1, known: ClusterImage | None = None
) -> "Steps[ClusterImage]":
    """Builds the image of a whole tree. Topics that are equal in `known` are shared with it."""
    builder = ImageBuilder(ClusterImage(number=number - 1))
    states = yield from _states_in(nodes)
    prefix = TOPICS + "/"
    for path, node in nodes.items():
        if path.startswith(prefix):
            topic = path[len(prefix) :]
            if "/" not in topic:
                config = nodes.get(topic_config_path(topic))
                old = None if known is None else known.topics.get(topic)
                built = yield from _topic(topic, node, states.get(topic, {}), config, nodes)
                builder.set_topic(topic, old if old == built else built)
        elif path.startswith(BROKER_IDS + "/"):
            builder.set_broker(path[len(BROKER_IDS) + 1 :], node)
        else:
            builder.set_single(path, node)
    return builder.build()


def build_change(
    before: ClusterImage, affected: AffectedParts, nodes: Mapping[str, Node]
) -> "Steps[ImageChange | None]":
    """Builds the change of the image from nodes that were read again; a missing one was deleted."""
    builder = ImageBuilder(before)
    states = yield from _states_in(nodes)
    for topic, partitions in affected.topics.items():
        states_by_partition = states.get(topic, {})
        if partitions is None or topic not in before.topics:
            node, config = nodes.get(topic_path(topic)), nodes.get(topic_config_path(topic))
            built = None
            if node is not None:
                built = yield from _topic(topic, node, states_by_partition, config, nodes)
            builder.set_topic(topic, built)
        else:
            builder.set_partitions(
                topic, {partition: states_by_partition.get(partition) for partition in partitions}
            )
            yield
    for broker in affected.brokers:
        builder.set_broker(broker, nodes.get(f"{BROKER_IDS}/{broker}"))
    for path in affected.singles:
        builder.set_single(path, nodes.get(path))
    return builder.change()


def run_at_once(steps: "Steps[T]") -> T:
    """Runs all steps without a pause; for few nodes."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            value: T = end.value
            return value


def _states_in(nodes: Mapping[str, Node]) -> "Steps[dict[str, dict[int, Node]]]":
    """Returns the state nodes of partitions in a tree, by topic and partition."""
    states: dict[str, dict[int, Node]] = {}
    for number, (path, node) in enumerate(nodes.items()):
        if not number % _NODES_PER_STEP:
            yield
        if path.endswith("/state"):
            parts = path.split("/")
            if len(parts) == 7 and parts[5].isdigit() and path.startswith(TOPICS + "/"):
                states.setdefault(parts[3], {})[int(parts[5])] = node
    return states


class ImageBuilder:
    """Collects changes to an image. A table is copied when it is first changed."""

    def __init__(self, before: ClusterImage) -> None:
        self._before = before
        self._fields: dict[str, object] = {}
        self._topics: dict[str, TopicImage] | None = None
        self._topics_by_id: dict[TopicId, TopicImage] = {}
        self._brokers: dict[BrokerId, BrokerImage] | None = None
        self._configs: dict[str, Mapping[str, str]] | None = None
        self._acls: dict[ResourcePattern, tuple[AccessEntry, ...]] | None = None
        self._changed_topics: dict[str, None] = {}
        self._changed_brokers: dict[BrokerId, None] = {}

    def topic(self, name: str) -> TopicImage | None:
        topics = self._before.topics if self._topics is None else self._topics
        return topics.get(name)

    def set_partitions(self, name: str, states: Mapping[int, Node | None]) -> None:
        """Sets the states of some partitions of a topic."""
        topic = self.topic(name)
        if topic is None:
            return
        partitions = list(topic.partitions)
        for index, state in states.items():
            if index < len(partitions):
                old = partitions[index]
                new = _partition_image(name, index, old.replicas, state, old.adding, old.removing)
                if new != old:
                    partitions[index] = new
        self.set_topic(name, topic._replace(partitions=tuple(partitions)))

    def set_topic(self, name: str, image: TopicImage | None) -> None:
        """Sets a topic; None if it was deleted."""
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
                registered.session_timeout_ms,
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
        """Sets what one node says: the controller, the cluster's id, the settings of a broker or a
        group, the ACLs of a resource, the roles of a principal, quotas."""
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
            self._set_overrides("group_configs", group_of_config_path(path), path, node)
        elif path.startswith(CLIENT_METRICS_CONFIGS + "/"):
            name = subscription_of_config_path(path)
            self._set_overrides("client_metrics_configs", name, path, node)
        elif path.startswith(DELETE_TOPICS + "/"):
            self._set_topic_to_delete(path[len(DELETE_TOPICS) + 1 :], node)
        elif path.startswith(acl_nodes.ROOTS):
            self._set_acls(path, node)
        elif path.startswith(role_nodes.ROLES + "/"):
            self._set_roles(path, node)
        elif path.startswith(quota_nodes.ROOTS):
            self._set_quotas(path, node)

    def _set_broker_config(self, path: str, node: Node | None) -> None:
        if self._configs is None:
            self._configs = dict(self._before.broker_configs)
        name = path[len(BROKER_CONFIGS) + 1 :]
        self._configs.pop(name, None)
        settings = {} if node is None else ConfigOverrides.decode(path, node.value).settings
        if settings:
            self._configs[name] = settings

    def _set_overrides(self, field: str, name: str, path: str, node: Node | None) -> None:
        """Sets the settings of one group or subscription, in that field of the image."""
        current = self._fields.get(field, getattr(self._before, field))
        assert isinstance(current, Mapping)  # only this method sets it
        changed = dict(current)
        changed.pop(name, None)
        settings = {} if node is None else ConfigOverrides.decode(path, node.value).settings
        if settings:
            changed[name] = settings
        self._fields[field] = MappingProxyType(changed)

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
            # A pattern whose entries were all removed keeps its node, but has no ACL.
            self._acls[resource] = entries

    def _set_roles(self, path: str, node: Node | None) -> None:
        current = self._fields.get("roles", self._before.roles)
        assert isinstance(current, Mapping)  # only this method sets it
        changed = dict(current)
        changed.pop(role_nodes.principal_of(path), None)
        bindings = () if node is None else role_nodes.decode_bindings(path, node.value)
        if bindings:
            changed[role_nodes.principal_of(path)] = bindings
        self._fields["roles"] = MappingProxyType(changed)

    def _set_quotas(self, path: str, node: Node | None) -> None:
        entity = quota_nodes.entity_of(path)
        if entity is None:
            return
        current = self._fields.get("quotas", self._before.quotas)
        assert isinstance(current, Mapping)  # only this method sets it
        quotas = {} if node is None else quota_nodes.decode_quotas(path, node.value)
        if current.get(entity, {}) == quotas:
            return  # The node of a user changes with the user's credentials too.
        changed = dict(current)
        changed.pop(entity, None)
        if quotas:
            changed[entity] = quotas
        self._fields["quotas"] = MappingProxyType(changed)

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
        """Returns the new image and what differs; None if nothing does."""
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


def _state_path(topic: str, partition: int) -> str:
    return f"{topic_path(topic)}/partitions/{partition}/state"


def _topic(
    name: str,
    node: Node,
    states: Mapping[int, Node],
    config: Node | None,
    nodes: Collection[str],
) -> "Steps[TopicImage]":
    """Builds a topic from its nodes. `nodes` are all paths that were read."""
    yield
    assignment = TopicAssignment.decode(topic_path(name), node.value)
    partitions: list[PartitionImage] = []
    for partition, replicas in enumerate(assignment.replicas):
        if partition and not partition % _PARTITIONS_PER_STEP:
            yield
        partitions.append(
            _partition_image(
                name,
                partition,
                replicas,
                states.get(partition),
                assignment.adding.get(partition, ()),
                assignment.removing.get(partition, ()),
            )
        )
    overrides = _NOTHING
    if config is not None:
        overrides = ConfigOverrides.decode(topic_config_path(name), config.value).settings
    return TopicImage(
        name,
        assignment.topic_id,
        tuple(partitions),
        overrides,
        node.version,
        topic_id_path(name, assignment.topic_id) in nodes,
    )


def _partition_image(  # noqa: PLR0917 - called for each of thousands of partitions
    topic: str,
    partition: int,
    replicas: tuple[BrokerId, ...],
    node: Node | None,
    adding: tuple[BrokerId, ...],
    removing: tuple[BrokerId, ...],
) -> PartitionImage:
    # Positional arguments, because they are faster: a topic may have thousands of partitions.
    if node is None:
        no_epoch = LeaderEpoch(-1)
        return PartitionImage(partition, replicas, NO_LEADER, no_epoch, (), 0, -1, adding, removing)
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
