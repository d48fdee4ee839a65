"""The topics whose metadata a client refreshes: those that it needs, and those it has asked about.

A topic that is needed, to be read or written, may be created by that, and a warning says that it is
missing. A question about a topic does neither.
"""

from odradek.wording import counted, kind_of

# As long as a producer keeps a topic that nothing is sent to (metadata.max.idle.ms).
_QUESTION_IDLE_S = 300.0
# Kafka's limit.
_MAX_NAME_LENGTH = 249


class TrackedTopics:
    """`is_needed` says it of each topic, in the order in which they were added."""

    __slots__ = ("_asked_s", "is_needed")

    def __init__(self) -> None:
        self.is_needed: dict[str, bool] = {}
        # When somebody last asked about a topic.
        self._asked_s: dict[str, float] = {}

    def add(self, topic: str, now_s: float, *, is_needed: bool) -> bool:
        """Returns whether the topic is new, or was only asked about and is needed now. What cannot
        be a topic raises: each refresh would fail with it, for all other topics too."""
        check_topic(topic)
        if not is_needed:
            self._asked_s[topic] = now_s
        if topic in self.is_needed and (not is_needed or self.is_needed[topic]):
            return False
        self.is_needed[topic] = is_needed
        return True

    def remove(self, topic: str) -> None:
        self.is_needed.pop(topic, None)
        self._asked_s.pop(topic, None)

    def needed(self) -> list[str]:
        return [topic for topic, is_needed in self.is_needed.items() if is_needed]

    def others(self) -> list[str]:
        """Returns the topics that were only asked about."""
        return [topic for topic, is_needed in self.is_needed.items() if not is_needed]

    def old_questions(self, now_s: float) -> list[str]:
        """Returns topics that were only asked about, and not lately: a client that asks about many
        would otherwise refresh all of them for ever."""
        oldest_s = now_s - _QUESTION_IDLE_S
        return [
            topic
            for topic, asked_s in self._asked_s.items()
            if asked_s < oldest_s and not self.is_needed.get(topic)
        ]


def check_topic(topic: object) -> None:
    """Raises unless it can be the name of a topic; brokers judge the name itself."""
    if not isinstance(topic, str):
        raise TypeError(f"topic must be a str, not {kind_of(topic)}")
    if not topic:
        raise ValueError("topic must be the name of a topic: it is empty")
    if len(topic) > _MAX_NAME_LENGTH:
        raise ValueError(
            f"topic must be the name of a topic: it has {counted(len(topic), 'character')}, and"
            f" {_MAX_NAME_LENGTH} are allowed"
        )
    try:
        topic.encode()
    except UnicodeEncodeError:
        raise ValueError(f"topic must be the name of a topic, not {topic!r}") from None
