"""One broker: the order in which its components start, and in which they stop.

Start (`_running`)

    1. The server binds its sockets: a busy port is found out before anything else happens. The
       management port, if there is one, answers from now on.
    2. A session with the metadata store begins, and the cluster's image is read.
    3. Logs are loaded, and recovered after a crash.
    4. The components are made (`components.assemble`).
    5. The broker joins the cluster: it registers, takes part in the controller's election, adopts
       logs that the store does not know, and takes up the roles that the image gives it.
    6. Components that run in the background start.
    7. The server accepts clients.

Stop is cancellation, in reverse: leadership is handed over, no further client is accepted, requests
under way are answered, background tasks end, the session with the store ends (and with it the
registration), logs are made durable, sockets are released.

An unexpected error in any component ends the broker.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from odradek import __version__
from odradek.broker.components import Components, Foundation, assemble
from odradek.broker.departed_brokers import DepartedBrokers
from odradek.broker.dispatch import Dispatcher, declare_apis
from odradek.broker.identity import generated_broker_id, proposed_cluster_id
from odradek.broker.joining_cluster import join_cluster
from odradek.broker.leadership_handover import hand_over_leadership
from odradek.broker.lease import watch_lease
from odradek.broker.metadata_session import (
    is_shared,
    metadata_session,
    registration_timeout_s,
    session_timeout_s,
)
from odradek.broker.network.listeners import CannotListen
from odradek.broker.network.request_log import RequestLog
from odradek.broker.network.request_serving import Serve
from odradek.broker.network.server import ConnectionFollower, Server
from odradek.cluster.membership import BrokerIdTaken
from odradek.cluster.topics import Topics
from odradek.config import BrokerSettings, InvalidSetting
from odradek.config.audit_settings import NO_SINK
from odradek.config.live import LiveSettings
from odradek.config.stock_files import GENERATED_ID
from odradek.metadata import (
    ClusterImage,
    ImageChange,
    Metadata,
    MetadataCache,
    MetadataError,
    MetadataStore,
)
from odradek.metadata.image import difference
from odradek.metadata.node_values import BrokerRegistration
from odradek.metadata.store_setup import prepare_store
from odradek.protocol.types import BrokerId
from odradek.replication.peers import Peers, peer_security
from odradek.storage import StorageError
from odradek.storage.manager import LogManager
from odradek.storage.text_files import encode_uuid
from odradek.telemetry.logs import TOLD
from odradek.world import World

if TYPE_CHECKING:
    from odradek.broker.audit.log import AuditLog
    from odradek.broker.management.port import ManagementPort

logger = logging.getLogger("odradek.server")

# How long clients have to take the last replies when the broker stops.
_MAX_DRAIN_S: Final = 5.0


class BrokerCannotStart(Exception):
    """Something outside keeps the broker from starting; the message is for its operator."""


class Broker:
    """`run` starts the broker, serves until it is cancelled, and stops the broker cleanly."""

    def __init__(
        self, settings: BrokerSettings, world: World, metadata: Metadata | None = None
    ) -> None:
        """`metadata` is a store that outlives the broker. Without it the broker opens the store
        that its settings name."""
        self._world = world
        self._metadata = metadata
        self._settings = LiveSettings(settings)
        self._id = BrokerId(settings.node_id)
        self._server = Server(settings, world)
        # The address of the first listener, as clients are told it; known when the broker is ready.
        self.bootstrap = ""
        # None if there is no `management.listener`.
        self._port: ManagementPort | None = None

    @property
    def management_url(self) -> str | None:
        """Where metrics and health are served, if they are; known from the start on."""
        return None if self._port is None else self._port.url

    @property
    def connections(self) -> int:
        """How many connections are open."""
        return len(self._server.connections.open)

    async def run(self, on_ready: Callable[[], object] | None = None) -> None:
        """Serves until cancelled. Raises `BrokerCannotStart` if the start fails."""
        begun_s = self._world.clock.monotonic_s()
        self._log_start()
        try:
            async with self._running():
                took_ms = 1000 * (self._world.clock.monotonic_s() - begun_s)
                logger.info(
                    "broker %d is ready at %s, %d ms later", self._id, self.bootstrap, took_ms
                )
                if on_ready is not None:
                    on_ready()
                try:
                    await asyncio.get_running_loop().create_future()
                finally:
                    logger.info("broker %d stops", self._id)
        except asyncio.CancelledError:
            logger.info("broker %d has stopped", self._id)
            raise
        except (InvalidSetting, CannotListen, StorageError, MetadataError, BrokerIdTaken) as error:
            raise BrokerCannotStart(str(error)) from error

    def _log_start(self) -> None:
        settings = self._settings.broker
        logger.info(
            "broker %s starts: odradek %s, listeners %s, data in %s, metadata in %s",
            "without an id" if self._id == GENERATED_ID else self._id,
            __version__,
            ",".join(map(str, settings.listeners)),
            ",".join(settings.data_directories),
            settings.odradek_metadata_path or settings.odradek_metadata_store,
        )
        for warning in settings.warnings:
            logger.warning("%s", warning, extra=TOLD)
        if settings.idle_sentence is not None:
            logger.warning("%s", settings.idle_sentence, extra=TOLD)

    # Start and stop

    @asynccontextmanager
    async def _running(self) -> AsyncIterator[None]:
        """Leaving the blocks is the order of the stop."""
        await self._server.bind()
        try:
            async with (
                self._management() as self._port,
                metadata_session(self._metadata, self._settings.broker, self._world) as store,
                self._components(store) as components,
                self._background(components) as fetching,
            ):
                if self._server.secured is not None:
                    services = components.services
                    self._server.secured.use(services)
                serving = self._serving(components)
                await self._server.accept(serving.serve, *serving.followers)
                if self._port is not None:
                    self._port.health.running(components)
                try:
                    async with _running_beside(declare_apis(), *serving.beside):
                        yield
                finally:
                    if self._port is not None:
                        self._port.health.stopping()
                    await hand_over_leadership(
                        self._settings.broker, components.services.images.cache, self._id, fetching
                    )
                    await self._server.stop_accepting()
                    # Requests that wait for replication or for records are answered.
                    components.services.replicas.resign()
                    await self._server.drain(_MAX_DRAIN_S)
                    components.services.quotas.close()
        finally:
            await self._server.close()

    @asynccontextmanager
    async def _management(self) -> AsyncIterator["ManagementPort | None"]:
        """Opens the management port if there is one. It answers from now on, while logs are
        loaded too."""
        listener = self._settings.broker.management_listener
        if listener is None:
            yield None
            return
        from odradek.broker.management.port import ManagementPort  # noqa: PLC0415 - if asked for

        port = ManagementPort(self._settings.broker, listener, self._world)
        await port.open()
        try:
            yield port
        finally:
            await port.close()

    def _serving(self, components: Components) -> "_Serving":
        dispatcher = Dispatcher(components.services)
        if (audit := components.services.audit) is not None and audit.records_changes:
            from odradek.broker.audit.changes import audited  # noqa: PLC0415 - if asked for

            dispatcher.listen_in(audit, partial(audited, audit))
        connections, clock = self._server.connections, self._world.clock
        components.services.quotas.attach(dispatcher, connections)
        serve: Serve = dispatcher.serve
        followers: list[ConnectionFollower] = []
        beside: list[Coroutine[Any, Any, None]] = []
        telemetry = components.services.client_telemetry
        if telemetry is not None and telemetry.forwarder is not None:
            beside.append(telemetry.forwarder.run())
        if (validation := components.services.schema_validation) is not None:
            beside.append(validation.run())
        if self._port is not None:
            meter, measuring = self._port.attach(components, self._server, dispatcher)
            serve = meter.serve
            followers.append(meter)
            beside += measuring
        endpoint = self._settings.broker.odradek_tracing_otlp_endpoint
        if endpoint is not None:
            from odradek.broker.tracing.slow_requests import SlowRequests  # noqa: PLC0415 - if asked for

            tracer = SlowRequests(dispatcher, components.services, serve, endpoint)
            serve = tracer.serve
            followers.append(tracer)
            beside.append(tracer.run())
        followers.append(RequestLog(dispatcher, connections, clock, serve))
        return _Serving(serve, tuple(followers), tuple(beside))

    @asynccontextmanager
    async def _components(self, store: MetadataStore) -> AsyncIterator[Components]:
        """Reads the image, loads the logs, makes the components and joins the cluster."""
        world, settings = self._world, self._settings
        run_id = encode_uuid(world.randomness.uuid().bytes)
        cluster_id = proposed_cluster_id(settings.broker, world)
        # A new store is named after the run that sets it up.
        cluster_id = await prepare_store(store, cluster_id, store_id=run_id)
        cache = MetadataCache(store)
        await cache.load()
        if self._id == GENERATED_ID:
            self._id = await generated_broker_id(settings.broker, world, cache)
            settings.broker = settings.broker.with_id(self._id)
        self._put_settings_in_force(cache.image)
        logs = await self._load_logs(cache, cluster_id, run_id)
        departed_brokers = DepartedBrokers()
        peers = Peers(
            cache,
            settings.broker.effective_inter_broker_listener_name,
            f"broker-{self._id}",
            listener=departed_brokers,
            request_timeout_ms=settings.broker.request_timeout_ms,
            receive_buffer_bytes=settings.broker.replica_socket_receive_buffer_bytes,
            security=peer_security(settings, world) if self._is_shared else None,
        )
        try:
            components = self._assemble(
                Foundation(self._id, world, settings, store, cache, logs, peers, departed_brokers)
            )
            await self._join_cluster(components)
            yield components
        finally:
            peers.close()
            # Before the logs are made durable, which may take a while: the other brokers need not
            # wait for that.
            await store.close()
            await logs.close()

    async def _load_logs(self, cache: MetadataCache, cluster_id: str, run_id: str) -> LogManager:
        settings = self._settings
        logs = LogManager(
            settings.broker,
            self._world,
            cluster_id=cluster_id,
            node_id=self._id,
            store_id=cache.image.store_id,
            run_id=run_id,
        )
        if self._port is not None:
            self._port.health.loading(logs)
        await logs.load(
            lambda topic: settings.put_in_force(topic, cache.image.topic_overrides(topic))
        )
        return logs

    def _assemble(self, foundation: Foundation) -> Components:
        return assemble(
            foundation,
            is_store_shared=self._is_shared,
            registration=self._registration,
            follow_settings=self._follow_settings,
            open_audit=lambda topics: self._open_audit(topics, foundation),
            security=self._server.secured,
        )

    def _open_audit(self, topics: Topics, foundation: Foundation) -> "AuditLog | None":
        if self._settings.broker.odradek_audit_sink == NO_SINK:
            return None
        from odradek.broker.audit.opening import open_audit  # noqa: PLC0415 - if asked for

        return open_audit(
            self._id,
            self._settings.broker,
            self._world,
            topics,
            foundation.cache,
            foundation.peers,
        )

    async def _join_cluster(self, components: Components) -> None:
        if self._port is not None:
            self._port.health.joining()
        services = components.services
        logs, cache = services.logs, services.images.cache
        await join_cluster(
            components,
            self._id,
            self._settings.broker,
            self._world,
            patience_s=registration_timeout_s(self._settings.broker),
            is_alone=not self._is_shared,
        )
        first = self._server.advertised()[0]
        self.bootstrap = f"{first.host}:{first.port}"
        cache.subscribe(components.follow, prepare=services.replicas.prepare)
        logs.on_room_changed.add(lambda _: components.follow_again())
        components.follow(difference(ClusterImage(), cache.image))
        services.replicas.remove_strays()

    @asynccontextmanager
    async def _background(
        self, components: Components
    ) -> AsyncIterator[list["asyncio.Task[None]"]]:
        """Runs components beside the requests. Yields the tasks that fetch as a follower, which
        end before the others when the broker hands its leadership over."""
        services = components.services
        secured = self._server.secured
        reloading = () if secured is None else (secured.run(self._settings),)
        sweeping = () if components.token_expiry is None else (components.token_expiry.run(),)
        async with (
            _running_beside(components.fetchers.run()) as fetching,
            _running_beside(
                services.images.cache.run(),
                services.logs.run(),
                services.key_indexes.run(),
                components.isr_changes.run(),
                components.coordinators.run(),
                components.controller.run(),
                components.offline_replicas.run(),
                services.replicas.log_creation_retries.run(components.follow_topics_again),
                self._stay_registered(components),
                watch_lease(
                    services.replicas,
                    components.coordinators,
                    components.membership,
                    session_timeout_s(self._settings.broker),
                ),
                self._server.close_idle_connections(self._settings),
                *(() if services.audit is None else (services.audit.run(),)),
                *reloading,
                *sweeping,
            ),
        ):
            yield fetching

    async def _stay_registered(self, components: Components) -> None:
        """Registers again after the metadata store has ended the session of this broker."""
        services = components.services

        def on_loss() -> None:
            components.controller.resign()
            services.replicas.resign()

        def on_return() -> None:
            services.logs.begin_run(components.membership.epoch)
            components.follow_again()
            # The coordinators' partitions could not be loaded without a lease.
            components.coordinators.wake()

        await components.membership.run(
            registration_timeout_s(self._settings.broker), on_loss=on_loss, on_return=on_return
        )

    # What components ask the broker

    @property
    def _is_shared(self) -> bool:
        """Whether other brokers may use the same metadata store."""
        return is_shared(self._metadata, self._settings.broker)

    def _registration(self, epoch: int) -> BrokerRegistration:
        settings = self._settings.broker
        advertised = self._server.advertised()
        protocols = {
            listener.name: settings.security_protocol(listener.name) for listener in advertised
        }
        now_ms = self._world.clock.now_ms()
        return BrokerRegistration(advertised, protocols, settings.broker_rack, now_ms, epoch)

    def _follow_settings(self, change: ImageChange) -> bool:
        return bool(change.broker_configs) and self._put_settings_in_force(change.after)

    def _put_settings_in_force(self, image: ClusterImage) -> bool:
        """Applies the settings that the image has for all brokers and for this one; returns
        whether any of them is new."""
        is_changed = self._settings.update(
            image.cluster_default_config, image.broker_config(self._id)
        )
        if is_changed:
            self._server.apply_limits(self._settings.broker)
            if self._server.secured is not None:
                self._server.secured.settings_changed()
        return is_changed


class _Serving(NamedTuple):
    """What serves the requests of clients, who is told of their connections, and what runs
    beside."""

    serve: Serve
    followers: tuple[ConnectionFollower, ...]
    beside: tuple[Coroutine[Any, Any, None], ...] = ()


@asynccontextmanager
async def _running_beside(
    *components: "asyncio._CoroutineLike[None]",
) -> AsyncIterator[list["asyncio.Task[None]"]]:
    """Runs the components beside the body; ends them with it, and it with them."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(component) for component in components]
        try:
            yield tasks
        finally:
            for task in tasks:
                task.cancel()
