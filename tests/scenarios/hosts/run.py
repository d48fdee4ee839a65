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

from confluent_kafka import KafkaException

from tests.scenarios.chaos_cluster import ChaosCluster, Seat
from tests.scenarios.chaos_load import Death, Worker, not_allowed
from tests.scenarios.chaos_watch import Watch
from tests.scenarios.hosts import workload
from tests.scenarios.hosts.broker import SteppedClock
from tests.scenarios.hosts.disks import StallingDisk, check_machine
from tests.scenarios.hosts.ensemble import HostedEnsemble
from tests.scenarios.hosts.faults import KINDS, Faults
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
from tests.scenarios.namespaces import CannotRun

BROKERS: Final = (1, 2, 3)
STORES: Final = (11, 12, 13)
CLIENTS: Final = (workload.LIBRDKAFKA_HOST, workload.OWN_HOST, workload.GROUPS_HOST)
_RECOVERY_S: Final = 120.0
_END_S: Final = 60.0
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
    died: int = 0
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
        # What keeps the run from going on; each is an anomaly.
        self.troubles: list[str] = []
        self.costs: dict[str, Cost] = {}
        self.chance = random.Random(seed)

    def __enter__(self) -> Self:
        try:
            self._set_up()
        except BaseException:
            self._stack.__exit__(*sys.exc_info())
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
        # Not `close`: what fails meanwhile would hide the error that ended the run.
        self._stack.__exit__(kind, error, trace)

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
        if self.troubles:
            raise AssertionError("; ".join(self.troubles))

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
                    workload.LibrdkafkaReader(
                        f"librdkafka-{protocol}-{member}", load, third, protocol
                    ),
                    workload.OwnReader(f"own-{protocol}-{member}", load, third, protocol),
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
        what = KINDS[name].text
        try:
            with self.faults.by_name[name](seat) as what:
                time.sleep(KINDS[name].seconds if seconds is None else seconds)
        except AssertionError as reason:
            # A broker did not end or did not start again.
            self.troubles.append(f"{name}: {reason}")
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
        """Until every writer is acknowledged in every partition, and every replica is in sync.

        Whatever keeps them from it is noted as trouble.
        """
        deadline_s = time.monotonic() + _RECOVERY_S
        while not self.load.acknowledgements.since(since_s):
            if any(worker.has_died for worker in self._workers):
                break  # Who it was and why is told at the end.
            if time.monotonic() > deadline_s:
                self.troubles.append(f"not acknowledged again within {_RECOVERY_S:.0f} s")
                return
            time.sleep(0.05)
        try:
            self.watch.wait_until_in_sync(_REPLICAS, _RECOVERY_S)
        except AssertionError as reason:
            self.troubles.append(str(reason))
        self.troubles += [
            f"{worker.name} does not run any more" for worker in self._workers if worker.has_died
        ]

    # Judging

    def judge(self) -> list[str]:
        """Every anomaly; counts them by the fault in which the value was written."""
        self._end(self._writers)
        try:
            final = self._let_readers_catch_up()
            self._end(self._readers)
            found = self._judge_clients(final)
        except (AssertionError, KafkaException) as error:
            # The cluster is not in a state in which everything can be read.
            found = [f"unreadable: {error}"]
        found += [
            *self.troubles,
            *(f"a send failed: {failure}" for failure in self.load.failures),
            *self.cluster.problems(),
        ]
        for anomaly in found:
            self._cost_of(self._sent_s(anomaly)).anomalies += 1
        for death in self.deaths:
            self._cost_of(death.moment_s).died += 1
        for death in not_allowed(self.deaths):
            self._cost_of(death.moment_s).anomalies += 1
            found.append(str(death))
        return found

    @property
    def deaths(self) -> list[Death]:
        return [*self.load.deaths, *self.pairs.deaths]

    def _end(self, workers: Sequence[Worker]) -> None:
        for worker in workers:
            worker.stop()
        for worker in workers:
            error = worker.join(_END_S)
            if error is not None:
                self.load.deaths.append(Death(worker.name, repr(error), worker.ended_s))

    def _let_readers_catch_up(self) -> dict[int, list[tuple[int, bytes]]]:
        """Returns what stands in the log of the load in the end."""
        final = read_load(self.cluster.bootstrap)
        deadline_s = time.monotonic() + CATCH_UP_S
        copied = {copy.name: copy.copied for copy in self.copies}
        while not caught_up(self.load, final, copied) and time.monotonic() < deadline_s:
            time.sleep(0.2)
        return final

    def _judge_clients(self, final: dict[int, list[tuple[int, bytes]]]) -> list[str]:
        bootstrap = self.cluster.bootstrap
        return [
            *judge_load(self.load, final),
            *judge_copies(bootstrap, final),
            *judge_pairs(bootstrap, self.pairs, self.pairs_seen),
        ]

    def _sent_s(self, anomaly: str) -> float | None:
        """When the value that an anomaly names was sent."""
        return self.load.sent_s.get(value_in(anomaly) or b"")

    def _cost_of(self, moment_s: float | None) -> Cost:
        """Of the fault in whose time something happened."""
        for since_s, until_s, name in self._windows:
            if moment_s is not None and since_s <= moment_s <= until_s:
                return self.costs[name]
        return self.costs.setdefault("between faults", Cost())

    def table(self) -> str:
        """What each kind of fault cost, and which clients died of what."""
        lines = ["fault           times  acknowledged  anomalies  died  longest gap"]
        for name, cost in sorted(self.costs.items()):
            lines.append(
                f"{name:14} {cost.times:6} {cost.acknowledged:13} {cost.anomalies:10}"
                f" {cost.died:5} {cost.longest_gap_s:10.1f} s"
            )
        lines.append(f"clients that died: {len(self.deaths)}")
        lines += [f"  {death}" for death in self.deaths]
        return "\n".join(lines)

    def summary(self) -> str:
        copies = ", ".join(
            f"{copy.name} {copy.commits} commits and {copy.restarts} restarts"
            for copy in self.copies
        )
        return (
            f"{self.load.acknowledgements.count()} records acknowledged,"
            f" {len(self.load.failures)} sends failed; {self.pairs.summary()}; {copies}"
        )


def possible(run: HostsRun, wanted: Sequence[str]) -> list[str]:
    """The faults that this machine and this store allow; says which they do not."""
    for name in wanted:
        if name in run.missing:
            print(f"left out: {name} ({run.missing[name]})", flush=True)
    return [name for name in wanted if name in run.faults.by_name]
