"""Validates the batches of producers before they are appended.

Checked are the header, the checksum, and of a batch that is not compressed the first and the last
record (`record_sample`): a batch that cannot be read would block its partition for every consumer.
All records are read only if the settings of the topic need it: another compression codec, keys (for
compaction), or a limit on the age of records. Decision 18 has the measurements.

To decompress a batch may take longer than other requests should wait. `validate` then raises
`CannotAppendAtOnce`, and the caller uses `validate_in_steps`, which does the same work in small
steps and in worker threads.

`AppendRules` depend on the settings alone, so logs with equal settings share one object.
"""

import asyncio
from collections.abc import Iterator
from functools import partial
from typing import Final, NamedTuple

from odradek.config import TopicSettings
from odradek.protocol.compression import Codec
from odradek.protocol.errors import ErrorCode
from odradek.protocol.record_sample import check_sample
from odradek.protocol.records import (
    CODEC_MASK,
    CONTROL_FLAG,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    LOG_APPEND_TIME_FLAG,
    MAX_DECOMPRESSED_BYTES,
    BatchHeader,
    Buffer,
    DecompressedBatch,
    DecompressedBatchTooLarge,
    MalformedRecords,
    UnsupportedRecordFormat,
    crc_is_valid,
    decompress_batch,
    encode_log_append_time_header,
    read_header,
    recompress,
    set_log_append_time,
)
from odradek.protocol.types import LeaderEpoch, Offset
from odradek.storage.errors import AppendRejected
from odradek.storage.staged_batch import STAGING_SIZES
from odradek.wording import counted
from odradek.world import Workers
from odradek.world.timeslice import Timeslice

MAX_LONG = (1 << 63) - 1
_FORBIDDEN = LOG_APPEND_TIME_FLAG | CONTROL_FLAG

# Batches with more bytes, decompressed, are rejected. Batches between `MAX_DECOMPRESSED_BYTES` and
# this are decompressed one at a time. Apache Kafka has no limit: there a client that may write can
# make a broker allocate gigabytes with a few kilobytes (decision 18).
MAX_LOCKED_DECOMPRESSED_BYTES: Final = 32 << 20
_MAX_RECORDS: Final = 10_000_000
# Batches up to these limits are decompressed and checked on the event loop, in a few milliseconds.
_MAX_BYTES_ON_EVENT_LOOP: Final = 256 << 10
_MAX_RECORDS_ON_EVENT_LOOP: Final = 5_000
# A batch may have a hundred thousand invalid records; the answer lists only the first ones.
_MAX_RECORD_ERRORS: Final = 100
_NEEDS_KEY: Final = "a compacted topic needs a key in every record"

_TARGET_CODECS: Final = {
    "producer": None,
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}


class CannotAppendAtOnce(Exception):
    """The batch cannot be appended in this turn of the event loop.

    To check it would delay other requests, so the caller uses `validate_in_steps`; or it must be
    staged, or wait for a batch that is being staged, so the caller uses `staging.room_for`.
    """


class ValidatedBatch(NamedTuple):
    """A batch that was checked already: the bytes to write, and their header."""

    records: Buffer
    header: BatchHeader


