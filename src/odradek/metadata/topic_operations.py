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

    `leftover` is the node at `topic_config_path`, read beforehand. There is none, unless an
    earlier version deleted a topic of this name while its first override was set. Such a node is
    replaced: a new topic never has the settings of another one. If it has changed since, the
    operations fail and name its path."""
    operations: list[Operation] = [
        Create(topic_path(topic), assignment.encode()),
        Create(topic_id_path(topic, assignment.topic_id)),
    ]
    config, settings = topic_config_path(topic), ConfigOverrides(overrides).encode()
    if leftover is not None:
        operations.append(Set(config, settings, leftover.version))
    elif overrides:
        operations.append(Create(config, settings))
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


def delete_topic(topic: str, tree: Mapping[str, Node], config: Node | None) -> list[Operation]:
    """Returns the operations that delete a topic, given `read_tree(topic_path(topic))` and the node
    of its settings. They fail with `BadVersion` if its assignment or its settings have changed
    since, with `NodeExists` if it had no settings and has some now, and with `NoNode` if the topic
    has been deleted, even if there is another one of its name by now.

    Any first part of the operations leaves a topic with fewer partitions, which the rest can
    delete. The topic's settings, the node of its id and its own node go last."""
    path = topic_path(topic)
    last = [*(below for below in tree if below.startswith(f"{path}/{ID_NODE}")), path]
    operations: list[Operation] = [Check(path, tree[path].version)]
    operations += [Check(id_path) for id_path in last[:-1]]
    operations += [Delete(below) for below in reversed(list(tree)) if below not in last]
    config_path = topic_config_path(topic)
    if config is not None:
        operations.append(Delete(config_path, config.version))
    else:
        # The store has no operation that checks that a node is missing. If only the first of these
        # two is written, the topic has an empty node of settings.
        operations.append(Create(config_path, ConfigOverrides({}).encode()))
        operations.append(Delete(config_path, version=0))
    operations += map(Delete, last)
    return operations
