"""Record batches, format 2: the unit in which records travel, and in which they are stored.

The broker treats a batch as opaque bytes behind a header of 61 bytes. What it changes, the
base offset and the leader epoch, lies in the first 16 bytes, which the checksum does not
cover. Only clients, tools and the few broker features that must look inside (timestamps,
recompression, control records) decode records.

Everything that arrives is untrusted: every length is compared with the bytes at hand before
it is used, and every fault is a `MalformedRecords`.
"""

import struct
from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import NamedTuple

from odradek.protocol.checksum import crc32c
from odradek.protocol.compression import (
    DEFAULT_MAX_BYTES,
    Codec,
    DecompressedTooLarge,
    MalformedCompression,
    compress,
    decompress,
)
from odradek.protocol.control_records import (
    ControlType,
    EndTransactionMarker,
    decode_control_type,
    decode_end_transaction_marker,
    end_transaction_key_and_value,
)
from odradek.protocol.record_parser import (
    MAX_TIMESTAMP,
    MalformedRecords,
    Record,
    parse_offset,
    parse_outlines,
    parse_records,
    parse_times,
)
from odradek.protocol.varint import SMALL_COUNT, SMALL_VARINTS, encode_varint

__all__ = [
    "HEADER_SIZE",
    "BatchBuilder",
    "BatchHeader",
    "ControlType",
    "EndTransactionMarker",
    "Headers",
    "MalformedRecords",
    "OpenedBatch",
    "Record",
    "TooLargeInside",
    "UnsupportedRecordFormat",
    "crc_is_valid",
    "decode_control_type",
    "decode_end_transaction_marker",
    "decode_records",
    "encode_end_transaction_marker",
    "find_max_timestamp",
    "find_timestamp",
    "log_append_time_head",
    "offset_prefix",
    "open_batch",
    "read_header",
    "recompress",
    "set_log_append_time",
    "split_batches",
]

Buffer = bytes | bytearray | memoryview
Headers = Sequence[tuple[str, bytes | None]]

HEADER_SIZE = 61
# The base offset and the length itself are not counted in `batch_length`.
LENGTH_OVERHEAD = 12
# Where the checksummed bytes begin.
CHECKSUM_START = 21
# What `offset_prefix` replaces.
PREFIX_SIZE = 16

# How large a batch may be inside for a broker to open it: fifty milliseconds' work at worst.
# Producers make batches of a megabyte, and of thousands of records.
OPENED_BYTES = 16 << 20
OPENED_RECORDS = 100_000

NO_TIMESTAMP = -1
NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
NO_LEADER_EPOCH = -1

# Bits of a batch's attributes.
CODEC_MASK = 0x07
LOG_APPEND_TIME_FLAG = 0x08
TRANSACTIONAL_FLAG = 0x10
CONTROL_FLAG = 0x20
DELETE_HORIZON_FLAG = 0x40

_MAGIC = 2
_MAGIC_POSITION = 16
_MAX_SEQUENCES = 1 << 31
_MAX_INT64 = (1 << 63) - 1

_HEADER = struct.Struct(">qiibIhiqqqhii")
_PREFIX = struct.Struct(">qii")
# Half the time of `_make`: every produced batch has a header.
_new_tuple = tuple.__new__
_CHECKSUM = struct.Struct(">I")
_AFTER_CHECKSUM = struct.Struct(">hiqqqhii")


class UnsupportedRecordFormat(MalformedRecords):
    """A message set of before Kafka 0.11 (magic 0 or 1), or of a format yet to come."""


class TooLargeInside(MalformedRecords):
    """The records of a batch take more than whoever reads it allows."""


