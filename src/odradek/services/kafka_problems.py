"""Errors of Kafka as HTTP statuses and Confluent's error codes.

The broker's own words are passed on; they name resources that the caller asked for, and never a
secret. An error that is not Kafka's is none of this module's business: the guards answer 500.
"""

from typing import Final

from odradek.client.errors import (
    AuthenticationFailed,
    BrokerUnreachable,
    ClientError,
    RecordTooLarge,
    SettingsError,
    TimedOut,
    UnsupportedVersion,
)
from odradek.protocol.errors import (
    AuthenticationError,
    AuthorizationError,
    ErrorCode,
    InvalidRequestError,
    KafkaError,
    RetriableError,
    UnknownTopic,
)
from odradek.web.problems import Problem

BAD_REQUEST: Final = 40002
UNAUTHENTICATED: Final = 40101
FORBIDDEN: Final = 40301
TOPIC_NOT_FOUND: Final = 40401
PARTITION_NOT_FOUND: Final = 40402
UNKNOWN_TOPIC_OR_PARTITION: Final = 40403
KAFKA_ERROR: Final = 50002
RETRIABLE: Final = 50003
BROKER_AWAY: Final = 50302

_ABOUT_THE_REQUEST: Final = frozenset(
    {
        ErrorCode.TOPIC_ALREADY_EXISTS,
        ErrorCode.SECURITY_DISABLED,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        ErrorCode.INVALID_RECORD,
        ErrorCode.INVALID_TIMESTAMP,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.OFFSET_OUT_OF_RANGE,
        ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
        ErrorCode.OFFSET_METADATA_TOO_LARGE,
        ErrorCode.INVALID_SESSION_TIMEOUT,
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        ErrorCode.NON_EMPTY_GROUP,
        ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
        ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
        ErrorCode.UNKNOWN_SERVER_ERROR,
        ErrorCode.GROUP_ID_NOT_FOUND,
    }
)


# Status and code of each kind of error; the first that fits counts.
_KINDS: Final[tuple[tuple[type[Exception], int, int], ...]] = (
    (AuthenticationError, 401, UNAUTHENTICATED),
    (AuthorizationError, 403, FORBIDDEN),
    (UnknownTopic, 404, UNKNOWN_TOPIC_OR_PARTITION),
    (InvalidRequestError, 400, BAD_REQUEST),
    (RetriableError, 500, RETRIABLE),
    (KafkaError, 500, KAFKA_ERROR),
    (AuthenticationFailed, 401, UNAUTHENTICATED),
    (SettingsError, 400, BAD_REQUEST),
    (RecordTooLarge, 400, BAD_REQUEST),
    (UnsupportedVersion, 400, BAD_REQUEST),
    (BrokerUnreachable, 503, BROKER_AWAY),
    (TimedOut, 500, RETRIABLE),
    (ClientError, 500, KAFKA_ERROR),
)


def explain(error: Exception) -> Problem | None:
    """Returns what the caller is told of an error of Kafka, or None if it is another error."""
    words = error.message if isinstance(error, KafkaError) else str(error)
    if isinstance(error, KafkaError) and error.code in _ABOUT_THE_REQUEST:
        return Problem(400, words, code=BAD_REQUEST)
    if isinstance(error, AuthenticationFailed):
        # It names the brokers' addresses, which are no business of who is not let in.
        words = "the brokers refused the log-in"
    for kind, status, code in _KINDS:
        if isinstance(error, kind):
            return Problem(status, words, code=code)
    return None
