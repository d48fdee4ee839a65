"""The commands of the transaction coordinator's machine, and their replies.

`client_address` is the address of the connection that a command came by, for the log: a delayed
request arrives by an old connection. It is empty if this broker itself asks.
"""

from typing import NamedTuple

from odradek.protocol.batch_header import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from odradek.protocol.errors import ErrorCode
from odradek.protocol.types import ProducerEpoch, ProducerId, TopicPartition
from odradek.statemachine.machine import Command, R, command_class
from odradek.transactions.transaction import Transaction


class TransactionCommand(Command[R]):
    """A command about one transactional id; its reply depends on that id alone."""

    __slots__ = ()

    transactional_id: str


class ProducerIdResult(NamedTuple):
    """The producer id and epoch that the producer continues with."""

    error: ErrorCode
    producer_id: ProducerId = NO_PRODUCER_ID
    producer_epoch: ProducerEpoch = NO_PRODUCER_EPOCH


class Added(NamedTuple):
    """`missing` are the partitions of the command that are not in the transaction."""

    error: ErrorCode
    missing: frozenset[TopicPartition] = frozenset()


@command_class
class InitProducer(TransactionCommand[ProducerIdResult]):
    """A producer starts. It sends the identity that it had, if it had one (KIP-360)."""

    transactional_id: str
    timeout_ms: int
    # Used for a new transactional id, or one whose epochs are exhausted.
    fresh_producer_id: ProducerId
    producer_id: ProducerId = NO_PRODUCER_ID
    producer_epoch: ProducerEpoch = NO_PRODUCER_EPOCH
    client_address: str = ""


@command_class
class AddPartitions(TransactionCommand[Added]):
    """The producer will write to the partitions, so that each of them will need a marker."""

    transactional_id: str
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    partitions: frozenset[TopicPartition]
    client_transaction_version: int = 0
    # Adds nothing; the reply says which partitions are in the transaction (KIP-890).
    verify_only: bool = False
    client_address: str = ""


@command_class
class EndTransaction(TransactionCommand[ProducerIdResult]):
    transactional_id: str
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    committed: bool
    client_transaction_version: int = 0
    fresh_producer_id: ProducerId = NO_PRODUCER_ID
    client_address: str = ""


@command_class
class MarkersWritten(TransactionCommand[ErrorCode]):
    """Every partition of a prepared transaction has its marker."""

    transactional_id: str
    producer_id: ProducerId
    producer_epoch: ProducerEpoch


@command_class
class DescribeTransaction(TransactionCommand[Transaction | None]):
    """The reply is the state of a transactional id, or None if the id is unknown."""

    transactional_id: str


ClientCommand = InitProducer | AddPartitions | EndTransaction
