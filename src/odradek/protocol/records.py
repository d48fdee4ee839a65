"""Record batches, format 2: how they are decoded, changed and built.

Records are sent and stored in batches. The broker treats a batch as opaque bytes after the header
(`batch_header`). Only clients, tools and a few features of the broker (timestamps, recompression,
control records) decode records.

Batches are untrusted: every length is compared with the bytes at hand before it is used, and every
fault is a `MalformedRecords`.
"""

from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import NamedTuple

from odradek.protocol.batch_header import (
    CHECKSUM_START,
    CODEC_MASK,
    CONTROL_FLAG,
    DELETE_HORIZON_FLAG,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    LOG_APPEND_TIME_FLAG,
    MAGIC,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    PREFIX_SIZE,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    Buffer,
    UnsupportedRecordFormat,
    assemble,
    crc_is_valid,
    encode_header,
    offset_prefix,
    read_header,
    split_batches,
)
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
    RecordSummary,
    parse_offset_delta,
    parse_records,
    parse_summaries,
    parse_timestamp_deltas,
)
from odradek.protocol.types import FIRST_OFFSET, Offset
from odradek.protocol.varint import SMALL_COUNT, SMALL_VARINTS, encode_varint

__all__ = [
    "CHECKSUM_START",
    "CODEC_MASK",
    "CONTROL_FLAG",
    "DELETE_HORIZON_FLAG",
    "HEADER_SIZE",
    "LENGTH_OVERHEAD",
    "LOG_APPEND_TIME_FLAG",
    "MAX_DECOMPRESSED_BYTES",
    "NO_TIMESTAMP",
    "PREFIX_SIZE",
    "TRANSACTIONAL_FLAG",
    "BatchBuilder",
    "BatchHeader",
    "Buffer",
    "ControlType",
    "DecompressedBatch",
    "DecompressedBatchTooLarge",
    "EndTransactionMarker",
    "Headers",
    "MalformedRecords",
    "Record",
    "UnsupportedRecordFormat",
    "assemble",
    "check_last_offset",
    "crc_is_valid",
    "decode_control_type",
    "decode_end_transaction_marker",
    "decode_records",
    "decompress_batch",
    "encode_end_transaction_marker",
    "encode_log_append_time_header",
    "find_max_timestamp",
    "find_timestamp",
    "offset_prefix",
    "read_header",
    "recompress",
    "record_data",
    "set_log_append_time",
    "split_batches",
]

Headers = Sequence[tuple[str, bytes | None]]

# Limits for decompressing a batch in the broker. Decompressing and parsing the largest batch takes
# up to 50 ms. Usual batches (1 MB, some thousand records) are far below both limits.
MAX_DECOMPRESSED_BYTES = 16 << 20
MAX_DECOMPRESSED_RECORDS = 100_000

_MAX_INT64 = (1 << 63) - 1

# Fields of a record that `BatchBuilder` writes without a call.
_NO_ATTRIBUTES = b"\x00"
_NO_HEADERS = b"\x00"
# The length -1 as a zigzag varint: the key or value is null.
_NULL_LENGTH = b"\x01"


class DecompressedBatchTooLarge(MalformedRecords):
    """The records of a batch take more bytes, decompressed, than the reader allows."""


def decode_records(
    buffer: Buffer, position: int = 0, *, max_bytes: int = DEFAULT_MAX_BYTES
) -> list[Record]:
    """Returns the records of the batch at `position`; it does not check the checksum."""
    header = read_header(buffer, position)
    data = record_data(buffer, position, header, max_bytes=max_bytes)
    append_time_ms = header.max_timestamp if header.is_log_append_time else None
    records = parse_records(
        data, header.record_count, header.base_offset, header.base_timestamp, append_time_ms
    )
    if records:
        check_last_offset(header, records[-1].offset)
    return records


def record_data(
    buffer: Buffer, position: int, header: BatchHeader, *, max_bytes: int = DEFAULT_MAX_BYTES
) -> bytes:
    """Returns the decompressed records of the batch at `position`, whose header was read.

    Walks of other modules read them: a `Record` for each would cost a consumer a quarter of its
    time.
    """
    data = _payload(buffer, position, header, max_bytes)
    _check_ranges(header)
    return data


def check_last_offset(header: BatchHeader, offset: int) -> None:
    """Raises `MalformedRecords` if the last record of a batch has an offset beyond the batch."""
    if offset > header.last_offset:
        raise MalformedRecords(
            "the offset of a record is greater than the last offset of its batch"
        )


