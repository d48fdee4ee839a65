"""The replica of one partition on this broker.

Offsets, by their guarantee, always in this order:

    log start         the first offset that can still be read
    last stable       below it every transaction is decided; read_committed reads up to here
    high watermark    below it every record survives the loss of the leader; others read up to here
    log end           the offset of the next record

A lone replica is all the in-sync replicas there are, so its high watermark follows its own
log: the log's end, or what is flushed where `flush.messages=1` asks for it.
"""

import asyncio
from collections.abc import Sequence
from typing import Final, NamedTuple

from odradek.protocol.errors import ErrorCode
from odradek.protocol.records import (
    ControlType,
    EndTransactionMarker,
    encode_end_transaction_marker,
)
from odradek.protocol.types import LeaderEpoch, Offset, TopicId, TopicPartition
from odradek.replication.refusal import Refused
from odradek.statemachine.machine import ProducerIdentity
from odradek.statemachine.watermark import Watermark
from odradek.storage import (
    AppendRejected,
    AppendResult,
    Log,
    OffsetOutOfRange,
    Slice,
    StorageError,
    TimestampOffset,
)
from odradek.storage.aborted import AbortedTransaction
from odradek.storage.producer_state import Membership, TransactionNotOpen
from odradek.world.disk import Buffer

INTERNAL_TOPICS: Final = frozenset({"__consumer_offsets", "__transaction_state"})
"""The memory of coordinators: clients read them, brokers alone write."""

_ACKS_ALL: Final = -1
_NO_EPOCH: Final = -1


class Appended(NamedTuple):
    """A batch that is in the log, and the watermark that acknowledges it."""

    base_offset: int
    end_offset: int
    append_time_ms: int
    log_start_offset: int
    watermark: Watermark

    @property
    def is_acknowledged(self) -> bool:
        return self.watermark.value >= self.end_offset

    async def acknowledged(self) -> None:
        try:
            await self.watermark.reached(self.end_offset)
        except StorageError as error:
            raise Refused(error.code, str(error)) from error


class TransactionMarker(NamedTuple):
    """The end of a producer's transaction, as the coordinator decided it.

    `is_bumped` says that the epoch is one above that of the records it ends (KIP-890).
    """

    producer: ProducerIdentity
    committed: bool
    coordinator_epoch: int
    is_bumped: bool


class EndOfEpoch(NamedTuple):
    leader_epoch: int
    offset: int


