"""Answers of SQL servers: rows in pieces, errors, servers that are away or are something else."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from odradek.console.http_asking import HttpService, ServiceAway, asked
from odradek.console.sql.answers import shown
from odradek.console.sql.server import (
    Refused,
    Rows,
    SqlServer,
    collected,
    in_batches,
    rows_of,
)

HEADER = b'[{"header":{"queryId":"q","schema":"`A` INT, `S` STRUCT<`B` INT>, `C``D` STRING"}}'


heads: list[str] = []
"""What the requests to the newest server began with."""


@asynccontextmanager
async def serving(status: int, *pieces: bytes, ends: bool = True) -> AsyncIterator[str]:
    """A server that gives every request these pieces, one write each."""

    writers: list[asyncio.StreamWriter] = []
    heads.clear()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
        writer.write(b"HTTP/1.1 %d Fine\r\ntransfer-encoding: chunked\r\n\r\n" % status)
        for piece in pieces:
            writer.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            await writer.drain()
        if ends:
            writer.write(b"0\r\n\r\n")

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for writer in writers:
            writer.close()
            await writer.wait_closed()


async def test_rows_come_before_the_line_of_the_next_one() -> None:
    row = b',\n{"row":{"columns":[1,{"B":2},null]}}'
    async with serving(200, HEADER, row, ends=False) as url:
        rows = SqlServer(HttpService(url)).query("SELECT 1;", {})
        async with asyncio.timeout(10):
            first = await anext(rows)
            second = await anext(rows) if not first.rows else first
        assert first.columns == ["A", "S", "C`D"]
        assert second.rows == [["1", '{"B": 2}', "null"]]
        await rows.aclose()  # type: ignore[attr-defined]  # it is a generator


async def test_an_answer_in_small_pieces() -> None:
    whole = HEADER + b',\n{"row":{"columns":[2.50,{"B":"}"},"]"]}},\n{"finalMessage":"Over"}]\n'
    async with serving(200, *(whole[at : at + 3] for at in range(0, len(whole), 3))) as url:
        found = await collected(SqlServer(HttpService(url)).query("SELECT 1", {}), 10, 10)
    assert found == Rows(["A", "S", "C`D"], [["2.50", '{"B": "}"}', "]"]], "Over")


async def test_what_the_server_refuses() -> None:
    body = {"message": "line 1:1: no", "entities": [{"@type": "streams", "streams": []}]}
    async with serving(400, json.dumps(body).encode()) as url:
        with pytest.raises(Refused, match="line 1:1: no") as caught:
            await SqlServer(HttpService(url)).execute("SHOW NOTHING")
        with pytest.raises(Refused, match="line 1:1: no"):
            await collected(SqlServer(HttpService(url)).query("SELECT", {}), 1, 10)
    assert caught.value.entities == body["entities"]
    async with serving(200, b"<html>") as url:
        with pytest.raises(ServiceAway, match="not answer as a SQL server"):
            await SqlServer(HttpService(url)).execute("SHOW STREAMS;")
    async with serving(502, b"<html>") as url:
        with pytest.raises(Refused, match="status 502"):
            await SqlServer(HttpService(url)).execute("SHOW STREAMS;")


async def test_a_server_is_shown_a_log_in_only_where_it_belongs() -> None:
    async with serving(401, b'{"message": "log in"}') as url:
        server = SqlServer(HttpService(url, "Basic YWRhOnNlY3JldA=="))
        assert await server.wants_log_in()
        assert "authorization" not in heads[-1]
        with pytest.raises(Refused, match="log in"):
            await server.execute("SHOW STREAMS;")
        assert "authorization: Basic YWRhOnNlY3JldA==" in heads[-1]
        assert "YWRh" not in repr(HttpService(url, "Basic YWRhOnNlY3JldA=="))
    async with serving(200, b"[]") as url:
        assert not await SqlServer(HttpService(url)).wants_log_in()


async def test_a_server_that_is_away() -> None:
    async with serving(200) as url:
        pass
    with pytest.raises(ServiceAway, match="refused"):
        await SqlServer(HttpService(url)).execute("SHOW STREAMS;")


async def test_a_server_that_says_nothing() -> None:
    ended = asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        await ended.wait()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    with pytest.raises(ServiceAway, match="within 0 s"):
        async with asked(HttpService(url), "GET", "/", media_type="*/*", timeout_s=0.01):
            pass
    ended.set()
    server.close()


async def several(*batches: int) -> AsyncIterator[Rows]:
    for number, count in enumerate(batches):
        yield Rows(rows=[[f"{number}.{one}"] for one in range(count)])


async def test_a_query_that_is_faster_than_readers_drops_and_says_so() -> None:
    found = [one async for one in in_batches(several(3, 4, 5), 0, 5)]
    assert sum(one.dropped for one in found) + sum(len(one.rows) for one in found) == 12
    assert found[-1].rows[-1] == ["2.4"]
    assert sum(one.dropped for one in found) == 7


async def test_a_query_without_end_is_cut() -> None:
    found = await collected(several(3, 3), 4, 10)
    assert (len(found.rows), found.final) == (4, "The first 4 rows. LIMIT or WHERE asks for fewer.")


def test_lines_of_print_and_rows_that_were_deleted() -> None:
    found = rows_of([b"rowtime: 2026, key: a, value: {}", b"", b"[", b"]"])
    assert found.rows == [["rowtime: 2026, key: a, value: {}"]]
    found = rows_of([b',{"row":{"columns":["a"],"tombstone":true}}'])
    assert found.rows == [["a (deleted)"]]
    found = rows_of([b'{"errorMessage":{"message":"it broke"}}]'])
    assert found.problem == "it broke"


def test_answers_for_people() -> None:
    answer = shown({"@type": "streams", "streams": [], "statementText": "SHOW STREAMS;"})
    assert answer.message == "There are no streams."
    answer = shown(
        {
            "@type": "sourceDescription",
            "sourceDescription": {
                "type": "TABLE", "name": "T", "topic": "t",
                "fields": [
                    {"name": "A", "type": "KEY", "schema": {"type": "INTEGER"}},
                    {"name": "B", "schema": {
                        "type": "ARRAY", "memberSchema": {
                            "type": "STRUCT", "fields": [
                                {"name": "C", "schema": {
                                    "type": "DECIMAL",
                                    "parameters": {"precision": 4, "scale": 2},
                                }},
                            ],
                        },
                    }},
                ],
            },
        }
    )  # fmt: skip
    assert answer.rows == [["A", "INTEGER", "KEY"], ["B", "ARRAY<STRUCT<C DECIMAL(4, 2)>>", ""]]
    answer = shown({"@type": "new_kind", "statementText": "X;", "warnings": [{"message": "w"}]})
    assert (answer.title, answer.text, answer.warnings) == ("X;", "{}", ["w"])
    answer = shown({"@type": "currentStatus", "commandStatus": {"message": "made"}})
    assert answer.message == "made"
