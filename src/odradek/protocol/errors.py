"""The error codes of the protocol, and the exceptions that clients raise for them.

    MalformedMessage (ValueError)      bytes that are not the message they should be
    KafkaError                         a broker answered with an error code
    ├── RetriableError                 the same request may succeed later
    │   ├── StaleMetadataError         ... once metadata is fresh: the leader has moved
    │   ├── UnknownTopic               ... once somebody creates the topic, or its name is mended
    │   └── CoordinatorError           ... once the coordinator was looked up again
    ├── AuthenticationError            the client could not prove its identity
    ├── AuthorizationError             the client has no permission
    ├── FencedError                    a newer client with the same identity exists
    └── InvalidRequestError            the request is invalid and must not be retried

`error_for(code)` chooses the class. Servers use `ErrorCode` and `api_error.ApiError`.
"""

from enum import IntEnum
from typing import Final, Self

_RETRIABLE: Final = True


class MalformedMessage(ValueError):
    """Bytes that are not the message they should be. Decoders raise nothing else."""


class ErrorCode(IntEnum):
    """Every error code of Kafka 4.3, with an explanation and whether a retry may help."""

    message: str
    retriable: bool

    def __new__(cls, code: int, message: str = "", retriable: bool = False) -> Self:
        member = int.__new__(cls, code)
        member._value_ = code
        member.message = message
        member.retriable = retriable
        return member

    UNKNOWN_SERVER_ERROR = -1, "The broker met an error it did not expect."
    NONE = 0, "No error."
    OFFSET_OUT_OF_RANGE = 1, "The log holds no such offset."
    CORRUPT_MESSAGE = 2, "The records fail their checksum or are malformed.", _RETRIABLE
    UNKNOWN_TOPIC_OR_PARTITION = 3, "This broker has no such topic or partition.", _RETRIABLE
    INVALID_FETCH_SIZE = 4, "The fetch size is not valid."
    LEADER_NOT_AVAILABLE = 5, "The partition has no leader at the moment.", _RETRIABLE
    NOT_LEADER_OR_FOLLOWER = 6, "This broker does not lead the partition.", _RETRIABLE
    REQUEST_TIMED_OUT = 7, "The request was not completed in time.", _RETRIABLE
    BROKER_NOT_AVAILABLE = 8, "The broker is not available."
    REPLICA_NOT_AVAILABLE = 9, "This broker has no replica of the partition yet.", _RETRIABLE
    MESSAGE_TOO_LARGE = 10, "The record batch is larger than the topic allows."
    STALE_CONTROLLER_EPOCH = 11, "A newer controller has taken over."
    OFFSET_METADATA_TOO_LARGE = 12, "The text committed with the offset is too long."
    NETWORK_EXCEPTION = 13, "The connection was lost before the response came.", _RETRIABLE
    COORDINATOR_LOAD_IN_PROGRESS = 14, "The coordinator is loading its state.", _RETRIABLE
    COORDINATOR_NOT_AVAILABLE = 15, "There is no coordinator at the moment.", _RETRIABLE
    NOT_COORDINATOR = 16, "This broker is not the coordinator asked for.", _RETRIABLE
    INVALID_TOPIC_EXCEPTION = 17, "The topic name is not valid."
    RECORD_LIST_TOO_LARGE = 18, "The batch is larger than a log segment."
    NOT_ENOUGH_REPLICAS = 19, "Too few replicas are in sync to accept the write.", _RETRIABLE
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = (
        20,
        "The write is in the leader's log, but too few replicas were in sync.",
        _RETRIABLE,
    )
    INVALID_REQUIRED_ACKS = 21, "acks must be 0, 1 or -1 (all)."
    ILLEGAL_GENERATION = 22, "The group has moved on to another generation."
    INCONSISTENT_GROUP_PROTOCOL = 23, "The member shares no assignor with the rest of the group."
    INVALID_GROUP_ID = 24, "The group id is not valid."
    UNKNOWN_MEMBER_ID = 25, "The group has no such member."
    INVALID_SESSION_TIMEOUT = (
        26,
        "session.timeout.ms is outside the broker's limits, 6 seconds to 30 minutes by default.",
    )
    REBALANCE_IN_PROGRESS = 27, "The group is rebalancing; the member must rejoin."
    INVALID_COMMIT_OFFSET_SIZE = 28, "The offsets are too large to commit."
    TOPIC_AUTHORIZATION_FAILED = 29, "No permission for this topic."
    GROUP_AUTHORIZATION_FAILED = 30, "No permission for this group."
    CLUSTER_AUTHORIZATION_FAILED = 31, "No permission for this operation on the cluster."
    INVALID_TIMESTAMP = 32, "A record's timestamp is outside what the topic allows."
    UNSUPPORTED_SASL_MECHANISM = 33, "The broker does not offer this SASL mechanism."
    ILLEGAL_SASL_STATE = 34, "The request does not fit the state of authentication."
    UNSUPPORTED_VERSION = 35, "The broker does not speak this version of the API."
    TOPIC_ALREADY_EXISTS = 36, "A topic of this name exists already."
    INVALID_PARTITIONS = 37, "The number of partitions is not valid."
    INVALID_REPLICATION_FACTOR = 38, "There are not enough brokers for this replication factor."
    INVALID_REPLICA_ASSIGNMENT = 39, "The replica assignment is not valid."
    INVALID_CONFIG = 40, "The configuration is not valid."
    NOT_CONTROLLER = 41, "This broker is not the controller.", _RETRIABLE
    INVALID_REQUEST = 42, "The request contradicts itself or lacks something."
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43, "The record format of the log does not support this."
    POLICY_VIOLATION = 44, "A policy of the cluster forbids the request."
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45, "The producer skipped a sequence number."
    DUPLICATE_SEQUENCE_NUMBER = 46, "The producer sent this sequence number before."
    INVALID_PRODUCER_EPOCH = 47, "A newer producer uses the same producer id."
    INVALID_TXN_STATE = 48, "The transaction is not in a state that allows this."
    INVALID_PRODUCER_ID_MAPPING = 49, "The producer id does not belong to this transactional id."
    INVALID_TRANSACTION_TIMEOUT = 50, "The transaction timeout is above the broker's limit."
    CONCURRENT_TRANSACTIONS = 51, "The previous transaction is still being completed.", _RETRIABLE
    TRANSACTION_COORDINATOR_FENCED = 52, "A newer transaction coordinator has taken over."
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53, "No permission for this transactional id."
    SECURITY_DISABLED = 54, "Security is not enabled on this broker."
    OPERATION_NOT_ATTEMPTED = 55, "Not tried, because another part of the request failed."
    KAFKA_STORAGE_ERROR = 56, "The broker could not read or write the log directory.", _RETRIABLE
    LOG_DIR_NOT_FOUND = 57, "The broker has no such log directory."
    SASL_AUTHENTICATION_FAILED = 58, "The credentials were not accepted."
    UNKNOWN_PRODUCER_ID = 59, "The broker remembers nothing of this producer id."
    REASSIGNMENT_IN_PROGRESS = 60, "The partition is being reassigned already."
    DELEGATION_TOKEN_AUTH_DISABLED = 61, "Delegation tokens are not enabled."
    DELEGATION_TOKEN_NOT_FOUND = 62, "There is no such delegation token."
    DELEGATION_TOKEN_OWNER_MISMATCH = 63, "The delegation token belongs to somebody else."
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = 64, "This connection may not ask for delegation tokens."
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65, "No permission for this delegation token."
    DELEGATION_TOKEN_EXPIRED = 66, "The delegation token has expired."
    INVALID_PRINCIPAL_TYPE = 67, "The broker does not support this type of principal."
    NON_EMPTY_GROUP = 68, "The group still has members."
    GROUP_ID_NOT_FOUND = 69, "There is no such group."
    FETCH_SESSION_ID_NOT_FOUND = 70, "The broker has no such fetch session.", _RETRIABLE
    INVALID_FETCH_SESSION_EPOCH = 71, "The fetch session is at another epoch.", _RETRIABLE
    LISTENER_NOT_FOUND = 72, "The leader has no listener of the name used here.", _RETRIABLE
    TOPIC_DELETION_DISABLED = 73, "The cluster does not allow topics to be deleted."
    FENCED_LEADER_EPOCH = 74, "The leader epoch is older than the broker's.", _RETRIABLE
    UNKNOWN_LEADER_EPOCH = 75, "The leader epoch is newer than the broker's.", _RETRIABLE
    UNSUPPORTED_COMPRESSION_TYPE = 76, "The client's version does not allow this compression."
    STALE_BROKER_EPOCH = 77, "The broker has registered again since."
    OFFSET_NOT_AVAILABLE = 78, "The replica does not know this offset yet.", _RETRIABLE
    MEMBER_ID_REQUIRED = 79, "The member must join again with the member id it was given."
    PREFERRED_LEADER_NOT_AVAILABLE = 80, "The preferred leader is not available.", _RETRIABLE
    GROUP_MAX_SIZE_REACHED = 81, "The group has as many members as it may have."
    FENCED_INSTANCE_ID = 82, "Another member has taken over this group instance id."
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83, "No replica is fit to lead.", _RETRIABLE
    ELECTION_NOT_NEEDED = 84, "The partition has the right leader already.", _RETRIABLE
    NO_REASSIGNMENT_IN_PROGRESS = 85, "The partition is not being reassigned."
    GROUP_SUBSCRIBED_TO_TOPIC = 86, "The group is subscribed to the topic whose offsets would go."
    INVALID_RECORD = 87, "The broker refused a record of the batch."
    UNSTABLE_OFFSET_COMMIT = 88, "A transaction with pending offsets must end first.", _RETRIABLE
    THROTTLING_QUOTA_EXCEEDED = 89, "The quota is used up for now.", _RETRIABLE
    PRODUCER_FENCED = 90, "A newer producer uses the same transactional id."
    RESOURCE_NOT_FOUND = 91, "There is no such resource."
    DUPLICATE_RESOURCE = 92, "The resource is named twice."
    UNACCEPTABLE_CREDENTIAL = 93, "The credential does not meet the requirements."
    INCONSISTENT_VOTER_SET = 94, "Sender and receiver do not agree on the voters."
    INVALID_UPDATE_VERSION = 95, "The version to update from is not the current one."
    FEATURE_UPDATE_FAILED = 96, "The features could not be updated."
    PRINCIPAL_DESERIALIZATION_FAILURE = 97, "The forwarded principal could not be read."
    SNAPSHOT_NOT_FOUND = 98, "There is no such snapshot."
    POSITION_OUT_OF_RANGE = 99, "The position lies outside the snapshot."
    UNKNOWN_TOPIC_ID = 100, "This broker has no topic of this id.", _RETRIABLE
    DUPLICATE_BROKER_REGISTRATION = 101, "Another live broker uses this broker id."
    BROKER_ID_NOT_REGISTERED = 102, "No broker of this id is registered."
    INCONSISTENT_TOPIC_ID = 103, "The topic was made anew: its id has changed.", _RETRIABLE
    INCONSISTENT_CLUSTER_ID = 104, "The request is meant for another cluster."
    TRANSACTIONAL_ID_NOT_FOUND = 105, "There is no such transactional id."
    FETCH_SESSION_TOPIC_ID_ERROR = 106, "The fetch session mixes names and topic ids.", _RETRIABLE
    INELIGIBLE_REPLICA = 107, "A replica is not fit to be in sync."
    NEW_LEADER_ELECTED = 108, "The change was made and the leader has changed with it."
    OFFSET_MOVED_TO_TIERED_STORAGE = 109, "The offset is now in tiered storage."
    FENCED_MEMBER_EPOCH = 110, "The group has dropped this member; it must rejoin from nothing."
    UNRELEASED_INSTANCE_ID = 111, "Another member still holds this group instance id."
    UNSUPPORTED_ASSIGNOR = 112, "The group coordinator does not have this assignor."
    STALE_MEMBER_EPOCH = 113, "The member must learn its new epoch by heartbeat, then try again."
    MISMATCHED_ENDPOINT_TYPE = 114, "The request went to the wrong kind of endpoint."
    UNSUPPORTED_ENDPOINT_TYPE = 115, "The broker does not know this kind of endpoint."
    UNKNOWN_CONTROLLER_ID = 116, "There is no such controller."
    UNKNOWN_SUBSCRIPTION_ID = 117, "The telemetry subscription is unknown or outdated."
    TELEMETRY_TOO_LARGE = 118, "The telemetry is larger than the broker accepts."
    INVALID_REGISTRATION = 119, "The controller refused the broker's registration."
    TRANSACTION_ABORTABLE = 120, "The transaction cannot be committed; abort it and go on."
    INVALID_RECORD_STATE = 121, "The record cannot be acknowledged in its present state."
    SHARE_SESSION_NOT_FOUND = 122, "The broker has no such share session.", _RETRIABLE
    INVALID_SHARE_SESSION_EPOCH = 123, "The share session is at another epoch.", _RETRIABLE
    FENCED_STATE_EPOCH = 124, "The share group's state has a newer epoch."
    INVALID_VOTER_KEY = 125, "The voter key is not the one of this replica."
    DUPLICATE_VOTER = 126, "The voter is among the voters already."
    VOTER_NOT_FOUND = 127, "The voter is not among the voters."
    INVALID_REGULAR_EXPRESSION = 128, "The regular expression is not valid."
    REBOOTSTRAP_REQUIRED = 129, "The client must start again from its bootstrap addresses."
    STREAMS_INVALID_TOPOLOGY = 130, "The topology is not valid."
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131, "The topology epoch is not valid."
    STREAMS_TOPOLOGY_FENCED = 132, "The group has a newer topology."
    SHARE_SESSION_LIMIT_REACHED = (
        133,
        "The broker has as many share sessions as it allows.",
        _RETRIABLE,
    )


