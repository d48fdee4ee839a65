"""The log line about a request that the transaction coordinator refused.

A client gets only an error code, and librdkafka takes most of them for fatal. The line names the
connection of the request and the last steps of the transaction with their connections. That shows,
for instance, an EndTxn that arrived late, by a connection that its client had given up: it is the
one step by an older connection.
"""

from typing import Final

from odradek.protocol.errors import ErrorCode
from odradek.statemachine.machine import LogLine
from odradek.transactions.commands import (
    Added,
    AddPartitions,
    ClientCommand,
    EndTransaction,
    InitProducer,
    ProducerIdResult,
)
from odradek.transactions.transaction import StepHistory, Transaction

LOGGER: Final = "odradek.transactions"

# Clients retry after these.
_NOT_REFUSALS: Final = frozenset(
    {ErrorCode.NONE, ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.COORDINATOR_NOT_AVAILABLE}
)


def refusal_line(
    command: ClientCommand, response: object, current: Transaction | None
) -> LogLine | None:
    """Returns the line if `response` refuses the command; `current` is the transaction's state."""
    if not isinstance(response, ProducerIdResult | Added):
        return None
    reason = response.error.name
    if isinstance(response, Added) and response.missing:
        missing = ", ".join(f"{topic}-{index}" for topic, index in sorted(response.missing))
        reason = f"not in the transaction: {missing}"
    elif response.error in _NOT_REFUSALS:
        return None
    return LogLine(
        LOGGER,
        "transaction %s: refused %s of producer %d, epoch %d, by %s: %s; its last steps: %s",
        (
            command.transactional_id,
            _request_of(command),
            command.producer_id,
            command.producer_epoch,
            command.client_address or "this broker",
            reason,
            StepHistory(()) if current is None else current.history,
        ),
        is_limited=True,
    )


def _request_of(command: ClientCommand) -> str:
    if isinstance(command, InitProducer):
        return "InitProducerId"
    if isinstance(command, EndTransaction):
        return f"EndTxn ({'commit' if command.committed else 'abort'})"
    assert isinstance(command, AddPartitions)
    return "a write" if command.verify_only else "AddPartitionsToTxn"
