"""Which processes `server-stop` and `zookeeper-server-stop` signal, and which they never do."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from odradek.local import stopping
from odradek.testing import Cluster
from odradek.tools.failures import CommandFailed

SLEEPER = "import sys, time; print(flush=True); time.sleep(600)"


@pytest.fixture
def sleeper() -> Iterator["subprocess.Popen[str]"]:
    with started("-c", SLEEPER) as process:
        yield process
        process.kill()


def started(*words: str) -> "subprocess.Popen[str]":
    process = subprocess.Popen([sys.executable, *words], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.readline()
    return process


@pytest.fixture
def only(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The processes that are looked at: never all of this machine, where others work too."""
    pids: list[int] = []
    monkeypatch.setattr(stopping, "_own_processes", lambda: pids)
    return pids


def test_a_foreign_process_in_the_pid_file_is_left_alone(
    tmp_path: Path, sleeper: "subprocess.Popen[str]"
) -> None:
    (tmp_path / "broker.pid").write_text(f"{sleeper.pid}\n")
    with pytest.raises(CommandFailed, match="no broker runs in"):
        stopping.stop_brokers([str(tmp_path)])
    assert sleeper.poll() is None


def test_a_directory_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(CommandFailed, match="neither a data directory nor a settings file"):
        stopping.stop_brokers([str(tmp_path / "nothing")])


def test_no_broker_runs(only: list[int]) -> None:
    only.append(os.getpid())
    with pytest.raises(CommandFailed, match="no broker to stop"):
        stopping.stop_brokers([])


def test_a_running_broker_is_found_by_its_lock(
    tmp_path: Path, only: list[int], capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "two words"
    with Cluster(data=str(data)):
        only.append(int((data / "broker.pid").read_text().split()[0]))
        stopping.stop_brokers([])
        assert capsys.readouterr().out.startswith(f"the broker in {data} has stopped")
        with pytest.raises(CommandFailed, match="no broker to stop"):
            stopping.stop_brokers([])


def test_brokers_of_several_clusters_are_not_stopped_by_mistake(
    tmp_path: Path, only: list[int]
) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    with Cluster(data=str(one)), Cluster(data=str(two)):
        only += [int((data / "broker.pid").read_text().split()[0]) for data in (one, two)]
        with pytest.raises(CommandFailed, match="brokers of 2 clusters run here") as refused:
            stopping.stop_brokers([])
        assert str(one) in str(refused.value)
        assert str(two) in str(refused.value)
        stopping.stop_brokers([str(one)])
        stopping.stop_brokers([], every_cluster=True)


def test_the_supervisor_is_signalled_if_its_whole_cluster_stops(
    tmp_path: Path, only: list[int]
) -> None:
    with Cluster(brokers=2, data=str(tmp_path)) as cluster:
        supervisor = cluster._process
        assert supervisor is not None
        only += cluster._pids.values()
        assert stopping._signalled(stopping._named([str(tmp_path)])) == [supervisor.pid]
        one = stopping._named([f"{tmp_path}/broker-1/server.properties"])
        assert stopping._signalled(one) == [cluster._pids[1]]
        stopping.stop_brokers([str(tmp_path)])
        supervisor.wait(timeout=60)


def test_only_zookeepers_with_our_mark_are_stopped(
    tmp_path: Path,
    only: list[int],
    sleeper: "subprocess.Popen[str]",
    capsys: pytest.CaptureFixture[str],
) -> None:
    config = tmp_path / "zookeeper.properties"
    config.write_text("")
    with started("-c", SLEEPER, stopping.ZOOKEEPER_MARK, str(config)) as ours:
        only += [sleeper.pid, ours.pid]
        with pytest.raises(CommandFailed, match=r"no ZooKeeper server with other\.properties"):
            stopping.stop_zookeepers(["other.properties"])
        stopping.stop_zookeepers([str(config)])
        assert f"the ZooKeeper server of {config} has stopped" in capsys.readouterr().out
        ours.wait(timeout=60)
    with pytest.raises(CommandFailed, match="that odradek started"):
        stopping.stop_zookeepers([])
    assert sleeper.poll() is None
