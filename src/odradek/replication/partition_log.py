"""A partition as the `ReplicatedLog` of a coordinator's state machine."""

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Final

from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.records import (
    BatchBuilder,
    BatchHeader,
    ControlType,
    MalformedRecords,
    Record,
    decode_control_type,
    decode_records,
    split_batches,
)
from odradek.protocol.types import Offset
from odradek.replication.partition import Partition
from odradek.statemachine.machine import LogRecord, Marker, ProducerIdentity, Written
from odradek.statemachine.runner import NotWritten
from odradek.storage import CorruptLog
from odradek.world.timeslice import Timeslice

_REPLAY_BYTES: Final = 1024 * 1024
# How many records are held back at most, in case later ones replace them.
_MAX_HELD: Final = 20_000
# How many records are decoded into objects at a time.
_PART: Final = 500


class PartitionLog:
    """A `ReplicatedLog` for as long as this broker leads the partition in one leader epoch.

    `is_leased` says whether the broker may assume that it still leads (`Replicas.is_leased`). While
    it may not, nothing is appended and `refusal` returns an error, so no client is answered. The
    log stays usable: if the session with the metadata store turns out to be alive, no other broker
    has led.
    """

    def __init__(self, partition: Partition, is_leased: Callable[[], bool]) -> None:
        self._partition = partition
        self._is_leased = is_leased
        self.leader_epoch = partition.leader_epoch

    def refusal(self) -> Exception | None:
        """Returns why no client may be answered now; None if clients may be. A broker that resigned
        from the partition never answers from memory, with or without a lease."""
        if not self._is_led():
            return ApiError(ErrorCode.NOT_COORDINATOR)
        return None if self._is_leased() else unleased()

    @property
    def committed_offset(self) -> Offset:
        return self._partition.high_watermark.value

    @property
    def end_offset(self) -> Offset:
        return self._partition.log.log_end_offset

    def append(
        self, records: Sequence[LogRecord], producer: ProducerIdentity | None, timestamp_ms: int
    ) -> Offset:
        self._require_leadership()
        if not self._is_leased():
            raise NotWritten(unleased())
        try:
            self._partition.check_in_sync()
        except ApiError as error:
            reason = ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, error.message)
            raise NotWritten(reason) from error
        builder = BatchBuilder()
        for key, value in records:
            builder.append(key, value, (), timestamp_ms)
        batch = (
            builder.build()
            if producer is None
            else builder.build(
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                is_transactional=True,
            )
        )
        try:
            return self._partition.append_as_coordinator(batch).base_offset
        except ApiError as error:
            if self._partition.log.is_usable:
                # The disk is full: nothing was written, and the state in memory is still right.
                reason = ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, error.message)
                raise NotWritten(reason) from error
            raise _lost(error) from error

    async def wait_until_committed(self, offset: Offset) -> None:
        while True:
            self._require_leadership()
            try:
                await self._partition.high_watermark.wait_for(offset)
                return
            except ApiError as error:
                if self._is_leased():
                    raise _lost(error) from error
                # Every waiter fails when the lease is lost (`Replicas.fail_waiters`), but the state
                # in memory is kept: it is right if the broker finds that it still leads.

    async def replay(self, end_offset: Offset) -> AsyncIterator[Sequence[Written | Marker]]:
        """Skips records that a later record of the same key replaces, as compaction would, so that
        most records of a busy group are never decoded into objects. Records of transactions are
        not skipped."""
        log = self._partition.log
        newest: _Newest = {}
        offset = log.log_start_offset
        timeslice = Timeslice.of_running_loop()
        while offset < end_offset:
            # Fifty logs may be loaded at once: a megabyte of each in one turn of the event loop
            # would delay all requests.
            if end_offset - offset > _PART and timeslice.is_over():
                await timeslice.next_turn()
            records = self._read(offset, end_offset)
            if records is None:
                break
            buffer, file_position = records
            try:
                for position, header in split_batches(buffer):
                    if timeslice.is_over():
                        await timeslice.next_turn()
                    offset = header.next_offset
                    is_plain = not header.is_control and not header.is_transactional
                    if is_plain:
                        _hold(newest, decode_records(buffer, position))
                    if not is_plain or len(newest) >= _MAX_HELD:
                        for entries in _let_go(newest):
                            yield entries
                    if not is_plain:
                        yield _in_transaction(buffer, position, header)
            except MalformedRecords as error:
                raise CorruptLog(log.path, file_position, str(error)) from error
        for entries in _let_go(newest):
            yield entries

    def _read(self, offset: Offset, end_offset: Offset) -> tuple[bytes, int] | None:
        """Returns whole batches from this offset on, and their position in the segment file."""
        self._require_leadership()
        log = self._partition.log
        records = log.read(offset, _REPLAY_BYTES, end_offset=end_offset)
        if records is None:
            return None
        try:
            return records.read(0, len(records)), records.position
        except OSError as error:
            raise log.directory.fail(error) from error
        finally:
            records.release()

    def _is_led(self) -> bool:
        partition = self._partition
        return partition.is_leader and partition.leader_epoch == self.leader_epoch

    def _require_leadership(self) -> None:
        if not self._is_led():
            raise ApiError(ErrorCode.NOT_COORDINATOR)


def unleased() -> ApiError:
    """The answer of a coordinator whose broker may have lost its leadership without knowing."""
    return ApiError(
        ErrorCode.NOT_COORDINATOR,
        "This broker lost touch with its cluster; another one may be the coordinator by now.",
    )


def _lost(error: ApiError) -> ApiError:
    """Tells clients to look for another coordinator."""
    return ApiError(ErrorCode.NOT_COORDINATOR, error.message)


_Newest = dict[bytes, tuple[bytes | None, Offset]]
"""The latest value of each key and the offset of its record, in the order of the offsets."""


def _hold(newest: _Newest, records: Iterable[Record]) -> None:
    for record in records:
        key = record.key
        if key is not None:
            newest.pop(key, None)  # Keeps the order of the offsets.
            newest[key] = record.value, record.offset


def _let_go(newest: _Newest) -> Iterator[list[Written]]:
    """Yields the records that were held back, some at a time, and clears `newest`."""
    records = iter(newest.items())
    while part := list(islice(records, _PART)):
        yield [Written(LogRecord(key, value), offset) for key, (value, offset) in part]
    newest.clear()


def _in_transaction(buffer: bytes, position: int, header: BatchHeader) -> list[Written | Marker]:
    """Returns the records or the marker of a batch that belongs to a transaction."""
    identity = ProducerIdentity(header.producer_id, header.producer_epoch)
    records = decode_records(buffer, position)
    if header.is_control:
        return [
            Marker(identity, committed=kind is ControlType.COMMIT)
            for record in records
            if (kind := decode_control_type(record)) in (ControlType.COMMIT, ControlType.ABORT)
        ]
    return [
        Written(LogRecord(record.key, record.value), record.offset, identity)
        for record in records
        if record.key is not None
    ]
