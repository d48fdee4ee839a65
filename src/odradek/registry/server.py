"""All of the registry together, as one process.

    brokers answer -> topic checked -> topic read -> listening -> in the group of instances

It listens only when it has read the topic, so a client never gets half of the schemas. `/healthz`
and `/readyz` answer from then on.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from odradek.client.admin.admin import Admin
from odradek.client.cluster import Cluster
from odradek.client.errors import ClientError
from odradek.client.settings import AdminSettings
from odradek.protocol.errors import KafkaError
from odradek.registry.api.schemas import SchemaEndpoints
from odradek.registry.api.settings import SettingEndpoints
from odradek.registry.api.subjects import SubjectEndpoints
from odradek.registry.authorization import Authorization
from odradek.registry.contexts import ContextPaths
from odradek.registry.election import Election, Identity
from odradek.registry.errors import Refused
from odradek.registry.figures import RegistryMetrics
from odradek.registry.judging import Judge
from odradek.registry.primary import Primary
from odradek.registry.registry import Registry
from odradek.registry.schema_log import KafkaSchemaLog, UnusableTopic
from odradek.registry.settings import SchemaRegistrySettings
from odradek.registry.state import RegistryState
from odradek.services.forwarding import Forwarder
from odradek.services.running import Service, run_service
from odradek.services.start import CannotStart, Say, when_brokers_answer
from odradek.web.endpoints import Endpoint
from odradek.web.problems import Problem
from odradek.wording import counted
from odradek.world import World

_log = logging.getLogger("odradek.registry")


class SchemaRegistryService(Service):
    title = "Odradek schema registry"

    def __init__(self, settings: SchemaRegistrySettings, world: World) -> None:
        super().__init__(settings)
        self.own = settings
        self._world = world
        self.state = RegistryState(
            settings.schema_compatibility_level,
            settings.mode,
            validate_fields=settings.schema_validate_fields,
            validate_new_schemas=settings.schema_validate_new_schemas,
        )
        group = settings.schema_registry_group_id
        self.log = KafkaSchemaLog(
            settings.own_client(),
            settings.kafkastore_topic,
            f"{group}-{settings.kafkastore_topic}",
            self.state,
            world,
        )
        self.judge = Judge(world)
        self.primary = Primary(
            self.state,
            self.log,
            may_change_modes=settings.mode_mutability,
            on_lost=self._lost,
        )
        self.forwarder = Forwarder()
        self.registry = Registry(
            self.state, self.log, self.judge, self.primary, self.forwarder,
            group_id=group,
            timeout_s=settings.odradek_change_timeout_ms / 1000,
            remove_member=self._remove_member,
        )  # fmt: skip
        if settings.uses_sasl:
            self.registry.authorize = Authorization(self.clients, settings.kafkastore_topic).check
        self.election: Election | None = None
        self.metrics = RegistryMetrics(self)

    def endpoints(self) -> Iterable[Endpoint]:
        subjects = SubjectEndpoints(self.registry)
        return [
            *subjects.endpoints(),
            *SchemaEndpoints(self.registry, subjects).endpoints(),
            *SettingEndpoints(self.registry).endpoints(),
        ]

    def explain(self, error: Exception) -> Problem | None:
        if isinstance(error, Refused):
            return Problem(error.status, error.message, code=error.code)
        return super().explain(error)

    def application(self) -> tuple[Any, Any]:
        app, listener = super().application()
        return ContextPaths(app), listener

    async def _ready(self, request: Request) -> Response:
        if self.log.failure is not None:
            return PlainTextResponse(f"the topic cannot be read: {self.log.failure}\n", 503)
        return PlainTextResponse("ready\n")

    def _lost(self) -> None:
        if self.election is not None:
            self.election.rejoin()

    async def _remove_member(self, member_id: str) -> None:
        if self.election is not None:
            try:
                await self.election.remove(member_id)
            except (ClientError, KafkaError, OSError) as error:
                _log.info("member %s was not removed: %s", member_id, error)

    # The start

    async def load(self, say: Say) -> None:
        """Waits for the brokers, and checks the topic."""

        async def prepare() -> None:
            try:
                await self.log.prepare(self.own.kafkastore_topic_replication_factor, say)
            except UnusableTopic as error:
                raise CannotStart(str(error)) from None
            async with Admin(self.own.own_client(), world=self._world) as admin:
                found = await admin.describe_metadata([])
                self.registry.cluster_id = found.cluster_id or ""

        servers = self.own.own_client()["bootstrap.servers"]
        patience_s = self.own.kafkastore_init_timeout_ms / 1000
        await when_brokers_answer(prepare, servers, patience_s, say)

    @asynccontextmanager
    async def member(self, url: str) -> AsyncIterator[None]:
        """Takes part in the election, and carries changes out when elected."""
        parts = urlsplit(url)
        own = self.own
        identity = Identity(
            own.advertised_host(),
            own.host_port or parts.port or 0,
            own.may_lead,
            own.inter_instance_protocol or parts.scheme,
        )
        settings = AdminSettings.from_config({**own.own_client(), "retries": 0})
        cluster = Cluster(settings, self._world.randomness)
        self.election = Election(
            cluster, own.schema_registry_group_id, identity, self.registry.note_elected
        )
        tasks = [
            asyncio.create_task(self.election.run(), name="registry-election"),
            asyncio.create_task(self.primary.run(), name="registry-primary"),
        ]
        try:
            yield
        finally:
            for task in reversed(tasks):
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
            await cluster.close()


async def run_registry(
    settings: SchemaRegistrySettings,
    say: Say,
    on_ready: Callable[[str], None],
    world: World | None = None,
) -> None:
    """Runs the registry until SIGINT or SIGTERM. `on_ready` gets the URL."""
    service = SchemaRegistryService(settings, world or World())
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def note_ready(url: str) -> None:
        on_ready(url)
        if not ready.done():
            ready.set_result(url)

    await service.load(say)
    try:
        async with asyncio.TaskGroup() as group:
            reading = group.create_task(service.log.read(say), name="registry-reader")
            await _loaded(service, say)
            serving = group.create_task(run_service(service, note_ready))
            both: set[asyncio.Future[Any]] = {ready, serving}
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            if ready.done():
                async with service.member(ready.result()):
                    await asyncio.wait({serving})
            reading.cancel()
    finally:
        service.forwarder.close()
        await service.judge.close()


async def _loaded(service: SchemaRegistryService, say: Say) -> None:
    timeout_s = service.own.kafkastore_init_timeout_ms / 1000
    try:
        async with asyncio.timeout(timeout_s):
            await service.log.wait_until_loaded()
    except TimeoutError:
        raise CannotStart(
            f"topic {service.own.kafkastore_topic} was not read within {timeout_s:.0f} s"
            f" ({service.log.failure or 'it is large'}): raise kafkastore.init.timeout.ms"
        ) from None
    counts = service.state.counts()
    say(
        f"read {service.log.applied:,} records of {service.own.kafkastore_topic}:"
        f" {counted(counts['subjects'], 'subject')}, {counted(counts['versions'], 'version')}"
    )
