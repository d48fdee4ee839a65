"""Which keys a pull query asks for."""

import pytest

from odradek.sql.engine.definitions import Defaults, define
from odradek.sql.engine.pulling import check_keys, check_pull, wanted_keys
from odradek.sql.errors import Invalid
from odradek.sql.language import statements as s
from odradek.sql.language.parser import parse

TABLE = "CREATE TABLE t (k INT PRIMARY KEY, v INT) WITH (kafka_topic='t', value_format='JSON')"
TWO = (
    "CREATE TABLE t (a INT PRIMARY KEY, b STRING PRIMARY KEY, v INT)"
    " WITH (kafka_topic='t', format='JSON')"
)
STREAM = "CREATE STREAM t (k INT KEY, v INT) WITH (kafka_topic='t', value_format='JSON')"


@pytest.mark.parametrize(
    ("definition", "where", "keys"),
    [
        (TABLE, "k = 7", [(7,)]),
        (TABLE, "7 = k", [(7,)]),
        (TABLE, "(k = 7) AND v > 1", [(7,)]),
        (TABLE, "k IN (1, 2, 1)", [(1,), (2,)]),
        (TABLE, "k = 3 + 4", [(7,)]),
        (TABLE, "k = v", None),
        (TABLE, "k = 7 OR v = 1", None),
        (TABLE, "NOT k = 7", None),
        (TABLE, "k > 7", None),
        (TABLE, "v = 7", None),
        (TWO, "a = 1 AND b IN ('x', 'y')", [(1, "x"), (1, "y")]),
        (TWO, "a = 1", None),
        (STREAM, "k = 7", None),
    ],
)
def test_wanted_keys(definition: str, where: str, keys: list[tuple[object, ...]] | None) -> None:
    created, query = parse(definition), parse(f"SELECT * FROM t WHERE {where}")
    assert isinstance(created, s.CreateSource)
    assert isinstance(query, s.Query)
    source, _ = define(created, Defaults())
    assert wanted_keys(query, source) == keys


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("SELECT * FROM t JOIN u ON t.k = u.k", "line 1:17: Pull queries don't support JOIN"),
        (
            "SELECT k, COUNT(*) FROM t GROUP BY k",
            "line 1:36: Pull queries don't support GROUP BY clauses. Add EMIT CHANGES",
        ),
        (
            "SELECT * FROM t WINDOW TUMBLING (SIZE 1 HOUR)",
            "line 1:24: Pull queries don't support WINDOW",
        ),
        ("SELECT * FROM t PARTITION BY v", "line 1:30: Pull queries don't support PARTITION BY"),
        ("SELECT * FROM t HAVING v > 1", "line 1:26: Pull queries don't support HAVING"),
    ],
)
def test_refusals(query: str, reason: str) -> None:
    statement = parse(query)
    assert isinstance(statement, s.Query)
    with pytest.raises(Invalid) as caught:
        check_pull(statement)
    assert reason in str(caught.value)


@pytest.mark.parametrize(
    ("where", "reason"),
    [
        ("", "line 1:1: Missing WHERE clause."),
        ("WHERE v = 1", "line 1:25: WHERE clause missing key column: "),
        ("WHERE k > 1", "ksql.query.pull.table.scan.enabled=true"),
        ("WHERE k = 1 AND v = 2", None),
    ],
)
def test_without_scans_keys_are_needed(where: str, reason: str | None) -> None:
    created, query = parse(TABLE), parse(f"SELECT * FROM t {where}")
    assert isinstance(created, s.CreateSource)
    assert isinstance(query, s.Query)
    source, _ = define(created, Defaults())
    if reason is None:
        check_keys(query, source)
        return
    with pytest.raises(Invalid) as caught:
        check_keys(query, source)
    assert reason in str(caught.value)
