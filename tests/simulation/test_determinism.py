"""One seed, one trace, byte for byte: in one process and across processes."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from odradek.world import World
from simulation import PowerCut, Result, Simulation, run


async def answer(world: World, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(1000):
            world.disk.open("/log", create=True).write_at(0, [data])
            writer.write(data + world.randomness.bytes(3))
            await writer.drain()
            await world.workers.run_blocking(world.disk.open("/log").sync)
    except OSError:
        pass
    finally:
        writer.close()


async def server(world: World) -> None:
    connections: set[asyncio.Task[None]] = set()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.add(asyncio.create_task(answer(world, reader, writer)))

    listening = await asyncio.start_server(accept, "server", 9092)
    await listening.serve_forever()


async def talk(world: World) -> None:
    for _ in range(20):
        try:
            async with asyncio.timeout(1):
                reader, writer = await asyncio.open_connection("server", 9092)
                writer.write(world.randomness.bytes(1 + world.randomness.integer_below(5000)))
                await reader.read(10)
                writer.close()
        except OSError:
            await asyncio.sleep(world.randomness.fraction())


async def client(world: World) -> None:
    async with asyncio.TaskGroup() as group:
        for _ in range(3):
            group.create_task(talk(world))


async def storm(simulation: Simulation) -> None:
    """Clients and a server under delays, cuts, resets, kills and crashes: all that is random."""
    chance = simulation.random("storm")
    host = simulation.host("server")
    host.start(server)
    clients = [simulation.host(f"client-{n}").start(client) for n in range(3)]
    while not all(task.done() for task in clients):
        await asyncio.sleep(chance.uniform(0, 0.5))
        name = f"client-{chance.randrange(3)}"
        match chance.randrange(5):
            case 0:
                simulation.network.cut("server", name, both_ways=chance.random() < 0.5)
            case 1:
                simulation.network.heal_all()
            case 2:
                simulation.network.reset(name)
            case 3:
                host.kill()
                host.start(server)
            case 4:
                host.disk.cut_power_after(1)
                await asyncio.sleep(0.1)
                if not host.processes:
                    host.start(server)


def result_of(seed: int) -> Result[None]:
    return run(storm, seed)


SEEDS = (1, 2, 3, 4)


def test_the_same_seed_gives_the_same_trace() -> None:
    for seed in SEEDS:
        first, second = result_of(seed), result_of(seed)
        assert first.trace.text() == second.trace.text()
        assert first.trace.digest() == second.trace.digest()
        assert len(first.trace) > 500


def test_another_seed_gives_another_trace() -> None:
    assert len({result_of(seed).trace.digest() for seed in SEEDS}) == len(SEEDS)


@pytest.mark.parametrize("hash_seed", ["0", "12345"])
def test_another_process_with_other_hashes_gives_the_same_trace(hash_seed: str) -> None:
    program = (
        "from tests.simulation.test_determinism import SEEDS, result_of\n"
        "for seed in SEEDS: print(result_of(seed).trace.digest())"
    )
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    output = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
    ).stdout
    assert output.split() == [result_of(seed).trace.digest() for seed in SEEDS]


def test_a_power_cut_ends_the_process_in_the_middle_of_an_operation() -> None:
    async def main(simulation: Simulation) -> list[str]:
        seen: list[str] = []

        async def program(world: World) -> None:
            file = world.disk.open("/f", create=True)
            try:
                for _ in range(10):
                    file.write_at(0, [b"x"])
                    await asyncio.sleep(1)
            except PowerCut:
                seen.append("cut")
                raise

        host = simulation.host("a")
        host.start(program)
        await asyncio.sleep(0.5)
        host.disk.cut_power_after(2)
        await asyncio.sleep(100)
        assert not host.processes
        return seen

    assert run(main, 1).value == ["cut"]
