"""Record batches, format 2: the unit in which records travel, and in which they are stored.

The broker treats a batch as opaque bytes behind a header of 61 bytes. What it changes, the
base offset and the leader epoch, lies in the first 16 bytes, which the checksum does not
cover. Only clients, tools and the few broker features that must look inside (timestamps,
recompression, control records) decode records.

Everything that arrives is untrusted: every length is compared with the bytes at hand before
it is used, and every fault is a `MalformedRecords`.
"""

import struct
from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

from crc32c import crc32c

from odradek.protocol.compression import (
    DEFAULT_MAX_BYTES,
    Codec,
    MalformedCompression,
    compress,
    decompress,
)
from odradek.protocol.errors import MalformedMessage
from odradek.protocol.varint import SMALL_VARINTS, encode_varint, long_varint

Buffer = bytes | bytearray | memoryview
Headers = Sequence[tuple[str, bytes | None]]

HEADER_SIZE = 61
# The base offset and the length itself are not counted in `batch_length`.
LENGTH_OVERHEAD = 12
# Where the checksummed bytes begin.
CHECKSUM_START = 21
# What `offset_prefix` replaces.
PREFIX_SIZE = 16

NO_TIMESTAMP = -1
NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
NO_LEADER_EPOCH = -1

_CODEC_MASK = 0x07
_LOG_APPEND_TIME = 0x08
_TRANSACTIONAL = 0x10
_CONTROL = 0x20
_DELETE_HORIZON = 0x40

_MAGIC = 2
_MAGIC_POSITION = 16
_LEAST_RECORD_BYTES = 7
_MOST_SEQUENCES = 1 << 31

_HEADER = struct.Struct(">qiibIhiqqqhii")
_PREFIX = struct.Struct(">qii")
_CHECKSUM = struct.Struct(">I")
_AFTER_CHECKSUM = struct.Struct(">hiqqqhii")
_CONTROL_KEY = struct.Struct(">hh")
_END_TRANSACTION = struct.Struct(">hi")


class MalformedRecords(MalformedMessage):
    """The bytes are not a whole, consistent record batch."""


class UnsupportedRecordFormat(MalformedRecords):
    """A message set of before Kafka 0.11 (magic 0 or 1), or of a format yet to come."""


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
        return (self.base_sequence + self.last_offset_delta) % _MOST_SEQUENCES

    @property
    def codec(self) -> Codec:
        number = self.attributes & _CODEC_MASK
        if number > Codec.ZSTD:
            raise MalformedRecords(f"unknown compression codec {number}")
        return Codec(number)

    @property
    def is_log_append_time(self) -> bool:
        return bool(self.attributes & _LOG_APPEND_TIME)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & _TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & _CONTROL)

    @property
    def delete_horizon_ms(self) -> int | None:
        """When compaction may drop this batch's tombstones and markers, if it is known."""
        return self.base_timestamp if self.attributes & _DELETE_HORIZON else None


class Record(NamedTuple):
    """One record. A tuple, because a tuple is the cheapest object Python can make."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


class ControlType(IntEnum):
    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6
    UNKNOWN = -1


class EndTransactionMarker(NamedTuple):
    control_type: ControlType
    coordinator_epoch: int


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
    header = BatchHeader._make(_HEADER.unpack_from(buffer, position))
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
    view = memoryview(buffer)[position + CHECKSUM_START : end]
    return crc32c(view) == header.crc and end <= len(buffer)


def decode_records(
    buffer: Buffer, position: int = 0, *, max_bytes: int = DEFAULT_MAX_BYTES
) -> list[Record]:
    """The records of the batch at `position`; the checksum is the caller's to check."""
    header = read_header(buffer, position)
    data = _payload(buffer, position, header, max_bytes)
    if header.record_count * _LEAST_RECORD_BYTES > len(data):
        raise MalformedRecords(f"{len(data)} bytes cannot hold {header.record_count} records")
    try:
        return _parse_records(data, header)
    except IndexError:
        raise MalformedRecords("a record ends beyond its batch") from None
    except OverflowError as error:
        raise MalformedRecords(f"a record holds {error}") from None


def _payload(buffer: Buffer, position: int, header: BatchHeader, max_bytes: int) -> bytes:
    end = position + header.batch_length + LENGTH_OVERHEAD
    if end > len(buffer):
        raise MalformedRecords(f"the batch lacks {end - len(buffer)} bytes")
    stored = memoryview(buffer)[position + HEADER_SIZE : end]
    if not header.record_count and not stored:
        return b""
    try:
        return decompress(header.codec, stored, max_bytes)
    except MalformedCompression as error:
        raise MalformedRecords(str(error)) from error


