"""Queries over HTTP: /query and /query-stream answer row by row, /close-query ends one.

The next rows are computed when the connection has taken those before, so a client that reads
slowly costs no memory. A client that goes away ends its query; so does `close`.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from odradek.client.errors import ClientError
from odradek.protocol.errors import KafkaError
from odradek.schemas.registry_client import RegistryClient
from odradek.services.identity import Caller
from odradek.sql.api.bodies import CloseQueryRequest, KsqlRequest, QueryStreamRequest, read
from odradek.sql.api.codes import BAD_REQUEST, SERVER_ERROR, TOO_MANY_PUSH_QUERIES
from odradek.sql.api.failures import failed
from odradek.sql.api.media import DELIMITED
from odradek.sql.api.printing import printed
from odradek.sql.api.results import header, old_header, old_row, row_values
from odradek.sql.engine.access import Access
from odradek.sql.engine.answering import Answer, ResultRow
from odradek.sql.engine.engine import Engine, StatementFailed
from odradek.sql.engine.sessions import Session
from odradek.sql.errors import Invalid, SqlError
from odradek.sql.language import statements as s
from odradek.sql.language.parser import parse, split
from odradek.streams.formats.columns import to_json
from odradek.web.media import JSON, MEDIA_TYPE
from odradek.web.problems import Problem, json_response

if TYPE_CHECKING:
    from odradek.sql.api.service import SqlService


class Shape(NamedTuple):
    """How the parts of an answer are written: `[header,\\nrow,\\nrow]`, or each on a line."""

    begin: str
    before_row: str
    after_row: str
    end: str


ARRAY: Final = Shape("[", ",\n", "", "]\n")
LINES: Final = Shape("", "", "\n", "")


class Streamed(StreamingResponse):
    """An answer that holds what `stack` has, until it is sent or the client goes."""

    def __init__(self, stack: AsyncExitStack, content: AsyncGenerator[bytes], kind: str) -> None:
        super().__init__(content, media_type=kind)
        self._stack = stack

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self._stack:
            await super().__call__(scope, receive, send)


class _Open(NamedTuple):
    """A query that a client waits for; `closed` ends it."""

    closed: asyncio.Event
    caller: Caller
    is_push: bool


class Queries:
    """The queries that clients wait for on this server."""

    def __init__(self, service: "SqlService", engine: Engine, max_push: int) -> None:
        self._service = service
        self._engine = engine
        self._max_push = max_push
        self._open: dict[str, _Open] = {}
        self._count = 0

    @property
    def push_queries(self) -> int:
        return sum(query.is_push for query in self._open.values())

    def one_statement(self, text: str, session: Session) -> s.Query | s.PrintTopic:
        """Returns the query of a request. Raises `SqlError` if it is another statement."""
        parts = split(text)
        if len(parts) != 1:
            raise Invalid(f"Expected exactly one KSQL statement; found {len(parts)} instead")
        statement = parse(session.expanded(parts[0]), self._engine.catalogue.types)
        if not isinstance(statement, s.Query | s.PrintTopic):
            raise Invalid(
                f"a query is expected here, and other statements by /ksql: {parts[0].text[:60]}",
                statement.place,
            )
        return statement

    @asynccontextmanager
    async def opened(
        self, statement: s.Query, session: Session, access: Access
    ) -> AsyncGenerator[tuple[Answer, str, asyncio.Event]]:
        """Keeps a query open: gives its answer, its id, and the event that ends it."""
        is_push = statement.emit is not None
        if is_push and self.push_queries >= self._max_push:
            raise Problem(
                400,
                f"there are {self.push_queries} push queries on this server already, which is as"
                " many as ksql.max.push.queries allows: end one, or ask another server",
                code=TOO_MANY_PUSH_QUERIES,
            )
        self._count += 1
        query_id = f"transient_{self._engine.settings.service_id}_{self._count}"
        closed = asyncio.Event()
        self._open[query_id] = _Open(closed, access.caller, is_push)
        try:
            answer = await self._engine.query(statement, session, access)
            try:
                yield answer, query_id, closed
            finally:
                await answer.close()
        finally:
            self._forget(query_id)

    async def query(self, request: Request) -> Response:
        """/query: a JSON array of a header, rows and a last message."""
        body = read(await request.body(), KsqlRequest)
        if body.commandSequenceNumber is not None:
            await self._service.wait_for(body.commandSequenceNumber)
        return await self._answered_or_failed(request, body.ksql, body, is_new=False)

    async def query_stream(self, request: Request) -> Response:
        """/query-stream: a line for each row, or with JSON an array of header and rows."""
        body = read(await request.body(), QueryStreamRequest)
        return await self._answered_or_failed(request, body.sql, body, is_new=True)

    async def _answered_or_failed(
        self, request: Request, text: str, body: KsqlRequest | QueryStreamRequest, *, is_new: bool
    ) -> Response:
        try:
            return await self._answered(request, text, Session(*body.given()), is_new=is_new)
        except SqlError as error:
            statement = text.strip().rstrip(";")
            return failed(StatementFailed(str(error), statement, [], error))

    @property
    def registry(self) -> RegistryClient | None:
        """The schema registry, if there is one."""
        return self._engine.settings.defaults.formats.registry

    async def _answered(
        self, request: Request, text: str, session: Session, *, is_new: bool
    ) -> Response:
        statement = self.one_statement(text, session)
        media_type: str = request.scope[MEDIA_TYPE]
        async with AsyncExitStack() as stack:
            access = await stack.enter_async_context(self._service.access(request))
            if isinstance(statement, s.PrintTopic):
                if is_new and media_type != DELIMITED:
                    raise Problem(406, f"PRINT is answered as {DELIMITED}, not as {media_type}")
                lines = await printed(access, statement, self.registry)
                return Streamed(stack.pop_all(), lines, DELIMITED if is_new else "text/plain")
            opened = await stack.enter_async_context(self.opened(statement, session, access))
            # Each endpoint has its own format as JSON; the other media types name theirs.
            write = self._new_answer if is_new else self._old_answer
            if media_type != JSON:
                write = self._new_answer if media_type == DELIMITED else self._old_answer
            shape = LINES if media_type == DELIMITED else ARRAY
            return Streamed(stack.pop_all(), write(*opened, statement, shape), media_type)
        raise AssertionError("a query is answered")

    async def _old_answer(
        self, answer: Answer, query_id: str, closed: asyncio.Event, statement: s.Query, _: Shape
    ) -> AsyncGenerator[bytes]:
        # Each row ends its line: readers of lines would get it only with the next one.
        yield f"[{old_header(answer, query_id)},\n".encode()
        given = 0
        try:
            async for rows in batches(answer, closed):
                given += len(rows)
                lines = [f"{old_row(row, answer.columns)},\n" for row in rows]
                for piece in in_pieces(lines, one_each=answer.is_push):
                    yield piece
        except (ClientError, KafkaError) as error:
            last: dict[str, Any] = {"errorMessage": failure(error)}
        else:
            is_limited = statement.limit is not None and given >= statement.limit
            last = {"finalMessage": "Limit Reached" if is_limited else "Query Completed"}
        self._forget(query_id)
        yield f"{to_json(last)}]\n".encode()

    async def _new_answer(
        self, answer: Answer, query_id: str, closed: asyncio.Event, statement: s.Query, shape: Shape
    ) -> AsyncGenerator[bytes]:
        yield f"{shape.begin}{header(answer, query_id)}{shape.after_row}".encode()
        last = ""
        try:
            async for rows in batches(answer, closed):
                texts = (to_json(row_values(row, answer.columns)) for row in rows)
                lines = [f"{shape.before_row}{text}{shape.after_row}" for text in texts]
                for piece in in_pieces(lines, one_each=answer.is_push):
                    yield piece
        except (ClientError, KafkaError) as error:
            last = f"{shape.before_row}{to_json(failure(error))}{shape.after_row}"
        self._forget(query_id)
        if last or shape.end:
            yield f"{last}{shape.end}".encode()

    def _forget(self, query_id: str) -> None:
        """Makes room for another query, before the client sees the end of this one."""
        self._open.pop(query_id, None)

    async def close(self, request: Request) -> Response:
        body = read(await request.body(), CloseQueryRequest)
        async with self._service.access(request) as access:
            query = self._open.get(body.queryId)
            # Ids can be guessed: others' queries are as unknown as those that there are not.
            is_own = query is not None and query.caller == access.caller
        if query is None or not is_own:
            raise Problem(400, f"No query with id {body.queryId}", code=BAD_REQUEST)
        self._forget(body.queryId)
        query.closed.set()
        return json_response({})


def failure(error: Exception) -> dict[str, Any]:
    """Returns what is said of an error in an answer that has begun."""
    return {"@type": "generic_error", "error_code": SERVER_ERROR, "message": str(error)}


def in_pieces(lines: Sequence[str], *, one_each: bool) -> Iterator[bytes]:
    """Yields rows as they are sent. Those of a push query go one by one: clients of ksqlDB take
    each piece that they receive for one row."""
    if one_each:
        for line in lines:
            yield line.encode()
    else:
        yield "".join(lines).encode()


async def batches(answer: Answer, closed: asyncio.Event) -> AsyncGenerator[list[ResultRow]]:
    """Yields rows as they come, until the query ends or is closed."""
    ended = asyncio.create_task(closed.wait())
    following: asyncio.Task[list[ResultRow] | None] | None = None
    try:
        while not closed.is_set():
            following = asyncio.create_task(_next(answer))
            both: set[asyncio.Future[Any]] = {following, ended}
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            if not following.done():
                return
            rows = following.result()
            if rows is None:
                return
            yield rows
    finally:
        ended.cancel()
        if following is not None:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)


async def _next(answer: Answer) -> list[ResultRow] | None:
    return await anext(answer.rows, None)
