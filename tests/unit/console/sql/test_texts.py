"""How a text of SQL is divided, and what its statements are."""

import pytest

from odradek.console.sql.texts import (
    ended,
    goes_on,
    is_query,
    statements,
    that_end,
    that_show_records,
)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", []),
        (" ; ;\n-- nothing\n", []),
        ("SHOW STREAMS", ["SHOW STREAMS"]),
        ("SHOW STREAMS; SELECT 1;", ["SHOW STREAMS", "SELECT 1"]),
        ("SELECT ';' AS `a;b`, 'it''s; so' FROM x;", ["SELECT ';' AS `a;b`, 'it''s; so' FROM x"]),
        ("-- a; b\nSELECT /* ; */ 1 - 2 / 3;", ["SELECT   1 - 2 / 3"]),
        ("SELECT 'open; end", ["SELECT 'open; end"]),
        ("SELECT 1 /* open; end", ["SELECT 1"]),
    ],
)
def test_statements(text: str, found: list[str]) -> None:
    assert statements(text) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("SHOW STREAMS", "SHOW STREAMS\n;"),
        ("SHOW STREAMS; ", "SHOW STREAMS; "),
        ("SHOW STREAMS; -- all", "SHOW STREAMS; -- all"),
        ("SHOW STREAMS -- all;", "SHOW STREAMS -- all;\n;"),
    ],
)
def test_the_last_statement_gets_its_semicolon(text: str, found: str) -> None:
    assert ended(text) == found


def test_what_statements_are() -> None:
    assert is_query("select 1")
    assert is_query("PRINT orders")
    assert not is_query("SELECTED")
    assert goes_on("SELECT * FROM a EMIT CHANGES")
    assert goes_on("print 'a'")
    assert not goes_on("SELECT 'EMIT' FROM `emit`")
    found = statements("DROP STREAM a; drop table b delete topic; TERMINATE c; CREATE STREAM d;")
    assert that_end(found) == found[:3]
    found = statements("SHOW STREAMS; INSERT INTO a VALUES (1); create table b as select 1;")
    assert that_show_records(found) == found[1:]
