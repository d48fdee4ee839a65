"""How a plan is carried out: in order, with throttles that are put back, and what may go wrong."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from odradek.client.admin.config_types import ConfigResource, ConfigType
from odradek.ops.balance import execution
from odradek.ops.balance.balancer import Balancer, Measuring
from odradek.ops.balance.execution import Execution, Options, RunFailed, entry_of
from odradek.ops.balance.journal import AlreadyRunning, Entry, Journal, State
from odradek.ops.balance.planner import Kind, PlanImpossible, Request
from odradek.ops.balance.throttles import list_replicas, read_throttles, set_rates
from odradek.world.clock import SystemClock
from odradek.world.disk import OsDisk
from tests.unit.ops.balance.brokers import FakeBrokers
from tests.unit.ops.balance.models import at

RATE = "leader.replication.throttled.rate"


def silent(line: str) -> None:
    pass


class Cluster:
    def __init__(self, tmp_path: Path, *replicas: tuple[int, ...]) -> None:
        self.brokers = FakeBrokers({at(index): one for index, one in enumerate(replicas)})
        self.journal = Journal(OsDisk(), str(tmp_path / "journal.json"))
        self.balancer = Balancer(self.brokers.admin, OsDisk(), SystemClock(), self.journal)

    async def run(self, options: Options | None = None) -> Entry:
        plan = await self.balancer.plan(Request(), Measuring())
        return await self.balancer.run(plan, "balance", options or Options(), silent)


async def test_leaders_come_first_then_data_then_throttles_go(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, (1, 2), (1, 2), (1, 2), (1, 3), (1,), (1,))
    cluster.brokers.looks = 2
    entry = await cluster.run(Options(throttle=1000))
    assert entry.state is State.COMPLETED
    assert cluster.brokers.throttled() == {}
    calls = [call for call in cluster.brokers.calls if call != "configs"]
    orders = [str(move.partition) for move in entry.waves[0]]
    assert orders
    assert calls[0] == f"move {sorted(orders)}"
    assert calls[1].startswith("elect")
    for move in entry.moves:
        assert cluster.brokers.replicas[move.partition] == move.after
        assert cluster.brokers.leaders[move.partition] == move.after[0]


async def test_throttles_of_others_come_back(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, (1,), (1,), (1,))
    own = {
        ConfigResource(ConfigType.BROKER, "1"): {RATE: "77"},
        ConfigResource(ConfigType.TOPIC, "t"): {"leader.replication.throttled.replicas": "*"},
    }
    cluster.brokers.configs = {resource: dict(values) for resource, values in own.items()}
    await cluster.run(Options(throttle=1000))
    assert cluster.brokers.throttled() == {key.name: values for key, values in own.items()}


async def test_without_a_throttle_no_setting_is_touched(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, (1,), (1,), (1,))
    await cluster.run(Options(throttle=-1))
    assert "configs" not in cluster.brokers.calls


async def test_a_killed_run_is_told_resumed_and_cleaned_up(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, (1,), (1,), (1,))
    brokers = cluster.brokers
    brokers.is_stuck = True
    plan = await cluster.balancer.plan(Request(), Measuring())
    entry = entry_of(plan, "balance", Options(throttle=1000), 0)
    doomed = Execution(brokers.admin, cluster.journal, entry, silent)

    class Killed(BaseException):
        pass

    async def kill(moves: object) -> None:
        raise Killed

    doomed._wait = kill  # type: ignore[method-assign]
    with pytest.raises(Killed):
        await doomed.run()
    progress = await cluster.balancer.status()
    assert progress is not None
    assert (progress.state, progress.arrived) == ("interrupted", 0)
    with pytest.raises(AlreadyRunning, match="interrupted"):
        await cluster.run()
    brokers.is_stuck = False
    resumed = await cluster.balancer.resume(Options(), silent)
    assert resumed.state is State.COMPLETED
    assert brokers.throttled() == {}
    assert len(set(brokers.replicas.values())) == 3


async def test_cancel_after_a_kill_leaves_replicas_and_removes_throttles(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, (1,), (1,), (1,))
    brokers = cluster.brokers
    plan = await cluster.balancer.plan(Request(), Measuring())
    brokers.is_stuck = True
    entry = entry_of(plan, "balance", Options(throttle=1000), 0)
    throttles = await read_throttles(brokers.admin, entry.moves)
    cluster.journal.write(replace(entry, throttles=throttles))
    await set_rates(brokers.admin, throttles.brokers, 1000)
    await list_replicas(brokers.admin, entry.moves)
    await brokers.alter_partition_reassignments({m.partition: m.after for m in entry.moves})
    assert brokers.throttled()
    ended = await cluster.balancer.cancel(silent)
    assert ended is not None
    assert ended.state is State.CANCELLED
    assert brokers.throttled() == {}
    assert not brokers.targets
    assert set(brokers.replicas.values()) == {(1,)}
    assert await cluster.balancer.cancel(silent) is None


async def test_a_broker_that_is_down_at_the_end_keeps_its_throttle_in_the_journal(
    tmp_path: Path,
) -> None:
    cluster = Cluster(tmp_path, (1,), (1,), (1,))
    brokers = cluster.brokers
    elect = brokers.elect_leaders

    async def elect_and_lose(kind, names):  # type: ignore[no-untyped-def]
        brokers.alive.discard(3)
        return await elect(kind, names)

    brokers.elect_leaders = elect_and_lose  # type: ignore[method-assign]
    entry = await cluster.run(Options(throttle=1000))
    assert entry.state is State.COMPLETED
    assert list(entry.throttles.brokers) == ["3"]
    assert set(brokers.throttled()) == {"3"}
    brokers.alive.add(3)
    with pytest.raises(AlreadyRunning, match="broker 3 was down"):
        await cluster.balancer.run(
            await cluster.balancer.plan(
                Request(Kind.REMOVE, frozenset({3})), Measuring()
            ), "remove", Options(), silent,
        )  # fmt: skip
    ended = await cluster.balancer.cancel(silent)
    assert ended is not None
    assert ended.state is State.COMPLETED
    assert brokers.throttled() == {}


async def test_a_topic_that_is_deleted_meanwhile_is_no_failure(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, (1,), (1,), (1,))
    plan = await cluster.balancer.plan(Request(), Measuring())
    cluster.brokers.replicas.clear()
    entry = await cluster.balancer.run(plan, "balance", Options(throttle=1000), silent)
    assert entry.state is State.COMPLETED
    assert set(cluster.brokers.throttled()) <= {"t"}


async def test_a_reassignment_that_somebody_stops_is_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(execution, "_LATE_S", 0.0)
    cluster = Cluster(tmp_path, (1,), (1,), (1,))
    brokers = cluster.brokers
    brokers.arrive = brokers.targets.clear  # type: ignore[method-assign]
    with pytest.raises(RunFailed, match="did somebody stop its reassignment"):
        await cluster.run(Options(throttle=1000))
    entry = cluster.journal.read()
    assert entry is not None
    assert entry.state is State.FAILED
    assert brokers.throttled() == {}


async def test_a_run_without_progress_gives_up_and_cleans_up(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, (1,), (1,), (1,))
    cluster.brokers.is_stuck = True
    with pytest.raises(RunFailed, match="made no progress"):
        await cluster.run(Options(throttle=1000, stalled_s=0.3))
    assert cluster.brokers.throttled() == {}
    assert not cluster.brokers.targets


async def test_moves_of_others_are_not_disturbed(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, (1,), (1,), (1,))
    cluster.brokers.targets[at(0)] = (2,)
    cluster.brokers.is_stuck = True
    with pytest.raises(AlreadyRunning, match="reassign-partitions --list"):
        await cluster.run()
    assert cluster.brokers.targets == {at(0): (2,)}
    assert cluster.journal.read() is None


async def test_a_broker_that_is_not_there_is_told_before_anything_is_measured(
    tmp_path: Path,
) -> None:
    cluster = Cluster(tmp_path, (1, 2), (2, 3))
    request = Request(kind=Kind.REMOVE, brokers=frozenset({9}))
    async with asyncio.timeout(5):
        with pytest.raises(PlanImpossible, match=r"there is no broker 9; the cluster has 1, 2, 3"):
            await cluster.balancer.plan(request, Measuring(seconds=60))
