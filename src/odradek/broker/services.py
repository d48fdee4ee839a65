"""What the dispatcher gives to handlers: the parts of the broker, and the context of a request."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from odradek.broker.all_topics_cache import AllTopicsCache
from odradek.broker.authorized_operations import CLUSTER_OPERATIONS
from odradek.broker.client_metadata import ClientMetadata
from odradek.broker.config_descriptions import ConfigDescriptionCache
from odradek.broker.consumer_joins import ConsumerJoins
from odradek.broker.coordinators import GroupCoordinators, TransactionCoordinators
from odradek.broker.departed_brokers import DepartedBrokers
from odradek.broker.fetching.fetch_sessions import FetchSessions
from odradek.broker.late_requests import LateRequests
from odradek.broker.limits.broker_quotas import BrokerQuotas
from odradek.broker.network.connection import Connection
from odradek.cluster.acls import AclStore
from odradek.cluster.configs import Configs
from odradek.cluster.controller import LongestLog
from odradek.cluster.internal_topics import InternalTopics
from odradek.cluster.producer_ids import ProducerIds
from odradek.cluster.quotas import QuotaStore
from odradek.cluster.roles import RoleStore
from odradek.cluster.topics import Topics
from odradek.config.live import LiveSettings
from odradek.protocol.acls import CLUSTER_NAME, Operation, ResourceType
from odradek.protocol.api_error import ApiError
from odradek.protocol.apis import AnyApi
from odradek.protocol.errors import ErrorCode
from odradek.protocol.schema import Response
from odradek.protocol.types import NO_TOPIC_ID, BrokerId, Part, TopicId
from odradek.replication.isr_changes import IsrChanges
from odradek.replication.replicas import Replicas
from odradek.security.authorizer import Authorizer
from odradek.security.roles import Area
from odradek.storage.key_index.key_indexes import KeyIndexes
from odradek.storage.manager import LogManager
from odradek.transactions.local_markers import LocalMarkers
from odradek.transactions.verification import TransactionVerifier
from odradek.wording import shortened
from odradek.world import World

if TYPE_CHECKING:
    from odradek.broker.audit.log import AuditLog
    from odradek.broker.client_telemetry.receiver import ClientTelemetry
    from odradek.broker.schema_validation.validation import SchemaValidation
    from odradek.cluster.delegation_tokens import DelegationTokens

logger: Final = logging.getLogger("odradek.authorizer")

_OPERATION: Final = Area.OPERATION

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True, eq=False, repr=False, match_args=False)
class Services:
    """The parts of one broker that handlers use."""

    broker_id: BrokerId
    world: World
    settings: LiveSettings
    images: ClientMetadata
    departed_brokers: DepartedBrokers
    topics: Topics
    internal_topics: InternalTopics
    configs: Configs
    replicas: Replicas
    isr_changes: IsrChanges
    groups: GroupCoordinators
    consumer_joins: ConsumerJoins
    transactions: TransactionCoordinators
    markers: LocalMarkers
    verifier: TransactionVerifier
    late_requests: LateRequests
    logs: LogManager
    key_indexes: KeyIndexes
    producer_ids: ProducerIds
    fetch_sessions: FetchSessions
    all_topics_cache: AllTopicsCache
    config_descriptions: ConfigDescriptionCache
    longest_log: LongestLog
    acls: AclStore
    quota_store: QuotaStore
    quotas: BrokerQuotas
    # None if every client may do everything.
    authorizer: Authorizer | None
    # None unless there is an audit log.
    audit: "AuditLog | None"
    roles: RoleStore
    # None unless there are delegation tokens.
    tokens: "DelegationTokens | None" = None
    # None if metrics of clients have nowhere to go.
    client_telemetry: "ClientTelemetry | None" = None
    # None if the broker has no schema registry to ask.
    schema_validation: "SchemaValidation | None" = None

    def require_authorizer(self) -> None:
        """Raises `ApiError` if there is no authorizer. ACLs that the broker would not obey are
        refused, because an administrator would rely on them."""
        if self.authorizer is None:
            raise ApiError(
                ErrorCode.SECURITY_DISABLED,
                "No authorizer is configured on this broker; set authorizer.class.name.",
            )


class RequestContext:
    """One request: over which connection and in which version it came, and what its client may do.

    Handlers ask here for permission, with the words of Kafka's ACLs: an operation (READ) on a
    resource, which has a type (TOPIC) and a name. A broker without an authorizer allows everything.

    `duplicates` are the elements that the request names more than once, if the handler declares
    what identifies an element (`broker.request_splitting`). A handler that is called for a part of
    a large request cannot find them by itself.
    """

    __slots__ = (
        "_deadline_s",
        "_services",
        "_subject",
        "_throttle_s",
        "api",
        "client_id",
        "connection",
        "correlation_id",
        "duplicates",
        "version",
    )

    def __init__(  # noqa: PLR0917 - called for every request, and keywords cost time
        self,
        services: Services,
        api: AnyApi,
        connection: Connection,
        version: int,
        client_id: str | None,
        correlation_id: int = -1,
    ) -> None:
        self._services = services
        self.api = api
        self.connection = connection
        self.version = version
        self.client_id = client_id
        self.correlation_id = correlation_id
        self.duplicates: frozenset[Hashable] = frozenset()
        self._deadline_s: float | None = None

    @property
    def address(self) -> str:
        """The address of the client and its port, as log lines show them."""
        return f"{self.connection.address}:{self.connection.port}"

    @property
    def throttle_s(self) -> float:
        """For how long the client has to wait after this request, because of its quotas."""
        # Set for few requests only.
        throttle_s: float = getattr(self, "_throttle_s", 0.0)
        return throttle_s

    def note_throttle(self, throttle_s: float) -> None:
        """Called when a quota makes the client wait; the longest wait counts."""
        self._throttle_s = max(throttle_s, self.throttle_s)

    @property
    def subject(self) -> str:
        """What the request was about, for the audit log, if the request does not name it."""
        subject: str = getattr(self, "_subject", "")
        return subject

    def note_subject(self, subject: str) -> None:
        self._subject = subject

    def deadline_s(self, timeout_ms: int) -> float:
        """Returns when the time limit of this request is over, by the event loop's clock: so long
        after the first call. The parts of a large request share it."""
        if self._deadline_s is None:
            now_s = asyncio.get_running_loop().time()
            self._deadline_s = now_s + max(timeout_ms, 0) / 1000
        return self._deadline_s

    def authorize(
        self,
        operation: Operation,
        resource_type: ResourceType,
        name: str,
        area: Area = _OPERATION,
    ) -> bool:
        """Returns whether the client may do what it asks for. A denial is logged, as in Kafka.
        `area` says what an operation on the cluster is about."""
        services = self._services
        authorizer = services.authorizer
        if authorizer is None:
            return True
        principal, host = self.connection.principal, self.connection.address
        if area is _OPERATION:
            is_allowed = authorizer.allows(principal, host, operation, resource_type, name)
        else:
            is_allowed = authorizer.allows_on_cluster(principal, host, operation, area)
        if not is_allowed:
            self._log_decision(logging.INFO, operation, resource_type, name, area)
        elif logger.isEnabledFor(logging.DEBUG):
            self._log_decision(logging.DEBUG, operation, resource_type, name, area)
        if services.audit is not None:
            services.audit.decided(self, operation, resource_type, name, is_allowed=is_allowed)
        return is_allowed

    def authorize_without_logging(
        self, operation: Operation, resource_type: ResourceType, name: str
    ) -> bool:
        """Returns whether an operation is allowed, and logs nothing. For resources that the request
        does not name: what the client may not see is only left out of the response. And for
        permissions of which another one is enough too."""
        authorizer = self._services.authorizer
        return authorizer is None or authorizer.allows(
            self.connection.principal, self.connection.address, operation, resource_type, name
        )

    def authorize_cluster(self, operation: Operation) -> bool:
        return self.authorize(operation, ResourceType.CLUSTER, CLUSTER_NAME)

    def authorize_cluster_without_logging(self, operation: Operation) -> bool:
        return self.authorize_without_logging(operation, ResourceType.CLUSTER, CLUSTER_NAME)

    def authorize_any(self, operation: Operation, resource_type: ResourceType) -> bool:
        """Returns whether the operation is allowed on any resource of a type."""
        authorizer = self._services.authorizer
        return authorizer is None or authorizer.allows_any(
            self.connection.principal, self.connection.address, operation, resource_type
        )

    def split_authorized(
        self,
        operation: Operation,
        resource_type: ResourceType,
        items: list[Item],
        name_of: Callable[[Item], str | None],
    ) -> tuple[list[Item], list[Item]]:
        """Returns the items on which the operation is allowed, and those on which it is denied.

        An item without a name (an unknown topic id) is among the first: the handler says that it
        does not exist.
        """
        if self._services.authorizer is None:
            return items, []
        allowed: list[Item] = []
        denied: list[Item] = []
        for item in items:
            name = name_of(item)
            is_allowed = name is None or self.authorize(operation, resource_type, name)
            (allowed if is_allowed else denied).append(item)
        return allowed, denied

    def authorized_operations(self, resource_type: ResourceType, name: str, possible: int) -> int:
        """Returns those of the possible operations that the client may do, as a set of bits."""
        if self._services.authorizer is None:
            return possible
        return sum(
            1 << operation
            for operation in Operation
            if possible >> operation & 1
            and self.authorize_without_logging(operation, resource_type, name)
        )

    def authorized_cluster_operations(self) -> int:
        """Returns the operations on the cluster that the client may do, as a set of bits: none for
        a client that may not describe the cluster."""
        if not self.authorize_cluster(Operation.DESCRIBE):
            return 0
        return self.authorized_operations(ResourceType.CLUSTER, CLUSTER_NAME, CLUSTER_OPERATIONS)

    def topic_name(self, name: str | None, topic_id: TopicId) -> str | None:
        """Returns the name of the topic that a request means, and None for an unknown id.

        Where a request has both a name and an id, the id counts. Handlers answer by the id too, so
        permission is asked for the topic that is answered, and not for the one that is named.
        """
        if topic_id == NO_TOPIC_ID:
            return name
        topic = self._services.images.image.topics_by_id.get(topic_id)
        return None if topic is None else topic.name

    def _log_decision(
        self, level: int, operation: Operation, resource_type: ResourceType, name: str, area: Area
    ) -> None:
        authorizer = self._services.authorizer
        assert authorizer is not None  # It has decided.
        principal, host = self.connection.principal, self.connection.address
        reason = authorizer.reason(principal, host, operation, resource_type, name)
        if area is not _OPERATION:
            # The reason is about running the cluster: a role may permit that and not this.
            reason = f"it is about {area.value}; for running the cluster: {reason}"
        logger.log(
            level,
            "Principal = %s is %s operation = %s from host = %s on resource = %s:LITERAL:%s"
            " for request = %s: %s",
            principal,
            "Denied" if level >= logging.INFO else "Allowed",
            operation.name,
            host,
            resource_type.display_name,
            shortened(name),
            self.api.module_name.upper(),
            reason,
        )


class Encoded(NamedTuple):
    """A response that its handler has encoded itself: in steps, or because it sends the same bytes
    to many clients. `head` is the message that says how the frame begins."""

    head: Response
    parts: list[Part]


class Pipelined(NamedTuple):
    """A response that is not complete yet, to a request whose appends are done. So the next produce
    request of the same connection may append at once, without changing the order."""

    response: Awaitable[Response | None]
