"""Consumers that join and leave a group at random, while records come.

    python -m tests.scenarios.churn [--consumers 50] [--seconds 120] [--seed N]
                                    [--protocol classic|consumer] [--assignor NAME]

A real broker, real librdkafka consumers, each in a process of its own. Most leave by closing, some
are killed. What must hold: no partition has two owners at once (``ownership`` says how that is
known), every record is delivered at least once, and in the end every offset is committed. How long
rebalances take is printed: from a join or leave until every partition has one owner and every
consumer a partition.
"""

import argparse
import multiprocessing
import random
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import TypeVar

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.broker_process import BrokerProcess, odradek_broker
from benchmarks.figures import percentile
from tests.scenarios.churn_member import Runs, consume
from tests.scenarios.ownership import (
    Event,
    Rebalance,
    What,
    intervals,
    owned_twice,
    rebalances,
)

TOPIC, GROUP = "churn", "churning"
SESSION_TIMEOUT_MS = 6_000
HEARTBEAT_MS = 500
RECORDS_A_SECOND = 500
MEAN_GAP_S = 1.5
KILLED_OF_LEAVING = 0.1
PATIENCE_S = 60.0
QUIET = {"log_level": 0}

T = TypeVar("T")


@dataclass
class Tally:
    """What the run saw, for people."""

    protocol: str
    consumers: int
    events: list[Event] = field(default_factory=list)
    rebalances: list[Rebalance] = field(default_factory=list)
    records: int = 0
    deliveries: int = 0
    broker_cpu: float = 0.0

    def count(self, what: What) -> int:
        return sum(event.what is what for event in self.events)

    def percentile_s(self, at: float) -> float:
        return percentile([each.duration_s for each in self.rebalances], at)

    def __str__(self) -> str:
        held_up = sum(each.is_held_up for each in self.rebalances)
        return (
            f"{self.protocol} protocol, up to {self.consumers} consumers:"
            f" {self.count(What.SUBSCRIBED)} joined, {self.count(What.CLOSING)} closed,"
            f" {self.count(What.KILLED)} were killed, {self.count(What.LOST)} were put out;"
            f" no partition had two owners at once;"
            f" {self.records} records, each delivered, {self.deliveries - self.records} again;"
            f" {len(self.rebalances)} rebalances ({held_up} held up by a killed consumer):"
            f" p50 {self.percentile_s(0.5):.2f} s, p99 {self.percentile_s(0.99):.2f} s,"
            f" longest {self.percentile_s(1):.2f} s;"
            f" the broker used {self.broker_cpu:.0%} of a core"
        )


@dataclass(slots=True)
class Member:
    """A consumer's process, seen from here."""

    name: str
    process: ForkServerProcess
    pipe: Connection
    has_joined: bool = False
    is_leaving: bool = False


