"""Hints for people that scripts do not get."""

import pytest

from odradek.tools import hints
from odradek.tools.hints import hint_if_none


@pytest.mark.parametrize(
    ("found", "is_terminal", "said"),
    [([], True, "hint: none yet\n"), ([], False, ""), (["a"], True, "")],
)
def test_an_empty_list_is_told_on_a_terminal(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    found: list[str],
    is_terminal: bool,
    said: str,
) -> None:
    monkeypatch.setattr(hints, "_hinted", set())
    monkeypatch.setattr("sys.stderr.isatty", lambda: is_terminal)
    hint_if_none(found, "none yet")
    assert capsys.readouterr().err == said
