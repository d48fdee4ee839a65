"""The result of an append to a partition, and the marker that ends a transaction."""

from typing import TYPE_CHECKING, NamedTuple

from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.records import (
    ControlType,
    EndTransactionMarker,
    encode_end_transaction_marker,
)
from odradek.protocol.types import Offset
from odradek.statemachine.machine import ProducerIdentity
from odradek.statemachine.watermark import Watermark
from odradek.storage import StorageError

if TYPE_CHECKING:
    from odradek.replication.partition import Partition


class PendingAppend(NamedTuple):
    """A batch that is in the log. It is acknowledged when `watermark` reaches `end_offset`.

    With acks=all, `recheck_isr_in` is the partition whose ISR is checked again at that time: it
    must still have at least `min.insync.replicas` members.
    """

    base_offset: Offset
    end_offset: Offset
    append_time_ms: int
    log_start_offset: Offset
    watermark: Watermark
    recheck_isr_in: "Partition | None" = None

    @property
    def is_acknowledged(self) -> bool:
        return self.watermark.value >= self.end_offset

    async def acknowledged(self) -> None:
        """Waits until the batch is acknowledged. Raises `ApiError` if it never will be."""
        try:
            await self.watermark.wait_for(self.end_offset)
        except StorageError as error:
            raise ApiError(error.code, str(error)) from error
        if self.recheck_isr_in is not None:
            self.recheck_isr_in.check_in_sync(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)


class TransactionMarker(NamedTuple):
    """The end of a producer's transaction, as the transaction coordinator decided it.

    `is_bumped` says that the producer epoch is one above that of the transaction's records
    (KIP-890).
    """

    producer: ProducerIdentity
    committed: bool
    coordinator_epoch: int
    is_bumped: bool

    def encode(self, now_ms: int) -> bytes:
        """Returns the control batch that ends the transaction in a log."""
        kind = ControlType.COMMIT if self.committed else ControlType.ABORT
        return encode_end_transaction_marker(
            EndTransactionMarker(kind, self.coordinator_epoch),
            producer_id=self.producer.producer_id,
            producer_epoch=self.producer.producer_epoch,
            timestamp_ms=now_ms,
        )
