"""What the transaction coordinator is asked, and what it answers."""

from typing import NamedTuple

from odradek.protocol.errors import ErrorCode
from odradek.protocol.types import TopicPartition


class InitProducer(NamedTuple):
    """A producer starts. It names the identity it had, if it knows one (KIP-360)."""

    transactional_id: str
    timeout_ms: int
    # For a new transactional id, or one whose epochs are used up.
    fresh_producer_id: int
    producer_id: int = -1
    producer_epoch: int = -1
    # Here and below the address of the connection it came by, for the log: a request that comes
    # late comes by an old connection.
    asked_by: str = ""


class AddPartitions(NamedTuple):
    """Records will be written there: a marker will have to follow."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: frozenset[TopicPartition]
    client_version: int = 0
    # Only ask whether they were added.
    verify_only: bool = False
    asked_by: str = ""


class EndTransaction(NamedTuple):
    transactional_id: str
    producer_id: int
    producer_epoch: int
    committed: bool
    client_version: int = 0
    fresh_producer_id: int = -1
    # False while the newest record about the id is not committed, so that its producer has not
    # been told of it.
    on_committed: bool = True
    asked_by: str = ""


class MarkersWritten(NamedTuple):
    """Every partition of a decided transaction has its marker."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


class Examine(NamedTuple):
    """The committed state of one transactional id."""

    transactional_id: str


Command = InitProducer | AddPartitions | EndTransaction | MarkersWritten | Examine


class Identity(NamedTuple):
    """The answer to `InitProducer` and `EndTransaction`: what the producer goes on with."""

    error: ErrorCode
    producer_id: int = -1
    producer_epoch: int = -1


class Added(NamedTuple):
    """The answer to `AddPartitions`. `missing` were asked for and are not in the transaction."""

    error: ErrorCode
    missing: frozenset[TopicPartition] = frozenset()
