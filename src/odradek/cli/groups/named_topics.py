"""Which partitions of a group the flag `--topic` of `consumer-groups` means.

`--describe` shows only these. `--delete-offsets` also takes topics that were deleted, as long as
the group has offsets of them.
"""

from collections.abc import Collection, Iterable

from odradek.config.spelling import did_you_mean
from odradek.protocol.types import TopicPartition
from odradek.tools.admin_session import indexes_by_topic
from odradek.tools.failures import CommandFailed


class NamedTopics:
    """What one or several `--topic` flags select: `orders`, or `orders:0,1`."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._indexes = indexes_by_topic(texts)

    @property
    def topics(self) -> list[str]:
        return list(self._indexes)

    def __bool__(self) -> bool:
        return bool(self._indexes)

    def require(self, group_id: str, partitions: Collection[TopicPartition]) -> None:
        """Raises `CommandFailed` if a group, which has these partitions, has none of a named
        topic."""
        topics = sorted({partition.topic for partition in partitions})
        for topic in self._indexes:
            if topic not in topics:
                others = did_you_mean(topic, topics) or f"; it has some in {', '.join(topics)}"
                raise CommandFailed(
                    f"group {group_id!r} has no offsets in topic {topic!r}"
                    f"{others if topics else ', nor in any other'}"
                )

    def select(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Returns those of the partitions that the flags select."""
        return [partition for partition in partitions if self._is_selected(partition)]

    def _is_selected(self, partition: TopicPartition) -> bool:
        if not self._indexes:
            return True
        indexes = self._indexes.get(partition.topic, [])
        return indexes is None or partition.partition in indexes


def no_group_in(topics: Collection[str]) -> CommandFailed:
    """Returns the error if no group at all has offsets in these topics."""
    names = " or ".join(map(repr, topics))
    return CommandFailed(
        f"no group has offsets in topic {names}; `odradek topics --list` shows the topics"
    )
