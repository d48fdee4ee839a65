"""The loop in virtual time: asyncio works on it, and what production would hide is loud."""

import asyncio
import logging
import time
from functools import partial
from typing import Any

import pytest

from odradek.world import World
from simulation import Simulation, SimulationError, run


def test_time_jumps_instead_of_passing() -> None:
    async def main(_: Simulation) -> float:
        await asyncio.sleep(10_000)
        return asyncio.get_running_loop().time()

    started = time.monotonic()
    assert run(main, 1).value == 10_000
    assert time.monotonic() - started < 5


def test_timers_fire_by_time_and_then_by_the_order_they_were_set() -> None:
    async def main(_: Simulation) -> list[str]:
        loop = asyncio.get_running_loop()
        seen: list[str] = []
        loop.call_later(2, seen.append, "late")
        for name in "abc":
            loop.call_later(1, seen.append, name)
        loop.call_later(1, seen.append, "cancelled").cancel()
        loop.call_soon(seen.append, "first")
        await asyncio.sleep(3)
        return seen

    assert run(main, 1).value == ["first", "a", "b", "c", "late"]


def test_timeouts_groups_events_and_queues_work() -> None:
    async def main(_: Simulation) -> list[object]:
        seen: list[object] = []
        queue: asyncio.Queue[int] = asyncio.Queue(1)
        event = asyncio.Event()

        async def produce() -> None:
            for number in range(3):
                await queue.put(number)
            event.set()

        async with asyncio.TaskGroup() as group:
            group.create_task(produce())
            for _number in range(3):
                seen.append(await queue.get())
            await event.wait()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5):
                await asyncio.Event().wait()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.sleep(10), 1)
        seen.append(await asyncio.gather(asyncio.sleep(1, "x"), asyncio.sleep(2, "y")))
        seen.append(asyncio.get_running_loop().time())
        return seen

    assert run(main, 1).value == [0, 1, 2, ["x", "y"], 8.0]


def test_a_group_cancels_its_tasks_in_the_order_they_were_made() -> None:
    """A TaskGroup holds its tasks in a set: the order must come from their numbers."""

    async def main(_: Simulation) -> list[int]:
        ended: list[int] = []

        async def wait(number: int) -> None:
            try:
                await asyncio.Event().wait()
            finally:
                ended.append(number)

        async def start_and_fail() -> None:
            async with asyncio.TaskGroup() as group:
                for number in range(50):
                    group.create_task(wait(number))
                await asyncio.sleep(0)
                raise ValueError

        with pytest.raises(ExceptionGroup):
            await start_and_fail()
        return ended

    # Small numbers sit in a set in their own order, up to where the table wraps around.
    first, second = run(main, 1).value, run(main, 1).value
    assert first == second
    assert sorted(first) == list(range(50))


def test_an_async_generator_is_finished() -> None:
    async def main(_: Simulation) -> list[str]:
        seen: list[str] = []

        async def numbers() -> Any:
            try:
                yield 1
                yield 2
            finally:
                await asyncio.sleep(1)
                seen.append("finished")

        async for _number in numbers():
            break
        await asyncio.sleep(2)
        return seen

    assert run(main, 1).value == ["finished"]


def test_a_blocking_call_happens_between_its_start_and_its_answer() -> None:
    async def main(simulation: Simulation) -> None:
        simulation.worker_delay_s = (1.0, 1.0)
        loop = asyncio.get_running_loop()
        called_at = await loop.run_in_executor(None, loop.time)
        assert (called_at, loop.time()) == (1.0, 2.0)
        assert await asyncio.to_thread(lambda: 7) == 7
        with pytest.raises(OSError, match="no such"):
            await asyncio.to_thread(_fail)

    def _fail() -> None:
        raise OSError("no such thing")

    run(main, 1)


def test_a_cancelled_blocking_call_disturbs_nobody() -> None:
    async def main(simulation: Simulation) -> None:
        simulation.worker_delay_s = (1.0, 1.0)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.to_thread(lambda: 7), 0.5)
        await asyncio.sleep(5)

    run(main, 1)


def test_a_deadlock_says_who_waits_and_where() -> None:
    async def main(simulation: Simulation) -> None:
        async def wait_for_nothing(_: World) -> None:
            await asyncio.Event().wait()

        await simulation.host("broker-1").start(wait_for_nothing, "the broker")

    with pytest.raises(SimulationError, match=r"deadlock[\s\S]*the broker.*wait_for_nothing"):
        run(main, 1)


def test_a_run_that_never_ends_is_ended() -> None:
    async def main(_: Simulation) -> None:
        while True:  # noqa: ASYNC110 - it is the point
            await asyncio.sleep(1)

    with pytest.raises(SimulationError, match="not done after 100 virtual seconds"):
        run(main, 1, time_limit_s=100)


