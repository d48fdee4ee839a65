"""A coordinator whose machine violates an invariant goes out of service, and no other one does."""

import asyncio
import logging
from collections.abc import Iterator, Sequence
from types import MappingProxyType
from typing import Any, cast

import pytest

from odradek import invariants
from odradek.invariants import InvariantViolation
from odradek.metadata import ClusterImage, TopicImage
from odradek.metadata.image import PartitionImage
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.types import BrokerId, LeaderEpoch, TopicId
from odradek.replication import coordinator_partitions
from odradek.replication.coordinator_partitions import CoordinatorPartitions, partition_of
from odradek.statemachine.machine import LogRecord
from odradek.world import SystemClock
from tests.unit.statemachine.counter import Count, Counter, MemoryLog

TOPIC = "__counts"


class Replica:
    def __init__(self, log: MemoryLog) -> None:
        self.log = log
        self.violation: InvariantViolation | None = None

    def go_offline(self, violation: InvariantViolation) -> None:
        self.violation = violation


class Replicas:
    is_leased = True

    def __init__(self, logs: Sequence[MemoryLog]) -> None:
        self.partitions = [Replica(log) for log in logs]

    def leader(self, topic: str, partition: int) -> Replica:
        return self.partitions[partition]


@pytest.fixture(autouse=True)
def as_in_production(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """In tests a violation ends the run; in production it is isolated."""
    monkeypatch.setattr(coordinator_partitions, "PartitionLog", lambda replica, _: replica.log)
    invariants.check_thoroughly(False)
    yield
    invariants.check_thoroughly(True)


def image() -> ClusterImage:
    states = tuple(
        PartitionImage(index, (BrokerId(1),), BrokerId(1), LeaderEpoch(0), (BrokerId(1),), 1, 0)
        for index in (0, 1)
    )
    topic = TopicImage(TOPIC, TopicId(bytes(16)), states, {}, 0)
    return ClusterImage(topics=MappingProxyType({TOPIC: topic}))


def key_of(partition: int) -> str:
    return next(key for key in "abcdef" if partition_of(key, image(), TOPIC) == partition)


class Running:
    """Coordinators of two partitions, until the end of the block."""

    def __init__(self, *logs: MemoryLog) -> None:
        self.replicas = Replicas(logs)
        self.coordinators: CoordinatorPartitions[Any, str] = CoordinatorPartitions(
            TOPIC,
            BrokerId(1),
            cast("Any", self.replicas),
            SystemClock(),
            lambda _: Counter(),
            perform=lambda _: None,
        )

    async def __aenter__(self) -> "Running":
        self._task = asyncio.create_task(self.coordinators.run())
        await asyncio.sleep(0)
        self.coordinators.follow(image())
        async with asyncio.timeout(10):
            while self.coordinators.is_loading():  # noqa: ASYNC110 - there is no event for it
                await asyncio.sleep(0)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


async def test_a_violation_while_serving_takes_the_replica_offline(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with Running(MemoryLog(), MemoryLog()) as running:
        coordinators = running.coordinators
        with pytest.raises(ApiError) as refused:
            await coordinators.ask(key_of(0), Count("violate", "a"))
        assert refused.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
        await asyncio.sleep(0)
        with pytest.raises(ApiError, match="__counts-0 is out of service"):
            await coordinators.ask(key_of(0), Count("read", "a"))
        assert await coordinators.ask(key_of(1), Count("add", "a")) == 1
        assert not coordinators.is_loading()
        assert len(list(coordinators.machines())) == 1
    violation = running.replicas.partitions[0].violation
    assert violation is not None
    assert running.replicas.partitions[1].violation is None
    (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert "the coordinator of __counts-0 is out of service: the counter" in record.getMessage()
    assert "once" in record.getMessage(), "the history is in the log"


async def test_a_violation_while_loading_leaves_the_replica_in_its_role(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Every other replica holds the same records."""
    async with Running(MemoryLog(LogRecord(b"wrong", b"1")), MemoryLog()) as running:
        with pytest.raises(ApiError, match="__counts-0 is out of service"):
            await running.coordinators.ask(key_of(0), Count("read", "a"))
        assert await running.coordinators.ask(key_of(1), Count("read", "a")) == 0
    assert running.replicas.partitions[0].violation is None
    assert "out of service" in caplog.text


async def test_in_tests_and_in_the_simulation_a_violation_ends_the_run() -> None:
    invariants.check_thoroughly(True)
    running = Running(MemoryLog(), MemoryLog())
    async with running:
        with pytest.raises(ApiError):
            await running.coordinators.ask(key_of(0), Count("violate", "a"))
        with pytest.raises(ExceptionGroup) as ended:
            await asyncio.wait_for(asyncio.shield(running._task), 10)
    assert ended.group_contains(InvariantViolation)
