"""The header of a record batch, format 2: 61 bytes in front of the records.

The broker treats a batch as opaque bytes after this header. It changes the base offset and the
leader epoch, which lie in the first 16 bytes; the checksum does not cover them. `records` reads and
writes what follows.

Batches are untrusted: every length is compared with the bytes at hand before it is used, and every
fault is a `MalformedRecords`.
"""

import struct
from typing import NamedTuple

from odradek.protocol.checksum import crc32c
from odradek.protocol.compression import Codec
from odradek.protocol.record_walkers import MalformedRecords
from odradek.protocol.types import LeaderEpoch, Offset, ProducerEpoch, ProducerId

Buffer = bytes | bytearray | memoryview

HEADER_SIZE = 61
# The base offset and the length itself are not counted in `batch_length`.
LENGTH_OVERHEAD = 12
# Where the checksummed bytes begin.
CHECKSUM_START = 21
# The bytes that `offset_prefix` replaces.
PREFIX_SIZE = 16

NO_TIMESTAMP = -1
NO_PRODUCER_ID = ProducerId(-1)
NO_PRODUCER_EPOCH = ProducerEpoch(-1)
NO_SEQUENCE = -1
NO_LEADER_EPOCH = LeaderEpoch(-1)

# Bits of a batch's attributes.
CODEC_MASK = 0x07
LOG_APPEND_TIME_FLAG = 0x08
TRANSACTIONAL_FLAG = 0x10
CONTROL_FLAG = 0x20
DELETE_HORIZON_FLAG = 0x40

MAGIC = 2
_MAGIC_POSITION = 16
_MAX_SEQUENCES = 1 << 31

_HEADER = struct.Struct(">qiibIhiqqqhii")
_PREFIX = struct.Struct(">qii")
# Half the time of `_make`: every produced batch has a header.
_new_tuple = tuple.__new__
_CHECKSUM = struct.Struct(">I")
_AFTER_CHECKSUM = struct.Struct(">hiqqqhii")


class UnsupportedRecordFormat(MalformedRecords):
    """A message set from before Kafka 0.11 (magic 0 or 1), or a newer format than 2."""


class BatchHeader(NamedTuple):
    base_offset: Offset
    batch_length: int
    leader_epoch: LeaderEpoch
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    base_sequence: int
    record_count: int

    @property
    def size_bytes(self) -> int:
        return self.batch_length + LENGTH_OVERHEAD

    @property
    def last_offset(self) -> Offset:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> Offset:
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


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """Returns the header at `position`; the records after it may be missing."""
    available = len(buffer) - position
    if available > _MAGIC_POSITION and buffer[position + _MAGIC_POSITION] != MAGIC:
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
    """Returns position and header of every batch of a buffer that holds whole batches only."""
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


def offset_prefix(header: BatchHeader, base_offset: Offset, leader_epoch: LeaderEpoch) -> bytes:
    """Returns the first 16 bytes with another offset and epoch; `batch[16:]` follows them."""
    return _PREFIX.pack(base_offset, header.batch_length, leader_epoch)


def assemble(header: BatchHeader, payload: Buffer) -> bytes:
    """Returns header and payload as one batch, with length and checksum computed."""
    return b"".join((encode_header(header, payload), payload))


def encode_header(header: BatchHeader, payload: Buffer) -> bytes:
    """Returns the header for a payload, with length and checksum computed."""
    after = _AFTER_CHECKSUM.pack(*header[5:])
    length = HEADER_SIZE - LENGTH_OVERHEAD + len(payload)
    checksum = crc32c(payload, crc32c(after))
    prefix = _PREFIX.pack(header.base_offset, length, header.leader_epoch)
    return b"".join((prefix, b"\x02", _CHECKSUM.pack(checksum), after))
