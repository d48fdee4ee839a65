"""Load on the cluster in which alerts are caused: records, groups, and steps that are repeated."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

from confluent_kafka import Consumer, Producer

from tests.scenarios.alert_cluster import AlertCluster
from tests.scenarios.chaos_load import Worker

_QUIET: Final = {"log_level": 0}
PATIENCE_S: Final = 30.0


class _Load(Worker):
    """Calls a function again and again in a thread, until the end of the block."""

    def __init__(self, step: Callable[[], None]) -> None:
        super().__init__("load")
        self._step = step

    def work(self) -> None:
        while not self._stops.is_set():
            self._step()


@asynccontextmanager
async def under_load(step: Callable[[], None]) -> AsyncIterator[None]:
    load = _Load(step)
    load.start()
    try:
        yield
    finally:
        await asyncio.to_thread(load.finish)


@asynccontextmanager
async def repeating(step: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    """Awaits what the function returns, again and again."""

    async def run() -> None:
        while True:
            await step()

    task = asyncio.create_task(run())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def producer_of(cluster: AlertCluster, **settings: str | int) -> Producer:
    given = {name.replace("_", "."): value for name, value in settings.items()}
    return Producer({"bootstrap.servers": cluster.bootstrap, **_QUIET, **given})


def append(cluster: AlertCluster, topic: str, count: int, **settings: str | int) -> None:
    """Appends so many records, each with a key."""
    producer = producer_of(cluster, **settings)
    for number in range(count):
        while True:
            try:
                producer.produce(topic, b"%d" % number, b"key")
            except BufferError:
                producer.poll(0.1)
            else:
                break
    assert producer.flush(PATIENCE_S) == 0


def group_of(cluster: AlertCluster, name: str, *, reset: str = "earliest") -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": name,
            "enable.auto.commit": False,
            "auto.offset.reset": reset,
            **_QUIET,
        }
    )
