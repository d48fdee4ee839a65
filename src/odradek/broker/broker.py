"""One broker: its parts, the order in which they start, and the order in which they stop.

Start: metadata store, logs, cluster membership, replicas, and only then the doors open. Stop
is cancellation, in reverse: nobody is let in, requests under way are answered, logs are made
durable, the registration goes. An unexpected error in any part ends the broker.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from typing import Final

from odradek import __version__
from odradek.broker.all_topics_cache import AllTopicsCache
from odradek.broker.client_metadata import ClientMetadata
from odradek.broker.config_descriptions import ConfigDescriptionCache
from odradek.broker.consumer_joins import ConsumerJoins
from odradek.broker.coordinators import Coordinators
from odradek.broker.departed_brokers import DepartedBrokers
from odradek.broker.dispatch import Dispatcher, declare_apis
from odradek.broker.fetching.due_partitions import is_known
from odradek.broker.fetching.fetch_sessions import PARTITION_BYTES, FetchSessions
from odradek.broker.lease import SessionLease, watch_lease
from odradek.broker.log_adoption import adopt_unknown_logs
from odradek.broker.network.connections import Connections
from odradek.broker.network.listeners import CannotListen, Listeners, require_plaintext
from odradek.broker.network.request_log import RequestLog
from odradek.broker.services import Services
from odradek.cluster.acls import AccessRules
from odradek.cluster.configs import Configs
from odradek.cluster.controller import Controller
from odradek.cluster.internal_topics import repair
from odradek.cluster.membership import BrokerIdTaken, Membership, PreviousRun
from odradek.cluster.offline_replicas import OfflineReplicas
from odradek.cluster.producer_ids import ProducerIds, highest_id
from odradek.cluster.topics import Topics
from odradek.config import BrokerSettings, InvalidSetting
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
from odradek.metadata.memory import MemoryMetadata
from odradek.metadata.node_values import BrokerRegistration
from odradek.metadata.sqlite import SqliteMetadata
from odradek.metadata.store_setup import prepare_store
from odradek.protocol.types import BrokerId, TopicPartition
from odradek.replication.fetchers import ReplicaFetchers
from odradek.replication.in_sync_sets import InSyncSets
from odradek.replication.peers import Peers
from odradek.replication.replicas import Replicas
from odradek.security.authorizer import load_authorizer
from odradek.storage import StorageError
from odradek.storage.checkpoints import encode_uuid, read_directory_properties
from odradek.storage.key_index.keeper import KeyIndexes
from odradek.storage.manager import LogManager
from odradek.telemetry.logs import TOLD
from odradek.world import World

logger = logging.getLogger("odradek.server")

_DRAIN_S: Final = 5.0
# Leadership that has not moved by then stays; an operator waits for us.
_HAND_OVER_S: Final = 10.0


class BrokerCannotStart(Exception):
    """Something outside keeps the broker from starting; the message is for its operator."""


class Broker:
    """`run` starts it, serves until cancelled, and stops it cleanly."""

    def __init__(
        self, settings: BrokerSettings, world: World, metadata: Metadata | None = None
    ) -> None:
        """Opens the metadata store that the settings name, unless one is given that outlives it."""
        self._world = world
        self._metadata = metadata
        self._settings = LiveSettings(settings)
        self._id = BrokerId(settings.node_id)
        self._connections = Connections(
            most=settings.max_connections,
            max_per_address=settings.max_connections_per_ip,
            overrides=dict(settings.max_connections_per_ip_overrides),
            frame_bytes=settings.socket_request_max_bytes,
            send_buffer_bytes=settings.socket_send_buffer_bytes,
            max_queued_requests=settings.queued_max_requests,
            max_request_bytes=request_memory_bytes(settings.queued_max_request_bytes, world),
            max_creation_rate=settings.max_connection_creation_rate,
        )
        self._listeners = Listeners(
            settings.listeners,
            settings.effective_advertised_listeners,
            settings.socket_listen_backlog_size,
            receive_buffer_bytes=settings.socket_receive_buffer_bytes,
        )
        self.bootstrap = ""

    @property
    def connections(self) -> int:
        """How many connections are open."""
        return len(self._connections.open)

    async def run(self, on_ready: Callable[[], object] | None = None) -> None:
        """Serves until cancelled. Raises `BrokerCannotStart` if it never could."""
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

    @asynccontextmanager
    async def _running(self) -> AsyncIterator[None]:
        settings = self._settings.broker
        for listener in settings.listeners:
            require_plaintext(listener.name, settings.security_protocol(listener.name))
        doors: list[RequestLog] = []
        # Clients may knock before there is anybody to open: the list is filled by then.
        await self._listeners.open(lambda name: doors[0].connect(name))  # noqa: PLW0108
        try:
            async with self._store() as store, self._parts(store) as parts:
                dispatcher = Dispatcher(parts.services)
                doors.append(RequestLog(dispatcher, self._connections, self._world.clock))
                await self._listeners.accept()
                try:
                    async with _background(declare_apis()):
                        yield
                finally:
                    await self._hand_over(parts)
                    await self._close_doors(parts.services.replicas)
        finally:
            for door in doors:
                door.close()
            await self._listeners.close()

    # Metadata

    @asynccontextmanager
    async def _store(self) -> AsyncIterator[MetadataStore]:
        metadata = self._metadata or self._open_metadata()
        session = metadata.connect()
        try:
            yield session
        finally:
            await session.close()
            if metadata is not self._metadata:
                await metadata.close()

    def _open_metadata(self) -> Metadata:
        settings = self._settings.broker
        if settings.odradek_metadata_store == "memory":
            return MemoryMetadata()
        if settings.odradek_metadata_store == "socket":
            return self._shared_metadata()
        if settings.odradek_metadata_store == "zookeeper":
            return self._zookeeper_metadata()
        directory = settings.data_directories[0]
        self._make_directory(directory)
        path = settings.odradek_metadata_path or f"{directory}/metadata.sqlite"
        return SqliteMetadata(path, self._world)

    def _shared_metadata(self) -> Metadata:
        from odradek.metadata.remote import SocketMetadata  # noqa: PLC0415 - only in clusters

        settings = self._settings.broker
        if settings.odradek_metadata_path is None:
            raise InvalidSetting(
                "odradek.metadata.path", "(unset)", "name the Unix socket of the metadata service"
            )
        return SocketMetadata(
            settings.odradek_metadata_path,
            self._world,
            session_timeout_ms=settings.odradek_metadata_session_timeout_ms,
        )

    def _zookeeper_metadata(self) -> Metadata:
        from odradek.metadata.remembered_session import (  # noqa: PLC0415 - only in clusters
            FILE_NAME,
            RememberedSession,
        )
        from odradek.metadata.zookeeper import ZookeeperMetadata  # noqa: PLC0415 - needs kazoo

        settings = self._settings.broker
        if settings.zookeeper_connect is None:
            raise InvalidSetting(
                "zookeeper.connect", "(unset)", "name the ensemble, as in host:2181/chroot"
            )
        directory = settings.data_directories[0]
        return ZookeeperMetadata(
            settings.zookeeper_connect,
            self._world,
            session_timeout_ms=settings.zookeeper_session_timeout_ms,
            connection_timeout_ms=settings.zookeeper_connection_timeout_ms,
            remembered=RememberedSession(self._world.disk, f"{directory}/{FILE_NAME}"),
        )

    def _make_directory(self, directory: str) -> None:
        try:
            self._world.disk.make_directories(directory)
        except OSError as error:
            raise StorageError(
                f"cannot make the directory {directory}: {error.strerror}; choose another one"
            ) from error

    def _cluster_id(self) -> str:
        """The id that a log directory carries already, or a new one."""
        directory = self._settings.broker.data_directories[0]
        try:
            properties = read_directory_properties(self._world.disk, directory)
        except OSError:
            properties = {}
        return properties.get("cluster.id") or encode_uuid(self._world.randomness.uuid().bytes)

    async def _generated_id(self, images: MetadataCache) -> BrokerId:
        """The id of a broker whose settings have none: that of its directories, or a new one."""
        from odradek.cluster.broker_ids import (  # noqa: PLC0415 - seldom needed
            id_of_directories,
            next_broker_id,
        )

        settings = self._settings.broker
        kept = id_of_directories(self._world.disk, settings.data_directories)
        if kept is not None:
            return kept
        made = await next_broker_id(images, settings.reserved_broker_max_id)
        logger.info("broker %d has been given its id", made)
        return made

    # The parts

    @asynccontextmanager
    async def _parts(self, store: MetadataStore) -> AsyncIterator["_Parts"]:
        world, settings = self._world, self._settings
        new_store_id = encode_uuid(world.randomness.uuid().bytes)
        cluster_id = await prepare_store(store, self._cluster_id(), new_store_id)
        images = MetadataCache(store)
        await images.load()
        if self._id == GENERATED_ID:
            self._id = await self._generated_id(images)
            settings.broker = settings.broker.with_id(self._id)
        self._apply_settings(images)
        logs = LogManager(
            settings.broker,
            world,
            cluster_id=cluster_id,
            node_id=self._id,
            store_id=images.image.store_id,
        )
        await logs.load(
            lambda topic: settings.put_in_force(topic, images.image.topic_overrides(topic))
        )
        peers = Peers(
            images,
            settings.broker.effective_inter_broker_listener_name,
            f"broker-{self._id}",
            request_timeout_ms=settings.broker.request_timeout_ms,
            receive_buffer_bytes=settings.broker.replica_socket_receive_buffer_bytes,
        )
        try:
            parts = self._assemble(store, images, logs, peers)
            await self._join(parts)
            images.subscribe(parts.follow)
            images.prepare = parts.services.replicas.prepare
            logs.on_room_changed = lambda: parts.follow_again(images.image)
            parts.follow(difference(ClusterImage(), images.image))
            parts.services.replicas.remove_strays()
            async with _background(parts.fetchers.run()) as fetching:
                parts.fetching.extend(fetching)
                async with _background(
                    images.run(),
                    logs.run(),
                    parts.services.key_indexes.run(),
                    parts.in_sync_sets.run(),
                    parts.coordinators.run(),
                    parts.controller.run(),
                    parts.offline_replicas.run(),
                    parts.services.replicas.log_creation_retries.run(
                        lambda topics: parts.follow_topics_again(images.image, topics)
                    ),
                    self._stay(parts),
                    watch_lease(
                        parts.services.replicas,
                        parts.coordinators,
                        parts.membership,
                        self._session_s,
                    ),
                    self._reap(),
                ):
                    yield parts
        finally:
            peers.close()
            # Before the logs are made durable, which may take a while: nobody is to wait for us.
            await store.close()
            await logs.close()

    def _assemble(
        self, store: MetadataStore, images: MetadataCache, logs: LogManager, peers: Peers
    ) -> "_Parts":
        world, settings = self._world, self._settings
        replicas = Replicas(self._id, logs, settings, world.clock)
        membership = Membership(self._id, store, images, self._registration, logs)
        if self._is_shared:
            replicas.lease = SessionLease(store, membership)
        coordinators = Coordinators(
            self._id, replicas, images, peers, world=world, settings=settings.broker
        )

        async def longest_log(
            where: TopicPartition, candidates: Sequence[BrokerId]
        ) -> BrokerId | None:
            from odradek.cluster import log_end_offsets  # noqa: PLC0415 - seldom needed

            return await log_end_offsets.longest_log(peers, where, candidates)

        departed_brokers = DepartedBrokers()
        peers.on_broken, peers.on_open = departed_brokers.broke, departed_brokers.answered
        services = Services(
            broker_id=self._id,
            world=world,
            settings=settings,
            images=ClientMetadata(self._id, replicas, images),
            departed_brokers=departed_brokers,
            topics=Topics(store, images, settings, world.randomness),
            configs=Configs(store, images, settings),
            replicas=replicas,
            groups=coordinators.groups,
            consumer_joins=ConsumerJoins(coordinators.groups),
            transactions=coordinators.transactions,
            markers=coordinators.markers,
            joins=coordinators.joins,
            logs=logs,
            key_indexes=KeyIndexes(world),
            producer_ids=ProducerIds(images, self._id, lambda: highest_id(logs.logs.values())),
            fetch_sessions=FetchSessions(
                settings.broker.max_incremental_fetch_session_cache_slots,
                world.randomness,
                max_partitions=world.memory_bytes // 32 // PARTITION_BYTES,
                is_known=lambda entry: is_known(images.image, entry),
            ),
            all_topics_cache=AllTopicsCache(),
            config_descriptions=ConfigDescriptionCache(),
            longest_log=longest_log,
            access_rules=AccessRules(store, images),
            authorizer=load_authorizer(settings.broker),
        )
        return _Parts(
            services,
            coordinators,
            membership,
            Controller(
                self._id, store, images, settings, clock=world.clock, longest_log=longest_log
            ),
            fetchers=ReplicaFetchers(self._id, replicas, peers, images, settings),
            in_sync_sets=InSyncSets(self._id, replicas, images, settings),
            offline_replicas=OfflineReplicas(self._id, images, logs),
            follow_settings=self._follow_settings,
        )

    # The cluster

    def _registration(self, epoch: int) -> BrokerRegistration:
        settings = self._settings.broker
        advertised = self._listeners.advertised()
        protocols = {one.name: settings.security_protocol(one.name) for one in advertised}
        now_ms = self._world.clock.now_ms()
        return BrokerRegistration(advertised, protocols, settings.broker_rack, now_ms, epoch)

    async def _join(self, parts: "_Parts") -> None:
        logs, images = parts.services.logs, parts.services.images.cache
        clean_epoch = logs.last_clean_broker_epoch if logs.had_clean_shutdown else None
        previous = PreviousRun(clean_epoch, logs.last_killed_life or ())
        # If we get no further than this, the marker of the last stop is still true.
        logs.broker_epoch = logs.last_clean_broker_epoch
        await parts.membership.reach_store(self._patience_s)
        logs.begin_life(await parts.membership.join(previous, self._patience_s))
        await parts.controller.elect()
        await adopt_unknown_logs(
            images, logs, self._id, self._world, self._settings.broker, is_alone=not self._is_shared
        )
        await repair(images, parts.services.configs)
        first = self._listeners.advertised()[0]
        self.bootstrap = f"{first.host}:{first.port}"

    async def _stay(self, parts: "_Parts") -> None:
        """Joins again when the metadata store has given our session up."""

        def on_loss() -> None:
            parts.controller.resign()
            parts.services.replicas.resign()

        def on_return() -> None:
            parts.services.logs.begin_life(parts.membership.epoch)
            parts.follow_again(parts.services.images.cache.image)
            # Their machines could not be loaded without a lease.
            parts.coordinators.wake()

        await parts.membership.run(self._patience_s, on_loss=on_loss, on_return=on_return)

    async def _hand_over(self, parts: "_Parts") -> None:
        """Lets others lead before the doors close, where there are others."""
        images = parts.services.images.cache
        if not self._settings.broker.controlled_shutdown_enable or len(images.image.brokers) < 2:
            return
        from odradek.cluster.controlled_shutdown import (  # noqa: PLC0415 - only in clusters
            hand_over,
            leave_in_sync_sets,
        )

        async def leave() -> None:
            async with asyncio.timeout(_HAND_OVER_S):
                await hand_over(images, self._id)
                for task in parts.fetching:
                    task.cancel()
                await asyncio.wait(parts.fetching)
                await leave_in_sync_sets(images, self._id)

        settings = self._settings.broker
        for retries_left in reversed(range(1 + settings.controlled_shutdown_max_retries)):
            try:
                await leave()
                return
            except TimeoutError:
                break
            except MetadataError as error:
                if retries_left:
                    backoff_ms = settings.controlled_shutdown_retry_backoff_ms
                    logger.warning("cannot hand over yet: %s; trying again", error)
                    await asyncio.sleep(backoff_ms / 1000)
        logger.warning("stopping without handing over: the metadata store did not answer in time")

    @property
    def _is_shared(self) -> bool:
        """Whether other brokers may use the same metadata store."""
        own = ("sqlite", "memory")
        return self._metadata is not None or self._settings.broker.odradek_metadata_store not in own

    @property
    def _session_s(self) -> float:
        settings = self._settings.broker
        if settings.odradek_metadata_store == "zookeeper":
            return settings.zookeeper_session_timeout_ms / 1000
        return settings.odradek_metadata_session_timeout_ms / 1000

    @property
    def _patience_s(self) -> float:
        """How long the registration of our own previous run may take to expire."""
        settings = self._settings.broker
        if settings.odradek_metadata_store == "zookeeper":
            # An ensemble may not agree to so short a timeout, counts in ticks of some seconds,
            # and begins to count again when it elects another leader.
            return 2 * settings.zookeeper_session_timeout_ms / 1000 + 10.0
        return settings.odradek_metadata_session_timeout_ms / 1000 + 1.0

    def _follow_settings(self, change: ImageChange) -> bool:
        changed = change.broker_configs and self._settings.update(
            change.after.cluster_default_config, change.after.broker_config(self._id)
        )
        if changed:
            self._reconfigure()
        return changed

    def _apply_settings(self, images: MetadataCache) -> None:
        image = images.image
        self._settings.update(image.cluster_default_config, image.broker_config(self._id))
        self._reconfigure()

    def _reconfigure(self) -> None:
        settings = self._settings.broker
        self._connections.most = settings.max_connections
        self._connections.max_per_address = settings.max_connections_per_ip
        self._connections.overrides = dict(settings.max_connections_per_ip_overrides)
        self._connections.rate.per_second = settings.max_connection_creation_rate

    # Doors

    async def _close_doors(self, replicas: Replicas) -> None:
        """Lets nobody in, answers what is under way, then sends everybody home."""
        await self._listeners.close()
        replicas.resign()
        await self._connections.drain(_DRAIN_S)

    async def _reap(self) -> None:
        """Closes connections that have been silent for too long."""
        loop = asyncio.get_running_loop()
        while True:
            idle_s = self._settings.broker.connections_max_idle_ms / 1000
            await asyncio.sleep(min(idle_s / 2, 10.0))
            self._connections.reap(loop.time() - idle_s)


class _Parts:
    """What runs beside the handlers, and the order in which they hear of a new image."""

    def __init__(
        self,
        services: Services,
        coordinators: Coordinators,
        membership: Membership,
        controller: Controller,
        *,
        fetchers: ReplicaFetchers,
        in_sync_sets: InSyncSets,
        offline_replicas: OfflineReplicas,
        follow_settings: Callable[[ImageChange], bool],
    ) -> None:
        self.services = services
        self.coordinators = coordinators
        self.membership = membership
        self.controller = controller
        self.fetchers = fetchers
        self.in_sync_sets = in_sync_sets
        self.offline_replicas = offline_replicas
        self.fetching: list[asyncio.Task[None]] = []
        self._follow_settings = follow_settings

    def follow(self, change: ImageChange) -> None:
        # First of all: whom a new rule keeps out must not be let in by what follows.
        if self.services.authorizer is not None:
            self.services.authorizer.follow(change.after.acls)
        is_reconfigured = self._follow_settings(change)
        self._follow_replicas(change)
        if is_reconfigured:
            self.services.replicas.reconfigure()
        self.services.departed_brokers.follow(change)
        self.coordinators.follow(change)

    def follow_again(self, image: ClusterImage) -> None:
        """Takes up the roles that the image gives: after everything was resigned, and when a disk
        is full or has room again."""
        self._follow_replicas(difference(ClusterImage(), image))

    def follow_topics_again(self, image: ClusterImage, topics: Collection[str]) -> None:
        """The same for topics of which a log could not be made."""
        wanted = dict.fromkeys(topic for topic in topics if topic in image.topics)
        nobody: dict[int, None] = {}
        self._follow_replicas(
            ImageChange(ClusterImage(), image, wanted.keys(), nobody.keys(), broker_configs=False)
        )

    def _follow_replicas(self, change: ImageChange) -> None:
        self.services.replicas.follow(change)
        self.fetchers.follow(change)
        self.in_sync_sets.follow(change)
        self.offline_replicas.follow(change)


def request_memory_bytes(setting: int, world: World) -> int:
    """Returns how many bytes of requests may be held: a quarter of the memory where the setting
    leaves it to us. Nobody has to log in to send a request."""
    return setting if setting > 0 else max(world.memory_bytes // 4, 1)


@asynccontextmanager
async def _background(
    *parts: "asyncio._CoroutineLike[None]",
) -> AsyncIterator[list["asyncio.Task[None]"]]:
    """Runs the parts beside the body; ends them with it, and it with them."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(part) for part in parts]
        try:
            yield tasks
        finally:
            for task in tasks:
                task.cancel()