class BatchHeader(NamedTuple):
    base_offset: int
    batch_length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size_bytes(self) -> int:
        return self.batch_length + LENGTH_OVERHEAD

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        if self.base_sequence < 0:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) % _MAX_SEQUENCES

    @property
    def codec(self) -> Codec:
        number = self.attributes & CODEC_MASK
        if number > Codec.ZSTD:
            raise MalformedRecords(f"unknown compression codec {number}")
        return Codec(number)

    @property
    def is_log_append_time(self) -> bool:
        return bool(self.attributes & LOG_APPEND_TIME_FLAG)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL_FLAG)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL_FLAG)

    @property
    def delete_horizon_ms(self) -> int | None:
        """When compaction may drop this batch's tombstones and markers, if it is known."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON_FLAG else None


# Reading batches


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """The header at `position`; the records behind it need not be there."""
    available = len(buffer) - position
    if available > _MAGIC_POSITION and buffer[position + _MAGIC_POSITION] != _MAGIC:
        raise UnsupportedRecordFormat(
            f"record format {buffer[position + _MAGIC_POSITION]} is not supported, only 2 is"
        )
    if available < HEADER_SIZE:
        raise MalformedRecords(f"{available} bytes are too few for a batch header")
    header = _new_tuple(BatchHeader, _HEADER.unpack_from(buffer, position))
    if header.batch_length < HEADER_SIZE - LENGTH_OVERHEAD:
        raise MalformedRecords(f"batch length {header.batch_length} is shorter than a header")
    if header.record_count < 0 or header.last_offset_delta < 0:
        raise MalformedRecords("negative record count or offset delta in a batch header")
    return header


def split_batches(buffer: Buffer) -> list[tuple[int, BatchHeader]]:
    """Position and header of every batch in a buffer that holds nothing but whole batches."""
    batches = []
    position, end = 0, len(buffer)
    while position < end:
        header = read_header(buffer, position)
        batches.append((position, header))
        position += header.batch_length + LENGTH_OVERHEAD
    if position != end:
        raise MalformedRecords(f"the last batch lacks {position - end} bytes")
    return batches


def crc_is_valid(buffer: Buffer, position: int, header: BatchHeader) -> bool:
    end = position + header.batch_length + LENGTH_OVERHEAD
    if end > len(buffer):
        return False
    checked = (buffer if isinstance(buffer, memoryview) else memoryview(buffer))[
        position + CHECKSUM_START : end
    ]
    return crc32c(checked) == header.crc


def decode_records(
    buffer: Buffer, position: int = 0, *, max_bytes: int = DEFAULT_MAX_BYTES
) -> list[Record]:
    """The records of the batch at `position`; the checksum is the caller's to check."""
    header = read_header(buffer, position)
    data = _payload(buffer, position, header, max_bytes)
    _check_ranges(header)
    append_time_ms = header.max_timestamp if header.is_log_append_time else None
    records = parse_records(
        data, header.record_count, header.base_offset, header.base_timestamp, append_time_ms
    )
    if records and records[-1].offset > header.last_offset:
        raise MalformedRecords("a record's offset lies behind its batch")
    return records


def _check_ranges(header: BatchHeader) -> None:
    if header.base_offset < 0 or header.last_offset > _MAX_INT64:
        raise MalformedRecords("the offsets of a batch are out of range")
    if abs(header.base_timestamp) > MAX_TIMESTAMP:
        raise MalformedRecords("the timestamps of a batch are out of range")


def _payload(buffer: Buffer, position: int, header: BatchHeader, max_bytes: int) -> bytes:
    end = position + header.batch_length + LENGTH_OVERHEAD
    if end > len(buffer):
        raise MalformedRecords(f"the batch lacks {end - len(buffer)} bytes")
    stored = memoryview(buffer)[position + HEADER_SIZE : end]
    if not header.record_count and not stored:
        return b""
    try:
        return decompress(header.codec, stored, max_bytes)
    except DecompressedTooLarge as error:
        raise TooLargeInside(str(error)) from error
    except MalformedCompression as error:
        raise MalformedRecords(str(error)) from error


class OpenedBatch(NamedTuple):
    """A batch as it is inside, decompressed."""

    base_timestamp: int
    record_count: int
    data: bytes

    def outlines(self, at_once: int = OPENED_RECORDS) -> Iterator[list[tuple[int, bool]]]:
        """For each record its distance in time from the batch's, and whether it has a key: enough
        to admit a batch to a log. They come so many `at_once`, so that others get a turn."""
        position = 0
        for first in range(0, self.record_count, at_once):
            count = min(at_once, self.record_count - first)
            outlines, position = parse_outlines(self.data, count, first, position)
            yield outlines
        if position != len(self.data):
            raise MalformedRecords(f"{len(self.data) - position} bytes follow the last record")


def open_batch(
    batch: Buffer, *, max_bytes: int = OPENED_BYTES, max_records: int = OPENED_RECORDS
) -> OpenedBatch:
    """For a broker: batches that are too large to be opened are malformed."""
    header = read_header(batch)
    if header.record_count > max_records:
        raise MalformedRecords(
            f"{header.record_count} records in a batch, where {max_records} are allowed"
        )
    data = _payload(batch, 0, header, max_bytes)
    _check_ranges(header)
    return OpenedBatch(header.base_timestamp, header.record_count, data)


