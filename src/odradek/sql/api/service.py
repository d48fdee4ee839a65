"""The SQL server: ksqlDB's REST interface over the engine.

`/ksql` carries statements out; `/query` and `/query-stream` answer queries, row by row as they
come, over HTTP/1.1 and HTTP/2; `/inserts-stream` inserts rows. A client that goes away ends its
query.

What needs the language (`statements`) is imported with the first statement, of a request or of the
command topic: until then the server is as small as a service can be, and starts at once.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from starlette.requests import HTTPConnection, Request
from starlette.responses import RedirectResponse, Response
from starlette.types import Scope
from starlette.websockets import WebSocket

from odradek.client.errors import ClientError
from odradek.protocol.errors import KafkaError
from odradek.services.client_pool import CallerClients
from odradek.services.identity import NOBODY
from odradek.services.running import Service, unreachable
from odradek.spark.prerequisites import SparkMissing, require_spark
from odradek.sql.api.bodies import (
    CloseQueryRequest,
    KsqlRequest,
    QueryStreamRequest,
    TerminateRequest,
)
from odradek.sql.api.codes import (
    BAD_REQUEST,
    BAD_STATEMENT,
    COMMAND_TIMED_OUT,
    FORBIDDEN_BY_KAFKA,
    QUERY_ENDPOINT,
)
from odradek.sql.api.media import DELIMITED, KSQL
from odradek.sql.engine.access import Access
from odradek.sql.engine.commands import Command, CommandLog, command_topic
from odradek.sql.engine.file_log import FileLog
from odradek.sql.errors import Forbidden, QueryEndpoint, SqlError
from odradek.sql.settings import SqlSettings
from odradek.web.endpoints import Endpoint, Parameter
from odradek.web.guards import Policy
from odradek.web.media import JSON
from odradek.web.problems import Problem, json_response
from odradek.web.serving import CannotServe, Listener

if TYPE_CHECKING:
    from odradek.sql.api.statements import Statements

VERSION: Final = "0.29.0"
"""The version of ksqlDB whose language and interface this is; clients ask for it."""
_BODIES: Final = (
    JSON, KSQL, DELIMITED, "application/x-www-form-urlencoded", "text/plain",
    "application/octet-stream",
)  # fmt: skip
"""What clients say of a body. It is JSON, whatever they say, as curl's -d says nothing of it."""


