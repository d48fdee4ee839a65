"""Which keys a pull query asks for."""

import pytest

from odradek.sql.engine.definitions import Defaults, define
from odradek.sql.engine.pulling import wanted_keys
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
