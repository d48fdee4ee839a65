"""Bytes, records and errors by topic, counted from the requests and responses of Produce and Fetch.

The request meter calls it, so a broker without a management port counts nothing. Counters only
grow: what a deleted topic has counted stays in the sum of all topics.
"""

import struct
from collections.abc import Callable
from typing import Final

from odradek.metadata import ClusterImage
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.fetch import FetchRequest, FetchResponse
from odradek.protocol.messages.produce import ProduceRequest, ProduceResponse
from odradek.protocol.types import Buffer, TopicId

# Where a record batch of version 2 says how many records it has.
COUNT_AT: Final = 57
_COUNT: Final = struct.Struct(">i")
unpack_count: Final = _COUNT.unpack_from


class TopicTraffic:
    """The counters of one topic, or of all topics."""

    __slots__ = COUNTERS = (
        "bytes_in",
        "bytes_out",
        "bytes_rejected",
        "failed_fetches",
        "failed_produces",
        "fetches",
        "messages_in",
        "produces",
        "replication_bytes_out",
    )

    def __init__(self) -> None:
        self.bytes_in = self.bytes_out = self.bytes_rejected = 0
        self.failed_fetches = self.failed_produces = self.fetches = 0
        self.messages_in = self.produces = self.replication_bytes_out = 0

    def add(self, other: "TopicTraffic") -> None:
        for name in self.COUNTERS:
            setattr(self, name, getattr(self, name) + getattr(other, name))


class Traffic:
    """`topics` has the topics that clients wrote or read since the start, and that exist."""

    def __init__(self, image: Callable[[], ClusterImage]) -> None:
        """`image` returns the cluster's image, which knows the names of topics: newer requests have
        only their ids."""
        self._image = image
        self.topics: dict[str, TopicTraffic] = {}
        self.by_id: dict[TopicId, TopicTraffic] = {}
        self._deleted = TopicTraffic()

    def total(self) -> TopicTraffic:
        """Returns the counters of all topics, deleted ones included."""
        total = TopicTraffic()
        total.add(self._deleted)
        for topic in self.topics.values():
            total.add(topic)
        return total

    def forget_deleted(self) -> None:
        """Drops the counters of topics that do not exist; the sum keeps what they have counted."""
        existing = self._image().topics
        self.by_id.clear()
        for name in [name for name in self.topics if name not in existing]:
            self._deleted.add(self.topics.pop(name))

    def _of(self, name: str, topic_id: TopicId) -> TopicTraffic:
        return (self.topics.get(name) if name else self.by_id.get(topic_id)) or self._find(
            name, topic_id
        )

    def _find(self, name: str, topic_id: TopicId) -> TopicTraffic:
        image = self._image()
        topic = image.topics.get(name) if name else image.topics_by_id.get(topic_id)
        if topic is None:
            return self._deleted  # Clients may name any number of topics that do not exist.
        found = self.topics.setdefault(topic.name, TopicTraffic())
        if not name:
            self.by_id[topic_id] = found
        return found

    def produced(self, request: ProduceRequest, response: ProduceResponse | None) -> list[int]:
        """Counts a produce request; returns the error codes of its response. A request with acks=0
        has no response: its connection is closed if it fails."""
        errors: list[int] = []
        if response is None:
            for topic in request.topic_data:
                counted = self._of(topic.name, topic.topic_id)
                for data in topic.partition_data:
                    _accept(counted, data.records or b"")
            return errors
        topics, answers = request.topic_data, response.responses
        for topic, answer in zip(topics, answers, strict=False):
            counted = self._of(topic.name, topic.topic_id)
            for data, found in zip(topic.partition_data, answer.partition_responses, strict=False):
                if not found.error_code:
                    _accept(counted, data.records or b"")
                    continue
                counted.produces += 1
                counted.failed_produces += 1
                counted.bytes_rejected += len(data.records or b"")
                errors.append(found.error_code)
        # Topics that the client may not write stand behind the others.
        for denied in answers[len(topics) :]:
            counted = self._of(denied.name, denied.topic_id)
            counted.failed_produces += len(denied.partition_responses)
            errors += [found.error_code for found in denied.partition_responses]
        return errors

    def fetched(self, request: FetchRequest, response: FetchResponse) -> list[int]:
        """Counts a fetch of a consumer or of a follower; returns the error codes."""
        state = request.replica_state
        is_replica = (request.replica_id if state is None else state.replica_id) >= 0
        errors = [response.error_code] if response.error_code else []
        for topic in response.responses:
            counted = self._of(topic.topic, topic.topic_id)
            for data in topic.partitions:
                size = len(data.records) if data.records else 0
                if data.error_code:
                    errors.append(data.error_code)
                if is_replica:
                    counted.replication_bytes_out += size
                    continue
                counted.fetches += 1
                counted.bytes_out += size
                if data.error_code:
                    counted.failed_fetches += 1
        return errors


def _accept(counted: TopicTraffic, records: Buffer) -> None:
    counted.produces += 1
    counted.bytes_in += len(records)
    if len(records) >= COUNT_AT + _COUNT.size:
        counted.messages_in += unpack_count(records, COUNT_AT)[0]


def error_name(code: int) -> str:
    """Returns Kafka's name of an error code."""
    try:
        return ErrorCode(code).name
    except ValueError:
        return str(code)
