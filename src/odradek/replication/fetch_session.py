"""A follower's side of an incremental fetch session (KIP-227).

The leader remembers which partitions this broker fetches from it, so that idle partitions cost
nothing: a request names only the partitions whose fetch position changed since the last request.
Both sides count requests in the session's epoch. After a response was lost, the next request is a
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
from odradek.protocol.types import LeaderEpoch, Offset, TopicId

_FULL: Final = 0
_LAST_EPOCH: Final = 2**31 - 1

Key = tuple[TopicId, int]


class FetchPosition(NamedTuple):
    """The fields of a fetch request for one partition."""

    leader_epoch: LeaderEpoch
    fetch_offset: Offset
    last_fetched_epoch: LeaderEpoch
    log_start_offset: Offset
    max_bytes: int


class ReplicaSession:
    """Invariant: once the leader has received the next request, it knows exactly `positions`."""

    __slots__ = ("_changed", "_forgotten", "epoch", "positions", "session_id")

    def __init__(self) -> None:
        self.session_id = 0
        self.epoch = _FULL
        self.positions: dict[Key, FetchPosition] = {}
        # Dicts, not sets: the order in requests must not depend on hashes.
        self._changed: dict[Key, None] = {}
        self._forgotten: dict[Key, None] = {}

    def set_position(self, key: Key, position: FetchPosition) -> None:
        if self.positions.get(key) != position:
            self.positions[key] = position
            self._changed[key] = None
            self._forgotten.pop(key, None)

    def forget(self, key: Key) -> None:
        if self.positions.pop(key, None) is not None:
            self._changed.pop(key, None)
            self._forgotten[key] = None

    def next_request(self) -> tuple[list[FetchTopic], list[ForgottenTopic]]:
        """Returns the topics to fetch and those to forget in the next request, which is sent with
        `session_id` and `epoch`."""
        is_full = self.epoch == _FULL
        topics: dict[TopicId, FetchTopic] = {}
        for key in self.positions if is_full else self._changed:
            topic_id, partition = key
            topic = topics.get(topic_id)
            if topic is None:
                topic = topics[topic_id] = FetchTopic(topic_id=topic_id, partitions=[])
            position = self.positions[key]
            topic.partitions.append(
                FetchPartition(
                    partition=partition,
                    current_leader_epoch=position.leader_epoch,
                    fetch_offset=position.fetch_offset,
                    last_fetched_epoch=position.last_fetched_epoch,
                    log_start_offset=position.log_start_offset,
                    partition_max_bytes=position.max_bytes,
                )
            )
        forgotten: dict[TopicId, ForgottenTopic] = {}
        if not is_full:
            for topic_id, partition in self._forgotten:
                forgotten_topic = forgotten.setdefault(topic_id, ForgottenTopic(topic_id=topic_id))
                forgotten_topic.partitions.append(partition)
        if invariants.is_thorough():
            self.check()
        self._changed.clear()
        self._forgotten.clear()
        return list(topics.values()), list(forgotten.values())

    def check(self) -> None:
        """Raises `InvariantViolation` if a partition is both fetched and forgotten, or changed and
        not fetched."""
        if not self._forgotten.keys().isdisjoint(self.positions):
            raise InvariantViolation("fetch session", "a partition is fetched and forgotten")
        if not self._changed.keys() <= self.positions.keys():
            raise InvariantViolation("fetch session", "a partition changed that is not fetched")

    def handle_response(self, response: FetchResponse) -> bool:
        """Counts a response. Returns False if the session is lost: a full request must follow."""
        if response.error_code:
            self.reset()
            return False
        if self.epoch == _FULL:
            self.session_id = response.session_id
        if self.session_id == 0:
            self.epoch = _FULL
        else:
            self.epoch = 1 if self.epoch >= _LAST_EPOCH else self.epoch + 1
        return True

    def reset(self) -> None:
        """Makes the next request a full one, which closes the old session. Called if there was no
        valid response."""
        self.epoch = _FULL