def _check_ranges(header: BatchHeader) -> None:
    if header.base_offset < 0 or header.last_offset > _MAX_INT64:
        raise MalformedRecords("the offsets of a batch are out of range")
    if abs(header.base_timestamp) > MAX_TIMESTAMP:
        raise MalformedRecords("the timestamps of a batch are out of range")


def _payload(buffer: Buffer, position: int, header: BatchHeader, max_bytes: int) -> bytes:
    end = position + header.batch_length + LENGTH_OVERHEAD
    if end > len(buffer):
        raise MalformedRecords(f"the batch lacks {end - len(buffer)} bytes")
    return decompressed_records(header, memoryview(buffer)[position + HEADER_SIZE : end], max_bytes)


def decompressed_records(header: BatchHeader, stored: memoryview, max_bytes: int) -> bytes:
    """Returns the records of a batch; `stored` is what follows its header."""
    if not header.record_count and not stored:
        return b""
    try:
        return decompress(header.codec, stored, max_bytes)
    except DecompressedTooLarge as error:
        raise DecompressedBatchTooLarge(str(error)) from error
    except MalformedCompression as error:
        raise MalformedRecords(str(error)) from error


class DecompressedBatch(NamedTuple):
    """The decompressed records of a batch, as bytes."""

    base_timestamp: int
    record_count: int
    data: bytes

    def summaries(self, max_count: int = MAX_DECOMPRESSED_RECORDS) -> Iterator[list[RecordSummary]]:
        """Yields lists of summaries, which a broker checks before it appends a batch.

        A list has at most `max_count` summaries, so that other tasks can run between two lists.
        """
        position = 0
        for first in range(0, self.record_count, max_count):
            count = min(max_count, self.record_count - first)
            summaries, position = parse_summaries(self.data, count, first, position)
            yield summaries
        if position != len(self.data):
            raise MalformedRecords(f"{len(self.data) - position} bytes follow the last record")


def decompress_batch(
    batch: Buffer,
    *,
    max_bytes: int = MAX_DECOMPRESSED_BYTES,
    max_records: int = MAX_DECOMPRESSED_RECORDS,
) -> DecompressedBatch:
    """Decompresses a batch for a broker.

    Raises `MalformedRecords` if the batch is damaged or has more than `max_records` records, and
    `DecompressedBatchTooLarge` if its records take more than `max_bytes`.
    """
    header = read_header(batch)
    if header.record_count > max_records:
        raise MalformedRecords(
            f"{header.record_count} records in a batch, where {max_records} are allowed"
        )
    data = _payload(batch, 0, header, max_bytes)
    _check_ranges(header)
    return DecompressedBatch(header.base_timestamp, header.record_count, data)


def find_timestamp(
    batch: Buffer,
    target_ms: int,
    *,
    min_offset: Offset = FIRST_OFFSET,
    max_bytes: int = MAX_DECOMPRESSED_BYTES,
) -> tuple[int, Offset] | None:
    """Returns timestamp and offset of the first record that is not older than `target_ms`.

    Records before `min_offset` are left out. If the batch is damaged or over the limits, the result
    is its maximum timestamp and its base offset (or `min_offset`). A consumer that starts there
    reads some older records and misses none.
    """
    header = read_header(batch)
    if header.max_timestamp < target_ms or header.last_offset < min_offset:
        return None
    if not header.record_count:
        return None
    whole_batch = header.max_timestamp, max(header.base_offset, min_offset)
    if header.is_log_append_time or header.record_count > MAX_DECOMPRESSED_RECORDS:
        return whole_batch
    try:
        data = _payload(batch, 0, header, max_bytes)
        _check_ranges(header)
        min_delta = target_ms - header.base_timestamp
        for timestamp_delta, position in parse_timestamp_deltas(data, header.record_count):
            if timestamp_delta >= min_delta:
                timestamp, offset = _timestamp_and_offset(header, data, timestamp_delta, position)
                if offset >= min_offset:
                    return timestamp, offset
    except MalformedRecords:
        return whole_batch
    return None


def find_max_timestamp(
    batch: Buffer, *, max_bytes: int = MAX_DECOMPRESSED_BYTES
) -> tuple[int, Offset] | None:
    """Returns timestamp and offset of the first record with the highest timestamp of the batch.

    If the batch is damaged or over the limits, the result is its maximum timestamp and its base
    offset, as in `find_timestamp`.
    """
    header = read_header(batch)
    if not header.record_count:
        return None
    if header.is_log_append_time or header.record_count > MAX_DECOMPRESSED_RECORDS:
        return header.max_timestamp, header.base_offset
    try:
        data = _payload(batch, 0, header, max_bytes)
        _check_ranges(header)
        timestamp_deltas = parse_timestamp_deltas(data, header.record_count)
        max_delta, position = max(timestamp_deltas, key=itemgetter(0))
        return _timestamp_and_offset(header, data, max_delta, position)
    except MalformedRecords:
        return header.max_timestamp, header.base_offset


