"""SQL: statements and queries at a SQL server, `odradek sql-server` or ksqlDB (`sql.url`).

A server that wants a log-in gets that of the user, and decides. One that wants none does not know
the console's users and reads and writes topics with rights of its own; so where the brokers need a
log-in, SQL is then for those who may write to its topic of statements. And where fields are masked,
the console sends nothing that shows or copies records.
"""

import json
import re
from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass, replace
from typing import Any, Final

from starlette.responses import Response

from odradek.console.asking import BadForm, PageRequest, Pages
from odradek.console.http_asking import HttpService, ServiceAway
from odradek.console.rights import authorization, named, require_write
from odradek.console.sql.answers import Shown, shown
from odradek.console.sql.drawing import picture_of
from odradek.console.sql.server import Refused, Rows, SqlServer, collected, in_batches
from odradek.console.sql.texts import (
    first_word,
    goes_on,
    has_hidden_end,
    is_query,
    joined,
    statements,
    that_end,
    that_show_records,
)
from odradek.web.endpoints import Endpoint
from odradek.web.media import EVENTS
from odradek.web.problems import Problem
from odradek.web.streaming import EventStream, event
from odradek.world.randomness import Randomness

_BEGINNINGS: Final = {"earliest": "the beginning of its topics", "latest": "now on"}
_MAX_TEXT: Final = 100_000
_MAX_QUERIES: Final = 200
_MAX_ROWS: Final = 500
_PULL_S: Final = 10.0
_EVERY_S: Final = 0.25
_MAX_BATCH: Final = 50
_PLAIN: Final = re.compile(r"[A-Z_][A-Z0-9_]*")
_ACTIONS: Final = ("pause", "resume", "terminate")


@dataclass(frozen=True, slots=True)
class _Query:
    """A query that goes on: its text, and the session that may read it."""

    session: str
    cluster: str
    text: str
    properties: dict[str, str]


