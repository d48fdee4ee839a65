"""The SQL server: ksqlDB's REST interface over the engine.

`/ksql` carries statements out; `/query` and `/query-stream` answer queries, row by row as they
come, over HTTP/1.1 and HTTP/2; `/inserts-stream` inserts rows. A client that goes away ends its
query.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse

from odradek.client.errors import ClientError
from odradek.protocol.errors import KafkaError
from odradek.services.running import Service, unreachable
from odradek.sql.api.bodies import CloseQueryRequest, KsqlRequest, QueryStreamRequest, read
from odradek.sql.api.inserts import Inserts
from odradek.sql.api.printing import printed
from odradek.sql.api.results import header, old_header, old_row, row_values
from odradek.sql.engine.answering import Answer
from odradek.sql.engine.engine import Engine, QueryEndpoint, Session, StatementFailed
from odradek.sql.errors import Invalid, SqlError
from odradek.sql.language import statements as s
from odradek.sql.language.parser import parse, split
from odradek.sql.language.variables import substitute
from odradek.sql.settings import SqlSettings
from odradek.streams.formats.columns import to_json
from odradek.web.endpoints import Endpoint
from odradek.web.media import JSON
from odradek.web.problems import Problem, json_response
from odradek.web.serving import CannotServe
from odradek.web.streaming import TwoWayStream

VERSION: Final = "0.29.0"
"""The version of ksqlDB whose language and interface this is; clients ask for it."""
KSQL: Final = "application/vnd.ksql.v1+json"
DELIMITED: Final = "application/vnd.ksqlapi.delimited.v1"
_BODIES: Final = (JSON, KSQL, DELIMITED, "application/x-www-form-urlencoded", "text/plain", "")
BAD_STATEMENT: Final = 40001
QUERY_ENDPOINT: Final = 40002


class SqlService(Service):
    title = "Odradek SQL server"

    def __init__(self, settings: SqlSettings) -> None:
        super().__init__(settings)
        self._own = settings
        self.engine = Engine(settings.engine_settings())
        self._open: dict[str, asyncio.Event] = {}
        self._count = 0

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with self.engine.running():
            yield

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
            post("/query", self._query, "Answers a query as a JSON array.", is_stream=True,
                 max_body_bytes=limit),
            post("/query-stream", self._query_stream, "Answers a query line by line.",
                 is_stream=True, max_body_bytes=limit, produces=(DELIMITED, JSON, KSQL)),
            post("/inserts-stream", self._inserts(inserts), "Inserts rows, one a line.",
                 is_stream=True, produces=(DELIMITED, JSON)),
            post("/close-query", self._close, "Ends a push query."),
        ]  # fmt: skip

    # What there is

    async def _root(self, request: Request) -> Response:
        return RedirectResponse("/info")

    async def _info(self, request: Request) -> Response:
        return json_response(
            {
                "KsqlServerInfo": {
                    "version": VERSION,
                    "kafkaClusterId": self.engine.cluster_id,
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
            raise Problem(404, f"Command not found: {kind}/{name}", code=40400)
        return json_response({"status": "SUCCESS", "message": "", "queryId": None})

    async def _is_valid(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name in ("auto.offset.reset", "ksql.streams.auto.offset.reset"):
            return json_response(True)
        raise Problem(400, f"{name} cannot be set by a request", code=40000)

    # Statements

    async def _ksql(self, request: Request) -> Response:
        body = read(await request.body(), KsqlRequest)
        try:
            if not split(substitute(body.ksql, body.session().variables)):
                raise Invalid("there is no statement in the request")
            if body.commandSequenceNumber is not None:
                await self._wait_for(body.commandSequenceNumber)
            entities = await self.engine.execute(body.ksql, body.session())
        except SqlError as error:
            return _failed(StatementFailed(str(error), body.ksql, [], error))
        except StatementFailed as error:
            return _failed(error)
        return json_response(entities, media_type=KSQL)

    async def _wait_for(self, number: int) -> None:
        try:
            await self.engine.log.wait_for(number)
        except TimeoutError:
            raise Problem(
                503, f"Timed out while waiting for command sequence number {number}", code=50302
            ) from None

    async def _terminate(self, request: Request) -> Response:
        await self.engine.execute("TERMINATE ALL;", Session())
        return json_response([], media_type=KSQL)

    # Queries

    def _one_query(self, text: str, session: Session) -> s.Statement:
        parts = split(substitute(text, session.variables))
        if len(parts) != 1:
            raise Invalid(f"Expected exactly one KSQL statement; found {len(parts)} instead")
        statement = parse(parts[0], self.engine.catalogue.types)
        if not isinstance(statement, s.Query | s.PrintTopic):
            raise Invalid(
                f"a query is expected here, and other statements by /ksql: {parts[0].text[:60]}",
                statement.place,
            )
        return statement

    def _new_query(self) -> tuple[str, asyncio.Event]:
        self._count += 1
        query_id = f"transient_{self._own.ksql_service_id}_{self._count}"
        closed = self._open[query_id] = asyncio.Event()
        return query_id, closed

    async def _query(self, request: Request) -> Response:
        body = read(await request.body(), KsqlRequest)
        statement = self._one_query(body.ksql, body.session())
        if isinstance(statement, s.PrintTopic):
            return _streaming(await printed(self.engine, statement), "text/plain")
        answer = self.engine.query(statement, body.session())  # type: ignore[arg-type]  # a query
        query_id, closed = self._new_query()
        return _streaming(self._old_answer(answer, query_id, closed, statement), KSQL)

    async def _old_answer(
        self, answer: Answer, query_id: str, closed: asyncio.Event, statement: Any
    ) -> AsyncGenerator[bytes]:
        # Each row ends its line: readers of lines would get it only with the next one.
        yield f"[{old_header(answer, query_id)},\n".encode()
        given = 0
        try:
            async for rows in self._batches(answer, query_id, closed):
                given += len(rows)
                lines = (f"{old_row(row, answer.columns)},\n" for row in rows)
                yield "".join(lines).encode()
        except (ClientError, KafkaError) as error:
            message = {"@type": "generic_error", "error_code": 50000, "message": str(error)}
            yield f"{to_json({'errorMessage': message})}]\n".encode()
            return
        is_limited = statement.limit is not None and given >= statement.limit
        final = "Limit Reached" if is_limited else "Query Completed"
        yield f"{to_json({'finalMessage': final})}]\n".encode()

    async def _query_stream(self, request: Request) -> Response:
        body = read(await request.body(), QueryStreamRequest)
        statement = self._one_query(body.sql, body.session())
        accept = request.headers.get("accept", "")
        if isinstance(statement, s.PrintTopic):
            return _streaming(await printed(self.engine, statement), DELIMITED)
        answer = self.engine.query(statement, body.session())  # type: ignore[arg-type]  # a query
        query_id, closed = self._new_query()
        is_array = JSON in accept and DELIMITED not in accept
        rows = self._answer(answer, query_id, closed, is_array=is_array)
        return _streaming(rows, JSON if is_array else DELIMITED)

    async def _answer(
        self, answer: Answer, query_id: str, closed: asyncio.Event, *, is_array: bool
    ) -> AsyncGenerator[bytes]:
        begin, between, end = ("[", ",\n", "]\n") if is_array else ("", "\n", "\n")
        yield f"{begin}{header(answer, query_id)}".encode()
        if not is_array:
            yield b"\n"
        try:
            async for rows in self._batches(answer, query_id, closed):
                lines = [to_json(row_values(row, answer.columns)) for row in rows]
                if is_array:
                    yield "".join(f"{between}{line}" for line in lines).encode()
                else:
                    yield "".join(f"{line}\n" for line in lines).encode()
        except (ClientError, KafkaError) as error:
            message = {"@type": "generic_error", "error_code": 50000, "message": str(error)}
            yield f"{between if is_array else ''}{to_json(message)}{end}".encode()
            return
        if is_array:
            yield end.encode()

    async def _batches(
        self, answer: Answer, query_id: str, closed: asyncio.Event
    ) -> AsyncGenerator[list[Any]]:
        """Yields rows as they come, until the query ends or is closed."""
        ended = asyncio.create_task(closed.wait())
        following: asyncio.Task[Any] | None = None
        try:
            while True:
                following = asyncio.ensure_future(anext(answer.rows, None))
                both: set[asyncio.Future[Any]] = {following, ended}
                await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
                if not following.done() or following.result() is None:
                    return
                yield [following.result()]
        finally:
            ended.cancel()
            if following is not None:
                following.cancel()
                await asyncio.gather(following, return_exceptions=True)
            await answer.rows.aclose()
            self._open.pop(query_id, None)

    async def _close(self, request: Request) -> Response:
        body = read(await request.body(), CloseQueryRequest)
        closed = self._open.get(body.queryId)
        if closed is None:
            raise Problem(400, f"No query with id {body.queryId}", code=40002)
        closed.set()
        return json_response({})

    def _inserts(self, inserts: Inserts) -> Any:
        async def insert(request: Request) -> Response:
            return TwoWayStream(inserts.answer(request), DELIMITED)

        return insert


def _streaming(pieces: AsyncGenerator[bytes], media_type: str) -> Response:
    return StreamingResponse(pieces, media_type=media_type)


def _failed(error: StatementFailed) -> Response:
    is_query = isinstance(error.cause, QueryEndpoint)
    content = {
        "@type": "statement_error",
        "error_code": QUERY_ENDPOINT if is_query else BAD_STATEMENT,
        "message": error.message,
        "statementText": f"{error.statement};",
        "entities": error.entities,
    }
    return Response(msgspec.json.encode(content), 400, media_type=KSQL)
