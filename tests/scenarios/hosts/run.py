"""Sets hosts up, lets them suffer one fault after the other, and judges what clients saw."""

import random
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tests.scenarios.chaos_cluster import CannotRun, ChaosCluster, Seat
from tests.scenarios.chaos_load import Worker
from tests.scenarios.chaos_watch import Watch
from tests.scenarios.hosts import workload
from tests.scenarios.hosts.broker import SteppedClock
from tests.scenarios.hosts.disks import StallingDisk, check_machine
from tests.scenarios.hosts.ensemble import HostedEnsemble
from tests.scenarios.hosts.faults import SECONDS, Faults
from tests.scenarios.hosts.judging import (
    CATCH_UP_S,
    PairsSeen,
    caught_up,
    judge_copies,
    judge_load,
    judge_pairs,
    read_load,
    value_in,
)
from tests.scenarios.hosts.network import Network

BROKERS: Final = (1, 2, 3)
STORES: Final = (11, 12, 13)
CLIENTS: Final = (workload.LIBRDKAFKA_HOST, workload.OWN_HOST, workload.GROUPS_HOST)
_RECOVERY_S: Final = 120.0
_REPLICAS: Final = 3
# Short enough that members which are cut off are noticed within a fault.
_OVERRIDES: Final = (
    "offsets.topic.num.partitions=6",
    "transaction.state.log.num.partitions=6",
    "group.initial.rebalance.delay.ms=300",
)


@dataclass(slots=True)
class Cost:
    """What the faults of one kind cost."""

    times: int = 0
    acknowledged: int = 0
    anomalies: int = 0
    longest_gap_s: float = 0.0