def find_timestamp(
    batch: Buffer, target_ms: int, *, min_offset: int = 0, max_bytes: int = OPENED_BYTES
) -> tuple[int, int] | None:
    """Timestamp and offset of the first record, from an offset on, not older than `target_ms`.

    A batch that is damaged inside, or too large to be searched while others wait, counts as
    one record: whoever reads from its first offset misses nothing.
    """
    header = read_header(batch)
    if header.max_timestamp < target_ms or header.last_offset < min_offset:
        return None
    if not header.record_count:
        return None
    whole = header.max_timestamp, max(header.base_offset, min_offset)
    if header.is_log_append_time or header.record_count > OPENED_RECORDS:
        return whole
    try:
        data = _payload(batch, 0, header, max_bytes)
        _check_ranges(header)
        min_elapsed = target_ms - header.base_timestamp
        for elapsed, position in parse_times(data, header.record_count):
            if elapsed >= min_elapsed:
                found = _time_and_offset(header, data, elapsed, position)
                if found[1] >= min_offset:
                    return found
    except MalformedRecords:
        return whole
    return None


def find_max_timestamp(batch: Buffer, *, max_bytes: int = OPENED_BYTES) -> tuple[int, int] | None:
    """Timestamp and offset of the first record with the highest timestamp of the batch.

    Batches that cannot be searched are taken as `find_timestamp` takes them.
    """
    header = read_header(batch)
    if not header.record_count:
        return None
    if header.is_log_append_time or header.record_count > OPENED_RECORDS:
        return header.max_timestamp, header.base_offset
    try:
        data = _payload(batch, 0, header, max_bytes)
        _check_ranges(header)
        times = parse_times(data, header.record_count)
        elapsed, position = max(times, key=itemgetter(0))
        return _time_and_offset(header, data, elapsed, position)
    except MalformedRecords:
        return header.max_timestamp, header.base_offset


def _time_and_offset(
    header: BatchHeader, data: bytes, elapsed: int, position: int
) -> tuple[int, int]:
    offset_delta = parse_offset(data, position)
    if offset_delta > header.last_offset_delta:
        raise MalformedRecords("a record's offset lies behind its batch")
    return header.base_timestamp + elapsed, header.base_offset + offset_delta


# Changing batches


def offset_prefix(header: BatchHeader, base_offset: int, leader_epoch: int) -> bytes:
    """The first 16 bytes with another offset and epoch; write `batch[16:]` behind them."""
    return _PREFIX.pack(base_offset, header.batch_length, leader_epoch)


def set_log_append_time(batch: Buffer, timestamp_ms: int) -> bytes:
    """The batch with the broker's time in place of the producer's."""
    payload = memoryview(batch)[HEADER_SIZE : read_header(batch).size_bytes]
    return b"".join((log_append_time_head(batch, timestamp_ms), payload))


def log_append_time_head(batch: Buffer, timestamp_ms: int) -> bytes:
    """The header that a batch has with the broker's time; what lies behind it does not change."""
    header = read_header(batch)
    header = header._replace(
        attributes=header.attributes | LOG_APPEND_TIME_FLAG, max_timestamp=timestamp_ms
    )
    return _assemble_head(header, memoryview(batch)[HEADER_SIZE : header.size_bytes])


def recompress(
    batch: Buffer, codec: Codec, level: int | None = None, *, max_bytes: int = OPENED_BYTES
) -> bytes:
    """The same records under another codec; what is larger inside than allowed is malformed."""
    header = read_header(batch)
    payload = compress(codec, _payload(batch, 0, header, max_bytes), level)
    attributes = header.attributes & ~CODEC_MASK | codec
    return assemble(header._replace(attributes=attributes), payload)


def assemble(header: BatchHeader, payload: Buffer) -> bytes:
    """Header and payload joined, with length and checksum computed."""
    return b"".join((_assemble_head(header, payload), payload))


def _assemble_head(header: BatchHeader, payload: Buffer) -> bytes:
    after = _AFTER_CHECKSUM.pack(*header[5:])
    length = HEADER_SIZE - LENGTH_OVERHEAD + len(payload)
    checksum = crc32c(payload, crc32c(after))
    prefix = _PREFIX.pack(header.base_offset, length, header.leader_epoch)
    return b"".join((prefix, b"\x02", _CHECKSUM.pack(checksum), after))


