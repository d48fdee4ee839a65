"""Work in a process of its own, and the same work on the loop."""

import asyncio
import os
import signal
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from typing import Any

import pytest

from odradek.world import MemoryDisk, OsDisk, OsProcesses, SystemClock
from odradek.world.clock import Clock
from odradek.world.disk import Disk
from odradek.world.processes import (
    InlineWorker,
    Message,
    ProcessWorker,
    Worker,
    WorkerDied,
    WorkFailed,
)

Steps = Generator[Message, None, Message]


def count(_disk: Disk, _clock: Clock, argument: Mapping[str, Any]) -> Steps:
    for number in range(argument["upto"]):
        yield {"number": number}
    return {"pid": os.getpid(), "nice": os.nice(0)}


def stumble(_disk: Disk, _clock: Clock, argument: Mapping[str, Any]) -> Steps:
    yield {}
    if argument["kind"] == "disk":
        raise OSError(28, "no space left")
    raise ValueError("wrong")


def wait_for_ever(_disk: Disk, _clock: Clock, _argument: Mapping[str, Any]) -> Steps:
    yield {"pid": os.getpid()}
    while True:
        yield {"pause_s": 0.01}


def die(_disk: Disk, _clock: Clock, argument: Mapping[str, Any]) -> Steps:
    yield {}
    if argument["signal"]:
        os.kill(os.getpid(), signal.SIGKILL)
    os._exit(3)


@pytest.fixture(autouse=True)
def _find_this_module(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process has to import what it is to do."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[3]))


def inline() -> Worker:
    return InlineWorker(MemoryDisk(), SystemClock())


BOTH = pytest.mark.parametrize("make", [inline, ProcessWorker])
Make = Callable[[], Worker]


def test_a_disk_in_memory_is_seen_by_this_process_alone() -> None:
    processes = OsProcesses()
    assert isinstance(processes.worker(OsDisk(), SystemClock()), ProcessWorker)
    assert isinstance(processes.worker(MemoryDisk(), SystemClock()), InlineWorker)


@BOTH
async def test_work_reports_and_returns(make: Make) -> None:
    worker = make()
    said: list[Message] = []
    try:
        result = await worker.run(count, {"upto": 3}, said.append)
        again = await worker.run(count, {"upto": 0}, said.append)
    finally:
        await worker.end()
    assert said == [{"number": 0}, {"number": 1}, {"number": 2}]
    assert result == again  # One process does it all.
    if isinstance(worker, ProcessWorker):
        assert result["pid"] != os.getpid()
        assert result["nice"] == 19


@BOTH
async def test_what_work_raises_is_told_and_the_next_goes_on(make: Make) -> None:
    worker = make()
    try:
        with pytest.raises(WorkFailed, match="wrong") as caught:
            await worker.run(stumble, {"kind": "bug"}, lambda _: None)
        assert (caught.value.kind, caught.value.number) == ("ValueError", None)
        with pytest.raises(WorkFailed, match="no space left") as caught:
            await worker.run(stumble, {"kind": "disk"}, lambda _: None)
        assert caught.value.number == 28
        assert await worker.run(count, {"upto": 1}, lambda _: None)
    finally:
        await worker.end()


@pytest.mark.parametrize(("is_killed", "words"), [(True, "signal 9"), (False, "status 3")])
async def test_a_dead_process_is_noticed_and_replaced(*, is_killed: bool, words: str) -> None:
    worker = ProcessWorker()
    try:
        with pytest.raises(WorkerDied, match=words):
            await worker.run(die, {"signal": is_killed}, lambda _: None)
        assert await worker.run(count, {"upto": 1}, lambda _: None)
    finally:
        await worker.end()


def is_alive(process_id: object) -> bool:
    assert isinstance(process_id, int)
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    return True


async def test_cancelling_and_objecting_end_the_process() -> None:
    worker, said = ProcessWorker(), asyncio.Queue[Message]()
    running = asyncio.ensure_future(worker.run(wait_for_ever, {}, said.put_nowait))
    first = (await said.get())["pid"]
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert not is_alive(first)

    seen = []

    def object_to(message: Message) -> None:
        seen.append(message["pid"])
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        await worker.run(wait_for_ever, {}, object_to)
    assert not is_alive(seen[0])
    await worker.end()


async def test_the_end_of_its_input_ends_a_process_in_the_middle_of_work() -> None:
    worker, said = ProcessWorker(), asyncio.Queue[Message]()
    running = asyncio.ensure_future(worker.run(wait_for_ever, {}, said.put_nowait))
    await said.get()
    assert worker._process is not None
    assert worker._process.stdin is not None
    worker._process.stdin.close()  # As when the broker is killed.
    with pytest.raises(WorkerDied):
        await running