class AppendRules:
    __slots__ = (
        "_after_max_ms",
        "_before_max_ms",
        "_codec",
        "_is_compacted",
        "_level",
        "_limits_age",
        "_looks_inside",
        "_max_message_bytes",
        "_validates_schemas",
        "flush_messages",
        "flush_ms",
        "index_bytes",
        "index_interval_bytes",
        "is_log_append_time",
        "segment_bytes",
        "segment_jitter_ms",
        "segment_ms",
        "settings",
    )

    def __init__(self, settings: TopicSettings) -> None:
        self.settings = settings
        self.segment_bytes = settings.segment_bytes
        self.segment_ms = settings.segment_ms
        if settings.is_compacted:
            # Records in the active segment are not compacted, so it must not stay active too long.
            self.segment_ms = min(self.segment_ms, settings.max_compaction_lag_ms)
        self.segment_jitter_ms = min(settings.segment_jitter_ms, self.segment_ms)
        self.index_bytes = settings.segment_index_bytes
        self.index_interval_bytes = settings.index_interval_bytes
        self.flush_messages = settings.flush_messages
        self.flush_ms = settings.flush_ms
        self.is_log_append_time = settings.message_timestamp_type == "LogAppendTime"
        self._max_message_bytes = settings.max_message_bytes
        self._before_max_ms = settings.message_timestamp_before_max_ms
        self._after_max_ms = settings.message_timestamp_after_max_ms
        self._codec = _TARGET_CODECS[settings.compression_type]
        self._level = _level(settings, self._codec)
        self._is_compacted = settings.is_compacted
        self._limits_age = self._before_max_ms != MAX_LONG and not self.is_log_append_time
        self._looks_inside = self._is_compacted or self._limits_age
        self._validates_schemas = settings.validates_schemas

    def validate(self, records: Buffer, now_ms: int) -> tuple[Buffer, BatchHeader]:
        """Returns the batch to write, usually `records` itself, and its header."""
        if len(records) > STAGING_SIZES.large_bytes or self._validates_schemas:
            raise CannotAppendAtOnce  # The checksum alone takes long, or the registry is asked.
        records, header = self._check_header(records, now_ms)
        attributes = header.attributes
        if self._looks_inside or (attributes & CODEC_MASK and _is_doubtful(header)):
            if header.record_count > _MAX_RECORDS_ON_EVENT_LOOP:
                raise CannotAppendAtOnce
            max_bytes = (
                _MAX_BYTES_ON_EVENT_LOOP if attributes & CODEC_MASK else MAX_DECOMPRESSED_BYTES
            )
            for _ in self._inspection(_decompress(records, max_bytes), now_ms):
                pass
        if self._codec is not None and attributes & CODEC_MASK != self._codec:
            records, header = self._recompressed(records, self._codec, _MAX_BYTES_ON_EVENT_LOOP)
        if header.batch_length + LENGTH_OVERHEAD > self.segment_bytes:
            raise self._larger_than_a_segment(header)
        return records, header

    async def validate_in_steps(
        self, records: Buffer, now_ms: int, workers: Workers, decompression_lock: asyncio.Lock
    ) -> ValidatedBatch:
        """Does the same as `validate`, and yields to other tasks meanwhile. Compression runs in a
        worker thread, because it releases the interpreter lock.

        A batch that has more than `MAX_DECOMPRESSED_BYTES` when decompressed waits for
        `decompression_lock`, so that only one such batch is in memory, however many are sent at
        once.
        """
        if len(records) > STAGING_SIZES.large_bytes:
            records, header = await self._check_large(records, now_ms, workers)
        else:
            records, header = self._check_header(records, now_ms)
        try:
            return await self._validate_records(
                records, header, now_ms, workers, MAX_DECOMPRESSED_BYTES
            )
        except CannotAppendAtOnce:
            async with decompression_lock:
                return await self._validate_records(
                    records, header, now_ms, workers, MAX_LOCKED_DECOMPRESSED_BYTES
                )

    async def _validate_records(
        self,
        records: Buffer,
        header: BatchHeader,
        now_ms: int,
        workers: Workers,
        max_bytes: int,
    ) -> ValidatedBatch:
        if self._looks_inside or _is_doubtful(header):
            batch = await workers.compute(partial(_decompress, records, max_bytes))
            timeslice = Timeslice.of_running_loop()
            for _ in self._inspection(batch, now_ms):
                if timeslice.is_over():
                    await timeslice.next_turn()
            del batch
        if self._codec is not None and header.attributes & CODEC_MASK != self._codec:
            records, header = await workers.compute(
                partial(self._recompressed, records, self._codec, max_bytes)
            )
        if header.batch_length + LENGTH_OVERHEAD > self.segment_bytes:
            raise self._larger_than_a_segment(header)
        return ValidatedBatch(records, header)

    async def _check_large(
        self, records: Buffer, now_ms: int, workers: Workers
    ) -> tuple[Buffer, BatchHeader]:
        """Does the same as `_check_header`, with checksums in a thread and copies in steps."""
        header = self._read_header(records)
        if not await workers.run_blocking(partial(crc_is_valid, records, 0, header)):
            raise _damaged()
        self._check_consistency(records, header)
        if not self.is_log_append_time:
            if header.max_timestamp - now_ms > self._after_max_ms:
                raise self._too_far_ahead(header)
            return records, header
        head = await workers.run_blocking(partial(encode_log_append_time_header, records, now_ms))
        return await _with_head(head, records), read_header(head)

    def _check_header(self, records: Buffer, now_ms: int) -> tuple[Buffer, BatchHeader]:
        """Checks everything that needs no decompression, and sets the timestamps if the topic uses
        LogAppendTime."""
        header = self._read_header(records)
        if not crc_is_valid(records, 0, header):
            raise _damaged()
        self._check_consistency(records, header)
        if self.is_log_append_time:
            records = set_log_append_time(records, now_ms)
            header = read_header(records)
        elif header.max_timestamp - now_ms > self._after_max_ms:
            raise self._too_far_ahead(header)
        return records, header

    def _read_header(self, records: Buffer) -> BatchHeader:
        try:
            header = read_header(records)
        except UnsupportedRecordFormat as error:
            raise AppendRejected(ErrorCode.INVALID_RECORD, str(error)) from None
        except MalformedRecords as error:
            code = ErrorCode.CORRUPT_MESSAGE if len(records) else ErrorCode.INVALID_RECORD
            raise AppendRejected(code, str(error)) from None
        size = header.batch_length + LENGTH_OVERHEAD
        if size != len(records):
            raise _wrong_length(size, len(records))
        if size > self._max_message_bytes:
            raise self._too_large(size)
        return header

    def _check_consistency(self, records: Buffer, header: BatchHeader) -> None:
        attributes = header.attributes
        if (
            header.base_offset
            or header.record_count != header.last_offset_delta + 1
            or (header.producer_id >= 0 and header.base_sequence < 0)
            or attributes & _FORBIDDEN
            or attributes & CODEC_MASK > Codec.ZSTD
        ):
            raise _inconsistent(header)
        if not attributes & CODEC_MASK:
            try:
                check_sample(records, HEADER_SIZE, header.record_count)
            except MalformedRecords as error:
                raise AppendRejected(ErrorCode.INVALID_RECORD, str(error)) from None

    def _too_large(self, size: int) -> AppendRejected:
        return AppendRejected(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"the batch has {size} bytes, max.message.bytes allows {self._max_message_bytes}",
        )

    def _too_far_ahead(self, header: BatchHeader) -> AppendRejected:
        return AppendRejected(
            ErrorCode.INVALID_TIMESTAMP,
            f"timestamp {header.max_timestamp} lies more than {self._after_max_ms} ms "
            "ahead of the broker's clock",
        )

    def _larger_than_a_segment(self, header: BatchHeader) -> AppendRejected:
        return AppendRejected(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"the batch has {header.size_bytes} bytes, more than a segment ({self.segment_bytes})",
        )

    def _inspection(self, batch: DecompressedBatch, now_ms: int) -> Iterator[None]:
        """Checks the records, and yields after every few thousand. Raises `AppendRejected` if some
        are invalid."""
        oldest_ms = now_ms - self._before_max_ms
        base_ms = batch.base_timestamp
        without_key: list[tuple[int, str]] = []
        too_old: list[tuple[int, str]] = []
        first = 0
        try:
            for summaries in batch.summaries(_MAX_RECORDS_ON_EVENT_LOOP):
                if self._is_compacted:
                    without_key += (
                        (number, _NEEDS_KEY)
                        for number, (_, has_key) in enumerate(summaries, first)
                        if not has_key
                    )
                if self._limits_age:
                    too_old += (
                        (number, f"timestamp {base_ms + delta_ms} is older than the topic allows")
                        for number, (delta_ms, _) in enumerate(summaries, first)
                        if -1 < base_ms + delta_ms < oldest_ms
                    )
                first += len(summaries)
                if len(without_key) >= _MAX_RECORD_ERRORS or len(too_old) >= _MAX_RECORD_ERRORS:
                    break
                yield
        except MalformedRecords as error:
            raise AppendRejected(ErrorCode.INVALID_RECORD, str(error)) from None
        for code, faults in (
            (ErrorCode.INVALID_RECORD, without_key),
            (ErrorCode.INVALID_TIMESTAMP, too_old),
        ):
            if faults:
                raise AppendRejected(code, faults[0][1], tuple(faults[:_MAX_RECORD_ERRORS]))

    def _recompressed(
        self, records: Buffer, codec: Codec, max_bytes: int
    ) -> tuple[Buffer, BatchHeader]:
        try:
            records = recompress(records, codec, self._level, max_bytes=max_bytes)
        except DecompressedBatchTooLarge as error:
            raise _decompressed_too_large(error, max_bytes, ErrorCode.CORRUPT_MESSAGE) from None
        except MalformedRecords as error:
            raise AppendRejected(ErrorCode.CORRUPT_MESSAGE, str(error)) from None
        size = len(records)
        if size > self._max_message_bytes:
            raise self._too_large(size)
        return records, read_header(records)


