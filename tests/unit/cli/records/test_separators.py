"""Hints about separators that have no effect, or another one than their user meant."""

import pytest

from odradek.cli.records import line_reader, record_formatter
from odradek.cli.records.separators import hint_without_effect
from odradek.tools import hints


@pytest.fixture(autouse=True)
def no_hint_was_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hints, "_hinted", set())


def said_of_a_reader(capsys: pytest.CaptureFixture[str], **properties: str) -> str:
    named = {name.replace("_", "."): value for name, value in properties.items()}
    hint_without_effect("--reader-property", named, line_reader.NEEDS)
    return capsys.readouterr().err


def said_of_a_formatter(capsys: pytest.CaptureFixture[str], **properties: str) -> str:
    named = {name.replace("_", "."): value for name, value in properties.items()}
    hint_without_effect("--formatter-property", named, record_formatter.NEEDS)
    return capsys.readouterr().err


def test_a_separator_without_what_it_belongs_to(capsys: pytest.CaptureFixture[str]) -> None:
    said = said_of_a_reader(capsys, key_separator=":")
    assert said == ("hint: key.separator has no effect without --reader-property parse.key=true\n")
    assert "parse.headers=true" in said_of_a_reader(capsys, headers_separator=";")
    assert "print.key=true" in said_of_a_formatter(capsys, key_separator=":")
    assert "print.headers=true" in said_of_a_formatter(capsys, headers_separator=";")


def test_a_separator_that_is_used(capsys: pytest.CaptureFixture[str]) -> None:
    assert not said_of_a_reader(capsys, key_separator=":", parse_key="true")
    assert not said_of_a_formatter(capsys, key_separator=":", print_offset="true")
    assert not said_of_a_formatter(capsys, print_key="true")


def test_an_escape_that_the_shell_has_not_replaced(capsys: pytest.CaptureFixture[str]) -> None:
    said = said_of_a_reader(capsys, key_separator="\\t", parse_key="true")
    assert "for a tab write key.separator=$'\\t' in your shell" in said
