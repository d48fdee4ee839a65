"""The components of a broker: what they are made from, and in which order they follow the cluster.

`broker.py` starts and stops them. A component that is given another one in its constructor may call
it; none of them knows the broker.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from odradek.broker.all_topics_cache import AllTopicsCache
from odradek.broker.client_metadata import ClientMetadata
from odradek.broker.config_descriptions import ConfigDescriptionCache
from odradek.broker.consumer_joins import ConsumerJoins
from odradek.broker.coordinators import Coordinators
from odradek.broker.departed_brokers import DepartedBrokers
from odradek.broker.fetching.due_partitions import is_known
from odradek.broker.fetching.fetch_sessions import PARTITION_BYTES, FetchSessions
from odradek.broker.late_requests import LateRequests
from odradek.broker.lease import SessionLease
from odradek.broker.limits.broker_quotas import BrokerQuotas
from odradek.broker.services import Services
from odradek.cluster.acls import AclStore
from odradek.cluster.configs import Configs, ListenerSecurity
from odradek.cluster.controller import Controller, LongestLog
from odradek.cluster.internal_topics import InternalTopics
from odradek.cluster.membership import Membership
from odradek.cluster.offline_replicas import OfflineReplicas
from odradek.cluster.producer_ids import ProducerIds, highest_id
from odradek.cluster.quotas import QuotaStore
from odradek.cluster.roles import RoleStore
from odradek.cluster.topics import Topics
from odradek.config.live import LiveSettings
from odradek.metadata import ClusterImage, ImageChange, MetadataCache, MetadataStore
from odradek.metadata.image import difference
from odradek.metadata.node_values import BrokerRegistration
from odradek.protocol.types import BrokerId, TopicPartition
from odradek.replication.fetchers import ReplicaFetchers
from odradek.replication.isr_changes import IsrChanges
from odradek.replication.peers import Peers
from odradek.replication.replicas import Replicas
from odradek.security.authorizer import load_authorizer
from odradek.storage.key_index.key_indexes import KeyIndexes
from odradek.storage.manager import LogManager
from odradek.world import World

if TYPE_CHECKING:
    from odradek.broker.audit.log import AuditLog
    from odradek.broker.client_telemetry.receiver import ClientTelemetry
    from odradek.broker.schema_validation.validation import SchemaValidation
    from odradek.cluster.delegation_tokens import DelegationTokens
    from odradek.cluster.token_expiry import TokenExpiry


@dataclass(frozen=True, slots=True, eq=False, repr=False, match_args=False)
class Components:
    """What `assemble` made. `services` is what handlers use; the others run beside them."""

    services: Services
    coordinators: Coordinators
    membership: Membership
    controller: Controller
    fetchers: ReplicaFetchers
    isr_changes: IsrChanges
    offline_replicas: OfflineReplicas
    peers: Peers
    # None unless there are delegation tokens.
    token_expiry: "TokenExpiry | None"
    # Puts changed settings in force; returns whether there were any.
    follow_settings: Callable[[ImageChange], bool]

    def follow(self, change: ImageChange) -> None:
        """Called with every new image of the cluster."""
        # First of all: a client that a new rule denies must not be admitted by what follows.
        if self.services.authorizer is not None:
            self.services.authorizer.follow(change.after.acls)
            self.services.authorizer.follow_roles(change.after.roles)
        is_reconfigured = self.follow_settings(change)
        self.services.quotas.follow(change.after.quotas)
        self._follow_replicas(change)
        if is_reconfigured:
            self.services.replicas.reconfigure()
        self.services.departed_brokers.follow(change)
        self.coordinators.follow(change)

    def follow_again(self) -> None:
        """Takes up the roles that the image gives this broker: after it has resigned from all of
        them, and when a disk is full or has room again."""
        self._follow_replicas(difference(ClusterImage(), self.services.images.cache.image))

    def follow_topics_again(self, topics: Collection[str]) -> None:
        """Does the same for topics of which a log could not be made."""
        image = self.services.images.cache.image
        existing = dict.fromkeys(topic for topic in topics if topic in image.topics)
        no_brokers: dict[BrokerId, None] = {}
        self._follow_replicas(
            ImageChange(
                ClusterImage(), image, existing.keys(), no_brokers.keys(), broker_configs=False
            )
        )

    def _follow_replicas(self, change: ImageChange) -> None:
        self.services.replicas.follow(change)
        self.fetchers.follow(change)
        self.isr_changes.follow(change)
        self.offline_replicas.follow(change)


@dataclass(frozen=True, slots=True, eq=False, repr=False, match_args=False)
class Foundation:
    """What a broker opens first, and what its components are made from."""

    broker_id: BrokerId
    world: World
    settings: LiveSettings
    store: MetadataStore
    cache: MetadataCache
    logs: LogManager
    peers: Peers
    departed_brokers: DepartedBrokers


def assemble(
    foundation: Foundation,
    *,
    is_store_shared: bool,
    registration: Callable[[int], BrokerRegistration],
    follow_settings: Callable[[ImageChange], bool],
    open_audit: "Callable[[Topics], AuditLog | None]",
    security: ListenerSecurity | None = None,
) -> Components:
    """Makes the components, and starts none of them."""
    broker_id, world, settings = foundation.broker_id, foundation.world, foundation.settings
    store, cache, logs = foundation.store, foundation.cache, foundation.logs
    peers = foundation.peers
    membership = Membership(broker_id, store, cache, registration, logs)
    lease = SessionLease(store, membership) if is_store_shared else None
    replicas = Replicas(broker_id, logs, settings, world.clock, lease)
    isr_changes = IsrChanges(broker_id, replicas, cache, settings)
    coordinators = Coordinators(
        broker_id, replicas, cache, peers, world=world, settings=settings.broker
    )
    services = _services(
        foundation, replicas, isr_changes, coordinators, open_audit=open_audit, security=security
    )
    controller = Controller(
        broker_id, store, cache, settings, clock=world.clock, longest_log=services.longest_log
    )
    return Components(
        services,
        coordinators,
        membership,
        controller,
        fetchers=ReplicaFetchers(broker_id, replicas, peers, cache, settings),
        isr_changes=isr_changes,
        offline_replicas=OfflineReplicas(broker_id, cache, logs),
        peers=peers,
        token_expiry=_token_expiry(services, controller),
        follow_settings=follow_settings,
    )


def _services(
    foundation: Foundation,
    replicas: Replicas,
    isr_changes: IsrChanges,
    coordinators: Coordinators,
    *,
    open_audit: "Callable[[Topics], AuditLog | None]",
    security: ListenerSecurity | None,
) -> Services:
    """Makes what handlers use, around the replicas and coordinators."""
    broker_id, world, settings = foundation.broker_id, foundation.world, foundation.settings
    store, cache, logs = foundation.store, foundation.cache, foundation.logs
    topics = Topics(store, cache, settings, world.randomness)
    return Services(
        broker_id=broker_id,
        world=world,
        settings=settings,
        images=ClientMetadata(broker_id, replicas, cache),
        departed_brokers=foundation.departed_brokers,
        topics=topics,
        internal_topics=InternalTopics(topics, cache, world.clock.monotonic_s),
        configs=Configs(store, cache, settings, security),
        replicas=replicas,
        isr_changes=isr_changes,
        groups=coordinators.groups,
        consumer_joins=ConsumerJoins(coordinators.groups),
        transactions=coordinators.transactions,
        markers=coordinators.markers,
        verifier=coordinators.verifier,
        late_requests=LateRequests(),
        logs=logs,
        key_indexes=KeyIndexes(world),
        producer_ids=ProducerIds(cache, broker_id, lambda: highest_id(logs.logs.values())),
        fetch_sessions=_fetch_sessions(foundation),
        all_topics_cache=AllTopicsCache(),
        config_descriptions=ConfigDescriptionCache(),
        longest_log=_longest_log(foundation.peers),
        acls=AclStore(store, cache),
        quota_store=QuotaStore(cache),
        quotas=BrokerQuotas(settings, world.clock),
        authorizer=load_authorizer(settings.broker),
        audit=open_audit(topics),
        roles=RoleStore(store, cache),
        tokens=_delegation_tokens(foundation),
        client_telemetry=_client_telemetry(foundation),
        schema_validation=_schema_validation(foundation, topics),
    )


def _longest_log(peers: Peers) -> LongestLog:
    """Returns a function that asks replicas for the one with the longest log."""

    async def longest_log(
        topic_partition: TopicPartition, candidates: Sequence[BrokerId]
    ) -> BrokerId | None:
        from odradek.cluster import log_end_offsets  # noqa: PLC0415 - seldom needed

        return await log_end_offsets.longest_log(peers, topic_partition, candidates)

    return longest_log


def _fetch_sessions(foundation: Foundation) -> FetchSessions:
    world, cache = foundation.world, foundation.cache
    return FetchSessions(
        foundation.settings.broker.max_incremental_fetch_session_cache_slots,
        world.randomness,
        max_partitions=world.memory_bytes // 32 // PARTITION_BYTES,
        is_known=lambda entry: is_known(cache.image, entry),
    )


def _schema_validation(foundation: Foundation, topics: Topics) -> "SchemaValidation | None":
    settings = foundation.settings
    if not settings.broker.confluent_schema_registry_url:
        return None
    from odradek.broker.schema_validation.validation import (  # noqa: PLC0415 - if asked for
        open_schema_validation,
    )

    return open_schema_validation(
        foundation.world, settings, topics, foundation.cache, foundation.peers
    )


def _delegation_tokens(foundation: Foundation) -> "DelegationTokens | None":
    settings = foundation.settings
    secret_key = settings.broker.delegation_token_secret_key
    if not secret_key:
        return None
    from odradek.cluster.delegation_tokens import DelegationTokens  # noqa: PLC0415 - if there are any

    return DelegationTokens(
        secret_key, foundation.store, foundation.cache, settings, foundation.world
    )


def _token_expiry(services: Services, controller: Controller) -> "TokenExpiry | None":
    if services.tokens is None:
        return None
    from odradek.cluster.token_expiry import TokenExpiry  # noqa: PLC0415 - if there are any

    return TokenExpiry(services.tokens, controller, services.settings)


def _client_telemetry(foundation: Foundation) -> "ClientTelemetry | None":
    settings, cache = foundation.settings, foundation.cache
    broker = settings.broker
    if broker.management_listener is None and broker.odradek_telemetry_otlp_endpoint is None:
        return None
    from odradek.broker.client_telemetry.receiver import ClientTelemetry  # noqa: PLC0415 - if needed

    return ClientTelemetry(foundation.world, settings, lambda: cache.image)
