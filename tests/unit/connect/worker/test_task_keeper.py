"""The keeper of a task with an engine whose tasks do what the test says."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from odradek.connect.engine.engine import Engine, TaskId, TaskSpec
from odradek.connect.errors import InvalidConfig
from odradek.connect.worker.status_state import State
from odradek.connect.worker.task_keeper import Properties, TaskKeeper

TASK = TaskId("c", 0)


class Engines(Engine):
    """Notes what it is told to do."""

    def __init__(self) -> None:
        self.done: list[str] = []

    async def start(self, task: TaskSpec) -> None:
        self.done.append(f"start {task.properties['v']}")

    async def stop(self, task: TaskId) -> None:
        self.done.append("stop")

    async def close(self) -> None:
        self.done.append("close")


class Bench:
    def __init__(self, restarts: bool, resolve: Callable[[Properties], Properties]) -> None:
        self.engine = Engines()
        self.told: list[State] = []
        self.keeper = TaskKeeper(
            TASK, self.engine, resolve, lambda _, state, trace: self.told.append(state),
            restarts=restarts,
        )  # fmt: skip

    async def until(self, done: list[str]) -> None:
        async with asyncio.timeout(10):
            while self.engine.done != done:  # noqa: ASYNC110 - it is no event of the engine
                await asyncio.sleep(0)


@asynccontextmanager
async def bench(
    *, restarts: bool = True, resolve: Callable[[Properties], Properties] = dict
) -> AsyncIterator[Bench]:
    made = Bench(restarts, resolve)
    running = asyncio.create_task(made.keeper.run())
    yield made
    made.keeper.end()
    await asyncio.wait_for(running, 10)


async def test_it_starts_changes_and_stops() -> None:
    async with bench() as made:
        made.keeper.run_with({"v": "1"})
        await made.until(["start 1"])
        made.keeper.note_running()
        made.keeper.run_with({"v": "1"})
        made.keeper.run_with({"v": "2"})
        await made.until(["start 1", "stop", "start 2"])
        made.keeper.note_running()
        made.keeper.rest(State.PAUSED)
        await made.until(["start 1", "stop", "start 2", "stop"])
    assert made.told == [
        State.UNASSIGNED, State.RUNNING, State.RESTARTING, State.RUNNING, State.PAUSED,
    ]  # fmt: skip


async def test_a_failed_task_starts_again() -> None:
    async with bench() as made:
        made.keeper._backoff.next_s = lambda ran_s: 0.0  # type: ignore[method-assign]
        made.keeper._wanted = {"v": "1"}
        made.keeper._wake.set()
        await made.until(["start 1"])
        made.keeper.note_running()
        made.keeper.note_failed("why")
        assert made.keeper.state is State.FAILED
        await made.until(["start 1", "stop", "start 1"])


async def test_a_failed_task_stays_so_if_the_file_says_it() -> None:
    async with bench(restarts=False) as made:
        made.keeper.run_with({"v": "1"})
        await made.until(["start 1"])
        made.keeper.note_failed("why")
        made.keeper.run_with({"v": "1"})
        await asyncio.sleep(0)
        assert made.engine.done == ["start 1"]
        made.keeper.restart()
        await made.until(["start 1", "stop", "start 1"])


async def test_a_secret_that_is_missing_is_the_status_of_the_task() -> None:
    def missing(properties: Properties) -> Properties:
        raise InvalidConfig("there is no such file")

    async with bench(restarts=False, resolve=missing) as made:
        made.keeper.run_with({"v": "1"})
        async with asyncio.timeout(10):
            while made.keeper.state is not State.FAILED:  # noqa: ASYNC110
                await asyncio.sleep(0)


async def test_what_a_task_says_that_should_not_run_is_passed_over() -> None:
    async with bench() as made:
        made.keeper.rest(State.PAUSED)
        made.keeper.note_failed("late")
        made.keeper.note_running()
        async with asyncio.timeout(10):
            while made.told != [State.PAUSED]:  # noqa: ASYNC110
                await asyncio.sleep(0)
