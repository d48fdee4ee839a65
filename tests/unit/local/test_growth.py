"""The data of a single broker moves into a cluster, whatever interrupts the move."""

import argparse
import json
import socket
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from odradek.local.background import BackgroundCluster
from odradek.local.cluster_directory import (
    brokers_in,
    chosen_ports,
    require_cluster_directory,
    require_lone_directory,
)
from odradek.local.growth import Growth, data_bytes, is_lone, is_moving, move_data
from odradek.local.lone_broker import decide
from odradek.metadata.node_values import LastRegistration
from odradek.tools.client_properties import read_properties
from odradek.tools.failures import CommandFailed
from odradek.world.disk import OsDisk

DISK = OsDisk()
# What a single broker has, and to whom it belongs afterwards. `broker-1` and `up.log-0` are
# partitions; files of the cluster have similar names.
OF_BROKER = ["t-0/00.log", "broker-1/00.log", "broker-0/00.log", "up.log-0/00.log"]
OF_BROKER += ["meta.properties", ".kafka_cleanshutdown", "server.log", "recovery-point"]
OF_CLUSTER = ["metadata.sqlite", "metadata.sqlite-wal", "up.log", "up.pid"]


class Crash(Exception):
    """The machine stopped before a change of the disk."""


class CrashingDisk(OsDisk):
    """Stops before the n-th change."""

    def __init__(self, changes: int) -> None:
        self._left = changes

    def _count(self) -> None:
        if self._left == 0:
            raise Crash
        self._left -= 1

    def rename(self, source: str, target: str) -> None:
        self._count()
        super().rename(source, target)

    def replace(self, path: str, content: bytes) -> None:
        self._count()
        super().replace(path, content)

    def make_directories(self, path: str) -> None:
        self._count()
        super().make_directories(path)

    def sync_directory(self, path: str) -> None:
        self._count()
        super().sync_directory(path)


def lone_broker(data: Path) -> None:
    for name in [*OF_BROKER, *OF_CLUSTER]:
        (data / name).parent.mkdir(parents=True, exist_ok=True)
        (data / name).write_text(f"content of {name}")
    (data / "meta.properties").write_text("node.id=1\ncluster.id=c\n")


def growth_of(data: Path, **more: Any) -> Growth:
    settings = {"num.partitions": "2"}
    return Growth(str(data), 3, "127.0.0.1", 9092, **{"settings": settings, **more})


def require_moved(data: Path) -> None:
    assert not is_lone(DISK, str(data))
    assert not is_moving(DISK, str(data))
    for name in OF_BROKER:
        if name != "meta.properties":
            assert (data / "broker-1" / name).read_text() == f"content of {name}"
    for name in OF_CLUSTER:
        assert (data / name).read_text() == f"content of {name}"
    assert brokers_in(DISK, str(data)) == [1, 2, 3]
    require_cluster_directory(DISK, str(data), 3)


def test_everything_of_the_broker_moves_and_the_store_stays(tmp_path: Path) -> None:
    lone_broker(tmp_path)
    assert data_bytes(DISK, str(tmp_path)) == sum(
        len(f"content of {name}") for name in OF_BROKER if name.endswith("00.log")
    )
    move_data(DISK, growth_of(tmp_path))
    require_moved(tmp_path)
    for number in (1, 2, 3):
        file = read_properties(f"{tmp_path}/broker-{number}/server.properties")
        assert file["node.id"] == str(number)
        assert file["listeners"] == f"PLAINTEXT://127.0.0.1:{9091 + number}"
        assert file["log.dirs"] == f"{tmp_path}/broker-{number}"
        assert file["odradek.metadata.path"] == f"{tmp_path}/metadata.socket"
        assert (file["min.insync.replicas"], file["num.partitions"]) == ("2", "2")
        assert "advertised.listeners" not in file


def test_a_crash_before_any_change_loses_nothing(tmp_path: Path) -> None:
    crashes = 0
    while True:
        data = tmp_path / str(crashes)
        lone_broker(data)
        growth = growth_of(data)
        try:
            move_data(CrashingDisk(crashes), growth)
        except Crash:
            pass
        else:
            break
        # Only the same command goes on while a part has moved.
        if is_moving(DISK, str(data)):
            with pytest.raises(CommandFailed, match=f"odradek local grow --data {data}"):
                require_lone_directory(DISK, str(data))
            with pytest.raises(CommandFailed, match=f"odradek local grow --data {data}"):
                require_cluster_directory(DISK, str(data), 3)
        move_data(DISK, growth)
        require_moved(data)
        crashes += 1
    assert crashes > len(OF_BROKER), "every change was interrupted once"
    require_moved(data)


def test_a_settings_file_beside_the_data_is_kept(tmp_path: Path) -> None:
    lone_broker(tmp_path)
    (tmp_path / "server.properties").write_text("# mine\nmessage.max.bytes=77\nnode.id=1\n")
    move_data(DISK, growth_of(tmp_path, advertised="kafka.example"))
    text = (tmp_path / "broker-1" / "server.properties").read_text()
    assert text.startswith("# mine\nmessage.max.bytes=77\nnode.id=1\n")
    assert "advertised.listeners=PLAINTEXT://kafka.example:9092\n" in text