# Making batches


class BatchBuilder:
    """Collects records and makes one batch of them.

    `size_bytes` is what the batch takes uncompressed. After `build` the builder may be asked
    to build again (a retry with another producer epoch), but not to take more records.
    """

    __slots__ = (
        "_base_timestamp",
        "_codec",
        "_level",
        "_max_timestamp",
        "_parts",
        "_payload",
        "record_count",
        "size_bytes",
    )

    def __init__(self, codec: Codec = Codec.NONE, level: int | None = None) -> None:
        self._codec = codec
        self._level = level
        self._parts: list[bytes] = []
        self._payload: bytes | None = None
        self._base_timestamp = NO_TIMESTAMP
        self._max_timestamp = NO_TIMESTAMP
        self.record_count = 0
        self.size_bytes = HEADER_SIZE

    def append(
        self,
        key: bytes | None,
        value: bytes | None,
        headers: Headers = (),
        timestamp_ms: int = NO_TIMESTAMP,
    ) -> int:
        """Adds a record and says which it is, counted from 0."""
        index = self.record_count
        if not index:
            self._base_timestamp = self._max_timestamp = timestamp_ms
        elif timestamp_ms > self._max_timestamp:
            self._max_timestamp = timestamp_ms
        elapsed_ms = timestamp_ms - self._base_timestamp
        # Lookups in place of calls: this method is the producer's speed.
        small = SMALL_VARINTS
        if key is None:
            key_length, key = b"\x01", b""
        else:
            size = len(key)
            key_length = small[size] if size < SMALL_COUNT else encode_varint(size)
        if value is None:
            value_length, value = b"\x01", b""
        else:
            size = len(value)
            value_length = small[size] if size < SMALL_COUNT else encode_varint(size)
        body = b"".join(
            (
                b"\x00",
                small[elapsed_ms] if 0 <= elapsed_ms < SMALL_COUNT else encode_varint(elapsed_ms),
                small[index] if index < SMALL_COUNT else encode_varint(index),
                key_length,
                key,
                value_length,
                value,
                _encode_headers(headers) if headers else b"\x00",
            )
        )
        size = len(body)
        length = small[size] if size < SMALL_COUNT else encode_varint(size)
        self._parts += (length, body)
        self.size_bytes += len(length) + size
        self.record_count = index + 1
        return index

    def build(
        self,
        base_offset: int = 0,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_PRODUCER_EPOCH,
        base_sequence: int = NO_SEQUENCE,
        *,
        leader_epoch: int = NO_LEADER_EPOCH,
        is_transactional: bool = False,
        is_control: bool = False,
    ) -> bytes:
        if self._payload is None:
            self._payload = compress(self._codec, b"".join(self._parts), self._level)
            self._parts.clear()
        elif self._parts:
            raise ValueError("a batch that was built takes no more records")
        attributes = (
            self._codec
            | (TRANSACTIONAL_FLAG if is_transactional else 0)
            | (CONTROL_FLAG if is_control else 0)
        )
        header = BatchHeader(
            base_offset,
            0,
            leader_epoch,
            _MAGIC,
            0,
            attributes,
            max(0, self.record_count - 1),
            self._base_timestamp,
            self._max_timestamp,
            producer_id,
            producer_epoch,
            base_sequence,
            self.record_count,
        )
        return assemble(header, self._payload)


def _encode_headers(headers: Headers) -> bytes:
    parts = [encode_varint(len(headers))]
    for name, value in headers:
        encoded = name.encode()
        parts += (encode_varint(len(encoded)), encoded)
        if value is None:
            parts.append(b"\x01")
        else:
            parts += (encode_varint(len(value)), value)
    return b"".join(parts)


def encode_end_transaction_marker(
    marker: EndTransactionMarker,
    *,
    producer_id: int,
    producer_epoch: int,
    timestamp_ms: int,
    base_offset: int = 0,
    leader_epoch: int = NO_LEADER_EPOCH,
) -> bytes:
    """The control batch that commits or aborts a producer's transaction in a partition."""
    builder = BatchBuilder()
    key, value = end_transaction_key_and_value(marker)
    builder.append(key, value, (), timestamp_ms)
    return builder.build(
        base_offset,
        producer_id,
        producer_epoch,
        leader_epoch=leader_epoch,
        is_transactional=True,
        is_control=True,
    )