class SqlService(Service):
    title = "Odradek SQL server"

    def __init__(self, settings: SqlSettings) -> None:
        super().__init__(settings)
        self.own = settings
        client = settings.own_client()
        topic = command_topic(settings.ksql_service_id)
        kind = FileLog if settings.ksql_queries_file else CommandLog
        self.log = kind(topic, client, self._apply, settings.ksql_internal_topic_replicas)
        self._cluster_id = ""
        self._statements: Statements | None = None
        self._running: asyncio.Task[None] | None = None
        kinds = dict(settings.client_kinds)
        # A row is waited for, and there are no others to fill a batch with.
        kinds["producer"] = {"linger.ms": "0", **kinds.get("producer", {})}
        self._server = CallerClients(NOBODY, client, kinds)

    # The life of the server

    async def check(self) -> None:
        self._load_functions()
        servers = str(self.settings.client_properties()["bootstrap.servers"])
        reason = await unreachable(servers)
        if reason is not None:
            raise CannotServe(
                f"no broker can be reached: {reason}; start one with odradek up, or"
                " name others by bootstrap.servers"
            )
        if self.own.odradek_sql_engine == "spark":
            try:
                await asyncio.to_thread(require_spark)
            except SparkMissing as missing:
                raise CannotServe(
                    f"{missing}. Or set odradek.sql.engine=process: queries then run in the server"
                    " itself, without Spark"
                ) from missing
        try:
            await self.log.prepare()
            self._cluster_id = (await self._server.admin.describe_metadata([])).cluster_id or ""
        except (ClientError, KafkaError) as error:
            raise CannotServe(
                f"the topic {self.log.topic} cannot be made or read with the server's own log-in:"
                f" {error}"
            ) from None
        await self._run_file()

    def _load_functions(self) -> None:
        """Loads the operator's functions, which are refused at the start and not when they are
        first called."""
        if not self.own.ksql_extension_dir:
            return
        from odradek.sql.functions.loading import BadFunctions, load  # noqa: PLC0415 - large

        try:
            load(self.own.ksql_extension_dir)
        except BadFunctions as error:
            raise CannotServe(f"ksql.extension.dir: {error}") from None

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        reading = asyncio.create_task(self.log.run(), name="sql-commands")
        try:
            await self.log.wait_until_loaded()
            yield
        finally:
            tasks = [task for task in (self._running, reading) if task is not None]
            for task in tasks:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
            await self.log.close()
            await self._server.close()

    async def _run_file(self) -> None:
        """Carries out the statements of `ksql.queries.file`, and no others from then on."""
        path = self.own.ksql_queries_file
        if not path:
            return
        try:
            text = await asyncio.to_thread(Path(path).read_text, encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise CannotServe(f"ksql.queries.file: {path} cannot be read: {error}") from None
        await self.loaded().run_file(text, self.own_access())
        self.log.is_open = False

    async def _apply(self, command: Command) -> Any:
        return await self.loaded().engine.apply(command)

    def loaded(self) -> "Statements":
        """Returns what needs the language, which is imported now if it was not before."""
        if self._statements is None:
            from odradek.sql.api.statements import Statements  # noqa: PLC0415 - it is large

            self._statements = Statements(self)
            self._running = asyncio.create_task(self._run_engine(), name="sql-engine")
        return self._statements

    async def _run_engine(self) -> None:
        await self.log.wait_until_loaded()
        async with self.loaded().engine.running():
            await asyncio.Event().wait()

    # Who asks

    @asynccontextmanager
    async def access(self, request: HTTPConnection) -> AsyncIterator[Access]:
        """Lends the rights with which a request is carried out: its caller's, or the server's own
        where callers do not log in."""
        if not self.settings.uses_sasl:
            yield self.own_access()
            return
        async with self.clients(request) as clients:
            yield Access(clients, is_checked=True, command_topic=self.log.topic)

    def own_access(self) -> Access:
        return Access(self._server, is_checked=False, command_topic=self.log.topic)

    def policy(self, listener: Listener) -> Policy:
        policy = super().policy(listener)
        policy.show = _shown
        return policy

    def explain(self, error: Exception) -> Problem | None:
        if isinstance(error, QueryEndpoint):
            return Problem(400, str(error), code=QUERY_ENDPOINT)
        if isinstance(error, Forbidden):
            return Problem(403, str(error), code=FORBIDDEN_BY_KAFKA)
        if isinstance(error, SqlError):
            return Problem(400, str(error), code=BAD_STATEMENT)
        return super().explain(error)

    async def wait_for(self, number: int) -> None:
        """Returns when a command has been applied here."""
        try:
            await self.log.wait_for(number)
        except TimeoutError:
            raise Problem(
                503,
                f"Timed out while waiting for command sequence number {number}",
                code=COMMAND_TIMED_OUT,
            ) from None

    # Endpoints

    def endpoints(self) -> list[Endpoint]:
        limit = self.own.odradek_max_body_bytes
        both = (KSQL, JSON)
        return [
            Endpoint("GET", "/", self._root, "Redirects to /info."),
            Endpoint("GET", "/info", self._info, "The version and ids of the server.",
                     produces=both),
            Endpoint("GET", "/healthcheck", self._health, "Whether the server works.",
                     produces=both),
            Endpoint("GET", "/clusterStatus", self._cluster, "The servers and what they run.",
                     produces=both),
            Endpoint("GET", "/ws/query", self._web_socket, "Answers a query over a web socket.",
                     (Parameter("request", doc="The body of /query."),
                      Parameter("version", is_ignored=True)),
                     changes=True, web_socket=self._talk, is_stream=True, produces=both,
                     max_body_bytes=limit,
                     responses={426: "It was not asked for a web socket."}),
            Endpoint("GET", "/status", self._with("all_statuses"), "What has become of statements.",
                     produces=both),
            Endpoint("GET", "/status/{kind}/{name}/{action}", self._with("status"),
                     "What has become of a statement.", produces=both,
                     responses={200: "The answer.", 404: "There is no such statement."}),
            Endpoint("GET", "/is_valid_property/{name}", self._with("is_valid"),
                     "Whether a request may set a property.", produces=both),
            self._post("/ksql", "ksql", "Carries statements out.", body=KsqlRequest,
                       responses={200: "The answer of each statement.",
                                  417: "An ASSERT does not hold."}),
            self._post("/ksql/terminate", "terminate",
                       "Ends all persistent queries and drops all streams and tables.",
                       body=TerminateRequest),
            self._post("/query", "query", "Answers a query as a JSON array.", is_stream=True,
                       body=KsqlRequest, max_body_bytes=limit),
            self._post("/query-stream", "query_stream", "Answers a query line by line.",
                       is_stream=True, body=QueryStreamRequest, max_body_bytes=limit,
                       produces=(DELIMITED, JSON, KSQL)),
            self._post("/inserts-stream", "inserts", "Inserts rows, one a line.", is_stream=True,
                       produces=(DELIMITED, JSON)),
            self._post("/close-query", "close_query", "Ends a query that a client waits for.",
                       body=CloseQueryRequest),
        ]  # fmt: skip

    def _post(
        self, path: str, name: str, summary: str,
        produces: Sequence[str] = (KSQL, JSON, DELIMITED), **more: Any,
    ) -> Endpoint:  # fmt: skip
        return Endpoint(
            "POST", path, self._with(name), summary, changes=True, media_types=_BODIES,
            needs_body=False, produces=tuple(produces), **more,
        )  # fmt: skip

    def _with(self, name: str) -> Callable[[Request], Awaitable[Response]]:
        """Returns an endpoint that needs the language."""

        async def handle(request: Request) -> Response:
            answer: Response = await getattr(self.loaded(), name)(request)
            return answer

        return handle

    async def _root(self, request: Request) -> Response:
        return RedirectResponse("/info")

    async def _info(self, request: Request) -> Response:
        return json_response(
            {
                "KsqlServerInfo": {
                    "version": VERSION,
                    "kafkaClusterId": self._cluster_id,
                    "ksqlServiceId": self.own.ksql_service_id,
                    "serverStatus": "RUNNING",
                }
            }
        )

    async def _health(self, request: Request) -> Response:
        reason = await unreachable(str(self.settings.client_properties()["bootstrap.servers"]))
        healthy = {"metastore": True, "kafka": reason is None, "commandRunner": self.log.is_reading}
        details = {name: {"isHealthy": is_healthy} for name, is_healthy in healthy.items()}
        return json_response(
            {"isHealthy": all(healthy.values()), "details": details, "serverState": "READY"}
        )

    async def _web_socket(self, request: Request) -> Response:
        headers = {"upgrade": "websocket", "connection": "upgrade"}
        raise Problem(426, "ask for a web socket here, or send the query to /query", headers)

    async def _talk(self, socket: WebSocket) -> None:
        await self.loaded().talk(socket)

    async def _cluster(self, request: Request) -> Response:
        host = {
            "hostAlive": True, "lastStatusUpdateMs": 0, "activeStandbyPerQuery": {},
            "hostStoreLags": {"stateStoreLags": {}, "updateTimeMs": 0},
        }  # fmt: skip
        return json_response({"clusterStatus": {self.own.url.rpartition("//")[2]: host}})


def _shown(problem: Problem, scope: Scope) -> Response:
    """Answers with an error as ksqlDB does: its clients tell answers apart by `@type`."""
    content = {
        "@type": "generic_error", "error_code": _code(problem), "message": problem.message,
    }  # fmt: skip
    return json_response(content, status=problem.status, headers=problem.headers, media_type=KSQL)


def _code(problem: Problem) -> int:
    """Returns an `error_code` of ksqlDB's kind: 40000 for a problem that says no more than 400."""
    return problem.code * 100 if problem.code < BAD_REQUEST // 10 else problem.code
