"""How the console producer makes records of lines."""

import pytest

from odradek.cli.records.line_reader import Line, LineReader
from odradek.tools.failures import CommandFailed, UsageError


def test_a_line_is_a_value() -> None:
    assert LineReader({}).read(b"a\tb") == Line(None, b"a\tb", [])


def test_key_and_value() -> None:
    reader = LineReader({"parse.key": "true"})
    assert reader.read(b"k\tv\tw") == Line(b"k", b"v\tw", [])


def test_a_separator_of_ones_own() -> None:
    reader = LineReader({"parse.key": "true", "key.separator": "::"})
    assert reader.read(b"k::v") == Line(b"k", b"v", [])


def test_headers_key_and_value() -> None:
    reader = LineReader({"parse.key": "TRUE", "parse.headers": "true"})
    assert reader.read(b"h1:v1,h2:v2\tk\tv") == Line(b"k", b"v", [("h1", b"v1"), ("h2", b"v2")])


def test_null_marker_in_key_value_and_header() -> None:
    reader = LineReader({"parse.key": "true", "parse.headers": "true", "null.marker": "NULL"})
    assert reader.read(b"h:NULL\tNULL\tNULL") == Line(None, None, [("h", None)])
    assert reader.read(b"NULL\tk\tv") == Line(b"k", b"v", [])


def test_without_a_null_marker_an_empty_value_is_empty() -> None:
    assert LineReader({"parse.key": "true"}).read(b"\t") == Line(b"", b"", [])


def test_a_line_without_separator_is_named_with_its_number() -> None:
    reader = LineReader({"parse.key": "true"})
    reader.read(b"k\tv")
    with pytest.raises(CommandFailed, match=r"line 2 is 'oops', without .* a tab") as refused:
        reader.read(b"oops")
    assert "ignore.error=true takes such lines as values" in str(refused.value)


@pytest.mark.parametrize(
    ("line", "typed"),
    [
        (b"ada:7", "key.separator=:"),
        (b"ada|7", "'key.separator=|'"),
        (b'ada,{"n": 7}', "key.separator=,"),
        (b"ada 7", "'key.separator= '"),
    ],
)
def test_the_first_line_shows_which_separator_was_forgotten(line: bytes, typed: str) -> None:
    with pytest.raises(CommandFailed) as refused:
        LineReader({"parse.key": "true"}).read(line)
    assert str(refused.value).endswith(f"add --reader-property {typed}")


def test_a_tab_is_typed_as_a_shell_takes_it() -> None:
    with pytest.raises(CommandFailed) as refused:
        LineReader({"parse.key": "true", "key.separator": "->"}).read(b"ada\t7")
    assert str(refused.value).endswith("for a tab add --reader-property key.separator=$'\\t'")


def test_ignore_error_takes_the_line_as_value() -> None:
    reader = LineReader({"parse.key": "true", "parse.headers": "true", "ignore.error": "true"})
    assert reader.read(b"value") == Line(None, b"value", [])
    assert reader.read(b"h\tvalue") == Line(None, b"value", [("h", None)])


def test_a_header_needs_a_name_and_a_value() -> None:
    with pytest.raises(CommandFailed, match="header"):
        LineReader({"parse.headers": "true"}).read(b"h1\tv")
    with pytest.raises(CommandFailed, match="cannot be null"):
        LineReader({"parse.headers": "true", "null.marker": "N"}).read(b"N:1\tv")


def test_equal_marks_are_refused() -> None:
    with pytest.raises(UsageError, match="may not be equal"):
        LineReader({"headers.separator": ":"})
    with pytest.raises(UsageError, match=r"null\.marker and key\.separator"):
        LineReader({"null.marker": "\t"})


def test_bytes_that_are_no_text_pass_as_they_are() -> None:
    assert LineReader({}).read(b"\xff\x00").value == b"\xff\x00"


def test_a_misspelt_property_is_refused() -> None:
    with pytest.raises(
        UsageError, match=r"no reader property parse\.keys; did you mean parse\.key"
    ):
        LineReader({"parse.keys": "true"})
    with pytest.raises(UsageError, match=r"there are parse\.key, .*null\.marker"):
        LineReader({"zzz": "true"})
