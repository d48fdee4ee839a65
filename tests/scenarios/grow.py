"""One broker with records and live clients becomes a cluster of three: nothing lost, nothing twice.

    python -m tests.scenarios.grow [--records N] [--interrupt WHAT]

`odradek up` gets N records. Then an idempotent producer with acks=all, a transactional producer and
a consumer group go on at it while `odradek local grow` makes it a cluster. With `--interrupt`,
something is killed with kill -9 on the way, and the same command is given again:

    command   `odradek local grow` itself, when it has begun to make copies
    move      the process in the background, when it has begun to move the data
    cluster   the same process, when copies are made: the brokers stop then
    old       the broker that has all the data, when copies are made; it is brought back as the
              command says
    new       a new broker, in the same way

What must hold at the end: each acknowledged record is in the log exactly once and in order; the
group has read each record exactly once; the transactions that were committed can be read; every
topic, internal ones too, has three replicas in sync and requires two; and the leaders are on all
three brokers. Printed: the longest time in which no record was acknowledged, and in which the group
read nothing.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic

from tests.scenarios.chaos_load import Worker
from tests.scenarios.grow_load import (
    CLIENT,
    PAIRS,
    PARTITIONS,
    PATIENCE_S,
    TOPIC,
    LiveGroup,
    LiveProducer,
    LiveTransactions,
    a_consumer,
    end_of_run,
    read_log,
    verdict_on,
    wait_until,
)
from tests.scenarios.up_process import COMMAND, three_free_ports, wait_for_line

INTERRUPTS: Final = ("command", "move", "cluster", "old", "new")
# These have their own `min.insync.replicas`, which is the same afterwards.
CARELESS: Final = "careless"
OWN: Final = {PAIRS: "3", CARELESS: "1"}
# A flag of the single broker: all brokers have it afterwards.
OVERRIDE: Final = "log.retention.hours=999"
# A run that is interrupted moves few partitions of the coordinators: with all hundred of them most
# of its time would go to what the run without an interruption tests as well.
FEW: Final = ("offsets.topic.num.partitions=6", "transaction.state.log.num.partitions=6")
_MIN_ISR: Final = "min.insync.replicas"
# Before and after the growth, so that the longest pause is one between two acknowledgements.
_STEADY_S: Final = 1.0


@dataclass
class Outcome:
    """What the run saw, for people and for tests."""

    records: int = 0
    transactions: int = 0
    took_s: float = 0.0
    longest_pause_s: float = 0.0
    longest_silence_s: float = 0.0
    lost: int = 0
    doubled: int = 0
    unread: int = 0
    read_twice: int = 0
    problems: list[str] = field(default_factory=list)

    @property
    def is_sound(self) -> bool:
        return not (self.lost or self.doubled or self.unread or self.read_twice or self.problems)

    def __str__(self) -> str:
        sent = f"{self.records:,} records and {self.transactions} transactions acknowledged"
        log = f"log: {self.lost} lost, {self.doubled} doubled"
        group = f"group: {self.unread} unread, {self.read_twice} read twice"
        pause = f"longest time without an acknowledgement {self.longest_pause_s:.2f} s"
        silence = f"longest time in which the group read nothing {self.longest_silence_s:.2f} s"
        return "\n".join(
            [
                f"{sent}; grown in {self.took_s:.1f} s",
                f"{log}; {group}",
                f"{pause}, {silence}",
                *self.problems,
            ]
        )


class GrowScenario:
    """A broker, its clients and the command, in a directory of their own."""

    def __init__(self, directory: Path, records: int) -> None:
        self._data = directory / "data"
        self._records = records
        self._port = three_free_ports()
        self.bootstrap = f"127.0.0.1:{self._port}"
        self.outcome = Outcome()
        # A broker that was brought back by hand.
        self._by_hand: subprocess.Popen[bytes] | None = None

    def run(self, interrupt: str | None = None) -> Outcome:
        words = ["up", "--port", str(self._port), "--data", str(self._data)]
        for override in (OVERRIDE, *(() if interrupt is None else FEW)):
            words += ["--override", override]
        with subprocess.Popen([*COMMAND, *words], stdout=subprocess.PIPE, text=True) as broker:
            try:
                wait_for_line(broker, "odradek is ready at ")
                self._run_clients(interrupt)
                assert broker.wait(PATIENCE_S) == 0, "the single broker did not stop cleanly"
            finally:
                broker.kill()
                self._stop_cluster()
        return self.outcome

    def _run_clients(self, interrupt: str | None) -> None:
        admin = AdminClient({"bootstrap.servers": self.bootstrap, **CLIENT})
        own = [NewTopic(name, 2, 1, config={_MIN_ISR: value}) for name, value in OWN.items()]
        topics = [NewTopic(TOPIC, PARTITIONS, 1), *own]
        for made in admin.create_topics(topics).values():
            made.result(PATIENCE_S)
        producer = LiveProducer(self.bootstrap, 0)
        producer.fill(self._records)
        group, transactions = LiveGroup(self.bootstrap), LiveTransactions(self.bootstrap)
        transactions.begin()
        workers: list[Worker] = [producer, group, transactions]
        for worker in workers:
            worker.start()
        wait_until(lambda: len(group.read) > self._records, "the group did not read what was there")
        group.is_measuring = True
        time.sleep(_STEADY_S)
        began_s = time.monotonic()
        self._grow(interrupt)
        self.outcome.took_s = time.monotonic() - began_s
        time.sleep(_STEADY_S)
        group.is_measuring = False
        for worker in (producer, transactions):
            worker.finish()
        with suppress(AssertionError):  # what is missing is counted below
            wait_until(lambda: len(group.read) >= producer.next_value, "the group has not read all")
        group.finish()
        self._judge(producer, group, transactions)

    # The command

    def _grow(self, interrupt: str | None) -> None:
        command = [*COMMAND, "local", "grow", "--data", str(self._data)]
        if interrupt is None:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            print(done.stdout, done.stderr, sep="", end="", flush=True)
            assert done.returncode == 0, done.stderr
            return
        kills: dict[str, Callable[[subprocess.Popen[str]], None]] = {
            "command": self._kill_command,
            "move": self._kill_move,
            "cluster": self._kill_cluster,
            "old": partial(self._kill_broker, 1),
            "new": partial(self._kill_broker, 2),
        }
        # Slow copies, so that the kill comes before they are complete.
        with subprocess.Popen(
            [*command, "--throttle", "40kB"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as first:
            try:
                kills[interrupt](first)
            finally:
                first.kill()
        self._grow(None)

    def _wait_for_copies(self, command: "subprocess.Popen[str]") -> None:
        """Returns when the topic of the producer gets its copies, and has not got them."""
        wait_for_line(command, "brokers are ready")
        admin = AdminClient({"bootstrap.servers": self.bootstrap, **CLIENT})

        def has_begun() -> bool:
            topic = admin.list_topics(TOPIC, timeout=PATIENCE_S).topics[TOPIC]
            return any(len(partition.replicas) > 1 for partition in topic.partitions.values())

        wait_until(has_begun, "no copies are made")

    def _kill_command(self, command: "subprocess.Popen[str]") -> None:
        self._wait_for_copies(command)
        command.kill()
        print("killed the command while it made copies", flush=True)

    def _kill_cluster(self, command: "subprocess.Popen[str]") -> None:
        """Kills the parent of the brokers, which stop by themselves, and the command."""
        self._wait_for_copies(command)
        os.kill(int((self._data / "up.pid").read_text()), signal.SIGKILL)
        command.kill()
        print("killed the cluster and the command while copies were made", flush=True)

    def _kill_move(self, command: "subprocess.Popen[str]") -> None:
        """Kills the process that moves the data, and the command. If the move was quicker, the
        cluster is killed while it starts."""
        wait_until(
            lambda: (self._data / ".growing").exists() or (self._data / "broker-2").exists(),
            "the move did not begin",
        )
        process = int((self._data / "up.pid").read_text())
        os.kill(process, signal.SIGKILL)
        state = "moved" if (self._data / ".growing").exists() else "had just moved"
        command.kill()
        print(f"killed the process that {state} the data, and the command", flush=True)

    def _kill_broker(self, number: int, command: "subprocess.Popen[str]") -> None:
        """Kills a broker. The command says how to bring it back, and ends."""
        self._wait_for_copies(command)
        os.kill(int((self._data / f"broker-{number}" / "broker.pid").read_text()), signal.SIGKILL)
        said = wait_for_line(command, "bring it back with")
        print(f"killed broker {number}; the command says: {said}", end="", flush=True)
        assert command.wait(PATIENCE_S) == 1
        words = said.split("`odradek ")[1].split("`")[0].split()
        self._by_hand = subprocess.Popen([*COMMAND, *words], stdout=subprocess.DEVNULL)

    def _stop_cluster(self) -> None:
        stop = [*COMMAND, "local", "stop", "--data", str(self._data)]
        subprocess.run(stop, capture_output=True, check=False, timeout=PATIENCE_S)
        if self._by_hand is not None:
            self._by_hand.wait(PATIENCE_S)

    # The judgement

    def _judge(
        self, producer: LiveProducer, group: LiveGroup, transactions: LiveTransactions
    ) -> None:
        outcome = self.outcome
        outcome.records = len(producer.acknowledged)
        outcome.transactions = transactions.committed
        outcome.longest_pause_s = producer.longest_pause_s
        outcome.longest_silence_s = group.longest_silence_s
        log = read_log(self.bootstrap, TOPIC, PARTITIONS)
        outcome.lost, outcome.doubled, problems = verdict_on(log, producer)
        outcome.problems += problems
        outcome.unread = sum(map(len, log)) - len(group.read)
        outcome.read_twice = sum(count - 1 for count in group.read.values())
        for partition, records in enumerate(read_log(self.bootstrap, PAIRS, 2)):
            if [value for value, _ in records] != list(range(transactions.committed)):
                outcome.problems.append(f"{PAIRS}-{partition} has not each transaction once")
        self._judge_offsets(log)
        self._judge_cluster()

    def _judge_offsets(self, log: list[list[tuple[int, int]]]) -> None:
        """The offsets that the group has committed are there, and are those of the ends."""
        with a_consumer(self.bootstrap, "readers", auto_commit=False) as consumer:
            places = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
            for place in consumer.committed(places, timeout=PATIENCE_S):
                if place.offset != len(log[place.partition]):
                    self.outcome.problems.append(
                        f"the group committed {place.offset} of {TOPIC}-{place.partition}, which"
                        f" has {len(log[place.partition])} records"
                    )

    def _judge_cluster(self) -> None:
        admin = AdminClient({"bootstrap.servers": self.bootstrap, **CLIENT})
        problems = self.outcome.problems
        leaders = set()
        topics = admin.list_topics(timeout=PATIENCE_S).topics
        for name in ("__consumer_offsets", "__transaction_state", TOPIC, *OWN):
            for index, partition in topics[name].partitions.items():
                leaders.add(partition.leader)
                if sorted(partition.isrs) != [1, 2, 3] or sorted(partition.replicas) != [1, 2, 3]:
                    problems.append(f"{name}-{index} is on {partition.replicas}, {partition.isrs}")
        if leaders != {1, 2, 3}:
            problems.append(f"only {leaders} lead")
        resources = [ConfigResource(ConfigResource.Type.TOPIC, name) for name in topics]
        for resource, described in admin.describe_configs(resources).items():
            entries = described.result(PATIENCE_S)
            if entries[_MIN_ISR].value != OWN.get(resource.name, "2"):
                problems.append(f"{resource.name} requires {entries[_MIN_ISR].value} in sync")
            for name, entry in entries.items():
                if "throttled" in name and entry.value:
                    problems.append(f"{resource.name} is still throttled: {name}={entry.value}")
        for number in (1, 2, 3):
            file = self._data / f"broker-{number}" / "server.properties"
            if OVERRIDE not in file.read_text():
                problems.append(f"{file} lacks {OVERRIDE}")
        if (self._data / "grow.json").exists():
            problems.append("grow.json is still there")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--interrupt", choices=INTERRUPTS)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="odradek-grow-"))
    outcome = GrowScenario(directory, options.records).run(options.interrupt)
    return end_of_run(outcome, directory, as_json=options.json)


if __name__ == "__main__":
    sys.exit(main())
