"""Asks a SQL server: statements by `/ksql`, queries by `/query`, as every ksqlDB has them."""

import asyncio
import json
import re
from collections import deque
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, Final

from odradek.console.http_asking import HttpService, ServiceAway, TooLong, asked
from odradek.console.sql.texts import ended

_KSQL: Final = "application/vnd.ksql.v1+json"
_STATEMENT_S: Final = 30.0
_QUERY_BEGINS_S: Final = 30.0
_MAX_ANSWER: Final = 8_000_000
_MAX_LINE: Final = 1_000_000
_MAX_CELL: Final = 2000
_COLUMN: Final = re.compile(r"`((?:[^`]|``)*)`")


class Refused(Exception):
    """The server refused a text; the message is the server's. `entities` are the answers of the
    statements before it."""

    def __init__(self, message: str, entities: list[dict[str, Any]]) -> None:
        super().__init__(message)
        self.entities = entities


@dataclass(slots=True)
class Rows:
    """Rows of a query, as texts. `final` is the server's last word about it."""

    columns: list[str] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)
    final: str = ""
    problem: str = ""
    dropped: int = 0

    def __bool__(self) -> bool:
        return bool(self.columns or self.rows or self.final or self.problem)


class SqlServer:
    def __init__(self, service: HttpService) -> None:
        self._service = service

    async def wants_log_in(self) -> bool:
        """Returns whether the server refuses who shows no log-in. It is asked without one."""
        anonymous = replace(self._service, authorization="")
        async with asked(
            anonymous, "POST", "/ksql", b'{"ksql":"SHOW PROPERTIES;"}', media_type=_KSQL,
            timeout_s=_STATEMENT_S,
        ) as answer:  # fmt: skip
            return answer.status == 401

    async def execute(
        self, text: str, properties: Mapping[str, str] | None = None
    ) -> list[dict[str, Any]]:
        """Carries statements out and returns the answers. Raises `Refused` or `ServiceAway`."""
        body = json.dumps({"ksql": ended(text), "streamsProperties": dict(properties or {})})
        async with asked(
            self._service, "POST", "/ksql", body.encode(), media_type=_KSQL, timeout_s=_STATEMENT_S
        ) as answer:
            try:
                async with asyncio.timeout(_STATEMENT_S):
                    content = await answer.body(_MAX_ANSWER)
            except (TooLong, TimeoutError) as error:
                raise ServiceAway(str(error) or "its answer takes too long") from None
        found = _read(content)
        if answer.status >= 400:
            raise _refused(found, answer.status)
        if not isinstance(found, list):
            raise ServiceAway("it does not answer as a SQL server does")
        return [one for one in found if isinstance(one, dict)]

    async def query(self, text: str, properties: Mapping[str, str]) -> AsyncIterator[Rows]:
        """Yields the rows of a query as they come, one or few at a time; the first has the names
        of the columns. Raises `Refused` or `ServiceAway`; leaving the loop ends the query."""
        body = json.dumps({"ksql": ended(text), "streamsProperties": dict(properties)})
        async with asked(
            self._service, "POST", "/query", body.encode(), media_type=_KSQL,
            timeout_s=_QUERY_BEGINS_S,
        ) as answer:  # fmt: skip
            if answer.status >= 400:
                raise _refused(_read(await answer.body(_MAX_ANSWER)), answer.status)
            rest = b""
            async for piece in answer.pieces():
                *lines, rest = (rest + piece).split(b"\n")
                if len(rest) > _MAX_LINE:
                    raise Refused(f"a row is longer than {_MAX_LINE:,} bytes", [])
                if _is_whole(rest):
                    # Some servers write the line break of a row with the next row.
                    lines, rest = [*lines, rest], b""
                if found := rows_of(lines):
                    yield found
            if found := rows_of([rest]):
                yield found


async def collected(rows: AsyncIterator[Rows], at_most: int, seconds: float) -> Rows:
    """Returns the rows of a query that ends, or the first of them: `final` says which."""
    all_of_it = Rows()
    try:
        async with asyncio.timeout(seconds):
            async for row in rows:
                all_of_it.columns = all_of_it.columns or row.columns
                all_of_it.rows += row.rows
                all_of_it.final = row.final or all_of_it.final
                all_of_it.problem = row.problem or all_of_it.problem
                if len(all_of_it.rows) > at_most:
                    del all_of_it.rows[at_most:]
                    all_of_it.final = f"The first {at_most:,} rows. LIMIT or WHERE asks for fewer."
                    break
    except TimeoutError:
        all_of_it.final = (
            f"The query has not ended within {seconds:.0f} seconds; these rows came until then."
        )
    return all_of_it