def _parse_records(  # noqa: C901, PLR0912, PLR0915 - a call a field would halve its speed
    data: bytes, header: BatchHeader
) -> list[Record]:
    # This loop is the consumer's speed: varints of one and two bytes are read in place, and
    # a record is made without going through its constructor.
    new, record_class = tuple.__new__, Record
    records: list[Record] = []
    add = records.append
    base_offset, base_timestamp = header.base_offset, header.base_timestamp
    append_time = header.max_timestamp if header.is_log_append_time else None
    last_offset_delta = header.last_offset_delta
    previous_delta = -1
    position, size = 0, len(data)
    for _ in range(header.record_count):
        length = data[position]
        position += 1
        if length > 127:
            length, position = long_varint(data, position, length)
        end = position + (length >> 1)
        if length & 1 or end > size:
            raise MalformedRecords("a record's length is wrong")
        timestamp = data[position + 1]
        position += 2
        if timestamp > 127:
            timestamp, position = long_varint(data, position, timestamp, 64)
        offset_delta = data[position]
        position += 1
        if offset_delta > 127:
            offset_delta, position = long_varint(data, position, offset_delta)
        if offset_delta & 1:
            raise MalformedRecords("a record's offset lies before its batch")
        offset_delta >>= 1
        if not previous_delta < offset_delta <= last_offset_delta:
            raise MalformedRecords("the offsets of a batch do not rise")
        previous_delta = offset_delta

        length = data[position]
        position += 1
        if length == 1:
            key = None
        else:
            if length > 127:
                length, position = long_varint(data, position, length)
            start, position = position, position + (length >> 1)
            key = data[start:position]
            if length & 1:
                _require_null(length)
                key, position = None, start
        length = data[position]
        position += 1
        if length == 1:
            value = None
        else:
            if length > 127:
                length, position = long_varint(data, position, length)
            start, position = position, position + (length >> 1)
            value = data[start:position]
            if length & 1:
                _require_null(length)
                value, position = None, start
        headers: list[tuple[str, bytes | None]] = []
        if data[position]:
            position = _parse_headers(data, position, end, headers)
        else:
            position += 1
        if position != end:
            raise MalformedRecords("a record's length does not fit its fields")
        if append_time is None:
            stamp = base_timestamp + ((timestamp >> 1) ^ -(timestamp & 1))
        else:
            stamp = append_time
        add(new(record_class, (base_offset + offset_delta, stamp, key, value, headers)))
    if position != size:
        raise MalformedRecords(f"{size - position} bytes follow the last record")
    return records


def _require_null(length: int) -> None:
    # A negative length other than -1 (3, 5, ... once zigzagged) means nothing.
    if length != 1:
        raise MalformedRecords("a negative length")


def _parse_headers(
    data: bytes, position: int, end: int, headers: list[tuple[str, bytes | None]]
) -> int:
    count, position = long_varint(data, position)
    if count & 1 or count >> 1 > end - position:
        raise MalformedRecords("a record declares more headers than it can hold")
    for _ in range(count >> 1):
        length, position = long_varint(data, position)
        start, position = position, position + (length >> 1)
        if length & 1 or position > end:
            raise MalformedRecords("a record header's name has a wrong length")
        try:
            name = data[start:position].decode()
        except UnicodeDecodeError:
            raise MalformedRecords("a record header's name is not UTF-8") from None
        length, position = long_varint(data, position)
        if length & 1:
            _require_null(length)
            headers.append((name, None))
            continue
        start, position = position, position + (length >> 1)
        if position > end:
            raise MalformedRecords("a record header's value has a wrong length")
        headers.append((name, data[start:position]))
    return position


def find_timestamp(
    batch: Buffer, target_ms: int, *, max_bytes: int = DEFAULT_MAX_BYTES
) -> tuple[int, int] | None:
    """Timestamp and offset of the first record that is not older than `target_ms`."""
    if read_header(batch).max_timestamp < target_ms:
        return None
    for record in decode_records(batch, max_bytes=max_bytes):
        if record.timestamp_ms >= target_ms:
            return record.timestamp_ms, record.offset
    return None


