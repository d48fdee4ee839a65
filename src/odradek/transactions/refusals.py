"""Says in the log which requests the coordinator refused, and what the transaction was by then.

The machine calls it for every command that wrote nothing. The client hears an error code alone, and
librdkafka takes most of them for fatal. The line names the connection of the request and those of
the last steps before it: an EndTxn that came late, through a connection that its client had given
up, is the one step by an older connection.
"""

import logging
from typing import Final

from odradek.protocol.errors import ErrorCode
from odradek.transactions.commands import (
    Added,
    AddPartitions,
    Command,
    EndTransaction,
    Examine,
    Identity,
    InitProducer,
    MarkersWritten,
)
from odradek.transactions.transaction import Transaction

logger = logging.getLogger("odradek.transactions")

# Clients ask again when they hear these.
_NO_REFUSALS: Final = frozenset(
    {ErrorCode.NONE, ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.COORDINATOR_NOT_AVAILABLE}
)


def asker_of(command: Command) -> str:
    """The address of the connection a command came by; empty if this broker asks itself."""
    if isinstance(command, MarkersWritten | Examine):
        return ""
    return command.asked_by


def tell_refusal(command: Command, response: object, current: Transaction | None) -> None:
    """Logs the command if `response` refuses it; `current` is the transaction that it met."""
    if isinstance(command, MarkersWritten | Examine):
        return
    if not isinstance(response, Identity | Added):
        return
    reason = response.error.name
    if isinstance(response, Added) and response.missing:
        missing = ", ".join(f"{topic}-{index}" for topic, index in sorted(response.missing))
        reason = f"not in the transaction: {missing}"
    elif response.error in _NO_REFUSALS:
        return
    logger.info(
        "transaction %s: refused %s of producer %d, epoch %d, by %s: %s; its story: %s",
        command.transactional_id,
        _request_of(command),
        command.producer_id,
        command.producer_epoch,
        command.asked_by or "this broker",
        reason,
        "none" if current is None else current.told,
    )


def _request_of(command: InitProducer | AddPartitions | EndTransaction) -> str:
    if isinstance(command, InitProducer):
        return "InitProducerId"
    if isinstance(command, EndTransaction):
        return f"EndTxn ({'commit' if command.committed else 'abort'})"
    return "a write" if command.verify_only else "AddPartitionsToTxn"
