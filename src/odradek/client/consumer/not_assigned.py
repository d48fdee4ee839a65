"""What is said when a program moves, pauses or asks for the position of a partition that the
consumer does not read.

What to do next depends on how the consumer gets its partitions. A group assigns them while `poll`
waits, so right after `subscribe` there are none, and `assign` is no way out: it does not go with a
subscription. `ConsumerSeeking` raises `ValueError` with these texts.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from odradek.client.cluster_view import ClusterView
from odradek.protocol.types import TopicPartition

if TYPE_CHECKING:
    from odradek.client.group.group import Group

# So many partitions are listed in a message.
_MAX_LISTED = 5
_WAIT = (
    "the group assigns partitions while poll() waits. Seek in on_partitions_assigned of a listener,"
    " subscribe(topics, listener=listener), or first poll() until assignment() has {awaited}"
)


def explain_missing(
    partition: TopicPartition,
    assigned: Iterable[TopicPartition],
    group: "Group | None",
    view: ClusterView,
) -> str:
    """Returns the message about one partition that is not assigned."""
    others = list(assigned)
    topic = view.topics.get(partition.topic)
    if topic is not None and partition.partition not in topic.partitions:
        last = max(topic.partitions, default=0)
        return f"{partition} is not assigned: the partitions of {topic.name} are 0 to {last}"
    if group is None or not group.is_subscribed:
        wanted = [*others, partition]
        also = f" besides {_listed(others)}" if others else " first"
        line = f"assign({[(one.topic, one.partition) for one in wanted]})"
        return f"{partition} is not assigned: {_short(line, partition)}{also}"
    if not group.has_assignment:
        return f"{partition} is not assigned yet: {_WAIT.format(awaited='it')}"
    topics = group.subscribed_topics
    if partition.topic not in topics:
        names = ", ".join(topics[:_MAX_LISTED]) + (", ..." if len(topics) > _MAX_LISTED else "")
        return (
            f"{partition} is not assigned: the consumer is subscribed to {names or 'no topic'};"
            f" subscribe() to {partition.topic} as well"
        )
    here = _listed(others) if others else "none"
    return (
        f"{partition} is not assigned: another member of group {group.group_id} reads it, or will"
        f" after the rebalance. Assigned here: {here}"
    )


def explain_nothing(call: str, group: "Group | None") -> str | None:
    """Returns the message about a call for all assigned partitions while there are none.

    It is None if there is nothing to do about that: in a group with more members than partitions,
    some members have none.
    """
    if group is None or not group.is_subscribed:
        return f"{call}: no partition is assigned; assign([('topic', 0)]) first"
    if not group.has_assignment:
        return f"{call}: no partition is assigned yet; {_WAIT.format(awaited='partitions')}"
    return None


def _short(line: str, partition: TopicPartition) -> str:
    """Returns the line to write, or a shorter one if that would fill the screen."""
    if len(line) <= 200:
        return line
    return f"assign([..., ({partition.topic!r}, {partition.partition})])"


def _listed(partitions: list[TopicPartition]) -> str:
    listed = ", ".join(map(str, partitions[:_MAX_LISTED]))
    return f"{listed}, ..." if len(partitions) > _MAX_LISTED else listed
