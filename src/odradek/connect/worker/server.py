"""The process of a worker: its parts, its REST interface, and the order in which they start.

    brokers answer -> internal topics checked and read -> listening -> in the group -> tasks run

It listens when it has read the topics, so whoever asks gets all connectors. A standalone worker is
its own group, and gets its connectors from files.
"""

import asyncio
import logging
import os
import ssl
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from odradek.client.admin.admin import Admin
from odradek.config.secrets import DeclaredProviders
from odradek.config.setting import InvalidSetting
from odradek.connect import plugin_packages
from odradek.connect.api.admin import AdminEndpoints
from odradek.connect.api.connectors import ConnectorEndpoints
from odradek.connect.api.offsets import OffsetEndpoints
from odradek.connect.api.plugins import PluginEndpoints
from odradek.connect.api.surface import Surface, explain
from odradek.connect.engine.context import EngineContext
from odradek.connect.engine.offset_store import OffsetStore
from odradek.connect.errors import ConnectError
from odradek.connect.singer import allowed
from odradek.connect.worker import engines
from odradek.connect.worker.authorization import Authorization
from odradek.connect.worker.checking import Checker
from odradek.connect.worker.config_store import ConfigStore, MemoryConfigs, TopicConfigs
from odradek.connect.worker.fencing import Fencing
from odradek.connect.worker.membership import Membership
from odradek.connect.worker.metrics import ConnectMetrics
from odradek.connect.worker.offsets import Offsets
from odradek.connect.worker.operations import Operations
from odradek.connect.worker.plan_check import plan_check_of
from odradek.connect.worker.preview import Preview
from odradek.connect.worker.secrets import Secrets
from odradek.connect.worker.settings import DistributedSettings, StandaloneSettings
from odradek.connect.worker.status_store import StatusStore, TopicStatuses
from odradek.connect.worker.worker import Shares, Worker
from odradek.services.forwarding import Forwarder
from odradek.services.running import Service, announce, run_service
from odradek.services.start import CannotStart, Say, when_brokers_answer
from odradek.web.endpoints import Endpoint
from odradek.web.problems import Problem
from odradek.world import World

_log = logging.getLogger("odradek.connect")

_INIT_S: Final = 60.0
_REQUEST_S: Final = 40.0

WorkerFile = StandaloneSettings | DistributedSettings