class Partition:
    """Invariant: log start <= high watermark <= log end, and the high watermark only rises."""

    __slots__ = (
        "_flush_follower",
        "_is_internal",
        "_last_stable",
        "high_watermark",
        "in_sync_replicas",
        "is_leader",
        "leader_epoch",
        "log",
        "replicas",
        "topic_id",
        "topic_partition",
    )

    def __init__(self, topic_partition: TopicPartition, topic_id: TopicId, log: Log) -> None:
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.log = log
        self.is_leader = False
        self._is_internal = topic_partition.topic in INTERNAL_TOPICS
        self.leader_epoch = LeaderEpoch(_NO_EPOCH)
        self.replicas = 0
        self.in_sync_replicas = 0
        self.high_watermark = Watermark(log.log_start_offset)
        # Made with the first transaction: until then it is the high watermark.
        self._last_stable: Watermark | None = None
        self._flush_follower: asyncio.Task[None] | None = None

    # Leadership

    def lead(self, leader_epoch: LeaderEpoch, in_sync_replicas: int, replicas: int) -> None:
        """Becomes the leader of this epoch. What the log holds at that moment is committed."""
        self.in_sync_replicas = in_sync_replicas
        self.replicas = replicas
        if self.is_leader and leader_epoch == self.leader_epoch:
            return
        self.is_leader = True
        self.leader_epoch = leader_epoch
        self.log.leader_epochs.assign(leader_epoch, self.log.log_end_offset)
        self._watch_transactions()
        self._raise_high_watermark(self.log.log_end_offset)

    def resign(self, reason: Refused) -> None:
        """Serves nobody any more; everyone who waits is told so at once."""
        self.is_leader = False
        self.high_watermark.fail(reason)
        if self._last_stable is not None:
            self._last_stable.fail(reason)
        if self._flush_follower is not None:
            self._flush_follower.cancel()

    def check_epoch(self, believed: int) -> None:
        """Refuses a client whose idea of the leader epoch is older or newer than ours."""
        if believed in (_NO_EPOCH, self.leader_epoch):
            return
        older = believed < self.leader_epoch
        raise Refused(
            ErrorCode.FENCED_LEADER_EPOCH if older else ErrorCode.UNKNOWN_LEADER_EPOCH,
            f"The leader epoch is {self.leader_epoch}, not {believed}.",
        )

    # Writing

    def _check_in_sync(self) -> None:
        """Like Kafka since 4.0, asks for no more replicas than the partition has."""
        wanted = min(self.log.settings.min_insync_replicas, self.replicas)
        if self.in_sync_replicas < wanted:
            raise Refused(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"{self.in_sync_replicas} replicas are in sync, "
                f"min.insync.replicas asks for {wanted}.",
            )

    def append(self, records: Buffer, acks: int, membership: Membership | None = None) -> Appended:
        """Writes a batch. `acks` decides which watermark acknowledges it.

        Raises `TransactionNotOpen` if the coordinator must be asked first.
        """
        if self._is_internal:
            raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, "Clients cannot write to this topic.")
        if acks == _ACKS_ALL:
            self._check_in_sync()
        try:
            result = self.log.append(records, leader_epoch=self.leader_epoch, membership=membership)
        except TransactionNotOpen:
            raise
        except AppendRejected as error:
            raise Refused(error.code, error.message, error.record_errors) from error
        except StorageError as error:
            raise Refused(error.code, str(error)) from error
        return self._appended(result)

    def append_as_coordinator(self, records: Buffer) -> Appended:
        """Writes a batch that this broker made itself."""
        try:
            result = self.log.append(records, leader_epoch=self.leader_epoch, by_coordinator=True)
        except StorageError as error:
            raise Refused(error.code, str(error)) from error
        return self._appended(result)

    def append_marker(self, marker: TransactionMarker, now_ms: int) -> Appended | None:
        """Ends a producer's transaction here; None if that was done already."""
        producer_id, producer_epoch = marker.producer
        try:
            if not self.log.producers.check_marker(
                producer_id,
                producer_epoch,
                marker.coordinator_epoch,
                is_bumped=marker.is_bumped,
            ):
                return None
        except StorageError as error:
            raise Refused(error.code, str(error)) from error
        kind = ControlType.COMMIT if marker.committed else ControlType.ABORT
        batch = encode_end_transaction_marker(
            EndTransactionMarker(kind, marker.coordinator_epoch),
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            timestamp_ms=now_ms,
        )
        return self.append_as_coordinator(batch)

    def _appended(self, result: AppendResult) -> Appended:
        log = self.log
        if self._last_stable is None and log.producers.ongoing:
            self._watch_transactions()
        if log.flushes_before_acknowledging:
            self._follow_flush()
        else:
            self._raise_high_watermark(log.log_end_offset)
        return Appended(
            result.base_offset,
            result.last_offset + 1,
            result.append_time_ms,
            result.log_start_offset,
            self.high_watermark,
        )

    def _raise_high_watermark(self, offset: int) -> None:
        self.high_watermark.advance(offset)
        self.log.high_watermark = self.high_watermark.value
        if self._last_stable is not None:
            self._last_stable.advance(self._decided_offset())

    def _watch_transactions(self) -> None:
        """From the first transaction on, the last stable offset goes its own way."""
        if self._last_stable is None and self.log.producers.has_undecided:
            self._last_stable = Watermark(self._decided_offset())

    def _decided_offset(self) -> int:
        """Never below the log's start: what DeleteRecords took need not be decided."""
        stable = self.log.producers.last_stable_offset(self.high_watermark.value)
        return max(stable, self.log.log_start_offset)

    def _follow_flush(self) -> None:
        if self._flush_follower is None or self._flush_follower.done():
            self._flush_follower = asyncio.get_running_loop().create_task(self._flush())

    async def _flush(self) -> None:
        """One task for all appends: each round makes durable whatever came during the last."""
        log = self.log
        try:
            while self.is_leader and self.high_watermark.value < log.log_end_offset:
                end = log.log_end_offset
                await log.flush_to(end)
                self._raise_high_watermark(end)
        except StorageError as error:
            self.high_watermark.fail(Refused(error.code, str(error)))

    def delete_records(self, upto: Offset | None) -> int:
        """Moves the log start up to an offset, or to the high watermark; returns where it is."""
        high_watermark = self.high_watermark.value
        offset = high_watermark if upto is None else upto
        if not 0 <= offset <= high_watermark:
            raise Refused(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"Records can be deleted up to {high_watermark}, not {offset}.",
            )
        try:
            self.log.advance_log_start(offset)
        except StorageError as error:
            raise Refused(error.code, str(error)) from error
        if self._last_stable is not None:
            self._last_stable.advance(self._decided_offset())
        return self.log.log_start_offset

    # Reading

    @property
    def last_stable(self) -> Watermark:
        """Without transactions everything committed is decided."""
        return self._last_stable or self.high_watermark

    def aborted_in(self, found: Slice, offset: int) -> Sequence[AbortedTransaction]:
        """The aborted transactions in what was read from `offset` on for committed records."""
        return self.log.aborted_in(found, offset, self.last_stable.value)

    def readable(self, committed_only: bool) -> Watermark:
        """How far a consumer may read, by its isolation level."""
        return self.last_stable if committed_only else self.high_watermark

    def read(
        self, offset: int, max_bytes: int, *, committed_only: bool, at_least_one: bool
    ) -> Slice | None:
        end_offset = self.readable(committed_only).value
        try:
            return self.log.read(offset, max_bytes, end_offset=end_offset, min_one=at_least_one)
        except OffsetOutOfRange as error:
            raise Refused(ErrorCode.OFFSET_OUT_OF_RANGE, str(error)) from error
        except StorageError as error:
            raise Refused(error.code, str(error)) from error

    def find_time(
        self, timestamp_ms: int | None, *, committed_only: bool
    ) -> TimestampOffset | None:
        """The first record not older than this, or the youngest of all; only readable ones."""
        try:
            found = (
                self.log.max_timestamp()
                if timestamp_ms is None
                else self.log.offset_for_timestamp(timestamp_ms)
            )
        except StorageError as error:
            raise Refused(error.code, str(error)) from error
        if found is None or found.offset >= self.readable(committed_only).value:
            return None
        return found

    def end_of_epoch(self, leader_epoch: int) -> EndOfEpoch:
        return EndOfEpoch(*self.log.offset_for_leader_epoch(leader_epoch))

    def diverging(self, last_fetched_epoch: int, fetch_offset: int) -> EndOfEpoch | None:
        """Where a reader's history parts from ours, if it does."""
        end = self.end_of_epoch(last_fetched_epoch)
        if end.offset < 0:
            raise Refused(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"Leader epoch {last_fetched_epoch} is not in the log.",
            )
        if end.leader_epoch < last_fetched_epoch or end.offset < fetch_offset:
            return end
        return None
