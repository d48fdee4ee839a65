"""Tools that start Spark say at once on a terminal that they have begun."""

import logging
from collections.abc import Callable

import pytest

from odradek.cli.main import main

LINE = "checking, then starting Spark ...\n"


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_recipe_without_spark_has_one_too(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, is_terminal: bool
) -> None:
    """Its brokers may take seconds to start."""

    async def run(print_line: Callable[[str], None]) -> None:
        print_line("it runs")

    monkeypatch.setattr("odradek.recipes.audit.run", run)
    monkeypatch.setattr("sys.stderr.isatty", lambda: is_terminal)
    try:
        assert main(["recipe", "audit"]) == 0
    finally:
        logging.getLogger("odradek.client").setLevel(logging.NOTSET)
    assert capsys.readouterr().err == ("starting brokers ...\n" if is_terminal else "")


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
