"""The world of a host: clock, randomness, workers."""

import asyncio

from odradek.world import World
from simulation import Simulation, run


def test_the_clock_follows_virtual_time_and_steps() -> None:
    async def main(simulation: Simulation) -> None:
        host = simulation.host("a")
        clock = host.world().clock
        start_ms = clock.now_ms()
        await asyncio.sleep(1.5)
        assert clock.now_ms() - start_ms == 1500
        host.clock.step(-10_000)
        assert clock.now_ms() - start_ms == -8500
        assert clock.monotonic_s() == 1.5
        assert simulation.host("b").clock.now_ms() - start_ms == 1500

    run(main, 1)


def test_each_process_and_each_seed_has_its_own_randomness() -> None:
    async def main(simulation: Simulation) -> list[bytes]:
        seen: list[bytes] = []

        async def program(world: World) -> None:
            seen.append(world.randomness.bytes(8))

        await simulation.host("a").start(program)
        await simulation.host("a").start(program)
        await simulation.host("b").start(program)
        return seen

    draws = [*run(main, 1).value, *run(main, 2).value]
    assert len(set(draws)) == 6
    assert run(main, 1).value == draws[:3]


def test_workers_run_blocking_calls_in_virtual_time() -> None:
    async def main(simulation: Simulation) -> float:
        simulation.worker_delay_s = (0.25, 0.25)
        world = simulation.host("a").world()
        assert await world.workers.run_blocking(lambda: "done") == "done"
        world.workers.close()
        return world.clock.monotonic_s()

    assert run(main, 1).value == 0.5