def _timestamp_and_offset(
    header: BatchHeader, data: bytes, timestamp_delta: int, position: int
) -> tuple[int, Offset]:
    offset_delta = parse_offset_delta(data, position)
    if offset_delta > header.last_offset_delta:
        raise MalformedRecords(
            "the offset of a record is greater than the last offset of its batch"
        )
    return header.base_timestamp + timestamp_delta, header.base_offset + offset_delta


# Changing batches


def set_log_append_time(batch: Buffer, timestamp_ms: int) -> bytes:
    """Returns the batch with the broker's time in place of the producer's."""
    payload = memoryview(batch)[HEADER_SIZE : read_header(batch).size_bytes]
    return b"".join((encode_log_append_time_header(batch, timestamp_ms), payload))


def encode_log_append_time_header(batch: Buffer, timestamp_ms: int) -> bytes:
    """Returns the header of a batch with the broker's time; the records do not change."""
    header = read_header(batch)
    header = header._replace(
        attributes=header.attributes | LOG_APPEND_TIME_FLAG, max_timestamp=timestamp_ms
    )
    return encode_header(header, memoryview(batch)[HEADER_SIZE : header.size_bytes])


def recompress(
    batch: Buffer,
    codec: Codec,
    level: int | None = None,
    *,
    max_bytes: int = MAX_DECOMPRESSED_BYTES,
) -> bytes:
    """Returns a batch with the same records, compressed with another codec.

    Raises `DecompressedBatchTooLarge` if the records take more than `max_bytes` decompressed.
    """
    header = read_header(batch)
    payload = compress(codec, _payload(batch, 0, header, max_bytes), level)
    attributes = header.attributes & ~CODEC_MASK | codec
    return assemble(header._replace(attributes=attributes), payload)


# Making batches


class BatchBuilder:
    """Collects records and makes one batch of them.

    `size_bytes` is the size of the batch without compression. `build` may be called again (a retry
    with another producer epoch), but `append` raises `ValueError` after the first `build`.
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
        """Adds a record and returns its index in the batch. If it raises, nothing has changed."""
        if self._payload is not None:
            raise ValueError("a batch that was built takes no more records")
        index = self.record_count
        delta_ms = timestamp_ms - self._base_timestamp if index else 0
        # Look-ups in a table in place of calls: this method limits the speed of the producer.
        small = SMALL_VARINTS
        if key is None:
            key_length, key = _NULL_LENGTH, b""
        else:
            size = len(key)
            key_length = small[size] if size < SMALL_COUNT else encode_varint(size)
        if value is None:
            value_length, value = _NULL_LENGTH, b""
        else:
            size = len(value)
            value_length = small[size] if size < SMALL_COUNT else encode_varint(size)
        body = b"".join(
            (
                _NO_ATTRIBUTES,
                small[delta_ms] if 0 <= delta_ms < SMALL_COUNT else encode_varint(delta_ms),
                small[index] if index < SMALL_COUNT else encode_varint(index),
                key_length,
                key,
                value_length,
                value,
                _encode_headers(headers) if headers else _NO_HEADERS,
            )
        )
        size = len(body)
        length = small[size] if size < SMALL_COUNT else encode_varint(size)
        # Nothing changes before this line, so a record that raised leaves the batch as it was.
        if not index:
            self._base_timestamp = self._max_timestamp = timestamp_ms
        elif timestamp_ms > self._max_timestamp:
            self._max_timestamp = timestamp_ms
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
        attributes = (
            self._codec
            | (TRANSACTIONAL_FLAG if is_transactional else 0)
            | (CONTROL_FLAG if is_control else 0)
        )
        # `_make`, because callers pass plain numbers: a conversion of each would cost a call.
        header = BatchHeader._make(
            (
                base_offset,
                0,
                leader_epoch,
                MAGIC,
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
        )
        return assemble(header, self._payload)


def _encode_headers(headers: Headers) -> bytes:
    parts = [encode_varint(len(headers))]
    for name, value in headers:
        encoded = name.encode()
        parts += (encode_varint(len(encoded)), encoded)
        if value is None:
            parts.append(_NULL_LENGTH)
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
    """Returns the control batch that commits or aborts a transaction in a partition."""
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
