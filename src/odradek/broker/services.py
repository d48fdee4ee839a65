"""What handlers work with: the broker's parts, and who asks."""

from collections.abc import Awaitable
from dataclasses import dataclass
from typing import NamedTuple

from odradek.broker.all_topics_cache import AllTopicsCache
from odradek.broker.client_metadata import ClientMetadata
from odradek.broker.config_descriptions import ConfigDescriptionCache
from odradek.broker.consumer_joins import ConsumerJoins
from odradek.broker.coordinators import GroupCoordinators, Joins, TransactionCoordinators
from odradek.broker.departed_brokers import DepartedBrokers
from odradek.broker.fetching.fetch_sessions import FetchSessions
from odradek.broker.network.connection import Connection
from odradek.cluster.acls import AccessRules
from odradek.cluster.configs import Configs
from odradek.cluster.controller import LongestLog
from odradek.cluster.producer_ids import ProducerIds
from odradek.cluster.topics import Topics
from odradek.config.live import LiveSettings
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.schema import Response
from odradek.protocol.types import BrokerId, Part
from odradek.replication.in_sync_sets import InSyncSets
from odradek.replication.replicas import Replicas
from odradek.security.authorizer import Authorizer
from odradek.storage.key_index.keeper import KeyIndexes
from odradek.storage.manager import LogManager
from odradek.transactions.local_markers import LocalMarkers
from odradek.world import World


@dataclass(frozen=True, slots=True)
class Services:
    """One for each broker, given to every handler."""

    broker_id: BrokerId
    world: World
    settings: LiveSettings
    images: ClientMetadata
    departed_brokers: DepartedBrokers
    topics: Topics
    configs: Configs
    replicas: Replicas
    in_sync_sets: InSyncSets
    groups: GroupCoordinators
    consumer_joins: ConsumerJoins
    transactions: TransactionCoordinators
    markers: LocalMarkers
    joins: Joins
    logs: LogManager
    key_indexes: KeyIndexes
    producer_ids: ProducerIds
    fetch_sessions: FetchSessions
    all_topics_cache: AllTopicsCache
    config_descriptions: ConfigDescriptionCache
    longest_log: LongestLog
    access_rules: AccessRules
    # None where everybody may do everything.
    authorizer: Authorizer | None

    def require_authorizer(self) -> None:
        """Access rules that nobody follows are not taken: somebody might rely on them."""
        if self.authorizer is None:
            raise ApiError(
                ErrorCode.SECURITY_DISABLED,
                "No authorizer is configured on this broker; set authorizer.class.name.",
            )


class RequestContext:
    """Who asks, and in which version."""

    __slots__ = ("client_id", "connection", "version")

    def __init__(self, connection: Connection, version: int, client_id: str | None) -> None:
        self.connection = connection
        self.version = version
        self.client_id = client_id

    @property
    def address(self) -> str:
        """Of the connection, as it stands in logs."""
        return f"{self.connection.address}:{self.connection.port}"


class Encoded(NamedTuple):
    """A response that its handler has encoded: because others get the same bytes, or in steps."""

    head: Response
    parts: list[Part]


class Pipelined(NamedTuple):
    """A response still to come, of a request whose order no longer matters: its appends are
    done, and the next produce request of the connection may append too."""

    response: Awaitable[Response | None]