async def in_batches(
    rows: AsyncIterator[Rows], every_s: float, at_most: int
) -> AsyncIterator[Rows]:
    """Yields what came since the last time. If it was more than `at_most` rows, the newest of
    them; `dropped` says how many are missing."""
    waiting: deque[list[str]] = deque(maxlen=at_most)
    news = Rows()
    came = asyncio.Event()

    async def read() -> None:
        async for row in rows:
            news.columns = row.columns or news.columns
            news.dropped += max(0, len(waiting) + len(row.rows) - at_most)
            waiting.extend(row.rows)
            news.final = row.final or news.final
            news.problem = row.problem or news.problem
            came.set()

    reading = asyncio.create_task(read())
    reading.add_done_callback(lambda _: came.set())
    try:
        while True:
            await came.wait()
            came.clear()
            is_over = reading.done()
            if is_over:
                reading.result()  # What went wrong is the caller's.
            batch = Rows(news.columns, list(waiting), news.final, news.problem, news.dropped)
            waiting.clear()
            news.columns, news.final, news.problem, news.dropped = [], "", "", 0
            if batch:
                yield batch
            if is_over:
                return
            await asyncio.sleep(every_s)
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)


def _is_whole(line: bytes) -> bool:
    """Returns whether a line that may not be over is a whole element of the answer."""
    if not line.rstrip().endswith((b"}", b"]")):
        return False
    try:
        json.loads(line.strip().lstrip(b"[,").rstrip(b"],"))
    except (ValueError, RecursionError):
        return False
    return True


def rows_of(lines: list[bytes]) -> Rows:
    """Reads lines of an answer: elements of a JSON array, or the lines of PRINT."""
    found = Rows()
    for line in lines:
        text = line.decode("utf-8", "replace").strip()
        element = text.lstrip("[,").strip()
        if not element.startswith("{"):
            if text.strip("[],"):
                found.rows.append([cell(text)])
            continue
        try:
            content, _ = json.JSONDecoder(parse_float=Decimal).raw_decode(element)
        except (ValueError, RecursionError):
            found.rows.append([cell(text)])
            continue
        if "header" in content:
            schema = str(content["header"].get("schema", ""))
            found.columns = [one.replace("``", "`") for one in _top_level(schema)]
        elif "row" in content:
            row = content["row"] or {}
            cells = [cell(value) for value in row.get("columns") or []]
            found.rows.append(
                [*cells[:-1], f"{cells[-1]} (deleted)"] if row.get("tombstone") and cells else cells
            )
        elif "finalMessage" in content:
            found.final = str(content["finalMessage"])
        elif "errorMessage" in content:
            message = content["errorMessage"]
            words = message.get("message") if isinstance(message, dict) else message
            found.problem = str(words or "the query failed")
    return found


def _top_level(schema: str) -> list[str]:
    """Returns the names of the columns of a schema; those of fields within a STRUCT<...> are none
    of them."""
    names, depth, place = [], 0, 0
    while place < len(schema):
        match = _COLUMN.match(schema, place)
        if match is not None:
            if depth == 0:
                names.append(match[1])
            place = match.end()
            continue
        depth += {"<": 1, ">": -1}.get(schema[place], 0)
        place += 1
    return names


def cell(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, str):
        text = value
    elif isinstance(value, Decimal):
        text = str(value)
    else:
        text = json.dumps(value, ensure_ascii=False, default=float)
    return text if len(text) <= _MAX_CELL else f"{text[:_MAX_CELL]}…"


def _read(content: bytes) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return content.decode("utf-8", "replace")[:500]


def _refused(found: Any, status: int) -> Refused:
    if not isinstance(found, dict):
        return Refused(f"The server answered with status {status}: {found}", [])
    entities = found.get("entities")
    entities = entities if isinstance(entities, list) else []
    return Refused(
        str(found.get("message") or f"status {status}"),
        [entity for entity in entities if isinstance(entity, dict)],
    )
