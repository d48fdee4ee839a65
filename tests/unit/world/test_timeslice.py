"""Long loops share each turn of the event loop and leave room for everybody else."""

import asyncio
import time

import pytest

from odradek.world.timeslice import SLICE_S, Timeslice, measured_by

_MS = 0.001


class _Stopwatch:
    """Time that passes only by work."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


async def _long_loop(steps: int, step_s: float, stopwatch: _Stopwatch) -> None:
    timeslice = Timeslice.of_running_loop()
    for _ in range(steps):
        if timeslice.is_over():
            await timeslice.next_turn()
        stopwatch.now_s += step_s


@pytest.mark.parametrize("loops", [1, 2, 50])
def test_a_turn_is_not_longer_than_a_slice_and_a_step_however_many_loops_run(loops: int) -> None:
    async def main() -> list[float]:
        tasks = [asyncio.create_task(_long_loop(40, _MS, stopwatch)) for _ in range(loops)]
        turns_s = []
        while not all(task.done() for task in tasks):
            before_s = stopwatch.now_s
            await asyncio.sleep(0)
            turns_s.append(stopwatch.now_s - before_s)
        return turns_s

    stopwatch = _Stopwatch()
    with measured_by(stopwatch):
        turns_s = asyncio.run(main())
    assert sum(turns_s) == pytest.approx(loops * 40 * _MS)
    assert max(turns_s) <= SLICE_S + _MS


def test_every_loop_ends_although_each_step_takes_a_whole_turn() -> None:
    async def main() -> None:
        loops = (_long_loop(5, 2 * SLICE_S, stopwatch) for _ in range(10))
        await asyncio.wait_for(asyncio.gather(*loops), 30)

    stopwatch = _Stopwatch()
    with measured_by(stopwatch):
        asyncio.run(main())
    assert stopwatch.now_s == pytest.approx(50 * 2 * SLICE_S)


def test_a_loop_that_died_while_it_waited_holds_nobody_up() -> None:
    async def main() -> None:
        first = asyncio.create_task(_long_loop(1000, _MS, stopwatch))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.wait_for(_long_loop(20, _MS, stopwatch), 30)

    stopwatch = _Stopwatch()
    with measured_by(stopwatch):
        asyncio.run(main())


def test_the_stopwatch_is_given_back() -> None:
    async def main() -> bool:
        timeslice = Timeslice.of_running_loop()
        await timeslice.next_turn()
        began_s = time.perf_counter()
        while not timeslice.is_over():
            assert time.perf_counter() - began_s < 30
        return True

    with measured_by(_Stopwatch()):
        pass
    assert asyncio.run(main())