class ConnectService(Service):
    title = "Odradek Connect"

    def __init__(self, settings: WorkerFile, world: World) -> None:
        super().__init__(settings)
        self.own = settings
        self._world = world
        self.secrets = Secrets(_providers(settings.providers, world))
        clients = settings.own_client()
        self.offset_store = OffsetStore(clients, settings.offset_storage_topic)
        self.store, self.statuses = _stores(settings, clients)
        group_id = str(settings.group_id)
        fencing = Fencing(settings.connector_clients(), group_id)
        self.worker = Worker(
            self.store,
            self.statuses,
            self.secrets,
            world,
            fencing,
            restarts_tasks=settings.odradek_restart_failed_tasks,
            tracks_topics=settings.topic_tracking_enable,
            resets_topics=settings.topic_tracking_allow_reset,
            logs_directory=settings.odradek_connector_logs_dir.rstrip("/"),
        )
        context = EngineContext(
            settings.converter_properties(),
            settings.connector_clients(),
            self.offset_store,
            group_id,
            settings.odradek_hang_timeout_ms / 1000,
            settings.topic_creation_enable,
            settings.task_shutdown_graceful_timeout_ms / 1000,
            settings.spark,
            plan_check_of(self.store, clients),
        )
        self.engine = engines.LazyEngine(
            engines.engine_name(settings.odradek_engine), context, self.worker
        )
        self.worker.use(self.engine)
        checker = Checker(self.secrets, context.clients, self.offset_store.topic, context.worker)
        offsets = Offsets(self.offset_store, clients, context.clients, fencing)
        self.operations = Operations(self.worker, checker, offsets)
        self.forwarder = Forwarder(_trust(settings, world))
        allow = Authorization(self, settings).check if settings.uses_sasl else _everybody
        preview = Preview(context)
        self.surface = Surface(self.operations, preview, self.forwarder, _REQUEST_S, allow)
        self.admin = AdminEndpoints(self.surface, world)
        self.metrics = ConnectMetrics(self)

    def endpoints(self) -> Iterable[Endpoint]:
        return [
            *self.admin.endpoints(),
            *ConnectorEndpoints(self.surface).endpoints(),
            *OffsetEndpoints(self.surface).endpoints(),
            *PluginEndpoints(self.surface).endpoints(),
        ]

    def explain(self, error: Exception) -> Problem | None:
        return explain(error)

    async def _ready(self, request: Request) -> Response:
        if self.worker.shares is None:
            return PlainTextResponse("the worker is not in its group yet\n", 503)
        return PlainTextResponse("ready\n")

    # The start

    async def prepare(self, say: Say) -> None:
        """Waits for the brokers, and makes or checks the internal topics."""
        servers = self.own.own_client()["bootstrap.servers"]
        try:
            await when_brokers_answer(self._prepare_topics, servers, _INIT_S, say)
        except ConnectError as error:
            raise CannotStart(str(error)) from None

    async def _prepare_topics(self) -> None:
        own = self.own
        limits = {"default.api.timeout.ms": 5_000, "request.timeout.ms": 4_000}
        async with Admin({**own.own_client(), **limits}) as admin:
            self.admin.cluster_id = (await admin.describe_metadata([])).cluster_id or ""
        preparing = [
            self.offset_store.prepare(
                own.offset_storage_partitions,
                own.offset_storage_replication_factor,
                own.topics.get("offset.storage."),
            )
        ]
        if isinstance(own, DistributedSettings):
            assert isinstance(self.store, TopicConfigs)
            assert isinstance(self.statuses, TopicStatuses)
            preparing += [
                self.store.topic.prepare(
                    1, own.config_storage_replication_factor, own.topics.get("config.storage.")
                ),
                self.statuses.topic.prepare(
                    own.status_storage_partitions,
                    own.status_storage_replication_factor,
                    own.topics.get("status.storage."),
                ),
            ]
        await asyncio.gather(*preparing)

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[None]:
        """Reads the internal topics, and goes on reading them."""
        async with AsyncExitStack() as stack:
            await _beside(stack, self.offset_store.run(), "connect-offsets")
            if isinstance(self.store, TopicConfigs):
                assert isinstance(self.statuses, TopicStatuses)
                await _beside(stack, self.store.topic.run(), "connect-configs")
                await _beside(stack, self.statuses.topic.run(), "connect-status")
                await asyncio.gather(self.statuses.topic.read_to_end(), self.store.load())
            yield

    @asynccontextmanager
    async def member(self, url: str) -> AsyncIterator[None]:
        """Runs connectors, as a member of the group."""
        self.worker.url = self.own.advertised_url(url)
        async with AsyncExitStack() as stack:
            stack.enter_context(self.worker.log.attached())
            await _beside(stack, self.statuses.run(), "connect-statuses")
            if isinstance(self.own, DistributedSettings):
                membership = Membership(self.own, self.worker, self._world)
                await stack.enter_async_context(membership.running())
            else:
                self.worker.ask_to_share = self._share_alone
                self._share_alone()
            await _beside(stack, self.worker.run(), "connect-worker")
            yield

    def _share_alone(self) -> None:
        """Gives all tasks to this worker, which is the only one."""
        tasks = tuple(self.worker.all_tasks())
        self.worker.note_shares(Shares(0, self.worker.url, True, 0, {self.worker.url: tasks}))

    async def add_from_files(self, files: Iterable[tuple[str, Mapping[str, str]]]) -> None:
        """Makes the connectors of a standalone worker."""
        for path, properties in files:
            name = properties.get("name", "").strip()
            try:
                await self.operations.create(name, properties, None)
            except ConnectError as error:
                raise CannotStart(f"{path}: {error}") from None


