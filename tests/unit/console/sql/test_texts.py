"""How a text of SQL is divided, and what its statements are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.console.sql.texts import (
    ended,
    first_word,
    goes_on,
    has_hidden_end,
    is_query,
    joined,
    statements,
    that_end,
    that_show_records,
)
from odradek.sql.errors import SqlError
from odradek.sql.language.parser import split


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


COPY = "CREATE STREAM copy AS SELECT * FROM customers"
PIECES = [
    "'", '"', "`", ";", "--", "/*", "*/", "{#", "#}", "{%", "%}", "\r", "\n", " ", "\\", "$$",
    "SHOW ", "STREAMS", "DESCRIBE ", COPY, "/*+", "//", "#", "N'", "\u2028",
]  # fmt: skip


def sent_with_masks(text: str) -> str | None:
    """Returns what the console sends of a text where fields are masked, or None."""
    found = statements(text)
    if not found or that_show_records(found) or has_hidden_end(found):
        return None
    return joined(found)


def copies(sent: str) -> bool:
    """Returns whether our server sees a statement in a text that does not only look."""
    try:
        parts = split(sent)
    except SqlError:
        return False
    return bool(that_show_records([part.text for part in parts]))


@pytest.mark.parametrize(
    "text",
    [
        # A comment ends for one of both, and goes on for the other.
        f"SHOW STREAMS; --\r{COPY};",
        f"SHOW /* /* */ ' */ STREAMS; {COPY}; --'",
        f"SHOW {{# ' #}} STREAMS; {COPY}; --'",
        f"SHOW STREAMS; /* /* */ {COPY}; */",
    ],
)
def test_no_statement_hides_from_the_masks_in_a_comment(text: str) -> None:
    sent = sent_with_masks(text)
    assert sent is None or not copies(sent)


@given(st.lists(st.sampled_from(PIECES), max_size=14).map("".join))
def test_no_text_is_read_in_another_way_by_the_server(text: str) -> None:
    sent = sent_with_masks(text)
    assert sent is None or not copies(sent)


def test_what_looks_is_sent_as_it_was() -> None:
    text = "SHOW STREAMS; -- all\nDESCRIBE `a` EXTENDED;"
    assert sent_with_masks(text) == "SHOW STREAMS;\nDESCRIBE `a` EXTENDED;"
    assert first_word("SHOW") == "SHOW"
