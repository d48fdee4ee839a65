"""The batches of a fetch response for one partition, and how records are made from them.

Batches are decoded one at a time, when records are asked for. Control batches and, for
read_committed, the batches of aborted transactions are passed over: the broker lists aborted
transactions in each response, and each ends at its abort marker in the log.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import repeat
from struct import Struct
from typing import Any, Final, NamedTuple

from odradek.client.consumer.record_headers import NO_HEADERS, parse_record_headers
from odradek.client.errors import ClientError, CorruptRecords
from odradek.client.habits import RECORD, answers
from odradek.protocol.batch_header import NO_LEADER_EPOCH
from odradek.protocol.compression import DEFAULT_MAX_BYTES
from odradek.protocol.control_records import ControlType, decode_control_type
from odradek.protocol.messages.fetch import AbortedTransaction
from odradek.protocol.record_parser import TIMESTAMP_DELTA
from odradek.protocol.record_walkers import Offsets, Walk
from odradek.protocol.records import (
    HEADER_SIZE,
    BatchHeader,
    Buffer,
    MalformedRecords,
    check_last_offset,
    crc_is_valid,
    decode_records,
    read_header,
    record_data,
)
from odradek.protocol.types import NO_OFFSET, LeaderEpoch, Offset, TopicPartition
from odradek.protocol.uniform_records import read_uniform
from odradek.world.blocking_calls import MustBlock

CREATE_TIME = 0
LOG_APPEND_TIME = 1

_LENGTH = Struct(">i")
_LENGTH_POSITION = 8
_LENGTH_OVERHEAD = 12
_BASE_OFFSET = Struct(">q")
_LAST_OFFSET_DELTA_POSITION = 23


@answers(RECORD)
class ConsumerRecord(NamedTuple):
    """A record as the consumer returns it, deserialized if the consumer has deserializers."""

    topic: str
    partition: int
    offset: Offset
    timestamp_ms: int
    timestamp_type: int
    key: Any
    value: Any
    headers: list[tuple[str, bytes | None]]
    """They cannot be changed; a copy can: `[*record.headers, (name, value)]`."""
    leader_epoch: LeaderEpoch


# This walk limits the speed of consumers, so it makes records without calling their constructor,
# and works out a time only if it differs from that of the record before.
_CONSUMER_RECORDS: Final = Walk(
    "consumer records",
    through="headers",
    keeps=frozenset({"key", "value", "headers"}),
    offsets=Offsets.RISING,
    parameters=(
        "data",
        "count",
        "position",
        "previous",
        "topic",
        "partition",
        "base_offset",
        "base_timestamp_ms",
        "append_time_ms",
        "kind",
        "leader_epoch",
    ),
    before=("records = []", "add = records.append", "last_delta = None"),
    each=(
        "if timestamp_delta != last_delta:",
        "    last_delta = timestamp_delta",
        "    timestamp_ms = append_time_ms",
        "    if timestamp_ms is None:",
        f"        timestamp_ms = base_timestamp_ms + ({TIMESTAMP_DELTA})",
        "offset = base_offset + (offset_delta >> 1)",
        "fields = topic, partition, offset, timestamp_ms, kind, key, value, headers, leader_epoch",
        "add(new(ConsumerRecord, fields))",
    ),
    result="records",
    no_headers="NO_HEADERS",
    names=(
        ("new", tuple.__new__),
        ("ConsumerRecord", ConsumerRecord),
        ("NO_HEADERS", NO_HEADERS),
        ("parse_headers", parse_record_headers),
    ),
)

Deserialize = Callable[
    [list[ConsumerRecord]], tuple[list[ConsumerRecord], ClientError | MustBlock | None]
]


def end_of_batches(buffer: Buffer) -> tuple[Offset, int]:
    """Returns the offset after the last whole batch (-1 if there is none), and where it ends.

    The last batch of a response may be cut off: brokers count bytes, not batches.
    """
    position, end, next_offset = 0, len(buffer), NO_OFFSET
    while end - position >= HEADER_SIZE:
        size = _LENGTH.unpack_from(buffer, position + _LENGTH_POSITION)[0] + _LENGTH_OVERHEAD
        if size < HEADER_SIZE or position + size > end:
            break
        delta = _LENGTH.unpack_from(buffer, position + _LAST_OFFSET_DELTA_POSITION)[0]
        next_offset = _BASE_OFFSET.unpack_from(buffer, position)[0] + delta + 1
        position += size
    return next_offset, position


class FetchedBatches:
    """The batches of one response for one partition, from a position on."""

    __slots__ = (
        "_aborted",
        "_aborted_producers",
        "_batches",
        "_buffer",
        "_check_crcs",
        "_deserialize",
        "_end",
        "_index",
        "_max_batch_bytes",
        "_read_committed",
        "_records",
        "leader_epoch",
        "next_offset",
        "partition",
        "size_bytes",
        "waits_for",
    )

    def __init__(
        self,
        partition: TopicPartition,
        buffer: Buffer,
        start_offset: Offset,
        *,
        aborted: list[AbortedTransaction] | None = None,
        read_committed: bool = False,
        check_crcs: bool = True,
        max_batch_bytes: int = DEFAULT_MAX_BYTES,
        deserialize: Deserialize | None = None,
    ) -> None:
        self.partition = partition
        self.next_offset = start_offset
        # The leader epoch of the last batch that `next_offset` has reached, also if its records are
        # passed over: a marker may have a newer epoch than the records before it.
        self.leader_epoch = NO_LEADER_EPOCH
        self.size_bytes = len(buffer)
        self._buffer = buffer
        self._end = end_of_batches(buffer)[1]
        self._aborted = sorted(
            aborted or (), key=lambda transaction: transaction.first_offset, reverse=True
        )
        self._aborted_producers: set[int] = set()
        self._read_committed = read_committed
        self._check_crcs = check_crcs
        self._max_batch_bytes = max_batch_bytes
        self._deserialize = deserialize
        self._records: list[ConsumerRecord] = []
        self._index = 0
        self._batches = self._walk()
        # What a thread must do before `read` can go on: a deserializer waits for it.
        self.waits_for: MustBlock | None = None

    def read(self, limit: int) -> list[ConsumerRecord]:
        """Returns up to `limit` records of one batch and moves `next_offset` past them.

        At the end it returns none, and so it does while `waits_for` is not None.
        """
        while self._index >= len(self._records):
            self.waits_for = None
            records = next(self._batches, None)
            if not records:
                return []
            self._records, self._index = records, 0
        start = self._index
        if not start and len(self._records) <= limit:
            # The list belongs to the caller from now on, who may change it.
            taken, self._records = self._records, []
        else:
            taken = self._records[start : start + limit]
            self._index = start + len(taken)
        if self._index < len(self._records):
            self.next_offset = taken[-1].offset + 1
        else:
            self.next_offset = max(self.next_offset, taken[-1].offset + 1)
        return taken

    def _walk(self) -> Iterator[list[ConsumerRecord]]:
        buffer, position = self._buffer, 0
        while position < self._end:
            records: list[ConsumerRecord] = []
            header: BatchHeader | None = None
            try:
                header = read_header(buffer, position)
                self._check(buffer, position, header)
                if self._is_visible(buffer, position, header):
                    records = self._decode(buffer, position, header)
            except MalformedRecords as error:
                past = "" if header is None else f"; seek() to {header.next_offset} to pass it over"
                raise CorruptRecords(
                    f"{self.partition}: the batch after offset {self.next_offset - 1}:"
                    f" {error}{past}"
                ) from error
            if records and self._deserialize is not None:
                yield from self._deserialized(records, self._deserialize, header)
            else:
                self.leader_epoch = header.leader_epoch
                if records:
                    yield records
            # After the last record of a batch comes the next batch, even if compaction has
            # removed what was between.
            self.next_offset = max(self.next_offset, header.next_offset)
            position += header.size_bytes

    def _deserialized(
        self, records: list[ConsumerRecord], deserialize: Deserialize, header: BatchHeader
    ) -> Iterator[list[ConsumerRecord]]:
        """Returns the records of a batch in one list; in several, with empty ones between, if a
        deserializer must wait, because then its caller comes again."""
        while records:
            done, fault = deserialize(records)
            if done or fault is None:
                self.leader_epoch = header.leader_epoch
            if done:
                yield done
            if fault is None:
                return
            if not isinstance(fault, MustBlock):
                raise fault
            self.waits_for = fault
            records = records[len(done) :]
            yield []

    def _check(self, buffer: Buffer, position: int, header: BatchHeader) -> None:
        if self._check_crcs and not crc_is_valid(buffer, position, header):
            raise CorruptRecords(
                f"{self.partition}: the batch at offset {header.base_offset} fails its checksum"
            )

    def _is_visible(self, buffer: Buffer, position: int, header: BatchHeader) -> bool:
        if not self._read_committed:
            return not header.is_control
        aborted, producers = self._aborted, self._aborted_producers
        while aborted and aborted[-1].first_offset <= header.last_offset:
            producers.add(aborted.pop().producer_id)
        if header.is_control:
            if header.producer_id in producers and self._is_abort(buffer, position):
                producers.discard(header.producer_id)
            return False
        return not (header.is_transactional and header.producer_id in producers)

    @staticmethod
    def _is_abort(buffer: Buffer, position: int) -> bool:
        records = decode_records(buffer, position)
        return bool(records) and decode_control_type(records[0]) is ControlType.ABORT

    def _decode(self, buffer: Buffer, position: int, header: BatchHeader) -> list[ConsumerRecord]:
        data = record_data(buffer, position, header, max_bytes=self._max_batch_bytes)
        records, end = self._decode_uniform(data, header)
        if len(records) < header.record_count or end < len(data):
            records += self._walk_over_rest(data, header, len(records), end)
        first = self.next_offset
        if header.base_offset < first:
            records = [record for record in records if record.offset >= first]
        return records

    def _decode_uniform(self, data: bytes, header: BatchHeader) -> tuple[list[ConsumerRecord], int]:
        """Returns the first records, as far as they look alike, and where the last of them ends."""
        if header.record_count != header.last_offset_delta + 1:
            # Compaction has removed records, so offsets are not consecutive.
            return [], 0
        columns = read_uniform(data, header.record_count, header.base_timestamp)
        topic, partition = self.partition
        timestamps: Iterable[int] = columns.timestamps_ms
        kind = CREATE_TIME
        if header.is_log_append_time:
            timestamps, kind = repeat(header.max_timestamp), LOG_APPEND_TIME
        fields = zip(
            repeat(topic),
            repeat(partition),
            range(header.base_offset, header.next_offset),
            timestamps,
            repeat(kind),
            columns.keys,
            columns.values,
            repeat(NO_HEADERS),
            repeat(header.leader_epoch),
            strict=False,  # most of them have no end
        )
        return list(map(tuple.__new__, repeat(ConsumerRecord), fields)), columns.end

    def _walk_over_rest(
        self, data: bytes, header: BatchHeader, index: int, position: int
    ) -> list[ConsumerRecord]:
        """Returns the records from `index` on, the first of which begins at `position`."""
        is_append_time = header.is_log_append_time
        records: list[ConsumerRecord] = _CONSUMER_RECORDS.function(
            data,
            header.record_count - index,
            position,
            2 * index - 1,
            *self.partition,
            header.base_offset,
            header.base_timestamp,
            header.max_timestamp if is_append_time else None,
            LOG_APPEND_TIME if is_append_time else CREATE_TIME,
            header.leader_epoch,
        )
        if records:
            check_last_offset(header, records[-1].offset)
        return records
