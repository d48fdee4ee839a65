"""The errors of the client itself. An error that a broker answers is `protocol.errors.KafkaError`.

    ClientError
    ├── SettingsError (ValueError)      a setting has a value it cannot have
    ├── BrokerUnreachable
    │   ├── ConnectionFailed            no connection could be made
    │   │   ├── NotABroker              something else than a broker listens at the address
    │   │   └── NoFirstAnswer           it accepted the connection, and then it answered nothing
    │   ├── ConnectionClosed            it closed before the response came
    │   └── NoBrokerAvailable           none of the known brokers could be reached
    ├── AuthenticationFailed            the log-in was refused: trying again does not help
    │   └── TlsFailed                   one side does not trust the other's certificate
    ├── TimedOut (TimeoutError)
    │   ├── RequestTimedOut             a broker did not answer in time
    │   ├── MetadataTimedOut            a topic's metadata did not arrive in time
    │   ├── BufferFull                  buffer.memory stayed full for max.block.ms
    │   └── DeliveryTimedOut            a record was not acknowledged within delivery.timeout.ms
    ├── UnsupportedVersion              we share no version of an API with the broker
    ├── BadResponse                     the bytes were not the response they should be
    ├── ClientClosed                    the client was closed, or is being closed
    ├── RecordTooLarge                  a record does not fit max.request.size or buffer.memory
    ├── OffsetError                     a consumer has no valid place to read from
    │   ├── NoOffset                    no position, and auto.offset.reset=none
    │   ├── OffsetOutOfRange            the position is outside the log, and the same
    │   └── LogTruncated                the log was cut below the position (unclean election)
    ├── GroupError                      a call needs a group, or the membership ended
    │   ├── NoGroup                     group.id is not set, or subscribe() was not called
    │   └── CommitFailed                the group gave the partitions to others
    ├── TransactionError                a transaction cannot go on
    │   ├── TransactionAborted          records were dropped, for their transaction was aborted
    │   ├── MustAbort                   it can only be aborted; then another may begin
    │   └── ProducerFenced              another producer has our transactional id: close this one
    ├── Wakeup                          wakeup() ended a poll()
    ├── CorruptRecords                  fetched records fail their checksum
    ├── SerializerUnavailable           a serializer could not reach what it needs, such as a schema
    │                                   registry: the same record may be sent later
    └── DeserializationFailed           a deserializer raised for a record
        └── DeserializerUnavailable     ... for it could not reach what it needs: poll() tries again

`is_retriable(error)` says whether the same call may succeed later.
"""

from odradek.config.values import InvalidValue
from odradek.protocol.errors import MalformedMessage, RetriableError
from odradek.protocol.types import TopicPartition


class ClientError(Exception):
    """An error of the client itself, not one that a broker answered."""


class SettingsError(ClientError, InvalidValue):
    """A setting has an invalid value."""


class BrokerUnreachable(ClientError, OSError):
    """A broker cannot be reached, or its connection was lost."""


class ConnectionFailed(BrokerUnreachable):
    """No connection could be made."""


class NotABroker(ConnectionFailed):
    """Something answers at the address, but not by Kafka's protocol."""


class NoFirstAnswer(ConnectionFailed):
    """Raised only for clients that give up soon; others go on waiting."""


class ConnectionClosed(BrokerUnreachable):
    """The connection closed before the response came; the request may have been carried out."""


class NoBrokerAvailable(BrokerUnreachable):
    """None of the known brokers could be reached; `reasons` has the error of each attempt."""

    reasons: tuple[BaseException, ...] = ()


class AuthenticationFailed(ClientError):
    """The broker refused the log-in, or proved not to be the right broker. It is not retried."""


class TlsFailed(AuthenticationFailed):
    """The TLS handshake failed: one side does not trust the certificate of the other."""


class TimedOut(ClientError, TimeoutError):
    """Something took longer than it was allowed to."""


class RequestTimedOut(TimedOut):
    """A broker did not answer in time; the request may have been carried out."""


class MetadataTimedOut(TimedOut):
    """A topic's metadata did not arrive in time."""


class BufferFull(TimedOut):
    """`buffer.memory` stayed full for `max.block.ms`."""


class DeliveryTimedOut(TimedOut):
    """A record was not acknowledged within `delivery.timeout.ms`; it may be in the log."""


class UnsupportedVersion(ClientError):
    """We share no version of an API with the broker."""


class BadResponse(ClientError):
    """The bytes that a broker sent are not a valid response."""


class ClientClosed(ClientError):
    """The client was closed, or is being closed."""


class RecordTooLarge(ClientError):
    """A record does not fit `max.request.size` or `buffer.memory`."""


class OffsetError(ClientError):
    """A consumer has no valid place to read from."""

    def __init__(self, message: str, partitions: list[TopicPartition]) -> None:
        super().__init__(message)
        self.partitions = partitions


class NoOffset(OffsetError):
    """There is no position, and `auto.offset.reset` is none."""


class OffsetOutOfRange(OffsetError):
    """The position lies outside the log, and `auto.offset.reset` is none."""


class LogTruncated(OffsetError):
    """The log was truncated below the position: records that were read are no longer in it."""


class GroupError(ClientError):
    """A call needs a group that is not there, or the membership has ended."""


class NoGroup(GroupError):
    """There is no `group.id`, or no subscription."""


class CommitFailed(GroupError):
    """The group has given the partitions to others: what was read since may be read twice."""


class TransactionError(ClientError):
    """A transaction cannot go on."""


class TransactionAborted(TransactionError):
    """The record was dropped, because its transaction was aborted."""


class MustAbort(TransactionError):
    """The transaction can only be aborted; then another may begin."""


class ProducerFenced(TransactionError):
    """Another producer has taken over the transactional id: this one must be closed."""


class Wakeup(ClientError):
    """`Consumer.wakeup` was called, usually to stop."""


class CorruptRecords(ClientError):
    """Fetched records fail their checksum or cannot be decoded."""


class DeserializationFailed(ClientError):
    """A deserializer raised for a record; `seek` past its offset to go on."""

    def __init__(self, message: str, partition: TopicPartition, offset: int) -> None:
        super().__init__(message)
        self.partition = partition
        self.offset = offset


class DeserializerUnavailable(DeserializationFailed):
    """A deserializer could not reach what it needs; the next `poll` reads the record again."""


class SerializerUnavailable(ClientError, OSError):
    """A serializer could not reach what it needs; nothing was sent."""


_RETRIABLE = (
    RetriableError,
    BrokerUnreachable,
    RequestTimedOut,
    MalformedMessage,
    SerializerUnavailable,
    DeserializerUnavailable,
)


def is_retriable(error: BaseException) -> bool:
    """Returns whether the same call may succeed later."""
    return isinstance(error, _RETRIABLE)
