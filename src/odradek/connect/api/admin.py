"""Version, health, log levels, and the log of a connector."""

from collections.abc import AsyncGenerator
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from odradek import __version__
from odradek.connect.api.surface import Surface, body_of
from odradek.connect.engine.connector_log import Line
from odradek.connect.worker.config_state import LevelRequest, level_record
from odradek.telemetry import logs
from odradek.web.endpoints import Endpoint, Parameter
from odradek.web.media import EVENTS, JSON, MEDIA_TYPE
from odradek.web.problems import Problem, json_response
from odradek.web.streaming import EventStream, event
from odradek.world import World


class ServerInfo(msgspec.Struct):
    version: str
    commit: str
    kafka_cluster_id: str


class Health(msgspec.Struct):
    status: str
    message: str


class LoggerLevel(msgspec.Struct):
    level: str
    last_modified: int | None = None


class SetLevel(msgspec.Struct):
    level: str | None = None


class LogLine(msgspec.Struct):
    number: int
    time_ms: int
    level: str
    text: str


_SCOPE: Final = Parameter("scope", str, "worker", "`worker`, or `cluster` for all of them.")


_OF_CONNECT: Final = (
    "org.apache.kafka.connect", "io.debezium", "io.aiven", "io.confluent.connect",
    "com.mongodb.kafka.connect",
)  # fmt: skip


class AdminEndpoints:
    def __init__(self, surface: Surface, world: World) -> None:
        self._surface = surface
        self._clock = world.clock
        self.cluster_id = ""
        self._modified_ms: dict[str, int] = {}

    def endpoints(self) -> list[Endpoint]:
        logger = "/admin/loggers/{logger}"
        no_such = {404: "There is no such logger or level."}
        return [
            Endpoint("GET", "/", self._info, "The version, and the cluster.", answer=ServerInfo,
                     ignores_unknown=True),
            Endpoint("GET", "/health", self._health, "Whether the worker can do its work.",
                     answer=Health, ignores_unknown=True,
                     responses={200: "It can.", 503: "It is starting, or no worker leads."}),
            Endpoint("GET", "/admin/loggers", self._loggers, "Loggers and their levels.",
                     answer=dict[str, LoggerLevel], ignores_unknown=True),
            Endpoint("GET", logger, self._logger, "The level of a logger.", answer=LoggerLevel,
                     ignores_unknown=True, responses={200: "Its level.", **no_such}),
            Endpoint("PUT", logger, self._set_level, "Sets the level of a logger.", (_SCOPE,),
                     changes=True, body=SetLevel, answer=list[str], ignores_unknown=True,
                     responses={200: "The loggers that changed.", 204: "All workers change it.",
                                **no_such}),
            Endpoint("GET", "/connectors/{name}/logs", self._log,
                     "The last log lines of a connector on this worker. With `Accept:"
                     " text/event-stream` those that follow, too.", produces=(JSON, EVENTS),
                     answer=list[LogLine], ignores_unknown=True, is_stream=True,
                     responses={200: "The lines.", 404: "There is no such connector."}),
        ]  # fmt: skip

    async def _info(self, request: Request) -> Response:
        return json_response(ServerInfo(__version__, "odradek", self.cluster_id))

    async def _health(self, request: Request) -> Response:
        if self._surface.worker.shares is None:
            message = "Worker is not in its group yet, or has lost it: it cannot run connectors."
            return json_response(Health("unhealthy", message), status=503)
        message = "Worker has completed startup and is ready to handle requests."
        return json_response(Health("healthy", message))

    # Loggers

    def _level(self, name: str) -> LoggerLevel:
        return LoggerLevel(logs.level_of(_ours(name)), self._modified_ms.get(_ours(name)))

    async def _loggers(self, request: Request) -> Response:
        return json_response({name: self._level(name) for name in ("root", *logs.loggers())})

    async def _logger(self, request: Request) -> Response:
        return json_response(self._level(str(request.path_params["logger"])))

    async def _set_level(self, request: Request) -> Response:
        asked = str(request.path_params["logger"])
        name = _ours(asked)
        given = (await body_of(request, SetLevel)).level
        if given is None:
            raise Problem(400, "Desired 'level' parameter was not specified in request.")
        level = given.strip().upper()
        try:
            logs.require_level(level)
        except ValueError as error:
            raise Problem(404, str(error)) from None
        if request.query_params.get(_SCOPE.name, "worker").lower() == "cluster":

            async def tell_all() -> Response:
                await self._surface.worker.store.write([level_record(LevelRequest(name, level))])
                return Response(status_code=204)

            return await self._surface.change(request, tell_all)
        await self._surface.require_allowed(request)
        logs.set_level(name, level)
        self._modified_ms[name] = self._clock.now_ms()
        changed = [
            logger for logger in logs.loggers() if logger == name or logger.startswith(f"{name}.")
        ]
        return json_response(changed if asked in changed else [asked, *changed])

    # The log of a connector

    async def _log(self, request: Request) -> Response:
        name = str(request.path_params["name"])
        self._surface.operations.config(name)
        if request.scope[MEDIA_TYPE] == EVENTS:
            return EventStream(self._follow(name))
        return json_response([line._asdict() for line in self._surface.worker.log.lines(name)])

    async def _follow(self, name: str) -> AsyncGenerator[bytes]:
        async for line in self._surface.worker.log.follow(name):
            yield event(msgspec.json.encode(_as_json(line)), id_=str(line.number))


def _as_json(line: Line) -> dict[str, Any]:
    return line._asdict()


def _ours(name: str) -> str:
    """Returns our name of a logger; raises 404 if there is none. Those of Kafka Connect and of the
    connectors that ours take the place of are one here."""
    is_foreign = any(f"{name}.".startswith(f"{prefix}.") for prefix in _OF_CONNECT)
    ours = "odradek.connect" if is_foreign else {"root": logs.ROOT}.get(name, name)
    try:
        return logs.require_logger(ours)
    except ValueError:
        raise Problem(404, f"Logger {name} not found.") from None
