"""Which brokers `odradek console` shows: the flag, the file, the environment, in this order."""

import argparse
from pathlib import Path
from typing import Any

import pytest

from odradek.cli.commands import module_name
from odradek.cli.parser import load_tool
from odradek.cli.services import console
from odradek.cli.services.starting import settings_of
from odradek.console.settings import ConsoleSettings


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ((), "env:1"),
        (("--bootstrap-server", "flag:1"), "flag:1"),
        (("--override", "bootstrap.servers=over:1"), "over:1"),
        (("FILE",), "file:1"),
        (("FILE", "--bootstrap-server", "flag:1"), "flag:1"),
    ],
)
def test_brokers(
    words: tuple[str, ...], shown: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "console.properties"
    file.write_text("bootstrap.servers=file:1\n")
    monkeypatch.setenv("ODRADEK_BOOTSTRAP", "env:1")
    found: list[Any] = []

    def noted(kind: type[ConsoleSettings], arguments: argparse.Namespace) -> ConsoleSettings:
        found.append(settings_of(kind, arguments))
        return found[0]  # type: ignore[no-any-return]

    monkeypatch.setattr(console, "settings_of", noted)
    monkeypatch.setattr(console, "serve_service", lambda *_: 0)
    tool, parser = load_tool("console", module_name("console"))
    given = [str(file) if word == "FILE" else word for word in words]
    assert tool.run(parser.parse_args(given)) == 0
    assert found[0].bootstrap_servers == shown
