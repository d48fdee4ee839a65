"""The SQL server: ksqlDB's REST interface over the engine.

`/ksql` carries statements out; `/query` and `/query-stream` answer queries, row by row as they
come, over HTTP/1.1 and HTTP/2; `/inserts-stream` inserts rows. A client that goes away ends its
query.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from odradek.protocol.errors import AuthorizationError
from odradek.services.client_pool import CallerClients
from odradek.services.identity import NOBODY
from odradek.services.running import Service, unreachable
from odradek.sql.api.bodies import KsqlRequest, read
from odradek.sql.api.codes import (
    BAD_REQUEST,
    BAD_STATEMENT,
    COMMAND_TIMED_OUT,
    FORBIDDEN_BY_KAFKA,
    NOT_FOUND,
    QUERY_ENDPOINT,
)
from odradek.sql.api.inserts import Inserts
from odradek.sql.api.queries import DELIMITED, KSQL, Queries
from odradek.sql.engine.access import Access
from odradek.sql.engine.commands import Command, CommandLog, command_topic
from odradek.sql.engine.engine import Engine, QueryEndpoint, StatementFailed
from odradek.sql.engine.sessions import Session
from odradek.sql.errors import Forbidden, Invalid, SqlError
from odradek.sql.language.parser import split
from odradek.sql.language.variables import substitute
from odradek.sql.settings import SqlSettings
from odradek.web.endpoints import Endpoint
from odradek.web.media import JSON
from odradek.web.problems import Problem, json_response
from odradek.web.serving import CannotServe
from odradek.web.streaming import TwoWayStream

VERSION: Final = "0.29.0"
"""The version of ksqlDB whose language and interface this is; clients ask for it."""
_BODIES: Final = (JSON, KSQL, DELIMITED, "application/x-www-form-urlencoded", "text/plain", "")


class SqlService(Service):
    title = "Odradek SQL server"

    def __init__(self, settings: SqlSettings) -> None:
        super().__init__(settings)
        self._own = settings
        own = settings.engine_settings()
        topic = command_topic(own.service_id)
        self.log = CommandLog(topic, own.client, self._apply, own.replication_factor)
        self.engine = Engine(own, self.log)
        self.queries = Queries(self, settings.ksql_max_push_queries)
        self._cluster_id = ""
        kinds = dict(settings.client_kinds)
        # A row is waited for, and there are no others to fill a batch with.
        kinds["producer"] = {"linger.ms": "0", **kinds.get("producer", {})}
        self._server = CallerClients(NOBODY, own.client, kinds)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        await self.log.prepare()
        self._cluster_id = (await self._server.admin.describe_metadata([])).cluster_id or ""
        reading = asyncio.create_task(self.log.run(), name="sql-commands")
        try:
            await self.log.wait_until_loaded()
            async with self.engine.running():
                yield
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
            await self.log.close()
            await self._server.close()

    async def _apply(self, command: Command) -> Any:
        return await self.engine.apply(command)

    async def engine_ready(self) -> Engine:
        return self.engine

    @asynccontextmanager
    async def access(self, request: Request) -> AsyncIterator[Access]:
        """Lends the rights with which a request is carried out: its caller's, or the server's own
        where callers do not log in."""
        if not self.settings.uses_sasl:
            yield self.own_access()
            return
        async with self.clients(request) as clients:
            yield Access(clients, is_checked=True, command_topic=self.log.topic)

    def own_access(self) -> Access:
        return Access(self._server, is_checked=False, command_topic=self.log.topic)

    async def check(self) -> None:
        servers = str(self.settings.client_properties()["bootstrap.servers"])
        reason = await unreachable(servers)
        if reason is not None:
            raise CannotServe(
                f"no broker can be reached: {reason}; start one with odradek up, or"
                " name others by bootstrap.servers"
            )

    def explain(self, error: Exception) -> Problem | None:
        if isinstance(error, QueryEndpoint):
            return Problem(400, str(error), code=QUERY_ENDPOINT)
        if isinstance(error, Forbidden):
            return Problem(403, str(error), code=FORBIDDEN_BY_KAFKA)
        if isinstance(error, SqlError):
            return Problem(400, str(error), code=BAD_STATEMENT)
        return super().explain(error)

    def endpoints(self) -> list[Endpoint]:
        def post(path: str, handler: Any, summary: str, **more: Any) -> Endpoint:
            more.setdefault("produces", (KSQL, JSON, DELIMITED))
            return Endpoint(
                "POST", path, handler, summary, changes=True, media_types=_BODIES,
                needs_body=False, **more,
            )  # fmt: skip

        limit = self._own.odradek_max_body_bytes
        inserts = Inserts(self.engine, limit)
        return [
            Endpoint("GET", "/", self._root, "Redirects to /info."),
            Endpoint("GET", "/info", self._info, "The version and ids of the server.",
                     produces=(KSQL, JSON)),
            Endpoint("GET", "/healthcheck", self._health, "Whether the server works.",
                     produces=(KSQL, JSON)),
            Endpoint("GET", "/clusterStatus", self._cluster, "The servers and what they run.",
                     produces=(KSQL, JSON)),
            Endpoint("GET", "/ws/query", self._web_socket, "Is refused: there is no web socket."),
            Endpoint("GET", "/status", self._all_status, "What has become of statements.",
                     produces=(KSQL, JSON)),
            Endpoint("GET", "/status/{kind}/{name}/{action}", self._status,
                     "What has become of a statement.", produces=(KSQL, JSON)),
            Endpoint("GET", "/is_valid_property/{name}", self._is_valid,
                     "Whether a request may set a property.", produces=(KSQL, JSON)),
            post("/ksql", self._ksql, "Carries statements out."),
            post("/ksql/terminate", self._terminate, "Ends all queries."),
            post("/query", self.queries.query, "Answers a query as a JSON array.", is_stream=True,
                 max_body_bytes=limit),
            post("/query-stream", self.queries.query_stream, "Answers a query line by line.",
                 is_stream=True, max_body_bytes=limit, produces=(DELIMITED, JSON, KSQL)),
            post("/inserts-stream", self._inserts(inserts), "Inserts rows, one a line.",
                 is_stream=True, produces=(DELIMITED, JSON)),
            post("/close-query", self.queries.close, "Ends a push query."),
        ]  # fmt: skip

    # What there is

    async def _root(self, request: Request) -> Response:
        return RedirectResponse("/info")

    async def _info(self, request: Request) -> Response:
        return json_response(
            {
                "KsqlServerInfo": {
                    "version": VERSION,
                    "kafkaClusterId": self._cluster_id,
                    "ksqlServiceId": self._own.ksql_service_id,
                    "serverStatus": "RUNNING",
                }
            }
        )

    async def _health(self, request: Request) -> Response:
        details = {name: {"isHealthy": True} for name in ("metastore", "kafka", "commandRunner")}
        return json_response({"isHealthy": True, "details": details, "serverState": "READY"})

    async def _web_socket(self, request: Request) -> Response:
        raise Problem(501, "the web socket is not served yet: send the query to /query-stream")

    async def _cluster(self, request: Request) -> Response:
        host = {
            "hostAlive": True, "lastStatusUpdateMs": 0, "activeStandbyPerQuery": {},
            "hostStoreLags": {"stateStoreLags": {}, "updateTimeMs": 0},
        }  # fmt: skip
        return json_response({"clusterStatus": {self._own.url.rpartition("//")[2]: host}})

    async def _all_status(self, request: Request) -> Response:
        names = [
            f"{source.kind.lower()}/{source.name}/create"
            for source in self.engine.catalogue.sources.values()
        ]
        return json_response({"commandStatuses": dict.fromkeys(names, "SUCCESS")})

    async def _status(self, request: Request) -> Response:
        kind, name = request.path_params["kind"], request.path_params["name"].strip("`")
        is_known = name in self.engine.catalogue.sources or name in self.engine.catalogue.types
        if kind in ("stream", "table", "type") and not is_known:
            raise Problem(404, f"Command not found: {kind}/{name}", code=NOT_FOUND)
        return json_response({"status": "SUCCESS", "message": "", "queryId": None})

    async def _is_valid(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name in ("auto.offset.reset", "ksql.streams.auto.offset.reset"):
            return json_response(True)
        raise Problem(400, f"{name} cannot be set by a request", code=BAD_REQUEST)

    # Statements

    async def _ksql(self, request: Request) -> Response:
        body = read(await request.body(), KsqlRequest)
        try:
            if not split(substitute(body.ksql, body.session().variables)):
                raise Invalid("there is no statement in the request")
            if body.commandSequenceNumber is not None:
                await self.wait_for(body.commandSequenceNumber)
            async with self.access(request) as access:
                entities = await self.engine.execute(body.ksql, body.session(), access)
        except SqlError as error:
            return _failed(StatementFailed(str(error), body.ksql, [], error))
        except StatementFailed as error:
            return _failed(error)
        return json_response(entities, media_type=KSQL)

    async def wait_for(self, number: int) -> None:
        try:
            await self.engine.log.wait_for(number)
        except TimeoutError:
            raise Problem(
                503,
                f"Timed out while waiting for command sequence number {number}",
                code=COMMAND_TIMED_OUT,
            ) from None

    async def _terminate(self, request: Request) -> Response:
        async with self.access(request) as access:
            await self.engine.execute("TERMINATE ALL;", Session(), access)
        return json_response([], media_type=KSQL)

    def _inserts(self, inserts: Inserts) -> Any:
        async def insert(request: Request) -> Response:
            async with AsyncExitStack() as stack:
                access = await stack.enter_async_context(self.access(request))
                return TwoWayStream(inserts.answer(request, access), DELIMITED, stack.pop_all())
            raise AssertionError("rows are inserted")

        return insert


def _failed(error: StatementFailed) -> Response:
    status, code = 400, BAD_STATEMENT
    if isinstance(error.cause, QueryEndpoint):
        code = QUERY_ENDPOINT
    elif isinstance(error.cause, Forbidden | AuthorizationError):
        status, code = 403, FORBIDDEN_BY_KAFKA
    content = {
        "@type": "statement_error",
        "error_code": code,
        "message": error.message,
        "statementText": f"{error.statement};",
        "entities": error.entities,
    }
    return Response(msgspec.json.encode(content), status, media_type=KSQL)
