"""What one request may ask of the SQL server."""

from collections.abc import AsyncIterator

import pytest

from odradek.sql.api.bodies import KsqlRequest, read
from odradek.sql.api.inserts import lines_of
from odradek.sql.api.queries import in_pieces
from odradek.sql.api.service import SqlService
from odradek.sql.errors import Invalid
from odradek.sql.settings import SqlSettings
from odradek.web.guards import Limits, _max_body_bytes
from odradek.web.problems import Problem


async def pieces(*given: bytes) -> AsyncIterator[bytes]:
    for piece in given:
        yield piece


async def test_lines_come_as_they_were_sent() -> None:
    sent = pieces(b'{"a"', b":1}\n\n{", b"}\n", b"last")
    assert [line async for line in lines_of(sent, 100)] == [b'{"a":1}', b"{}", b"last"]


async def test_a_line_without_an_end_is_refused() -> None:
    with pytest.raises(Invalid, match="a line has 100 bytes at most"):
        _ = [line async for line in lines_of(pieces(*[b"x" * 60] * 5), 100)]


def test_rows_of_a_push_query_are_sent_one_by_one() -> None:
    assert list(in_pieces(["[1]\n", "[2]\n"], one_each=True)) == [b"[1]\n", b"[2]\n"]
    assert list(in_pieces(["[1]\n", "[2]\n"], one_each=False)) == [b"[1]\n[2]\n"]


def test_only_inserts_may_be_endless() -> None:
    service = SqlService(SqlSettings.from_file({"odradek.max.body.bytes": "1234"}))
    limits = Limits(max_body_bytes=1234)
    endless = {one.path for one in service.endpoints() if _max_body_bytes(one, limits) != 1234}
    assert endless == {"/inserts-stream"}


def test_a_body_that_is_nested_too_deeply_is_refused() -> None:
    deep = b'{"streamsProperties":{"a":' + b"[" * 5000 + b"]" * 5000 + b"}}"
    with pytest.raises(Problem, match="nested too deeply"):
        read(deep, KsqlRequest)
