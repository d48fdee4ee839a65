"""Incremental fetch sessions (KIP-227): a request names only what changed since the last one.

A session belongs to one broker. The broker remembers the partitions and where each is read
from; both sides count requests in the session's epoch, so a lost response is noticed.

    epoch 0        a full request: opens a session (and closes the one named, if any)
    epoch 1, 2...  incremental: partitions that are new or changed, and those to forget
    session id 0   the broker keeps no session for us: every request is full

Pure state, no I/O.
"""

from collections.abc import Mapping
from typing import NamedTuple

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.fetch import (
    FetchPartition,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
)
from odradek.protocol.types import LeaderEpoch, Offset, TopicId, TopicPartition

_INITIAL_EPOCH = 0
_LAST_EPOCH = 2_147_483_647

_Key = tuple[str, TopicId]


class FetchPosition(NamedTuple):
    """What a request asks of a partition: the offset, leader epoch and limit."""

    topic_id: TopicId
    fetch_offset: Offset
    leader_epoch: LeaderEpoch
    max_bytes: int


class FetchSession:
    __slots__ = ("_by_id", "_partitions", "epoch", "session_id")

    def __init__(self) -> None:
        self.session_id = 0
        self.epoch = _INITIAL_EPOCH
        self._partitions: dict[TopicPartition, FetchPosition] = {}
        self._by_id: dict[TopicId, str] = {}

    def next_request(
        self, positions: Mapping[TopicPartition, FetchPosition]
    ) -> tuple[list[FetchTopic], list[ForgottenTopic]]:
        """Returns the partitions that the next request names, and those that it forgets.

        The request is sent with `session_id` and `epoch`.
        """
        is_full = self.epoch == _INITIAL_EPOCH
        known = {} if is_full else self._partitions
        topics: dict[_Key, FetchTopic] = {}
        forgotten: dict[_Key, ForgottenTopic] = {}
        for partition, position in positions.items():
            before = known.get(partition)
            if before == position:
                continue
            if before is not None and before.topic_id != position.topic_id:
                _forget(forgotten, partition, before)
            _add(topics, partition, position)
        for partition, before in known.items():
            if partition not in positions:
                _forget(forgotten, partition, before)
        self._partitions = dict(positions)
        self._by_id = {
            position.topic_id: partition.topic for partition, position in positions.items()
        }
        return list(topics.values()), list(forgotten.values())

    def name_of(self, topic_id: TopicId) -> str | None:
        return self._by_id.get(topic_id)

    def handle_response(self, response: FetchResponse) -> bool:
        """Updates the session; returns False if it is lost and the next request must be full."""
        code = response.error_code
        if code:
            if code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
                self.session_id = 0
            self.epoch = _INITIAL_EPOCH
            return False
        if self.epoch == _INITIAL_EPOCH:
            self.session_id = response.session_id
        if self.session_id == 0:
            self.epoch = _INITIAL_EPOCH
        else:
            self.epoch = 1 if self.epoch >= _LAST_EPOCH else self.epoch + 1
        return True

    def handle_failure(self) -> None:
        """Makes the next request a full one, which also closes the old session.

        It is called when a request got no response."""
        self.epoch = _INITIAL_EPOCH


def _add(
    topics: dict[_Key, FetchTopic], partition: TopicPartition, position: FetchPosition
) -> None:
    key = (partition.topic, position.topic_id)
    if key not in topics:
        topics[key] = FetchTopic(topic=partition.topic, topic_id=position.topic_id)
    topics[key].partitions.append(
        FetchPartition(
            partition=partition.partition,
            current_leader_epoch=position.leader_epoch,
            fetch_offset=position.fetch_offset,
            partition_max_bytes=position.max_bytes,
        )
    )


def _forget(
    forgotten: dict[_Key, ForgottenTopic], partition: TopicPartition, before: FetchPosition
) -> None:
    key = (partition.topic, before.topic_id)
    if key not in forgotten:
        forgotten[key] = ForgottenTopic(topic=partition.topic, topic_id=before.topic_id)
    forgotten[key].partitions.append(partition.partition)
