"""A follower's side of an incremental fetch session (KIP-227).

The leader remembers what this broker fetches from it, so that a thousand idle partitions cost
nothing: a request names only the partitions whose fetch position changed since the last request.
Both sides count requests in the session's epoch. After an answer was lost, the next request is a
full one.

This is pure state without I/O. `client.consumer.fetch_session` implements the same protocol for
consumers; there the caller passes all partitions each time.
"""

from typing import Final, NamedTuple

from odradek import invariants
from odradek.invariants import InvariantViolation
from odradek.protocol.messages.fetch import (
    FetchPartition,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
)
from odradek.protocol.types import TopicId

_FULL: Final = 0
_LAST_EPOCH: Final = 2**31 - 1

Key = tuple[TopicId, int]


class Asked(NamedTuple):
    """What a request tells the leader about one partition."""

    leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int
    max_bytes: int


class ReplicaSession:
    """Invariant: once the leader has received the next request, it knows exactly `asked`."""

    __slots__ = ("_changed", "_forgotten", "asked", "epoch", "session_id")

    def __init__(self) -> None:
        self.session_id = 0
        self.epoch = _FULL
        self.asked: dict[Key, Asked] = {}
        # Dicts, not sets: the order in requests must not depend on hashes.
        self._changed: dict[Key, None] = {}
        self._forgotten: dict[Key, None] = {}

    def ask(self, key: Key, asked: Asked) -> None:
        if self.asked.get(key) != asked:
            self.asked[key] = asked
            self._changed[key] = None
            self._forgotten.pop(key, None)

    def forget(self, key: Key) -> None:
        if self.asked.pop(key, None) is not None:
            self._changed.pop(key, None)
            self._forgotten[key] = None

    def next_request(self) -> tuple[list[FetchTopic], list[ForgottenTopic]]:
        """Returns the topics to fetch and those to forget in the next request, which is sent with
        `session_id` and `epoch`."""
        is_full = self.epoch == _FULL
        topics: dict[TopicId, FetchTopic] = {}
        for key in self.asked if is_full else self._changed:
            topic_id, partition = key
            topic = topics.get(topic_id)
            if topic is None:
                topic = topics[topic_id] = FetchTopic(topic_id=topic_id, partitions=[])
            asked = self.asked[key]
            topic.partitions.append(
                FetchPartition(
                    partition=partition,
                    current_leader_epoch=asked.leader_epoch,
                    fetch_offset=asked.fetch_offset,
                    last_fetched_epoch=asked.last_fetched_epoch,
                    log_start_offset=asked.log_start_offset,
                    partition_max_bytes=asked.max_bytes,
                )
            )
        forgotten: dict[TopicId, ForgottenTopic] = {}
        if not is_full:
            for topic_id, partition in self._forgotten:
                gone = forgotten.setdefault(topic_id, ForgottenTopic(topic_id=topic_id))
                gone.partitions.append(partition)
        if invariants.is_thorough():
            self.check()
        self._changed.clear()
        self._forgotten.clear()
        return list(topics.values()), list(forgotten.values())

    def check(self) -> None:
        """Raises `InvariantViolation` if a partition is both fetched and forgotten, or changed and
        not fetched."""
        if not self._forgotten.keys().isdisjoint(self.asked):
            raise InvariantViolation("fetch session", "a partition is fetched and forgotten")
        if not self._changed.keys() <= self.asked.keys():
            raise InvariantViolation("fetch session", "a partition changed that is not fetched")

    def answered(self, response: FetchResponse) -> bool:
        """Takes an answer. Returns False if the session is lost and a full request must follow."""
        if response.error_code:
            self.failed()
            return False
        if self.epoch == _FULL:
            self.session_id = response.session_id
        if self.session_id == 0:
            self.epoch = _FULL
        else:
            self.epoch = 1 if self.epoch >= _LAST_EPOCH else self.epoch + 1
        return True

    def failed(self) -> None:
        """No answer came: the next request is a full one, which closes the old session."""
        self.epoch = _FULL