class Churn:
    def __init__(
        self, directory: Path, *, consumers: int, protocol: str, seed: int, assignor: str
    ) -> None:
        self._directory = directory
        self._consumers = consumers
        self._partitions = consumers * 2
        self._protocol = protocol
        self._assignor = assignor
        self._random = random.Random(seed)
        self._processes = multiprocessing.get_context("forkserver")
        # Members come from a process that has everything loaded: a join shall not cost a start.
        self._processes.set_forkserver_preload(["__main__", "tests.scenarios.churn_member"])
        self._members: dict[str, Member] = {}
        self._joined = 0
        self._read: dict[int, Runs] = {number: [] for number in range(self._partitions)}
        self._sent = 0
        self._undelivered: list[KafkaError] = []
        self.tally = Tally(protocol, consumers)

    def run(self, seconds: float) -> Tally:
        overrides = {
            "group.initial.rebalance.delay.ms": "0",
            "group.consumer.heartbeat.interval.ms": str(HEARTBEAT_MS),
            "group.consumer.min.heartbeat.interval.ms": str(HEARTBEAT_MS),
            "group.consumer.session.timeout.ms": str(SESSION_TIMEOUT_MS),
            "group.consumer.min.session.timeout.ms": str(SESSION_TIMEOUT_MS),
        }
        with odradek_broker(self._directory, overrides) as broker:
            try:
                self._churn(broker, seconds)
            finally:
                for member in list(self._members.values()):
                    member.process.kill()
                    member.process.join()
        self._check_owners()
        return self.tally

    def _churn(self, broker: BrokerProcess, seconds: float) -> None:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap, **QUIET})
        admin.create_topics([NewTopic(TOPIC, self._partitions, 1)])[TOPIC].result(PATIENCE_S)
        producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 5, **QUIET})
        for _ in range(self._consumers):
            self._join(broker)
        self._until(lambda: self._is_settled() or None, "the first consumers did not settle")
        began_s, used_s = time.monotonic(), broker.usage().cpu_s
        due_s = began_s
        while time.monotonic() < began_s + seconds:
            self._produce(producer, began_s)
            if time.monotonic() >= due_s:
                self._disturb(broker)
                due_s += self._random.expovariate(1 / MEAN_GAP_S)
            self._listen(0.01)
        self.tally.broker_cpu = (broker.usage().cpu_s - used_s) / (time.monotonic() - began_s)
        assert producer.flush(PATIENCE_S) == 0, "records were never acknowledged"
        assert not self._undelivered, self._undelivered[0]
        self._until(lambda: self._is_settled() or None, "the group did not settle in the end")
        # What the start of everybody at once took is not asked here, nor what their end takes.
        self.tally.rebalances = [each for each in self._settled()[0] if each.began_s >= began_s]
        ends = self._until_committed(broker)
        # What they said before they closed has been heard then, to the last word.
        self._close_all()
        self._check_delivered(ends)

    # What happens

    def _join(self, broker: BrokerProcess) -> None:
        self._joined += 1
        name = f"consumer-{self._joined}"
        settings: dict[str, str | int | bool] = {
            "bootstrap.servers": broker.bootstrap,
            "group.id": GROUP,
            "client.id": name,
            "group.protocol": self._protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **QUIET,
        }
        if self._protocol == "classic":
            settings |= {
                "partition.assignment.strategy": self._assignor,
                "heartbeat.interval.ms": HEARTBEAT_MS,
                "session.timeout.ms": SESSION_TIMEOUT_MS,
            }
        ours, theirs = self._processes.Pipe()
        process = self._processes.Process(target=consume, args=(name, TOPIC, settings, theirs))
        process.start()
        theirs.close()
        self._members[name] = Member(name, process, ours)

    def _disturb(self, broker: BrokerProcess) -> None:
        staying = [member for member in self._members.values() if not member.is_leaving]
        may_leave = [member for member in staying if member.has_joined]
        if len(staying) < self._consumers and self._random.random() < 0.5:
            self._join(broker)
        elif len(may_leave) > 1:
            member = self._random.choice(may_leave)
            member.is_leaving = True
            if self._random.random() < KILLED_OF_LEAVING:
                self.tally.events.append(Event(time.monotonic(), member.name, What.KILLED))
                member.process.kill()
            else:
                member.pipe.send("close")

    def _produce(self, producer: Producer, began_s: float) -> None:
        while self._sent < (time.monotonic() - began_s) * RECORDS_A_SECOND:
            producer.produce(
                TOPIC,
                b"%d" % self._sent,
                partition=self._sent % self._partitions,
                on_delivery=self._delivered,
            )
            self._sent += 1
        producer.poll(0)

    def _delivered(self, error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            self._undelivered.append(error)

    # What is heard

    def _listen(self, timeout_s: float) -> None:
        by_pipe = {member.pipe: member for member in self._members.values()}
        for ready in wait(list(by_pipe), timeout_s):
            assert isinstance(ready, Connection)
            member = by_pipe[ready]
            try:
                said = ready.recv()
            except (EOFError, OSError):
                self._has_ended(member)
                continue
            if isinstance(said, Event):
                self.tally.events.append(said)
                member.has_joined = True
            else:
                for run in said:
                    self._read[run[0]].append(run)

    def _has_ended(self, member: Member) -> None:
        member.process.join(PATIENCE_S)
        assert member.is_leaving, f"{member.name} ended with {member.process.exitcode}"
        member.pipe.close()
        del self._members[member.name]

    def _until(self, look: Callable[[], T | None], otherwise: str) -> T:
        deadline = time.monotonic() + PATIENCE_S
        while (found := look()) is None:
            assert time.monotonic() < deadline, otherwise
            self._listen(0.05)
        return found

    def _settled(self) -> tuple[list[Rebalance], list[Event]]:
        # Its last heartbeat may have been an interval before its death.
        known_after_s = (SESSION_TIMEOUT_MS - HEARTBEAT_MS) / 1000
        return rebalances(self.tally.events, self._partitions, known_after_s)

    def _is_settled(self) -> bool:
        return self.tally.count(What.SUBSCRIBED) == self._joined and not self._settled()[1]

    def _close_all(self) -> None:
        for member in self._members.values():
            member.is_leaving = True
            member.pipe.send("close")
        self._until(lambda: True if not self._members else None, "a consumer did not close")

    # What must hold

    def _until_committed(self, broker: BrokerProcess) -> list[int]:
        """Where each partition ends, once the group has come there."""
        settings = {"bootstrap.servers": broker.bootstrap, "group.id": GROUP, **QUIET}
        looker = Consumer({**settings, "enable.auto.commit": False})
        asked = [TopicPartition(TOPIC, number) for number in range(self._partitions)]
        ends = [looker.get_watermark_offsets(each, PATIENCE_S)[1] for each in asked]
        assert sum(ends) == self._sent, f"{self._sent} were sent, {sum(ends)} are there"

        def all_committed() -> bool | None:
            found = [each.offset for each in looker.committed(asked, PATIENCE_S)]
            return found == ends or None

        self._until(all_committed, "not everything was committed")
        looker.close()
        return ends

    def _check_delivered(self, ends: Sequence[int]) -> None:
        for partition, end in enumerate(ends):
            position = 0
            for _, first, after in sorted(self._read[partition], key=lambda run: run[1]):
                assert first <= position, f"{TOPIC}-{partition} {position} was never delivered"
                position = max(position, after)
            assert position == end, f"{TOPIC}-{partition} {position} was never delivered"
        self.tally.records = self._sent
        self.tally.deliveries = sum(
            after - first for read in self._read.values() for _, first, after in read
        )

    def _check_owners(self) -> None:
        problems = owned_twice(intervals(self.tally.events))
        assert not problems, "\n".join(problems[:5])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--consumers", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--protocol", choices=("classic", "consumer"), default="classic")
    parser.add_argument("--assignor", default="range", help="of the classic protocol")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--each", action="store_true", help="show every rebalance")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="odradek-churn-") as directory:
        churn = Churn(
            Path(directory),
            consumers=options.consumers,
            protocol=options.protocol,
            seed=options.seed,
            assignor=options.assignor,
        )
        tally = churn.run(options.seconds)
        for each in tally.rebalances if options.each else ():
            print(each)
        print(tally)
    return 0


if __name__ == "__main__":
    sys.exit(main())
