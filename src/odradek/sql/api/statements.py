"""The endpoints that need the language: statements, queries, rows."""

import re
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response

from odradek.sql.api.bodies import KsqlRequest, TerminateRequest, read
from odradek.sql.api.codes import BAD_REQUEST, NOT_FOUND
from odradek.sql.api.failures import failed
from odradek.sql.api.inserts import Inserts
from odradek.sql.api.media import KSQL
from odradek.sql.api.queries import Queries
from odradek.sql.api.web_socket import QueriesBySocket
from odradek.sql.engine.access import Access
from odradek.sql.engine.engine import Engine, StatementFailed
from odradek.sql.engine.sessions import OBEYED, Session
from odradek.sql.errors import Invalid, SqlError
from odradek.sql.language.parser import split
from odradek.web.media import JSON, MEDIA_TYPE
from odradek.web.problems import Problem, json_response
from odradek.web.serving import CannotServe
from odradek.web.streaming import TwoWayStream

if TYPE_CHECKING:
    from odradek.sql.api.service import SqlService


class Statements:
    def __init__(self, service: "SqlService") -> None:
        settings = service.own
        self.engine = Engine(settings.engine_settings(), service.log)
        self._service = service
        self._queries = Queries(service, self.engine, settings.ksql_max_push_queries)
        self._inserts = Inserts(self.engine, settings.odradek_max_body_bytes)
        self.talk = QueriesBySocket(service, self._queries).talk
        self.query = self._queries.query
        self.query_stream = self._queries.query_stream
        self.close_query = self._queries.close

    async def ksql(self, request: Request) -> Response:
        body = read(await request.body(), KsqlRequest)
        session = Session(*body.given())
        try:
            if not split(body.ksql):
                raise Invalid("there is no statement in the request")
            if body.commandSequenceNumber is not None:
                await self._service.wait_for(body.commandSequenceNumber)
            async with self._service.access(request) as access:
                entities = await self.engine.execute(body.ksql, session, access)
        except SqlError as error:
            return failed(StatementFailed(str(error), body.ksql, [], error))
        except StatementFailed as error:
            return failed(error)
        return json_response(entities, media_type=KSQL)

    async def run_file(self, text: str, access: Access) -> None:
        """Carries out the statements of a file. Raises `CannotServe` for the first that fails."""
        path = self._service.own.ksql_queries_file
        try:
            await self.engine.execute(text, Session(), access)
        except (StatementFailed, SqlError) as error:
            raise CannotServe(f"ksql.queries.file: {path}: {error}") from None

    async def terminate(self, request: Request) -> Response:
        """Ends all persistent queries and drops all streams and tables. Topics of queries are
        deleted that the request names, or that a pattern of it matches."""
        body = read(await request.body() or b"{}", TerminateRequest)
        patterns = [_pattern(text) for text in body.deleteTopicList]
        queries = self.engine.catalogue.queries.values()
        made = {query.sink for query in queries if query.creates_sink}
        async with self._service.access(request) as access:
            await self.engine.execute("TERMINATE ALL;", Session(), access)
            for source in list(self.engine.catalogue.sources.values()):
                also = source.name in made and any(
                    pattern.fullmatch(source.topic) for pattern in patterns
                )
                text = f"DROP {source.kind} `{source.name}`{' DELETE TOPIC' if also else ''};"
                await self.engine.execute(text, Session(), access)
        return json_response([], media_type=KSQL)

    async def inserts(self, request: Request) -> Response:
        async with AsyncExitStack() as stack:
            access = await stack.enter_async_context(self._service.access(request))
            media_type = request.scope[MEDIA_TYPE]
            answer = self._inserts.as_array if media_type == JSON else self._inserts.answer
            return TwoWayStream(answer(request, access), media_type, stack.pop_all())
        raise AssertionError("rows are inserted")

    # What has become of statements

    async def all_statuses(self, request: Request) -> Response:
        statuses = self.engine.changes.statuses
        named = {name.replace("`", ""): one.status for name, one in statuses.items()}
        return json_response({"commandStatuses": named})

    async def status(self, request: Request) -> Response:
        parts = [str(request.path_params[part]) for part in ("kind", "name", "action")]
        wanted = "/".join(parts).replace("`", "")
        for name, found in self.engine.changes.statuses.items():
            if name.replace("`", "") == wanted:
                content = {
                    "status": found.status, "message": found.message, "queryId": found.query_id,
                }  # fmt: skip
                return json_response(content)
        raise Problem(404, f"Command not found: {wanted}", code=NOT_FOUND)

    async def is_valid(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name in OBEYED:
            return json_response(True)
        raise Problem(400, f"{name} cannot be set by a request", code=BAD_REQUEST)


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise Problem(400, f"{text!r} is not a pattern: {error}", code=BAD_REQUEST) from None
