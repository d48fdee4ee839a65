"""Starts a service: clients, log-in, guards, health, metrics; says its URL; drains it at the end.

    await run_service(RestService(settings), settings, say_ready)

Beside its own endpoints every service answers `GET /healthz` (the process is alive), `/readyz` (and
brokers can be reached) and `/metrics` (Prometheus). None of the three needs a log-in. They tell
nothing of the cluster; the metrics of Connect have the names of its connectors.
"""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

from starlette.requests import HTTPConnection, Request
from starlette.responses import PlainTextResponse, Response

from odradek import __version__
from odradek.services.client_pool import CallerClients, ClientPool
from odradek.services.identity import PassedOnLogIn, caller_in
from odradek.services.kafka_problems import explain
from odradek.services.metrics import ServiceMetrics
from odradek.services.settings import ServiceSettings
from odradek.telemetry.exposition import content_type, render
from odradek.web.application import Application, application
from odradek.web.endpoints import Endpoint
from odradek.web.guards import Policy
from odradek.web.problems import Problem
from odradek.web.serving import Listener, Ready, serve
from odradek.world.sockets import why_not_connected
from odradek.world.timeslice import Timeslice

logger = logging.getLogger("odradek.services")

OPEN_PATHS = frozenset({"/healthz", "/readyz", "/metrics"})
_REACHABLE_S = 3.0
_LOOK_AGAIN_S = 0.05
_GRACE_S = 2.0


class Service(ABC):
    """A service: its endpoints, and what runs beside them. Subclasses say what it does."""

    title: str

    def __init__(self, settings: ServiceSettings) -> None:
        self.settings = settings
        kinds: dict[str, dict[str, object]] = {
            kind: dict(given) for kind, given in settings.client_kinds.items()
        }
        self.pool = ClientPool(
            settings.client_properties(), kinds=kinds, tokens=settings.token_issuer()
        )
        self.metrics = ServiceMetrics(self.title, self.pool)

    async def check(self) -> None:  # noqa: B027 - most services work without brokers
        """Raises `CannotServe` if the service cannot do its work at all, before it listens."""

    @abstractmethod
    def endpoints(self) -> Iterable[Endpoint]:
        """Returns the endpoints of the service."""

    def explain(self, error: Exception) -> Problem | None:
        """Returns what the caller is told of an error; subclasses add their own kinds."""
        return explain(error)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Keeps what runs beside the endpoints; subclasses add to it."""
        yield

    @asynccontextmanager
    async def clients(self, request: HTTPConnection) -> AsyncIterator[CallerClients]:
        """Lends the Kafka clients of who asks."""
        caller = caller_in(request.scope, is_required=self.settings.uses_sasl)
        async with self.pool.clients(caller) as clients:
            yield clients

    def application(self) -> tuple[Application, Any]:
        """Returns the ASGI application, and the listener that it is meant for."""
        listener = self.settings.listener()
        policy = self.policy(listener)
        policy.observe = self.metrics.observe
        endpoints = [*self.endpoints(), *self._common()]
        app = application(
            self.title, __version__, endpoints, policy, lifespan=self._life, explain=self.explain
        )
        return app, listener

    def policy(self, listener: Listener) -> Policy:
        """Returns how the service is protected; subclasses may have another log-in."""
        login = PassedOnLogIn(
            self.pool,
            is_required=self.settings.uses_sasl,
            takes_tokens=not self.settings.takes_passwords,
        )
        return self.settings.policy(listener, login, OPEN_PATHS)

    @asynccontextmanager
    async def _life(self, _: object) -> AsyncIterator[None]:
        beside = [
            asyncio.create_task(self.pool.run()),
            asyncio.create_task(warn_if_unreachable(self._servers)),
        ]
        try:
            async with self.running():
                yield
        finally:
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)
            await self.pool.close()

    @property
    def _servers(self) -> str:
        return str(self.settings.client_properties()["bootstrap.servers"])

    def _common(self) -> list[Endpoint]:
        text = ("text/plain",)
        return [
            Endpoint("GET", "/healthz", _alive, "Whether the process is alive.", produces=text),
            Endpoint(
                "GET", "/readyz", self._ready, "Whether brokers can be reached.", produces=text,
                responses={200: "A broker answers.", 503: "None does."},
            ),
            Endpoint(
                "GET", "/metrics", self._metrics, "Figures for Prometheus.",
                produces=("text/plain", "application/openmetrics-text"),
            ),
        ]  # fmt: skip

    async def _ready(self, request: Request) -> Response:
        """Connects to a broker and closes: it does not log in, for the service is nobody."""
        reason = await unreachable(self._servers)
        if reason is None:
            return PlainTextResponse("ready\n")
        return PlainTextResponse(f"no broker can be reached: {reason}\n", 503)

    async def _metrics(self, request: Request) -> Response:
        format_ = content_type(request.headers.get("accept", ""))
        samples = self.metrics.collect().samples
        text = await Timeslice.of_running_loop().run(render(samples, format_))
        return Response(text, media_type=format_)


async def _alive(request: Request) -> Response:
    return PlainTextResponse("alive\n")


async def unreachable(servers: str) -> str | None:
    """Returns why none of the brokers takes a connection, or None if one does."""
    reason = "bootstrap.servers is empty"
    for server in servers.split(","):
        host, _, port = server.strip().rpartition(":")
        try:
            async with asyncio.timeout(_REACHABLE_S):
                _, writer = await asyncio.open_connection(host.strip("[]"), int(port))
            writer.close()
        except TimeoutError:
            reason = f"{server}: no answer"
        except ValueError as error:
            reason = f"{server}: {error}"
        except OSError as error:
            reason = f"{server}: {why_not_connected(error)}"
        else:
            return None
    return reason


async def warn_if_unreachable(servers: str) -> None:
    """Warns once if no broker takes a connection, also a moment later: brokers and services may be
    started together. Otherwise only the first caller would find out, or only the page."""
    if await unreachable(servers) is None:
        return
    await asyncio.sleep(_GRACE_S)
    reason = await unreachable(servers)
    if reason is not None:
        logger.warning(
            "no broker can be reached: %s; start one, or correct bootstrap.servers; the service"
            " goes on, and answers when there is one",
            reason,
        )


async def wait_for_brokers(servers: str) -> None:
    """Returns when a broker can be reached."""
    while await unreachable(servers) is not None:  # noqa: ASYNC110 - nothing tells it
        await asyncio.sleep(_LOOK_AGAIN_S)


def announce(settings: ServiceSettings) -> None:
    """Logs what is to be said about the settings, such as that one has no effect."""
    for note in settings.notes:
        logger.warning("%s", note)


async def run_service(service: Service, on_ready: Ready, *, is_announced: bool = False) -> None:
    """Serves until SIGINT or SIGTERM. `on_ready` gets the URL. `is_announced` says that the caller
    has called `announce`."""
    app, listener = service.application()
    logging.getLogger("odradek.web.access").disabled = not service.settings.odradek_access_log
    if not is_announced:
        announce(service.settings)
    await service.check()
    await serve(app, listener, on_ready)
