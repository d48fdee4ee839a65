"""The operations on the store that create a topic, add partitions to it, or delete it."""

from collections.abc import Mapping, Sequence

from odradek.metadata.node_values import ConfigOverrides, PartitionState, TopicAssignment
from odradek.metadata.paths import (
    ID_NODE,
    partition_state_path,
    topic_config_path,
    topic_id_path,
    topic_path,
)
from odradek.metadata.store import Check, Create, Delete, Node, Operation, Set


def create_topic(
    topic: str,
    assignment: TopicAssignment,
    states: Sequence[PartitionState],
    overrides: Mapping[str, str],
    leftover: Node | None,
) -> list[Operation]:
    """Returns the operations that create a topic. They fail with `NodeExists` if it exists.

    `leftover` is the node at `topic_config_path`, read beforehand. Usually it is None. Earlier
    releases of Odradek could leave this node when a topic was deleted at the moment at which its
    first override was set. The node is replaced, so that the new topic does not inherit settings of
    the deleted one. If the node has changed since it was read, the operations fail with an error
    that has its path."""
    operations: list[Operation] = [
        Create(topic_path(topic), assignment.encode()),
        Create(topic_id_path(topic, assignment.topic_id)),
    ]
    config_path, settings = topic_config_path(topic), ConfigOverrides(overrides).encode()
    if leftover is not None:
        operations.append(Set(config_path, settings, leftover.version))
    elif overrides:
        operations.append(Create(config_path, settings))
    operations.append(Create(f"{topic_path(topic)}/partitions"))
    operations += create_partitions(topic, 0, states)
    return operations


def create_partitions(
    topic: str, first_partition: int, states: Sequence[PartitionState]
) -> list[Operation]:
    """Returns the operations that create the nodes of partitions. The topic's assignment is set
    separately."""
    operations: list[Operation] = []
    for partition, state in enumerate(states, start=first_partition):
        path = partition_state_path(topic, partition)
        operations.append(Create(path.removesuffix("/state")))
        operations.append(Create(path, state.encode()))
    return operations


def delete_topic(topic: str, tree: Mapping[str, Node], config_node: Node | None) -> list[Operation]:
    """Returns the operations that delete a topic, given `read_tree(topic_path(topic))` and the node
    of its settings. They fail with `BadVersion` if its assignment or its settings have changed
    since, with `NodeExists` if it had no settings and has some now, and with `NoNode` if the topic
    has been deleted, even if a new topic with the same name exists: its id node has another path.

    If there are too many operations for one transaction of the store, the caller writes them in
    several (`Topics.delete`). If only the first of these are written, the topic has fewer
    partitions and can be deleted again. Therefore the topic's settings, the node of its id and its
    own node are deleted last."""
    path = topic_path(topic)
    id_paths = [child_path for child_path in tree if child_path.startswith(f"{path}/{ID_NODE}")]
    final_paths = [*id_paths, path]
    operations: list[Operation] = [Check(path, tree[path].version)]
    operations += map(Check, id_paths)
    # `read_tree` returns parents before their children; children have to be deleted first.
    operations += [
        Delete(child_path) for child_path in reversed(list(tree)) if child_path not in final_paths
    ]
    config_path = topic_config_path(topic)
    if config_node is not None:
        operations.append(Delete(config_path, config_node.version))
    else:
        # The store has no operation that checks that a node is missing. If only the first of these
        # two is written, the topic has a config node without settings.
        operations.append(Create(config_path, ConfigOverrides({}).encode()))
        operations.append(Delete(config_path, version=0))
    operations += map(Delete, final_paths)
    return operations
