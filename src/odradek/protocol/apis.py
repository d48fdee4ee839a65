"""The table of APIs: key, name, versions, and where the messages are.

The table costs nothing to import: the module with an API's messages is imported when they
are first asked for. A test holds every row against the declarations it points to.
"""

from enum import IntEnum
from importlib import import_module
from typing import Final

from odradek.protocol.schema import Request, Response

NEVER_FLEXIBLE: Final = 1 << 15


class ApiKey(IntEnum):
    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    ALTER_REPLICA_LOG_DIRS = 34
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    LIST_CONFIG_RESOURCES = 74
    DESCRIBE_TOPIC_PARTITIONS = 75
    # Odradek's own, far from Kafka's numbers.
    LOOK_UP = 25000


class Api:
    """One row of the table. `min_version` to `max_version` is what the messages are declared
    for; what a broker advertises is its own affair."""

    __slots__ = (
        "_request",
        "_response",
        "flexible_from",
        "key",
        "max_version",
        "min_version",
        "name",
    )

    def __init__(self, key: ApiKey, min_version: int, max_version: int, flexible_from: int) -> None:
        self.key = key
        self.name = key.name.title().replace("_", "")
        self.min_version = min_version
        self.max_version = max_version
        self.flexible_from = flexible_from
        self._request: type[Request] | None = None
        self._response: type[Response] | None = None

    @property
    def module(self) -> str:
        return f"odradek.protocol.messages.{self.key.name.lower()}"

    @property
    def request(self) -> type[Request]:
        if self._request is None:
            self._request = getattr(import_module(self.module), f"{self.name}Request")
        return self._request

    @property
    def response(self) -> type[Response]:
        if self._response is None:
            self._response = getattr(import_module(self.module), f"{self.name}Response")
        return self._response

    def has_version(self, version: int) -> bool:
        return self.min_version <= version <= self.max_version

    def __repr__(self) -> str:
        return f"Api({self.name} {self.min_version}-{self.max_version})"


APIS: Final[dict[int, Api]] = {
    key: Api(key, min_version, max_version, flexible_from)
    for key, min_version, max_version, flexible_from in (
        (ApiKey.PRODUCE, 3, 13, 9),
        (ApiKey.FETCH, 4, 18, 12),
        (ApiKey.LIST_OFFSETS, 1, 11, 6),
        (ApiKey.METADATA, 0, 13, 9),
        (ApiKey.OFFSET_COMMIT, 2, 10, 8),
        (ApiKey.OFFSET_FETCH, 1, 10, 6),
        (ApiKey.FIND_COORDINATOR, 0, 6, 3),
        (ApiKey.JOIN_GROUP, 0, 9, 6),
        (ApiKey.HEARTBEAT, 0, 4, 4),
        (ApiKey.LEAVE_GROUP, 0, 5, 4),
        (ApiKey.SYNC_GROUP, 0, 5, 4),
        (ApiKey.DESCRIBE_GROUPS, 0, 6, 5),
        (ApiKey.LIST_GROUPS, 0, 5, 3),
        (ApiKey.SASL_HANDSHAKE, 0, 1, NEVER_FLEXIBLE),
        (ApiKey.API_VERSIONS, 0, 4, 3),
        (ApiKey.CREATE_TOPICS, 2, 7, 5),
        (ApiKey.DELETE_TOPICS, 1, 6, 4),
        (ApiKey.DELETE_RECORDS, 0, 2, 2),
        (ApiKey.INIT_PRODUCER_ID, 0, 5, 2),
        (ApiKey.OFFSET_FOR_LEADER_EPOCH, 2, 4, 4),
        (ApiKey.ADD_PARTITIONS_TO_TXN, 0, 5, 3),
        (ApiKey.ADD_OFFSETS_TO_TXN, 0, 4, 3),
        (ApiKey.END_TXN, 0, 5, 3),
        (ApiKey.WRITE_TXN_MARKERS, 1, 2, 1),
        (ApiKey.TXN_OFFSET_COMMIT, 0, 5, 3),
        (ApiKey.DESCRIBE_ACLS, 1, 3, 2),
        (ApiKey.CREATE_ACLS, 1, 3, 2),
        (ApiKey.DELETE_ACLS, 1, 3, 2),
        (ApiKey.DESCRIBE_CONFIGS, 1, 4, 4),
        (ApiKey.ALTER_CONFIGS, 0, 2, 2),
        (ApiKey.ALTER_REPLICA_LOG_DIRS, 1, 2, 2),
        (ApiKey.DESCRIBE_LOG_DIRS, 1, 5, 2),
        (ApiKey.SASL_AUTHENTICATE, 0, 2, 2),
        (ApiKey.CREATE_PARTITIONS, 0, 3, 2),
        (ApiKey.DELETE_GROUPS, 0, 2, 2),
        (ApiKey.ELECT_LEADERS, 0, 2, 2),
        (ApiKey.INCREMENTAL_ALTER_CONFIGS, 0, 1, 1),
        (ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, 1, 0),
        (ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, 0, 0),
        (ApiKey.OFFSET_DELETE, 0, 0, NEVER_FLEXIBLE),
        (ApiKey.DESCRIBE_CLIENT_QUOTAS, 0, 1, 1),
        (ApiKey.ALTER_CLIENT_QUOTAS, 0, 1, 1),
        (ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, 0, 0),
        (ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, 0, 0),
        (ApiKey.DESCRIBE_CLUSTER, 0, 2, 0),
        (ApiKey.DESCRIBE_PRODUCERS, 0, 0, 0),
        (ApiKey.DESCRIBE_TRANSACTIONS, 0, 0, 0),
        (ApiKey.LIST_TRANSACTIONS, 0, 2, 0),
        (ApiKey.CONSUMER_GROUP_HEARTBEAT, 0, 1, 0),
        (ApiKey.CONSUMER_GROUP_DESCRIBE, 0, 1, 0),
        (ApiKey.LIST_CONFIG_RESOURCES, 0, 1, 0),
        (ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, 0, 0),
        (ApiKey.LOOK_UP, 0, 0, 0),
    )
}