class HostsRun:
    """Three brokers, their store and clients, each on a host; use it with `with`."""

    def __init__(self, directory: Path, *, store: str, seed: int, rate: int = 60) -> None:
        self._directory = directory
        self._store = store
        self._seed = seed
        self._rate = rate
        self._stack = ExitStack()
        self._clocks: dict[int, SteppedClock] = {}
        self._disks: dict[int, StallingDisk] = {}
        self._windows: list[tuple[float, float, str]] = []
        self.missing: dict[str, str] = {}
        self.costs: dict[str, Cost] = {}
        self.chance = random.Random(seed)

    def __enter__(self) -> Self:
        try:
            self._set_up()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for worker in self._workers:
            worker.stop()
        self._stack.close()

    def _set_up(self) -> None:
        stores = STORES if self._store == "zookeeper" else ()
        self.network = Network([*BROKERS, *stores, *CLIENTS], self._seed)
        self._stack.callback(self.network.remove)
        self._stack.callback(self._wait_for_disks)
        zookeeper = None
        if stores:
            ensemble = HostedEnsemble(self.network, stores, self._directory / "stores")
            zookeeper = self._stack.enter_context(ensemble).address
        else:
            self.missing["cut-store"] = "brokers reach the embedded store by a Unix socket"
        self.cluster = self._stack.enter_context(
            ChaosCluster(
                self._directory / "data",
                zookeeper=zookeeper,
                overrides=_OVERRIDES,
                apart=True,
                small_disks=True,
                hosting=self.network,
                on_moved=self._furnish,
            )
        )
        self.faults = Faults(
            self.network,
            self.cluster.seats,
            stores=stores,
            clocks=self._clocks,
            disks=self._disks,
            chance=self.chance,
        )
        bootstrap = self.cluster.bootstrap
        workload.create_topics(bootstrap)
        self.load = workload.Load(self.network, bootstrap, self._rate)
        self._start_workers()
        addresses = {seat.id: (seat.host, seat.port) for seat in self.cluster.seats.values()}
        topics = [workload.LOAD, workload.PAIRS, *workload.COPIES.values()]
        self.watch = self._stack.enter_context(Watch(addresses, topics))
        self._wait_until_well(time.monotonic())

    def _furnish(self, seats: Mapping[int, Seat]) -> None:
        """Gives each broker a clock of its own, and the last one a disk that can stall."""
        for seat in seats.values():
            clock = SteppedClock(self._directory / f"clock-{seat.id}")
            self._clocks[seat.id] = clock
            seat.program = [
                *(sys.executable, "-m", "tests.scenarios.hosts.broker", str(clock.path)),
                "broker",
            ]
        last = seats[max(seats)]
        try:
            check_machine()
            self._disks[last.id] = StallingDisk(last.directory)
        except CannotRun as reason:
            self.missing["stall"] = str(reason)

    def _wait_for_disks(self) -> None:
        for disk in self._disks.values():
            disk.wait()

    def _start_workers(self) -> None:
        load, pairs_seen = self.load, PairsSeen()
        self.pairs_seen = pairs_seen

        def note(partition: int, offset: int, value: bytes) -> None:
            load.history.polled("librdkafka-follower", partition, offset, value)

        first, second, third = CLIENTS
        self.pairs = workload.Pairs(load, first)
        self.copies = [workload.Copy(load, second, protocol) for protocol in workload.COPIES]
        self._writers: list[Worker] = [
            workload.LibrdkafkaWriter("librdkafka", load, first),
            workload.OwnWriter("own", load, second),
            self.pairs,
        ]
        self._readers: list[Worker] = [
            *self.copies,
            workload.LibrdkafkaFollower(
                "librdkafka-follower", load, first, (workload.LOAD, workload.PARTITIONS), note
            ),
            workload.LibrdkafkaFollower(
                "pairs-follower", load, first, (workload.PAIRS, 2), pairs_seen.note
            ),
            workload.OwnFollower("own-follower", load, second),
        ]
        for protocol in ("classic", "consumer"):
            for member in ("a", "b"):
                self._readers += [
                    workload.LibrdkafkaReader(f"librdkafka-{member}", load, third, protocol),
                    workload.OwnReader(f"own-{member}", load, third, protocol),
                ]
        for worker in self._workers:
            worker.start()

    @property
    def _workers(self) -> list[Worker]:
        return [*getattr(self, "_writers", []), *getattr(self, "_readers", [])]

    # Faults

    def suffer(self, name: str, seconds: float | None = None) -> str:
        """One fault, and the time until all is well again; returns a line about it."""
        seat = self.faults.victim(name)
        role = f"broker {seat.id}"
        if seat.id == self.watch.controller():
            role += " (controller)"
        before = self.load.acknowledgements.count()
        since_s = time.monotonic()
        with self.faults.by_name[name](seat) as what:
            time.sleep(SECONDS[name] if seconds is None else seconds)
        over_s = time.monotonic()
        self._wait_until_well(over_s)
        until_s = time.monotonic()
        cost = self.costs.setdefault(name, Cost())
        gap_s = self.load.acknowledgements.longest_gap_s(since_s, until_s)
        acknowledged = self.load.acknowledgements.count() - before
        cost.times += 1
        cost.acknowledged += acknowledged
        cost.longest_gap_s = max(cost.longest_gap_s, gap_s)
        self._windows.append((since_s, until_s, name))
        return (
            f"{name:10} {role}: {what}, {over_s - since_s:.0f} s; {acknowledged} acknowledged,"
            f" longest gap {gap_s:.1f} s, well again after {until_s - over_s:.1f} s"
        )

    def _wait_until_well(self, since_s: float) -> None:
        """Every writer is acknowledged in every partition, and every replica is in sync."""
        deadline_s = time.monotonic() + _RECOVERY_S
        while not self.load.acknowledgements.since(since_s):
            assert time.monotonic() < deadline_s, f"not acknowledged again:\n{self.cluster.said()}"
            time.sleep(0.05)
        self.watch.wait_until_in_sync(_REPLICAS, _RECOVERY_S)

    # Judging

    def judge(self) -> list[str]:
        """Every anomaly; counts them by the fault in which the value was written."""
        for worker in self._writers:
            worker.stop()
        for worker in self._writers:
            worker.finish()
        bootstrap = self.cluster.bootstrap
        final = read_load(bootstrap)
        deadline_s = time.monotonic() + CATCH_UP_S
        copied = {copy.name: copy.copied for copy in self.copies}
        while not caught_up(self.load, final, copied) and time.monotonic() < deadline_s:
            time.sleep(0.2)
        for worker in self._readers:
            worker.stop()
        for worker in self._readers:
            worker.finish()
        found = [
            *judge_load(self.load, final),
            *judge_copies(bootstrap, final),
            *judge_pairs(bootstrap, self.pairs, self.pairs_seen),
            *self.cluster.problems(),
        ]
        for anomaly in found:
            self.costs.setdefault(self._fault_of(anomaly), Cost()).anomalies += 1
        return found

    def _fault_of(self, anomaly: str) -> str:
        value = value_in(anomaly)
        sent_s = self.load.sent_s.get(value or b"")
        for since_s, until_s, name in self._windows:
            if sent_s is not None and since_s <= sent_s <= until_s:
                return name
        return "between faults"

    def table(self) -> str:
        lines = ["fault           times  acknowledged  anomalies  longest gap"]
        for name, cost in sorted(self.costs.items()):
            lines.append(
                f"{name:14} {cost.times:6} {cost.acknowledged:13} {cost.anomalies:10}"
                f" {cost.longest_gap_s:10.1f} s"
            )
        return "\n".join(lines)

    def summary(self) -> str:
        fates = list(self.pairs.fates.values())
        counts = ", ".join(
            f"{fates.count(fate)} {fate}" for fate in ("committed", "aborted", "unknown")
        )
        copies = ", ".join(
            f"{copy.name} {copy.commits} commits and {copy.restarts} restarts"
            for copy in self.copies
        )
        return (
            f"{self.load.acknowledgements.count()} records acknowledged,"
            f" {len(self.load.failures)} sends failed; pairs: {counts}; {copies}"
        )


def possible(run: HostsRun, wanted: Sequence[str]) -> list[str]:
    """The faults that this machine and this store allow; says which they do not."""
    for name in wanted:
        if name in run.missing:
            print(f"left out: {name} ({run.missing[name]})", flush=True)
    return [name for name in wanted if name in run.faults.by_name]
