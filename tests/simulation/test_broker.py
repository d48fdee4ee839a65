"""A broker and its clients in virtual time: random bad days, and some that were once bad enough."""

import asyncio
import errno
import os
import subprocess
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from odradek.client import Admin, Consumer, Producer
from odradek.client.errors import ClientError
from odradek.metadata.memory import MemoryMetadata
from odradek.protocol.errors import KafkaError
from odradek.protocol.types import TopicPartition
from odradek.world import World
from simulation import Simulation, run
from simulation.scenarios.broker import broker
from simulation.simulated_broker import SimulatedBroker
from simulation.workload import read_to_the_end


@pytest.mark.parametrize("first_seed", range(1, 19, 3))
def test_a_bad_day_loses_doubles_and_reorders_nothing(first_seed: int) -> None:
    for seed in range(first_seed, first_seed + 3):
        assert "sends acknowledged" in run(broker, seed).value


def test_a_day_repeats_byte_for_byte_in_other_processes() -> None:
    command = [sys.executable, "-m", "simulation", "broker", "--seed", "5"]
    traces = []
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        root = Path(__file__).parents[2]
        done = subprocess.run(
            command, env=environment, cwd=root, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        traces.append(done.stdout)
    assert traces[0] == traces[1]
    assert traces[0] == run(broker, 5).trace.text()


Story = Callable[[Simulation, SimulatedBroker], Coroutine[Any, Any, None]]


def play(story: Story, *, partitions: int = 1, seed: int = 1, **properties: str) -> None:
    """Runs a story with one broker that has the topic `t`."""

    async def main(simulation: Simulation) -> None:
        named = {name.replace("_", "."): value for name, value in properties.items()}
        one = SimulatedBroker(simulation, MemoryMetadata(), 1, named)

        async def make_topic(world: World) -> None:
            async with Admin(world=world, bootstrap_servers=one.address) as admin:
                await admin.create_topic("t", partitions, 1)

        one.start()
        await asyncio.sleep(0.1)
        await simulation.host("operator").start(make_topic)
        await story(simulation, one)

    run(main, seed)


def test_retries_across_a_clean_restart_write_nothing_twice() -> None:
    """Several batches were under way when the broker stopped; their answers were lost."""

    async def story(simulation: Simulation, one: SimulatedBroker) -> None:
        async def produce(world: World) -> list[int]:
            async with Producer(
                world=world,
                bootstrap_servers=one.address,
                request_timeout_ms=2000,
                max_in_flight_requests_per_connection=5,
            ) as producer:
                await producer.send_and_wait("t", b"first")
                simulation.network.cut(one.name, "client", both_ways=False)
                deliveries = []
                for number in range(4):
                    deliveries.append(await producer.send("t", b"%d" % number))
                    await asyncio.sleep(0.05)
                return [(await delivery).offset for delivery in deliveries]

        producing = simulation.host("client").start(produce)
        await asyncio.sleep(1)
        await one.stop()
        one.start()
        await asyncio.sleep(5)
        simulation.network.heal_all()
        assert await producing == [1, 2, 3, 4]

        async def read(world: World) -> list[tuple[int, bytes]]:
            partition = TopicPartition("t", 0)
            options: dict[str, object] = {"bootstrap_servers": one.address}
            return (await read_to_the_end(world, [partition], options))[partition]

        values = [b"first", b"0", b"1", b"2", b"3"]
        assert await simulation.host("client").start(read) == list(enumerate(values))

    play(story)


def test_what_a_killed_broker_left_unflushed_is_flushed_before_it_is_acknowledged() -> None:
    """The producer sends it again, is told where it stands, and then the power goes."""

    async def story(simulation: Simulation, one: SimulatedBroker) -> None:
        simulation.worker_delay_s = (2.0, 3.0)

        async def produce(world: World) -> int:
            async with Producer(
                world=world, bootstrap_servers=one.address, request_timeout_ms=60_000
            ) as producer:
                return (await producer.send_and_wait("t", b"kept")).offset

        producing = simulation.host("client").start(produce)
        await asyncio.sleep(1)
        one.kill()
        one.start()
        assert await producing == 0
        one.power_off()
        one.start()

        async def read(world: World) -> list[tuple[int, bytes]]:
            partition = TopicPartition("t", 0)
            options: dict[str, object] = {"bootstrap_servers": one.address}
            return (await read_to_the_end(world, [partition], options))[partition]

        assert await simulation.host("client").start(read) == [(0, b"kept")]

    for seed in range(1, 6):  # A power cut may spare what was not flushed.
        play(story, seed=seed, log_flush_interval_messages="1")


@pytest.mark.parametrize("operation", ["write", "sync"])
def test_one_directory_fails_and_the_others_go_on(operation: str) -> None:
    async def story(simulation: Simulation, one: SimulatedBroker) -> None:
        disk = one.host.disk
        failing = next(n for n in (0, 1) if disk.exists(f"/a/t-{n}"))
        disk.fail_next(operation, errno.EIO, under="/a")

        async def produce(world: World) -> None:
            async with Producer(
                world=world,
                bootstrap_servers=one.address,
                request_timeout_ms=1000,
                delivery_timeout_ms=3000,
            ) as producer:
                lost = await producer.send("t", b"lost", partition=failing)
                kept = await producer.send_and_wait("t", b"kept", partition=1 - failing)
                assert kept.offset == 0
                with pytest.raises((KafkaError, ClientError)):
                    await lost
                again = await producer.send_and_wait("t", b"again", partition=1 - failing)
                assert again.offset == 1

        await simulation.host("client").start(produce)
        one.require_alive()

    play(story, partitions=2, log_dirs="/a,/b", log_flush_interval_messages="1")


def test_a_stopped_reader_costs_the_broker_no_memory() -> None:
    async def story(simulation: Simulation, one: SimulatedBroker) -> None:
        async def produce(world: World) -> None:
            async with Producer(
                world=world, bootstrap_servers=one.address, linger_ms=0
            ) as producer:
                for _ in range(40):
                    await producer.send("t", bytes(100_000))

        async def consume(world: World) -> None:
            async with Consumer(world=world, bootstrap_servers=one.address) as consumer:
                consumer.assign([TopicPartition("t", 0)])
                consumer.seek_to_beginning()
                while True:
                    await consumer.poll(1000)

        await simulation.host("client").start(produce)
        reader = simulation.host("reader")
        reader.start(consume)
        await asyncio.sleep(0.02)
        reader.stop()
        await asyncio.sleep(5)
        waiting = [
            transport.get_write_buffer_size()
            for transport in simulation.network.transports.values()
            if transport.host == one.name
        ]
        assert max(waiting) > 0, "the reader was stopped too early or too late"
        assert sum(waiting) < 1 << 20

    play(story)


@pytest.mark.parametrize("operations", [0, 5])
def test_a_broker_that_loses_power_while_it_loads_can_be_started_again(operations: int) -> None:
    async def story(simulation: Simulation, one: SimulatedBroker) -> None:
        await one.stop()
        one.host.disk.cut_power_after(operations)
        one.start()
        await asyncio.sleep(1)
        assert not one.is_running, "the power was to be cut before it is ready"
        one.require_alive()  # It did not end by itself.
        one.start()

        async def produce(world: World) -> None:
            async with Producer(world=world, bootstrap_servers=one.address) as producer:
                assert (await producer.send_and_wait("t", b"after")).offset == 0

        await simulation.host("client").start(produce)

    play(story)
