"""Tools that start Spark say at once on a terminal that they have begun."""

import pytest

from odradek.cli.main import main

LINE = "checking, then starting Spark ...\n"


@pytest.mark.parametrize(
    "line",
    [
        "archive --topic T --to /nowhere/archive --bootstrap-server localhost:1",
        "restore --topic T --from /nowhere/archive --bootstrap-server localhost:1",
        "pipeline run /nowhere/p.toml",
    ],
)
@pytest.mark.parametrize("is_terminal", [True, False])
def test_the_first_line(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    line: str,
    is_terminal: bool,
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: is_terminal)
    assert main(line.split()) in {1, 2}
    assert capsys.readouterr().err.startswith(LINE) == is_terminal