class SqlPages(Pages):
    shown_service = ("SQL server", "sql.url")

    def __init__(self, console: Any) -> None:
        super().__init__(console)
        self._queries: OrderedDict[str, _Query] = OrderedDict()
        self._randomness = Randomness()

    def endpoints(self) -> list[Endpoint]:
        return [
            self.shows("/sql", self._editor, "Streams, tables and queries, and an editor."),
            self.changes("/sql", self._run, "Carries statements out, or begins a query."),
            self.shows("/sql/rows/{query}", self._rows, "A query that goes on."),
            self.shows(
                "/sql/rows/{query}/stream", self._stream, "Its rows.", produces=(EVENTS,),
                is_stream=True,
            ),
            self.shows("/sql/queries/{query}", self._query, "A persistent query and its plan."),
            self.changes("/sql/queries/{query}", self._do, "Pauses, resumes or ends it."),
        ]  # fmt: skip

    # The editor

    async def _editor(self, asked: PageRequest) -> Response:
        if not asked.cluster.sql_url:
            return asked.page("sql.html", "sql", is_configured=False)
        text = asked.query.raw("text")
        return await self._page(asked, text)

    async def _page(
        self,
        asked: PageRequest,
        text: str,
        problem: str = "",
        *,
        answers: list[Shown] | None = None,
        ending: list[str] | None = None,
        rows: Rows | None = None,
    ) -> Response:
        listed = await self._listed(asked)
        return asked.page(
            "sql.html", "sql", 400 if problem else 200, is_configured=True, text=text,
            problem=problem, answers=answers or [], ending=ending or [], rows=rows,
            from_=asked.form.text("from", "earliest"), beginnings=_BEGINNINGS,
            streams=_found(listed, "streams"), tables=_found(listed, "tables"),
            queries=[_query_row(one) for one in _found(listed, "queries")],
            is_masked=asked.cluster.has_masks,
        )  # fmt: skip

    async def _listed(self, asked: PageRequest) -> list[dict[str, Any]]:
        server = await _server(asked)
        try:
            return await server.execute("SHOW STREAMS; SHOW TABLES; SHOW QUERIES;")
        except (ServiceAway, Refused) as error:
            raise _problem(asked, error) from None

    async def _run(self, asked: PageRequest) -> Response:
        server = await _server(asked)
        form = asked.form
        text = form.raw("text")
        found = statements(text)
        try:
            _check(asked, text, found)
            if form.text("action") == "explain":
                statement = found[0]
                word = "" if first_word(statement) == "EXPLAIN" else "EXPLAIN "
                return await self._page(
                    asked, text, answers=_answers(await server.execute(word + statement))
                )
            if is_query(found[0]):
                return await self._begin(asked, server, text, found)
            if (ending := that_end(found)) and not form.has("sure"):
                return await self._page(asked, text, ending=ending)
            properties = _properties(form.text("from"))
            # What was checked is sent, and no text that the server may read in another way.
            sent = joined(found) if asked.cluster.has_masks else text
            answers = _answers(await server.execute(sent, properties))
        except BadForm as error:
            return await self._page(asked, text, str(error))
        except Refused as error:
            problem = named(asked, str(error))
            return await self._page(asked, text, problem, answers=_answers(error.entities))
        except ServiceAway as error:
            raise _problem(asked, error) from None
        return await self._page(asked, text, answers=answers)

    async def _begin(
        self, asked: PageRequest, server: SqlServer, text: str, found: list[str]
    ) -> Response:
        """Answers a query: one that ends at once, and another one on a page of its own."""
        if len(found) > 1:
            raise BadForm("A query is sent alone: leave out the other statements")
        properties = _properties(asked.form.text("from"))
        if not goes_on(found[0]):
            rows = await collected(server.query(text, properties), _MAX_ROWS, _PULL_S)
            return await self._page(asked, text, rows.problem, rows=rows)
        name = self._randomness.bytes(16).hex()
        while len(self._queries) >= _MAX_QUERIES:
            self._queries.popitem(last=False)
        query = _Query(asked.session.name, asked.cluster.name, text, properties)
        self._queries[name] = query
        return asked.go(asked.url("sql", "rows", name))

    # Queries that go on

    def _known(self, asked: PageRequest) -> _Query:
        found = self._queries.get(str(asked.path["query"]))
        if found is None or (found.session, found.cluster) != (
            asked.session.name, asked.cluster.name,
        ):  # fmt: skip
            raise Problem(404, "this query is forgotten; send it again from the page SQL")
        return found

    async def _rows(self, asked: PageRequest) -> Response:
        query = self._known(asked)
        return asked.page(
            "sql_rows.html", "sql", text=query.text, max_rows=_MAX_ROWS,
            from_=query.properties["auto.offset.reset"],
            stream=asked.url("sql", "rows", asked.path["query"], "stream"),
        )  # fmt: skip

    async def _stream(self, asked: PageRequest) -> Response:
        query = self._known(asked)
        server = await _server(asked)
        return EventStream(_events(asked, server.query(query.text, query.properties)))

    # Persistent queries

    async def _query(self, asked: PageRequest, problem: str = "") -> Response:
        name = str(asked.path["query"])
        server = await _server(asked)
        try:
            listed = await server.execute("SHOW QUERIES;")
            row = next(
                (_query_row(one) for one in _found(listed, "queries") if one.get("id") == name),
                None,
            )
            if row is None:
                raise Problem(404, f"the SQL server runs no query {name}; it may have ended")
            (answer,) = await server.execute(f"EXPLAIN {_quoted(name)};")
            readers = await _readers(server, row["sinks"])
        except (ServiceAway, Refused) as error:
            raise _problem(asked, error) from None
        described = answer.get("queryDescription") or {}
        topology = str(described.get("topology") or "")
        return asked.page(
            "sql_query.html", "sql", 400 if problem else 200, row=row, problem=problem,
            sources=described.get("sources") or [], topology=topology,
            picture=picture_of(topology), readers=[reader for reader in readers if reader != name],
        )  # fmt: skip

    async def _do(self, asked: PageRequest) -> Response:
        name, action = str(asked.path["query"]), asked.form.text("action")
        server = await _server(asked)
        if action not in _ACTIONS:
            raise BadForm(f"an action is one of {', '.join(_ACTIONS)}")
        if action == "terminate" and asked.form.text("confirm") != name:
            return await self._query(
                asked, f"Nothing was done: type {name} into the field to confirm it"
            )
        try:
            await server.execute(f"{action.upper()} {_quoted(name)};")
        except Refused as error:
            return await self._query(asked, named(asked, str(error)))
        except ServiceAway as error:
            raise _problem(asked, error) from None
        if action == "terminate":
            return asked.go(asked.url("sql"), "good", f"Query {name} has ended.")
        words = "is paused" if action == "pause" else "goes on"
        return asked.go(asked.url("sql", "queries", name), "good", f"Query {name} {words}.")


