"""Compares the producer id and epoch of a request with those of its transaction.

`TransactionMachine` asks before it decides: whether the producer is current, fenced, or repeats a
request whose reply it may have missed.
"""

from enum import Enum
from typing import Final

from odradek.protocol.errors import ErrorCode
from odradek.protocol.types import ProducerEpoch, ProducerId
from odradek.transactions.commands import EndTransaction, InitProducer, ProducerIdResult
from odradek.transactions.transaction import (
    LAST_EPOCH,
    NO_EPOCH,
    NO_PRODUCER,
    PREPARED,
    Status,
    Transaction,
)

_COMMITTED: Final = frozenset({Status.PREPARE_COMMIT, Status.COMPLETE_COMMIT})


class Claim(Enum):
    """What the identity in an InitProducerId says about the producer that sent it."""

    ANOTHER = "it sent no identity: it is another producer, and fences the current one"
    HOLDER = "it has the current identity"
    REPEATED = "it had the identity before, and possibly did not receive the current one"
    FENCED = "it lost its identity to another producer"


def claim_of(current: Transaction, command: InitProducer) -> Claim:
    producer_id, epoch = command.producer_id, command.producer_epoch
    if producer_id == NO_PRODUCER:
        return Claim.ANOTHER
    if (producer_id, epoch) in (current.identity, current.next_identity):
        return Claim.HOLDER
    is_rotated = current.previous_producer_id == producer_id and current.producer_epoch == 0
    held_id = producer_id == current.producer_id or (is_rotated and epoch >= LAST_EPOCH - 1)
    if held_id and epoch == current.last_producer_epoch != NO_EPOCH:
        return Claim.REPEATED
    return Claim.FENCED


def check_identity(
    current: Transaction | None, producer_id: ProducerId, producer_epoch: ProducerEpoch
) -> ErrorCode:
    """Returns whether the identity is the current one. For a prepared transaction it may also be
    the one that the producer was told to continue with. If that is a new producer id, the
    transaction gets it only when the markers, which carry the old one, are written."""
    if current is not None and (producer_id, producer_epoch) == current.next_identity:
        return ErrorCode.NONE
    if current is None or current.producer_id != producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if current.producer_epoch != producer_epoch:
        return ErrorCode.PRODUCER_FENCED
    return ErrorCode.NONE


def check_end(current: Transaction, command: EndTransaction) -> ErrorCode:
    """Checks an EndTxn of version 2 that is not repeated."""
    error = check_identity(current, command.producer_id, command.producer_epoch)
    if error is not ErrorCode.NONE:
        return error
    if current.status in PREPARED:
        # The producer continues already, while the markers are being written.
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if current.status is not Status.ONGOING and command.committed:
        return ErrorCode.INVALID_TXN_STATE
    if current.is_exhausted and command.fresh_producer_id == NO_PRODUCER:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return ErrorCode.NONE


def repeats_end(current: Transaction, command: EndTransaction) -> bool:
    """Returns whether the end of a transaction bumped the epoch by one from that of the request:
    then the request may be a repetition. Where the epoch was bumped to fence its producer, it was
    bumped by two (`Transaction.fenced`), or reached the last one without a new producer id."""
    if not current.has_bumped_epoch:
        return False
    if current.producer_id == command.producer_id:
        was_fenced = (
            current.producer_epoch == LAST_EPOCH and current.next_producer_id == NO_PRODUCER
        )
        return current.producer_epoch == command.producer_epoch + 1 and not was_fenced
    return (
        current.previous_producer_id == command.producer_id
        and command.producer_epoch == LAST_EPOCH - 1
        and current.producer_epoch == 0
    )


def repeated_reply(current: Transaction, command: EndTransaction) -> ProducerIdResult:
    """Returns the reply to an EndTxn whose transaction is prepared or complete."""
    has_same_result = current.status is not Status.EMPTY and command.committed == (
        current.status in _COMMITTED
    )
    if not has_same_result:
        return ProducerIdResult(ErrorCode.INVALID_TXN_STATE)
    if current.status in PREPARED:
        return ProducerIdResult(ErrorCode.CONCURRENT_TRANSACTIONS)
    if current.producer_epoch == LAST_EPOCH:
        # The producer has to start again, with another producer id.
        return ProducerIdResult(ErrorCode.PRODUCER_FENCED)
    return ProducerIdResult(ErrorCode.NONE, *current.next_identity)
