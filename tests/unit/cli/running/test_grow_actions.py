"""`odradek local grow` before it changes anything: refusals, and the plan."""

import argparse
import json
from pathlib import Path

import pytest

from odradek.cli.running import grow_actions
from odradek.cli.running.grow_actions import grow
from odradek.local.growth import Growth
from odradek.tools.failures import CommandFailed, UsageError
from odradek.world.disk import OsDisk


def flags(data: Path, **more: object) -> argparse.Namespace:
    given: dict[str, object] = {"brokers": 3, "plan": False, "json": False, "throttle": 100_000_000}
    given |= {"log_level": None, "host": "127.0.0.1", "port": 9092, "override": [], "defaults": {}}
    return argparse.Namespace(data=str(data), **{**given, **more})


def lone(data: Path) -> None:
    (data / "t-0").mkdir(parents=True)
    (data / "t-0" / "00.log").write_bytes(b"x" * 1000)
    (data / "meta.properties").write_text("node.id=1\n")


def begun(data: Path) -> Growth:
    growth = Growth(str(data), 3, "127.0.0.1", 9092, settings={"num.partitions": "2"})
    growth.write(OsDisk())
    return growth


@pytest.fixture
def decided(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A single broker about which everything is known."""
    lone(tmp_path)

    async def decide(_: argparse.Namespace, data: str) -> Growth:
        return Growth(data, 3, "127.0.0.1", 9092, settings={"num.partitions": "2"})

    monkeypatch.setattr(grow_actions, "decide", decide)
    return tmp_path


def files(data: Path) -> list[str]:
    return sorted(str(path.relative_to(data)) for path in data.rglob("*"))


def test_one_broker_is_no_cluster(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--brokers 1"):
        grow(flags(tmp_path, brokers=1))


def test_a_directory_without_a_broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CommandFailed, match="name its directory with --data"):
        grow(flags(tmp_path / "other"))
    lone(tmp_path / "odradek-data")
    with pytest.raises(CommandFailed, match=r"did you mean --data \./odradek-data\?"):
        grow(flags(tmp_path / "other"))


def test_the_decisions_were_removed(tmp_path: Path) -> None:
    (tmp_path / ".growing").mkdir()
    with pytest.raises(CommandFailed, match=r"grow\.json is missing, .* move what is in"):
        grow(flags(tmp_path))


def test_a_cluster_has_grown_already(tmp_path: Path) -> None:
    for number in (1, 2, 3):
        (tmp_path / f"broker-{number}").mkdir()
        (tmp_path / f"broker-{number}" / "server.properties").touch()
    with pytest.raises(CommandFailed, match="a cluster of 3 brokers already"):
        grow(flags(tmp_path))


def test_the_plan_says_what_happens_and_changes_nothing(
    decided: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = files(decided)
    assert grow(flags(decided, plan=True)) == 0
    shown = capsys.readouterr().out
    assert f"rename its partitions into {decided}/broker-1" in shown
    assert "broker 2 at 127.0.0.1:9093, broker 3 at 127.0.0.1:9094" in shown
    assert "at most 100 MB/s" in shown
    assert "num.partitions=2" in shown
    assert shown.endswith("Nothing has been changed.\n")
    assert grow(flags(decided, plan=True, json=True)) == 0
    plan = json.loads(capsys.readouterr().out)
    assert plan["settings"]["min.insync.replicas"] == "2"
    assert plan["bytes"] > 2000
    assert not plan["moved"]
    assert files(decided) == before


def test_the_plan_of_what_was_begun(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    begun(tmp_path)
    assert grow(flags(tmp_path, plan=True, throttle=0)) == 0
    shown = capsys.readouterr().out
    assert "go on with what was begun" in shown
    assert "without a limit" in shown


def test_too_little_space_is_said_before_anything_changes(
    decided: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(OsDisk, "free_bytes", lambda *_: 1_000_000)
    with pytest.raises(CommandFailed, match=r"3 copies need 64\.0 MB more .* 1\.0 MB are free"):
        grow(flags(decided))
    assert not (decided / "grow.json").exists()


def test_two_commands_at_once(tmp_path: Path) -> None:
    begun(tmp_path)
    lock = OsDisk().lock(f"{tmp_path}/grow.lock")
    with pytest.raises(CommandFailed, match="another `odradek local grow` is at work"):
        grow(flags(tmp_path))
    lock.release()