def test_a_busy_loop_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simulation.loop.MAX_STEPS_IN_AN_INSTANT", 1000)

    async def main(_: Simulation) -> None:
        while True:  # noqa: ASYNC110 - it is the point
            await asyncio.sleep(0)

    with pytest.raises(SimulationError, match="busy loop"):
        run(main, 1)


async def _raise_in_callback() -> None:
    asyncio.get_running_loop().call_soon(lambda: 1 // 0)
    await asyncio.sleep(1)


async def _raise_in_forgotten_task() -> None:
    async def fail() -> None:
        raise ValueError("nobody looks")

    task = asyncio.create_task(fail())
    await asyncio.sleep(1)
    del task
    await asyncio.sleep(1)


async def _forget_a_waiting_task() -> None:
    async def wait() -> None:
        await asyncio.get_running_loop().create_future()

    asyncio.create_task(wait())  # noqa: RUF006 - this is the mistake
    await asyncio.sleep(1)


@pytest.mark.parametrize(
    "mistake", [_raise_in_callback, _raise_in_forgotten_task, _forget_a_waiting_task]
)
def test_what_asyncio_only_logs_ends_the_run(mistake: Any) -> None:
    async def main(_: Simulation) -> None:
        await mistake()

    with pytest.raises(SimulationError):
        run(main, 1)


def test_the_error_of_main_is_raised_with_the_seed() -> None:
    async def main(simulation: Simulation) -> None:
        simulation.host("a").trace("before the end")
        raise KeyError("lost")

    with pytest.raises(KeyError) as caught:
        run(main, 17)
    assert "seed 17" in caught.value.__notes__[0]
    assert "before the end" in caught.value.__notes__[0]


def test_a_killed_process_runs_no_finally() -> None:
    seen: list[str] = []

    async def program(_: World) -> None:
        try:
            seen.append("started")
            await asyncio.sleep(100)
        finally:
            seen.append("finally")

    async def main(simulation: Simulation) -> list[str]:
        host = simulation.host("broker-1")
        host.start(program)
        await asyncio.sleep(1)
        host.kill()
        await asyncio.sleep(1000)
        return list(seen)

    assert run(main, 1).value == ["started"]


def test_an_error_that_ends_a_process_is_not_lost() -> None:
    async def program(_: World) -> None:
        raise ValueError("broken")

    async def main(simulation: Simulation) -> None:
        simulation.host("broker-1").start(program)
        await asyncio.sleep(1)

    with pytest.raises(SimulationError, match="broken"):
        run(main, 1)


def test_a_stopped_process_does_nothing_and_then_catches_up() -> None:
    ticks: list[float] = []

    async def program(_: World) -> None:
        while True:
            await asyncio.sleep(1)
            ticks.append(asyncio.get_running_loop().time())

    async def main(simulation: Simulation) -> None:
        host = simulation.host("broker-1")
        host.start(program)
        await asyncio.sleep(2.5)
        host.stop()
        await asyncio.sleep(10)
        host.resume()
        await asyncio.sleep(1.4)

    run(main, 1)
    assert ticks == [1, 2, 12.5, 13.5]


def test_what_a_process_starts_belongs_to_it() -> None:
    seen: list[str] = []

    async def child() -> None:
        await asyncio.sleep(10)
        seen.append("child")

    async def program(_: World) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(child())
            asyncio.get_running_loop().call_later(10, seen.append, "timer")

    async def main(simulation: Simulation) -> None:
        simulation.host("a").start(program)
        simulation.host("b").start(program)
        await asyncio.sleep(1)
        simulation.host("a").kill()
        await asyncio.sleep(20)

    run(main, 1)
    assert sorted(seen) == ["child", "timer"]


def test_a_process_result_reaches_who_awaits_it() -> None:
    async def main(simulation: Simulation) -> int:
        async def program(_: World) -> int:
            await asyncio.sleep(1)
            return 42

        return await simulation.host("a").start(program)

    assert run(main, 1).value == 42


def test_logs_stand_in_the_trace_and_a_logged_traceback_ends_the_run() -> None:
    logger = logging.getLogger("odradek.test")

    async def main(simulation: Simulation, *, fails: bool = False) -> None:
        async def program(_: World) -> None:
            logger.debug("too much to say")
            logger.warning("a warning of %d", 3)
            if fails:
                try:
                    raise ValueError("inside")
                except ValueError:
                    logger.exception("swallowed")

        await simulation.host("a").start(program)

    lines = run(main, 1).trace.text()
    assert "a            warning: a warning of 3\n" in lines
    assert "too much" not in lines
    with pytest.raises(SimulationError, match="swallowed"):
        run(partial(main, fails=True), 1)
