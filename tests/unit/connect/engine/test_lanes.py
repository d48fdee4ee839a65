"""The engine on Spark, as far as it needs no Spark."""

import asyncio
import json
import socket
from pathlib import Path

import pytest

from odradek.connect.lanes.requirements import require
from odradek.connect.worker import engines
from odradek.spark.turns.lane_source import LaneReader, turn
from odradek.spark.turns.messages import OWNER_SOCKET, Message, connected
from odradek.spark.turns.task_processes import Host, HostListener, TaskProcesses
from odradek.spark.turns.turns import GivenTurns
from odradek.world.unix_sockets import listening_socket


def test_without_java_one_line_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Exception, match=r"install it .* odradek\.engine=process") as raised:
        require()
    assert "\n" not in str(raised.value)
    assert "odradek.engine=process" in (engines.missing("spark") or "")
    assert engines.missing("process") is None
    assert engines.engine_name("") == "process"


async def test_a_turn_ends_and_a_longer_one_wins() -> None:
    turns = GivenTurns()
    waiting = asyncio.create_task(turns.begin())
    await asyncio.sleep(0)
    assert not waiting.done(), "nobody has given a turn yet"
    short, long = turns.give(0.01), turns.give(0.05)
    await asyncio.gather(short, long)
    assert waiting.done()
    after = asyncio.create_task(turns.begin())
    await asyncio.sleep(0.01)
    assert not after.done(), "the turn is over"
    after.cancel()


def test_tasks_of_a_batch_are_divided_in_the_same_way_each_time() -> None:
    reader = LaneReader({"directory": "/none", "turnms": "1"})
    tasks = {f"c-{number}": f"task-{number}" for number in range(100)}
    end = {"batch": 1, "tasks": tasks, "offsets": {}}
    parts = [dict(part.value) for part in reader.partitions(reader.initialOffset(), end)]
    assert [len(part) for part in parts] == [50, 50]
    assert {**parts[0], **parts[1]} == tasks
    again = [dict(part.value) for part in reader.partitions(reader.initialOffset(), end)]
    assert again == parts


def test_a_task_that_does_not_answer_holds_up_no_other(tmp_path: Path) -> None:
    with (
        listening_socket(str(tmp_path / "well")) as well,
        listening_socket(str(tmp_path / "hangs")),
    ):
        well.setblocking(True)
        rows = turn(str(tmp_path), {"a-0": "well", "b-0": "hangs", "c-0": "gone"}, 0.05)
        # The one that is gone is known at once; by then the others have been given their turns.
        assert next(rows) == ("c-0", "SILENT", 0)
        connection: socket.socket
        connection, _ = well.accept()
        with connection, connection.makefile("rb") as orders:
            assert json.loads(orders.readline()) == {"turn_ms": 50}
            connection.sendall(b'{"running": true, "records": 7}\n')
            assert [*rows] == [("a-0", "RUNNING", 7), ("b-0", "SILENT", 0)]


class _Nobody(HostListener):
    def on_message(self, host: Host, message: Message) -> None:
        raise AssertionError(message)

    def on_exit(self, host: Host, status: int) -> None:
        raise AssertionError(status)

    async def tasks_for_batch(self) -> Message:
        raise AssertionError("no query runs here")


async def test_the_owner_closes_its_connections(tmp_path: Path) -> None:
    processes = TaskProcesses(str(tmp_path), _Nobody(), "odradek.connect.lanes.task_host")
    await processes.open()
    with connected(str(tmp_path / OWNER_SOCKET), timeout_s=10) as silent:
        # Something has to be accepted first, so that the connection is not only in the backlog.
        await asyncio.to_thread(_ask_as_unknown_host, str(tmp_path / OWNER_SOCKET))
        await processes.close()
        assert await asyncio.to_thread(silent.recv, 1) == b""


def _ask_as_unknown_host(path: str) -> None:
    with connected(path, timeout_s=10) as connection:
        connection.sendall(b'{"hello": "nobody"}\n')
        assert connection.recv(1) == b""
