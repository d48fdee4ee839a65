"""Replaces nodes that cannot be decoded, as an operator may have left them after a manual edit.

A running broker continues with the value that its image has of the node, under the node's version:
the next change of that node repairs it. A broker that starts has no image yet, and does not start
without the nodes that it needs.
"""

from collections.abc import Iterable

from odradek.metadata import acl_nodes, quota_nodes, role_nodes
from odradek.metadata.image import ClusterImage, PartitionImage, TopicImage
from odradek.metadata.node_values import (
    NO_LEADER,
    BrokerRegistration,
    ClusterId,
    ConfigOverrides,
    Controller,
    PartitionState,
    TopicAssignment,
    encode_controller_epoch,
)
from odradek.metadata.paths import BROKER_IDS, CONTROLLER
from odradek.metadata.store import Node
from odradek.protocol.types import BrokerId


def last_known_node(path: str, node: Node, image: ClusterImage) -> Node | None:
    """Returns the node with the value that `image` knows of it; None if it is left out."""
    value = _last_known(path, image)
    return None if value is None else node._replace(value=value)


def is_needed_to_start(path: str) -> bool:
    """Returns whether a broker that has no image yet would do harm without this node: it would take
    a topic for deleted, or ignore an ACL. It can start without the registrations of other
    brokers and without the controller's, which are written again soon, and without a quota."""
    return path != CONTROLLER and not path.startswith((BROKER_IDS + "/", *quota_nodes.ROOTS))


def _last_known(path: str, image: ClusterImage) -> bytes | None:
    value: bytes | None = None
    match path.split("/")[1:]:
        case ["controller"] if image.controller_id != NO_LEADER:
            value = Controller(image.controller_id).encode()
        case ["controller_epoch"]:
            value = encode_controller_epoch(image.controller_epoch)
        case ["cluster", "id"]:
            value = ClusterId(image.cluster_id).encode()
        case ["brokers", "ids", name] if int(name) in image.brokers:
            broker = image.brokers[BrokerId(int(name))]
            value = BrokerRegistration(
                broker.listeners,
                broker.security_protocols,
                broker.rack,
                epoch=broker.epoch,
                session_timeout_ms=broker.session_timeout_ms,
            ).encode()
        case ["brokers", "topics", name] if name in image.topics:
            value = _assignment(image.topics[name]).encode()
        case ["brokers", "topics", name, "partitions", index, "state"]:
            partition = image.partition(name, int(index))
            value = None if partition is None else _state(partition)
        case ["config", "topics", name] if name in image.topics:
            value = ConfigOverrides(image.topic_overrides(name)).encode()
        case ["config", "brokers", name] if name in image.broker_configs:
            value = ConfigOverrides(image.broker_configs[name]).encode()
        case _:
            value = _last_known_rule(path, image)
    return value


def _last_known_rule(path: str, image: ClusterImage) -> bytes | None:
    resource = acl_nodes.resource_of(path)
    if resource is not None and resource in image.acls:
        return acl_nodes.encode_entries(image.acls[resource])
    entity = quota_nodes.entity_of(path) if path.startswith(quota_nodes.ROOTS) else None
    if entity is not None and entity in image.quotas:
        return quota_nodes.encode_quotas(image.quotas[entity])
    if path.startswith(f"{role_nodes.ROLES}/"):
        bindings = image.roles.get(role_nodes.principal_of(path))
        return None if bindings is None else role_nodes.encode_bindings(bindings)
    return None


def _assignment(topic: TopicImage) -> TopicAssignment:
    def moving(
        which: Iterable[tuple[int, tuple[BrokerId, ...]]],
    ) -> dict[int, tuple[BrokerId, ...]]:
        return {partition: replicas for partition, replicas in which if replicas}

    return TopicAssignment(
        topic.topic_id,
        tuple(partition.replicas for partition in topic.partitions),
        moving((partition.partition, partition.adding) for partition in topic.partitions),
        moving((partition.partition, partition.removing) for partition in topic.partitions),
    )


def _state(partition: PartitionImage) -> bytes | None:
    if partition.version < 0:
        return None
    return PartitionState(
        partition.leader,
        partition.leader_epoch,
        partition.isr,
        partition.controller_epoch,
        partition.is_recovering,
        partition.eligible,
        partition.last_known,
    ).encode()
