"""What one request may ask of the SQL server."""

import json
from collections.abc import AsyncIterator

import pytest

from odradek.sql.api.bodies import KsqlRequest, read
from odradek.sql.api.failures import failed
from odradek.sql.api.inserts import lines_of
from odradek.sql.api.queries import in_pieces
from odradek.sql.api.service import SqlService
from odradek.sql.engine.engine import StatementFailed
from odradek.sql.errors import AssertionDoesNotHold, Invalid, QueryEndpoint, SqlError
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


@pytest.mark.parametrize(
    ("cause", "status", "code"),
    [
        (AssertionDoesNotHold("Topic t does not exist"), 417, 41700),
        (QueryEndpoint("SELECT"), 400, 40002),
        (Invalid("Column 'X' cannot be resolved"), 400, 40001),
    ],
)
def test_answer_says_which_statement_failed_and_why(
    cause: SqlError, status: int, code: int
) -> None:
    answer = failed(StatementFailed(str(cause), "SHOW STREAMS", [], cause))
    assert answer.status_code == status
    assert json.loads(bytes(answer.body)) == {
        "@type": "statement_error", "error_code": code, "message": str(cause),
        "statementText": "SHOW STREAMS;", "entities": [],
    }  # fmt: skip


def test_a_body_that_is_nested_too_deeply_is_refused() -> None:
    deep = b'{"streamsProperties":{"a":' + b"[" * 5000 + b"]" * 5000 + b"}}"
    with pytest.raises(Problem, match="nested too deeply"):
        read(deep, KsqlRequest)