def find_max_timestamp(
    batch: Buffer, *, max_bytes: int = DEFAULT_MAX_BYTES
) -> tuple[int, int] | None:
    """Timestamp and offset of the first record with the highest timestamp of the batch."""
    header = read_header(batch)
    if header.is_log_append_time:
        return header.max_timestamp, header.last_offset
    found = None
    for record in decode_records(batch, max_bytes=max_bytes):
        if found is None or record.timestamp_ms > found[0]:
            found = record.timestamp_ms, record.offset
    return found


def decode_control_type(record: Record) -> ControlType:
    key = record.key
    if key is None or len(key) < _CONTROL_KEY.size:
        raise MalformedRecords("a control record has a key that is too short")
    version, number = _CONTROL_KEY.unpack_from(key)
    if version < 0:
        raise MalformedRecords(f"a control record has the version {version}")
    return ControlType(number) if 0 <= number <= ControlType.KRAFT_VOTERS else ControlType.UNKNOWN


def decode_end_transaction_marker(record: Record) -> EndTransactionMarker:
    control_type, value = decode_control_type(record), record.value
    if control_type not in (ControlType.ABORT, ControlType.COMMIT):
        raise MalformedRecords(f"{control_type.name} does not end a transaction")
    if value is None or len(value) < _END_TRANSACTION.size:
        raise MalformedRecords("an end-transaction marker has a value that is too short")
    version, coordinator_epoch = _END_TRANSACTION.unpack_from(value)
    if version < 0:
        raise MalformedRecords(f"an end-transaction marker has the version {version}")
    return EndTransactionMarker(control_type, coordinator_epoch)


# Changing batches


def offset_prefix(header: BatchHeader, base_offset: int, leader_epoch: int) -> bytes:
    """The first 16 bytes with another offset and epoch; write `batch[16:]` behind them."""
    return _PREFIX.pack(base_offset, header.batch_length, leader_epoch)


def set_log_append_time(batch: Buffer, timestamp_ms: int) -> bytes:
    """The batch with the broker's time in place of the producer's."""
    header = read_header(batch)
    header = header._replace(
        attributes=header.attributes | _LOG_APPEND_TIME, max_timestamp=timestamp_ms
    )
    return _assemble(header, memoryview(batch)[HEADER_SIZE : header.size_bytes])


def recompress(
    batch: Buffer, codec: Codec, level: int | None = None, *, max_bytes: int = DEFAULT_MAX_BYTES
) -> bytes:
    """The same records under another codec."""
    header = read_header(batch)
    payload = compress(codec, _payload(batch, 0, header, max_bytes), level)
    attributes = header.attributes & ~_CODEC_MASK | codec
    return _assemble(header._replace(attributes=attributes), payload)


def _assemble(header: BatchHeader, payload: Buffer) -> bytes:
    """Header and payload joined, with length and checksum computed."""
    after = _AFTER_CHECKSUM.pack(*header[5:])
    length = HEADER_SIZE - LENGTH_OVERHEAD + len(payload)
    checksum = crc32c(payload, crc32c(after))
    prefix = _PREFIX.pack(header.base_offset, length, header.leader_epoch)
    return b"".join((prefix, b"\x02", _CHECKSUM.pack(checksum), after, payload))


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
        small = SMALL_VARINTS
        elapsed_ms = timestamp_ms - self._base_timestamp
        body = b"".join(
            (
                b"\x00",
                small[elapsed_ms] if 0 <= elapsed_ms < 8192 else encode_varint(elapsed_ms),
                small[index] if index < 8192 else encode_varint(index),
                b"\x01" if key is None else encode_varint(len(key)) + key,
                b"\x01" if value is None else encode_varint(len(value)) + value,
                _encode_headers(headers) if headers else b"\x00",
            )
        )
        length = encode_varint(len(body))
        self._parts += (length, body)
        self.size_bytes += len(length) + len(body)
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
        attributes = (
            self._codec
            | (_TRANSACTIONAL if is_transactional else 0)
            | (_CONTROL if is_control else 0)
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
        return _assemble(header, self._payload)


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
    builder.append(
        _CONTROL_KEY.pack(0, marker.control_type),
        _END_TRANSACTION.pack(0, marker.coordinator_epoch),
        (),
        timestamp_ms,
    )
    return builder.build(
        base_offset,
        producer_id,
        producer_epoch,
        leader_epoch=leader_epoch,
        is_transactional=True,
        is_control=True,
    )