class KafkaError(Exception):
    """A broker answered with an error code."""

    def __init__(self, code: ErrorCode, message: str | None = None) -> None:
        self.code = code
        self.message = message or code.message
        super().__init__(code, self.message)

    def __str__(self) -> str:
        return f"{self.code.name}: {self.message}"


class RetriableError(KafkaError):
    """The same request may succeed later."""


class StaleMetadataError(RetriableError):
    """The leader has moved: fetch metadata, then try again."""


class UnknownTopic(RetriableError):
    """The broker asked has no such topic or partition: misspelt, deleted, or not created yet."""


class CoordinatorError(RetriableError):
    """The coordinator has moved or is loading: look it up, then try again."""


class AuthenticationError(KafkaError):
    """The client could not prove its identity."""


class AuthorizationError(KafkaError):
    """The client has no permission."""


class FencedError(KafkaError):
    """A newer client with the same identity exists, so this one must stop."""


class InvalidRequestError(KafkaError):
    """The request is invalid; sending it again does not help."""


_CLASSES: Final[dict[ErrorCode, type[KafkaError]]] = {
    code: error_class
    for error_class, codes in {
        UnknownTopic: (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID),
        StaleMetadataError: (
            ErrorCode.LEADER_NOT_AVAILABLE,
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            ErrorCode.REPLICA_NOT_AVAILABLE,
            ErrorCode.NOT_CONTROLLER,
            ErrorCode.NETWORK_EXCEPTION,
            ErrorCode.KAFKA_STORAGE_ERROR,
            ErrorCode.LISTENER_NOT_FOUND,
            ErrorCode.FENCED_LEADER_EPOCH,
            ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
            ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
            ErrorCode.ELECTION_NOT_NEEDED,
            ErrorCode.INCONSISTENT_TOPIC_ID,
        ),
        CoordinatorError: (
            ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
            ErrorCode.COORDINATOR_NOT_AVAILABLE,
            ErrorCode.NOT_COORDINATOR,
        ),
        AuthenticationError: (
            ErrorCode.UNSUPPORTED_SASL_MECHANISM,
            ErrorCode.ILLEGAL_SASL_STATE,
            ErrorCode.SASL_AUTHENTICATION_FAILED,
        ),
        AuthorizationError: (
            ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            ErrorCode.GROUP_AUTHORIZATION_FAILED,
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
        ),
        FencedError: (
            ErrorCode.INVALID_PRODUCER_EPOCH,
            ErrorCode.TRANSACTION_COORDINATOR_FENCED,
            ErrorCode.FENCED_INSTANCE_ID,
            ErrorCode.PRODUCER_FENCED,
            ErrorCode.FENCED_MEMBER_EPOCH,
            ErrorCode.STALE_CONTROLLER_EPOCH,
            ErrorCode.STALE_BROKER_EPOCH,
        ),
        InvalidRequestError: (
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            ErrorCode.INVALID_REQUIRED_ACKS,
            ErrorCode.INVALID_GROUP_ID,
            ErrorCode.INVALID_PARTITIONS,
            ErrorCode.INVALID_REPLICATION_FACTOR,
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            ErrorCode.INVALID_CONFIG,
            ErrorCode.INVALID_REQUEST,
            ErrorCode.POLICY_VIOLATION,
            ErrorCode.UNSUPPORTED_VERSION,
        ),
    }.items()
    for code in codes
}


def error_for(code: int, message: str | None = None) -> KafkaError:
    """Returns the exception for an error code; `message` is that of the broker, if there is one."""
    try:
        known = ErrorCode(code)
    except ValueError:
        return KafkaError(
            ErrorCode.UNKNOWN_SERVER_ERROR, message or f"The broker answered error code {code}."
        )
    error_class = _CLASSES.get(known) or (RetriableError if known.retriable else KafkaError)
    return error_class(known, message)


def raise_for(code: int, message: str | None = None) -> None:
    """Raises the exception for any code but `NONE`."""
    if code:
        raise error_for(code, message)