async def _with_head(head: bytes, records: Buffer) -> bytearray:
    """Copies a large batch with another header, a chunk at a time."""
    copy, view = bytearray(len(records)), memoryview(records)
    copy[:HEADER_SIZE] = head
    timeslice = Timeslice.of_running_loop()
    for start in range(HEADER_SIZE, len(view), STAGING_SIZES.chunk_bytes):
        if timeslice.is_over():
            await timeslice.next_turn()
        chunk = view[start : start + STAGING_SIZES.chunk_bytes]
        copy[start : start + len(chunk)] = chunk
    return copy


def _damaged() -> AppendRejected:
    return AppendRejected(ErrorCode.CORRUPT_MESSAGE, "the batch fails its checksum")


def _is_doubtful(header: BatchHeader) -> bool:
    """Returns whether a compressed batch declares more records than it has bytes. Few batches do,
    so it is decompressed and counted: the number moves the log end offset, and consumers could not
    pass records that do not exist."""
    return bool(header.attributes & CODEC_MASK) and header.record_count > header.batch_length


def _decompress(records: Buffer, max_bytes: int) -> DecompressedBatch:
    try:
        return decompress_batch(records, max_bytes=max_bytes, max_records=_MAX_RECORDS)
    except DecompressedBatchTooLarge as error:
        raise _decompressed_too_large(error, max_bytes, ErrorCode.INVALID_RECORD) from None
    except MalformedRecords as error:
        raise AppendRejected(ErrorCode.INVALID_RECORD, str(error)) from None


