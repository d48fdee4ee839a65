"""A cluster under load to which faults are done one after the other; then the judgement.

Each fault is noted with what it cost: how long partitions were without a leader by the brokers'
metadata, and the longest time in which the clients' acknowledgements stood still.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol, Self

from odradek.protocol.types import TopicPartition
from simulation.checkers import History
from tests.scenarios.chaos_cluster import ChaosCluster, Seat
from tests.scenarios.chaos_load import (
    LOAD,
    PAIRS,
    Follower,
    IdempotentLoad,
    TransactionalLoad,
    create_topics,
    judge_load,
    judge_transactions,
    longest_silence_s,
    not_allowed,
    read_all,
)
from tests.scenarios.chaos_watch import Watch

REPLICAS = 3
# What every value of the load begins with; an encrypted topic leaves it in no file.
MARKER: Final = "chaos-producer-"
_ELECTION_S = 60.0
_WELL = "every acknowledged record once and in order, no aborted record read"


@dataclass(frozen=True, slots=True)
class Cost:
    """What a fault cost."""

    fault: str
    broker: int
    role: str
    without_leader_s: float
    silence_s: float
    in_sync_s: float

    def __str__(self) -> str:
        return (
            f"{self.fault:<16} broker {self.broker} ({self.role}): without a leader"
            f" {self.without_leader_s:.2f} s, longest silence {self.silence_s:.2f} s,"
            f" in sync after {self.in_sync_s:.2f} s"
        )


class ChaosRun:
    """Use it with `with`; `suffer` any number of faults, then `judge` once."""

    def __init__(
        self,
        cluster: ChaosCluster,
        *,
        partitions: int,
        producers: int = 2,
        rate: int = 300,
        transactions: bool = True,
    ) -> None:
        self.cluster = cluster
        self._partitions = partitions
        self._producers = producers
        self._rate = rate
        self._with_transactions = transactions
        self._stack = ExitStack()
        self.costs: list[Cost] = []

    def __enter__(self) -> Self:
        bootstrap, login = self.cluster.bootstrap, self.cluster.login
        create_topics(
            bootstrap, self._partitions, login=login, settings=self.cluster.topic_settings
        )
        addresses = {seat.id: (seat.host, seat.port) for seat in self.cluster.seats.values()}
        self.watch = self._stack.enter_context(
            Watch(addresses, [LOAD, PAIRS], self.cluster.own_login)
        )
        self.watch.wait_until_in_sync(REPLICAS)
        self.history = History()
        self.producers = [
            IdempotentLoad(
                *(f"{MARKER}{number}", bootstrap, self._partitions, self._rate, self.history),
                login=login,
            )
            for number in range(self._producers)
        ]
        self.transactions = (
            TransactionalLoad(bootstrap, login=login) if self._with_transactions else None
        )
        self.follower = Follower(bootstrap, LOAD, self._partitions, self.history, login)
        self._workers = [
            *self.producers,
            *([self.transactions] if self.transactions is not None else []),
            self.follower,
        ]
        for worker in self._workers:
            worker.start()
        self._wait_for_acknowledgements()
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._workers:
            worker.stop()
        self._stack.close()

    def _wait_for_acknowledgements(self) -> None:
        """Every partition has acknowledged something new to every producer."""
        since_s = time.monotonic()
        while not all(
            producer.acknowledged_s[partition] and producer.acknowledged_s[partition][-1] >= since_s
            for producer in self.producers
            for partition in range(self._partitions)
        ):
            assert time.monotonic() - since_s < 60, "nothing is acknowledged any more"
            time.sleep(0.01)

    # Faults

    def suffer(self, name: str, seat: Seat, fault: Callable[[Seat], None]) -> Cost:
        """Does one fault and waits until all is well again."""
        role = self.role(seat.id)
        led = [one for one in self.watch.led_by(seat.id) if one.topic == LOAD]
        since_s = time.monotonic()
        fault(seat)
        over_s = time.monotonic()
        # A broker that was away comes back to ISRs only after metadata has shown so.
        self._wait_for_acknowledgements()
        in_sync_s = self._in_sync_again(over_s)
        self._wait_for_acknowledgements()
        until_s = time.monotonic()
        cost = Cost(
            name,
            seat.id,
            role,
            self.watch.without_leader_s(led, since_s),
            longest_silence_s(self.producers, since_s, until_s),
            in_sync_s,
        )
        self.costs.append(cost)
        return cost

    def _in_sync_again(self, since_s: float) -> float:
        """All replicas are in sync, and still are a moment later."""
        while True:
            self.watch.wait_until_in_sync(REPLICAS)
            reached_s = time.monotonic()
            time.sleep(0.2)
            if self.watch.wait_until_in_sync(REPLICAS) < 0.01:
                return reached_s - since_s

    def role(self, broker: int) -> str:
        led = [one for one in self.watch.led_by(broker) if one.topic == LOAD]
        parts = [f"leads {len(led)} of {self._partitions}"] if led else ["follower"]
        if broker == self.watch.controller():
            parts.append("controller")
        return ", ".join(parts)

    def seat_of(self, role: str) -> Seat:
        """The leader of partition 0, the controller, or somebody who is neither if there is one."""
        leader, controller = self.watch.leader(TopicPartition(LOAD, 0)), self.watch.controller()
        if role == "leader":
            return self.cluster.seats[leader]
        if role == "controller":
            return self.cluster.seats[controller]
        others = [seat for seat in self.cluster.seats.values() if seat.id != leader]
        return next((seat for seat in others if seat.id != controller), others[0])

    # Judging

    def judge(self) -> list[str]:
        """Everything that was wrong; empty if nothing was."""
        for worker in self._workers:
            worker.stop()
        for worker in self._workers:
            worker.finish()
        bootstrap, login = self.cluster.bootstrap, self.cluster.login
        final = read_all(bootstrap, LOAD, self._partitions, login)
        found = judge_load(self.history, self.producers, final)
        if self.transactions is not None:
            pairs = read_all(bootstrap, PAIRS, 2, login)
            found += judge_transactions(self.transactions.fates, pairs)
            found += [str(death) for death in not_allowed(self.transactions.deaths)]
        if self.cluster.is_encrypted:
            found += self.cluster.files_with(MARKER.encode())
        return [*found, *self.cluster.problems()]

    def summary(self) -> str:
        acknowledged = sum(
            len(times) for one in self.producers for times in one.acknowledged_s.values()
        )
        text = f"{acknowledged} records acknowledged"
        if self.transactions is not None:
            text += f"; {self.transactions.summary()}"
        return text


# Faults by name


def kill_and_restart(seat: Seat) -> None:
    seat.kill()
    seat.start()


def killed_until_others_lead(run: ChaosRun) -> Callable[[Seat], None]:
    """kill -9, and nobody starts it again before others lead what it led."""

    def kill(seat: Seat) -> None:
        seat.kill()
        deadline_s = time.monotonic() + _ELECTION_S
        while run.watch.led_by(seat.id):
            assert time.monotonic() < deadline_s, f"broker {seat.id} is dead and still leads"
            time.sleep(0.005)
        seat.start()

    return kill


def stop_and_restart(seat: Seat) -> None:
    seat.stop()
    seat.start()


def bounce(seat: Seat) -> None:
    for _ in range(5):
        seat.kill()
        seat.start()


def paused_for(seconds: float) -> Callable[[Seat], None]:
    def pause(seat: Seat) -> None:
        seat.pause()
        time.sleep(seconds)
        seat.resume()

    return pause


def cut_for(cluster: ChaosCluster, seconds: float) -> Callable[[Seat], None]:
    def cut(seat: Seat) -> None:
        cluster.cut(seat.id)
        time.sleep(seconds)
        cluster.heal(seat.id)

    return cut


def full_disk_for(seconds: float) -> Callable[[Seat], None]:
    """Afterwards the broker is started again, as its operator would do."""

    def fill(seat: Seat) -> None:
        with seat.full_disk():
            time.sleep(seconds)
        if seat.is_running:
            seat.kill()
        seat.start()

    return fill


def percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]


class Judged(Protocol):
    """A run that is over."""

    def summary(self) -> str: ...


def report(directory: Path, run: Judged, found: Sequence[str], well: str = _WELL) -> int:
    """Prints the end of a run; the exit code."""
    print(run.summary())
    for line in found[:20]:
        print(f"WRONG: {line}")
    if found:
        print(f"{len(found)} anomalies; see {directory}")
        return 1
    print(well)
    return 0
