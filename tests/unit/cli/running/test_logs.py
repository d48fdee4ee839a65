"""The flags of `odradek logs`, and how lines are shown."""

import json
import re
from pathlib import Path

import pytest

from odradek.cli.main import main

SERVER = (
    "[2026-11-15 11:25:01,316] INFO topic orders is there (odradek.server)\n"
    "[2026-11-15 11:25:03,316] ERROR it failed (odradek.server)\n"
    "    Traceback\n"
)


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for number in (1, 2):
        directory = tmp_path / f"odradek-data/broker-{number}"
        directory.mkdir(parents=True)
        (directory / "server.properties").write_text(f"log.dirs={directory}\n")
    (tmp_path / "odradek-data/broker-1/server.log").write_text(SERVER)
    (tmp_path / "odradek-data/broker-2/server.log").write_text(
        "[2026-11-15 11:25:02,316] WARN slow (odradek.server)\n"
    )
    return tmp_path


def shown(capsys: pytest.CaptureFixture[str], *flags: str) -> list[str]:
    assert main(["logs", *flags]) == 0
    return capsys.readouterr().out.splitlines()


def test_lines_have_the_names_of_their_brokers(
    cluster: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert shown(capsys) == [
        "broker-1 | [2026-11-15 11:25:01,316] INFO topic orders is there (odradek.server)",
        "broker-2 | [2026-11-15 11:25:02,316] WARN slow (odradek.server)",
        "broker-1 | [2026-11-15 11:25:03,316] ERROR it failed (odradek.server)",
        "         |     Traceback",
    ]


def test_lines_are_chosen(cluster: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert [line[:8] for line in shown(capsys, "--level", "WARN")] == [
        *("broker-2", "broker-1", "        ")
    ]
    assert len(shown(capsys, "--grep", "orders|slow")) == 2
    assert shown(capsys, "--broker", "2") == [
        "[2026-11-15 11:25:02,316] WARN slow (odradek.server)"
    ]
    assert shown(capsys, "--since", "1s", "--broker", "1") == []
    assert len(shown(capsys, "-n", "1", "--json")) == 1


def test_objects(cluster: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second, third = map(json.loads, shown(capsys, "--json"))
    assert first == {
        "broker": "broker-1",
        "file": "server.log",
        "timestamp": "2026-11-15T11:25:01.316Z",
        "level": "INFO",
        "message": "topic orders is there (odradek.server)",
    }
    assert second["broker"] == "broker-2"
    assert third["message"].endswith("\n    Traceback")


def test_colours_by_broker_and_level(
    cluster: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("odradek.cli.running.logs_actions.shows_colours", lambda: True)
    lines = shown(capsys)
    assert re.match(r"\x1b\[36mbroker-1\x1b\[0m \| \[2026", lines[0])
    assert re.match(r"\x1b\[32mbroker-2\x1b\[0m \| \x1b\[33m\[2026", lines[1])


@pytest.mark.parametrize(
    ("flags", "answer"),
    [
        (["--grep", "("], "is not a regular expression"),
        (["--broker", "9"], "there is no broker-9; there are broker-1, broker-2"),
        (["nowhere"], "cannot read nowhere: no such file or directory; name a directory of logs"),
    ],
)
def test_mistakes_are_answered(
    cluster: Path, capsys: pytest.CaptureFixture[str], flags: list[str], answer: str
) -> None:
    assert main(["logs", *flags]) != 0
    assert answer in capsys.readouterr().err


def test_two_places_or_none(
    cluster: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (cluster / "odradek-local").mkdir()
    assert main(["logs"]) != 0
    assert "there are odradek-data and odradek-local; name one" in capsys.readouterr().err
    monkeypatch.chdir(cluster / "odradek-local")
    assert main(["logs"]) != 0
    assert "there is neither odradek-data nor odradek-local here" in capsys.readouterr().err


def test_settings_with_which_no_broker_has_run_have_no_logs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing was said at all."""
    file = tmp_path / "server.properties"
    file.write_text(f"log.dirs={tmp_path}/nowhere\n")
    assert main(["logs", str(file)]) == 1
    assert f"there are no logs in {tmp_path}/nowhere yet: no broker has run" in (
        capsys.readouterr().err
    )