def _decompressed_too_large(
    error: DecompressedBatchTooLarge, max_bytes: int, code: ErrorCode
) -> Exception:
    """Returns the error for a batch that has more than `max_bytes`. Below the final limit the batch
    can still be appended, but not on the event loop."""
    return (
        CannotAppendAtOnce()
        if max_bytes < MAX_LOCKED_DECOMPRESSED_BYTES
        else AppendRejected(code, str(error))
    )


def check_from_leader(
    records: Buffer, log_end_offset: Offset, leader_epoch: LeaderEpoch
) -> list[tuple[int, BatchHeader]]:
    """Returns position and header of the batches that a leader sent. Raises `AppendRejected` if
    they are damaged or do not continue the log.

    A leader that lost its leadership while it answered may send batches that it has copied from the
    next leader since. Batches of a later epoch than the one that was asked are refused. A last
    batch that is incomplete, as Kafka's leaders send them, is left out.
    """
    batches: list[tuple[int, BatchHeader]] = []
    position, expected = 0, log_end_offset
    try:
        while len(records) - position >= LENGTH_OVERHEAD:
            length = int.from_bytes(records[position + 8 : position + LENGTH_OVERHEAD], "big")
            if position + length + LENGTH_OVERHEAD > len(records):
                break
            header = read_header(records, position)
            if not crc_is_valid(records, position, header):
                raise AppendRejected(
                    ErrorCode.CORRUPT_MESSAGE, f"the batch at {header.base_offset} is damaged"
                )
            if header.leader_epoch > leader_epoch:
                raise AppendRejected(
                    ErrorCode.FENCED_LEADER_EPOCH,
                    f"the leader of epoch {leader_epoch} sent a batch of epoch "
                    f"{header.leader_epoch}",
                )
            if header.base_offset < expected:
                raise AppendRejected(
                    ErrorCode.OFFSET_OUT_OF_RANGE,
                    f"the leader sent offset {header.base_offset}, expected {expected}",
                )
            batches.append((position, header))
            expected = header.next_offset
            position += header.size_bytes
    except MalformedRecords as error:
        raise AppendRejected(ErrorCode.CORRUPT_MESSAGE, str(error)) from None
    if not batches:
        raise AppendRejected(ErrorCode.CORRUPT_MESSAGE, "the leader sent no whole batch")
    return batches


def _level(settings: TopicSettings, codec: Codec | None) -> int | None:
    if codec is Codec.GZIP:
        return settings.compression_gzip_level if settings.compression_gzip_level >= 0 else None
    if codec is Codec.LZ4:
        return settings.compression_lz4_level
    if codec is Codec.ZSTD:
        return settings.compression_zstd_level
    return None


def _wrong_length(size: int, given: int) -> AppendRejected:
    if size < given:
        return AppendRejected(
            ErrorCode.INVALID_RECORD, "a partition takes one batch in a request, here are more"
        )
    return AppendRejected(ErrorCode.CORRUPT_MESSAGE, f"the batch lacks {size - given} bytes")


def _inconsistent(header: BatchHeader) -> AppendRejected:
    if header.base_offset:
        reason = f"the base offset of a produced batch is 0, not {header.base_offset}"
    elif header.is_control:
        reason = "clients may not write control records"
    elif header.is_log_append_time:
        reason = "a producer may not set the timestamp type to LogAppendTime"
        return AppendRejected(ErrorCode.INVALID_TIMESTAMP, reason)
    elif header.attributes & CODEC_MASK > Codec.ZSTD:
        reason = f"there is no compression codec {header.attributes & CODEC_MASK}"
        return AppendRejected(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, reason)
    elif header.producer_id >= 0 and header.base_sequence < 0:
        reason = f"sequence {header.base_sequence} of producer {header.producer_id} is negative"
    else:
        reason = (
            f"the batch spans {counted(header.last_offset_delta + 1, 'offset')} "
            f"and declares {counted(header.record_count, 'record')}"
        )
    return AppendRejected(ErrorCode.INVALID_RECORD, reason)
