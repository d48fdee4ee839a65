"""The sink's commit protocol (`odradek.spark.exactly_once`) without Spark.

Its clients block, so an attempt runs as a blocking program, and its admin client and its producer
are those of asyncio behind calls that wait. Rows are plain values. Everything else is the code of
the sink: markers, fencing, what is refused.
"""

import asyncio
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, NoReturn, cast

from odradek.client import Admin, Producer, ProducerSettings
from odradek.client.group.offsets import GroupMetadata, OffsetAndMetadata
from odradek.client.producer.transaction_requests import Identity
from odradek.protocol.types import TopicId, TopicPartition
from odradek.spark import exactly_once, replays
from odradek.spark.arrow import producer as arrow_producer
from odradek.spark.exactly_once import Outcome, write_once
from odradek.spark.markers import TaskWrite
from odradek.spark.replays import TaskReport, commit_batch
from odradek.world import World
from simulation.blocking_programs import BlockingProgram, wait
from simulation.sink_steps import Step
from simulation.workload import Options
from simulation.world import Host


class Columns:
    """Rows on their way, with what the sink asks of `RecordColumns`."""

    def __init__(self, values: list[bytes]) -> None:
        self.values = values
        self.row_count = len(values)

    def fingerprint(self) -> int:
        return sum(zlib.crc32(value) for value in self.values)


class SinkOptions(NamedTuple):
    """What the sink asks of its options; hashable, as it keeps some answers by them."""

    bootstrap: str
    topic: str
    id_prefix: str = "sink-"

    def admin_settings(self) -> Options:
        return {"bootstrap_servers": self.bootstrap, "request_timeout_ms": 3000}

    def producer_settings(self, transactional_id: str) -> Options:
        return {
            "bootstrap_servers": self.bootstrap,
            "transactional_id": transactional_id,
            "transaction_timeout_ms": 10_000,
            "request_timeout_ms": 2000,
            "delivery_timeout_ms": 8000,
            "max_block_ms": 20_000,
        }


class _Process(threading.local):
    """The simulated process that an attempt runs in.

    `reached` is called by its producer after each step of the commit protocol.
    """

    world: World
    reached: Callable[[Step], None]


_process = _Process()


class _Clients:
    """In place of `odradek.spark.clients`."""

    @staticmethod
    def admin(settings: Options) -> Any:
        return _BlockingAdmin(settings)


class _BlockingAdmin:
    def __init__(self, settings: Options) -> None:
        self._settings = settings

    def __getattr__(self, name: str) -> Callable[..., Any]:
        world = _process.world

        async def ask(*arguments: Any, **options: Any) -> Any:
            async with Admin(self._settings, world=world) as admin:
                return await getattr(admin, name)(*arguments, **options)

        return lambda *arguments, **options: wait(ask(*arguments, **options))


class _BlockingProducer:
    """In place of `BatchProducer`."""

    def __init__(self, settings: Options) -> None:
        self._producer: Producer = wait(_made(settings, _process.world))

    def init_transactions(self) -> None:
        wait(self._producer.init_transactions())
        _process.reached(Step.INITIALISED)

    def begin_transaction(self) -> None:
        wait(_maybe(self._producer.begin_transaction))

    def send(self, topic: str, partition: int, value: bytes) -> None:
        wait(self._producer.send(topic, value, partition=partition))

    def flush(self) -> None:
        wait(self._producer.flush())

    def topic_id(self, topic: str) -> TopicId:
        found = _BlockingAdmin(_admin_settings(self._producer)).describe_metadata([topic])
        return TopicId(found.topics[0].topic_id)

    def send_offsets(self, offsets: dict[TopicPartition, OffsetAndMetadata], group: str) -> None:
        wait(self._producer.send_offsets_to_transaction(offsets, GroupMetadata(group)))
        _process.reached(Step.WRITTEN)

    def commit_transaction(self) -> None:
        wait(self._producer.commit_transaction())
        _process.reached(Step.COMMITTED)

    def hand_over_transaction(self) -> Identity:
        return cast("Identity", wait(self._producer.hand_over_transaction()))

    def close(self, timeout_ms: int | None = None) -> None:
        wait(self._producer.close(timeout_ms=timeout_ms))


async def _made(settings: Options, world: World) -> Producer:
    return Producer(ProducerSettings.from_options(settings), world=world)


async def _maybe(call: Callable[[], Any]) -> Any:
    result = call()
    return await result if asyncio.iscoroutine(result) else result


def _admin_settings(producer: Producer) -> Options:
    return {"bootstrap_servers": producer.settings.bootstrap_servers, "request_timeout_ms": 3000}


class _Pause:
    """In place of `threading.Event` where the sink only waits for time to pass."""

    def wait(self, timeout_s: float) -> None:
        wait(asyncio.sleep(timeout_s))


class _Threading:
    Event = _Pause


@contextmanager
def sink_in_simulation() -> Iterator[None]:
    """The sink's outside is the simulated one, for as long as this lasts."""
    patches: list[tuple[Any, str, Any]] = [
        (exactly_once, "clients", _Clients),
        (replays, "clients", _Clients),
        (exactly_once, "threading", _Threading),
        (arrow_producer, "BatchProducer", _BlockingProducer),
    ]
    usual = [(place, name, getattr(place, name)) for place, name, _ in patches]
    for place, name, replacement in patches:
        setattr(place, name, replacement)
    try:
        yield
    finally:
        for place, name, original in usual:
            setattr(place, name, original)


async def attempt(
    world: World,
    host: Host,
    task: TaskWrite,
    options: SinkOptions,
    values: list[bytes],
    *,
    partitions: int,
    dies_at: Step | None,
    programs: list[BlockingProgram[Outcome]],
) -> Outcome:
    """One attempt at a task, as a process of `host`; it may be killed at a step."""

    def send(producer: Any, columns: Iterator[Any]) -> tuple[int, set[str]]:
        rows = 0
        for column in columns:
            for value in column.values:
                producer.send(options.topic, rows % partitions, value)
                rows += 1
        producer.flush()
        return rows, {options.topic}

    def reached(step: Step) -> None:
        wait(_die(host) if step is dies_at else asyncio.sleep(0))

    def program(_: BlockingProgram[Outcome]) -> Outcome:
        _process.world = world
        _process.reached = reached
        # Asked once by each Python worker of Spark's: here every attempt is one.
        exactly_once._earlier_markers.cache_clear()
        given = cast("Iterator[Any]", iter([Columns(values)] if values else []))
        return write_once(task, cast("Any", options), given, send=send)

    running = BlockingProgram(program)
    programs.append(running)
    return await running.run()


async def commit(
    world: World,
    options: SinkOptions,
    reports: list[TaskReport],
    programs: list[BlockingProgram[None]],
) -> None:
    """What the driver does when all tasks of a batch are done."""

    def program(_: BlockingProgram[None]) -> None:
        _process.world = world
        commit_batch(cast("Any", options), reports)

    running = BlockingProgram(program)
    programs.append(running)
    await running.run()


async def _die(host: Host) -> NoReturn:
    host.kill()
    await asyncio.get_running_loop().create_future()
    raise AssertionError("the dead do not go on")