def test_a_broker_that_runs_is_not_moved(tmp_path: Path) -> None:
    lone_broker(tmp_path)
    lock = DISK.lock(f"{tmp_path}/.lock")
    with pytest.raises(CommandFailed, match="a broker uses"):
        move_data(DISK, growth_of(tmp_path))
    lock.release()
    assert is_lone(DISK, str(tmp_path))


def test_what_was_decided_is_read_again(tmp_path: Path) -> None:
    assert Growth.read(DISK, str(tmp_path)) is None
    growth = growth_of(tmp_path, lowered={"t": None, "u": "3"})
    growth.write(DISK)
    assert Growth.read(DISK, str(tmp_path)) == growth
    assert growth.bootstrap == "127.0.0.1:9092,127.0.0.1:9093,127.0.0.1:9094"
    (tmp_path / "grow.json").write_text('{"brokers": 3}')
    with pytest.raises(CommandFailed, match=r"grow\.json cannot be read"):
        Growth.read(DISK, str(tmp_path))


def test_the_refusal_to_start_it_as_a_cluster_names_the_command(tmp_path: Path) -> None:
    lone_broker(tmp_path)
    with pytest.raises(CommandFailed, match=f"`odradek local grow --data {tmp_path}`"):
        require_cluster_directory(DISK, str(tmp_path), 3)
    with pytest.raises(CommandFailed, match=f"`odradek local grow --data {tmp_path} --brokers 5`"):
        require_cluster_directory(DISK, str(tmp_path), 5)


# A broker that does not run


def store_with(data: Path, directories: tuple[str, ...]) -> None:
    (data / "metadata.sqlite").unlink()
    with sqlite3.connect(data / "metadata.sqlite") as store:
        store.execute("create table node(path text, value blob)")
        value = LastRegistration(directories).encode()
        store.execute("insert into node values ('/odradek/broker_epochs/1', ?)", (value,))
    store.close()


def flags(**more: object) -> argparse.Namespace:
    given = {"brokers": 3, "host": "127.0.0.1", "port": None, "override": [], "defaults": {}}
    return argparse.Namespace(**{**given, **more})


def free_port() -> int:
    """The first of three ports in a row that are free now."""
    for first in range(32_000, 20_000, -3):
        with suppress(CommandFailed):
            return chosen_ports("127.0.0.1", first, 3)[0]
    raise AssertionError("no three free ports in a row")


@pytest.fixture
def stopped(tmp_path: Path) -> Path:
    lone_broker(tmp_path)
    (tmp_path / "metadata.sqlite-wal").unlink()
    store_with(tmp_path, ("one",))
    (tmp_path / "server.log").write_text(
        "[x] INFO broker 1 is ready at 127.0.0.1:19, 5 ms later (odradek.server)\n"
        f"[x] INFO broker 1 is ready at 127.0.0.1:{free_port()}, 5 ms later (odradek.server)\n"
    )
    return tmp_path


async def test_a_stopped_broker_keeps_its_address_and_takes_flags(stopped: Path) -> None:
    given = flags(override=["num.partitions=4"], defaults={"group.initial.rebalance.delay.ms": "0"})
    growth = await decide(given, str(stopped))
    assert f":{growth.port}, 5 ms" in (stopped / "server.log").read_text()
    assert growth.settings == {"num.partitions": "4", "group.initial.rebalance.delay.ms": "0"}
    assert json.loads(json.dumps(growth.settings)) == growth.settings
    status = BackgroundCluster(str(stopped)).brokers()
    assert [(broker.id, pid, address) for broker, pid, address in status] == [
        (1, None, f"127.0.0.1:{growth.port}")
    ]


def several_directories(data: Path) -> None:
    store_with(data, ("one", "two"))


def other_id(data: Path) -> None:
    (data / "meta.properties").write_text("node.id=7\n")


def no_store(data: Path) -> None:
    (data / "metadata.sqlite").unlink()


def no_address(data: Path) -> None:
    (data / "server.log").unlink()


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (several_directories, r"several log directories .* docs/operations\.md"),
        (other_id, r"the id 7, .* docs/operations\.md"),
        (no_store, "zookeeper.connect .* reassign-partitions"),
        (no_address, "say it with --port"),
    ],
)
async def test_what_cannot_grow_is_refused_before_anything_changes(
    stopped: Path, change: Callable[[Path], None], complaint: str
) -> None:
    change(stopped)
    with pytest.raises(CommandFailed, match=complaint):
        await decide(flags(), str(stopped))
    assert is_lone(DISK, str(stopped))


@pytest.mark.parametrize(
    ("override", "complaint"),
    [
        ("node.id=4", "the same for every broker"),
        ("num.partitions=many", "num.partitions"),
    ],
)
async def test_overrides_are_checked(stopped: Path, override: str, complaint: str) -> None:
    with pytest.raises(CommandFailed, match=complaint):
        await decide(flags(override=[override]), str(stopped))


async def test_a_busy_port_of_a_new_broker(stopped: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(CommandFailed, match=f"stop what uses port {port}"):
            await decide(flags(port=port - 2), str(stopped))


async def test_a_broker_that_is_just_starting(stopped: Path) -> None:
    lock = DISK.lock(f"{stopped}/.lock")
    with pytest.raises(CommandFailed, match="starting or stopping"):
        await decide(flags(), str(stopped))
    lock.release()