def _stores(settings: WorkerFile, clients: Mapping[str, object]) -> tuple[ConfigStore, StatusStore]:
    if isinstance(settings, DistributedSettings):
        return (
            TopicConfigs(clients, settings.config_storage_topic, settings.group_id),
            TopicStatuses(clients, settings.status_storage_topic),
        )
    return MemoryConfigs(), StatusStore()


def _providers(declarations: Mapping[str, str], world: World) -> DeclaredProviders:
    def read(path: str) -> str:
        return world.disk.read(path).decode().rstrip("\r\n")

    try:
        return DeclaredProviders(declarations, read, os.environ)
    except InvalidSetting as error:
        raise CannotStart(str(error)) from None


def _trust(settings: WorkerFile, world: World) -> ssl.SSLContext | None:
    """Returns what the certificates of other workers are checked by: the worker's own trust store.
    None is what the system trusts."""
    given = {name: text for name, text in settings.tls.items() if ".truststore." in name}
    if not settings.is_https or not given:
        return None
    from odradek.security.tls.contexts import client_context  # noqa: PLC0415 - with TLS
    from odradek.security.tls.settings import TlsSettings  # noqa: PLC0415

    try:
        return client_context(TlsSettings.from_properties(given), world.disk.read)
    except InvalidSetting as error:
        raise CannotStart(str(error)) from None


async def _everybody(request: Request) -> None:
    return


async def _beside(stack: AsyncExitStack, running: Any, name: str) -> None:
    """Runs something until the stack is left. If it fails, so does who runs the stack."""
    owner = asyncio.current_task()
    task = asyncio.create_task(running, name=name)

    def note_end(ended: "asyncio.Task[None]") -> None:
        if not ended.cancelled() and ended.exception() is not None and owner is not None:
            _log.error("%s has failed", name, exc_info=ended.exception())
            owner.cancel(f"{name} has failed: {ended.exception()}")

    task.add_done_callback(note_end)

    async def end() -> None:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    stack.push_async_callback(end)


async def run_connect(
    settings: WorkerFile,
    say: Say,
    on_ready: Callable[[str], None],
    world: World | None = None,
    files: Iterable[tuple[str, Mapping[str, str]]] = (),
) -> None:
    """Runs a worker until SIGINT or SIGTERM. `on_ready` gets the URL. `files` are the connectors of
    a standalone worker, by the names of their files."""
    advice = engines.missing(engines.engine_name(settings.odradek_engine))
    if advice is not None:
        raise CannotStart(advice)
    try:
        for note in plugin_packages.install(settings.odradek_plugins):
            say(note)
        for note in allowed.install(settings.odradek_singer_taps):
            say(note)
    except ConnectError as error:
        raise CannotStart(str(error)) from None
    service = ConnectService(settings, world or World())
    for name in service.secrets.providers.without_limit:
        say(f"config.providers.{name} may read all that the worker may; limit it: docs/connect.md")
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def note_ready(url: str) -> None:
        if not ready.done():
            ready.set_result(url)

    # Before the brokers are asked, who may not answer because bootstrap.servers is misspelt.
    announce(service.settings)
    await service.prepare(say)
    try:
        async with service.reading():
            serving = asyncio.create_task(
                run_service(service, note_ready, is_announced=True), name="connect-rest"
            )
            try:
                await asyncio.wait({ready, serving}, return_when=asyncio.FIRST_COMPLETED)  # type: ignore[type-var]
                if ready.done():
                    async with service.member(ready.result()):
                        await service.add_from_files(files)
                        on_ready(ready.result())
                        await asyncio.wait({serving})
                await serving
            finally:
                serving.cancel()
                await asyncio.gather(serving, return_exceptions=True)
    except asyncio.CancelledError as error:
        if error.args:
            raise CannotStart(f"the worker ends, because {error.args[0]}") from None
        raise
    finally:
        service.forwarder.close()