async def _server(asked: PageRequest) -> SqlServer:
    """Returns the SQL server, if there is one and the user may use it.

    A server that wants a log-in gets that of the user and decides by itself, as Odradek's does.
    Where it wants none, or the console has a log-in of its own there, the brokers are asked."""
    cluster = asked.cluster
    if not cluster.sql_url:
        raise Problem(404, "no SQL server is configured: set sql.url")
    service = HttpService(cluster.sql_url, tls=cluster.tls)
    own = cluster.settings.sql_basic_auth_user_info
    if not cluster.needs_log_in:
        return SqlServer(replace(service, authorization=authorization(asked, own) if own else ""))
    try:
        if not own and await SqlServer(service).wants_log_in():
            if shown := authorization(asked, ""):
                return SqlServer(replace(service, authorization=shown))
            raise Problem(
                502,
                "the SQL server wants a log-in, and yours is a token of the brokers, which it does"
                " not take; set sql.basic.auth.user.info of the console",
            )
    except ServiceAway as error:
        raise _problem(asked, error) from None
    await require_write(
        asked,
        cluster.settings.sql_command_topic,
        "may not use SQL, for the SQL server reads and writes topics with rights of its own",
    )
    return SqlServer(replace(service, authorization=authorization(asked, own) if own else ""))


def _problem(asked: PageRequest, error: ServiceAway | Refused) -> Problem:
    url = asked.cluster.sql_url
    if isinstance(error, Refused):
        return Problem(502, f"the SQL server at {url} answered: {named(asked, str(error))}")
    return Problem(
        503,
        f"the SQL server at {url} does not answer ({error}); start it with odradek sql-server, or"
        " correct sql.url of the console",
    )


def _check(asked: PageRequest, text: str, found: list[str]) -> None:
    if not found:
        raise BadForm("There is no statement; an example: SHOW STREAMS;")
    if len(text) > _MAX_TEXT:
        raise BadForm(f"The text has {len(text):,} characters; {_MAX_TEXT:,} are allowed")
    if asked.cluster.has_masks and (shows := that_show_records(found)):
        raise BadForm(
            f"{first_word(shows[0]) or 'This'} is not sent: fields are masked in this console"
            " (odradek.masks), and SQL would show or copy them. Use odradek sql"
        )
    if asked.cluster.has_masks and has_hidden_end(found):
        raise BadForm(
            "This is not sent: fields are masked in this console (odradek.masks), and a quoted text"
            " has a semicolon, where another statement could begin. Use odradek sql"
        )


def _properties(begins: str) -> dict[str, str]:
    if begins not in _BEGINNINGS:
        begins = "earliest"
    return {"auto.offset.reset": begins}


def _answers(entities: list[dict[str, Any]]) -> list[Shown]:
    return [shown(entity) for entity in entities]


def _found(entities: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    for entity in entities:
        if entity.get("@type") == kind:
            return [one for one in entity.get(kind) or [] if isinstance(one, dict)]
    return []


def _query_row(query: dict[str, Any]) -> dict[str, Any]:
    counts = query.get("statusCount") or {}
    return {
        "id": str(query.get("id", "")),
        "state": str(query.get("state") or next(iter(counts), "")),
        "sinks": [str(sink) for sink in query.get("sinks") or []],
        "topics": [str(topic) for topic in query.get("sinkKafkaTopics") or []],
        "type": str(query.get("queryType") or "PERSISTENT"),
        "text": str(query.get("queryString") or ""),
    }


async def _readers(server: SqlServer, sinks: list[str]) -> list[str]:
    """Returns the queries that read what a query writes."""
    names: list[str] = []
    for sink in sinks:
        for answer in await server.execute(f"DESCRIBE {_quoted(sink)};"):
            described = answer.get("sourceDescription") or {}
            names += [
                str(read_query.get("id")) for read_query in described.get("readQueries") or []
            ]
    return names


def _quoted(name: str) -> str:
    """Returns a name as a statement has it: in quotes if it is not all capitals."""
    return name if _PLAIN.fullmatch(name) else "`{}`".format(name.replace("`", "``"))


async def _events(asked: PageRequest, rows: AsyncIterator[Rows]) -> AsyncGenerator[bytes]:
    """Yields what came as events; the last one has the server's last word."""
    final = ""
    try:
        async for batch in in_batches(rows, _EVERY_S, _MAX_BATCH):
            final = batch.final
            yield _event(batch)
    except (ServiceAway, Refused) as error:
        yield _event(Rows(problem=named(asked, str(error))))
        return
    if not final:
        yield _event(Rows(final="The query has ended."))


def _event(rows: Rows) -> bytes:
    content = {
        "columns": rows.columns, "rows": rows.rows, "final": rows.final, "problem": rows.problem,
        "dropped": rows.dropped,
    }  # fmt: skip
    return event(json.dumps(content).encode(), name="rows")
