"""Measure Odradek and Apache Kafka side by side, alternating, with the same clients, in one run.

    python -m benchmarks [--quick] [--only NAME]... [--rounds N] [--json FILE] [--page]

Both brokers run on this machine with their defaults; each scenario runs on one, then on the other,
and who goes first changes every round. Figures are medians over the rounds. ``--page`` writes the
table and a plot to docs/performance.md. Without Java or mvn it measures Odradek alone, and says so.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TypeVar

from benchmarks import coordinators, scenarios
from benchmarks.apache_kafka import ApacheKafka
from benchmarks.broker_process import (
    BrokerProcess,
    ToolMissing,
    odradek_broker,
    start_odradek,
)
from benchmarks.figures import Figures, Results
from benchmarks.report import PAGE, plain_table, write_page
from benchmarks.scenarios import FULL, QUICK, Effort

OURS, THEIRS = "Odradek", "Apache Kafka"
# Scenarios create and delete topics. With this setting neither broker keeps the files of deleted
# topics for a minute.
# On both brokers groups start without a delay, and members of the new protocol send a heartbeat
# every half second.
OVERRIDES = {
    "log.segment.delete.delay.ms": "1000",
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.consumer.min.heartbeat.interval.ms": "500",
}
SETTLING_S = 3.0

Scenario = Callable[[BrokerProcess, Effort], Figures]
T = TypeVar("T")


def broker_scenarios(kafka: ApacheKafka | None) -> dict[str, Scenario]:
    """Returns the scenarios for a running broker by name, in the order of the table."""
    plan: dict[str, Scenario] = {}
    for record_bytes in (100, 1000):
        for partitions in (1, 12):
            for acks in ("1", "all"):
                plan[f"throughput-{record_bytes}B-{partitions}p-acks-{acks}"] = partial(
                    scenarios.throughput,
                    record_bytes=record_bytes,
                    partitions=partitions,
                    acks=acks,
                )
    if kafka is not None:
        plan["java-producer"] = partial(scenarios.java_producer, kafka=kafka)
    plan["requests"] = scenarios.one_record_requests
    plan["latency"] = scenarios.librdkafka_latency
    plan["wire-latency"] = scenarios.wire_latency
    plan["slow-connections"] = scenarios.slow_connections
    plan["commits"] = coordinators.commits
    for protocol in ("classic", "consumer"):
        plan[f"join-{protocol}"] = partial(coordinators.joins, protocol=protocol)
    plan["transactions"] = coordinators.transactions
    plan["read-committed"] = coordinators.read_committed
    return plan


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--quick", action="store_true", help="small loads: does everything work?")
    parser.add_argument(
        "--only",
        action="append",
        metavar="NAME",
        help="only scenarios whose name begins so; may be repeated (see --list)",
    )
    parser.add_argument("--list", action="store_true", help="name the scenarios and end")
    parser.add_argument("--rounds", type=int, default=3, help="times everything is measured (3)")
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="write every value of every round"
    )
    parser.add_argument("--page", action="store_true", help=f"write the result to {PAGE.name}")
    parser.add_argument("--without-kafka", action="store_true", help="measure Odradek alone")
    parser.add_argument("--data", type=Path, help="where the brokers keep their data (a new one)")
    return parser.parse_args()


def say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def find_kafka(*, wanted: bool) -> ApacheKafka | None:
    if not wanted:
        return None
    try:
        return ApacheKafka.install()
    except ToolMissing as missing:
        say(f"Apache Kafka cannot be had, measuring Odradek alone: {missing}")
        return None


class Run:
    """One run of the benchmarks."""

    def __init__(self, options: argparse.Namespace, kafka: ApacheKafka | None, data: Path) -> None:
        self.effort = QUICK if options.quick else FULL
        self.rounds: int = options.rounds
        self.only: list[str] | None = options.only
        self.kafka = kafka
        self.data = data
        self.results = Results()

    def wants(self, name: str) -> bool:
        return self.only is None or any(name.startswith(beginning) for beginning in self.only)

    def measure_all(self) -> None:
        if self.wants("cold-start"):
            self.measure_cold_start()
        plan = {
            name: scenario
            for name, scenario in broker_scenarios(self.kafka).items()
            if self.wants(name)
        }
        if not plan and not self.wants("memory"):
            return
        with self.running_brokers() as brokers:
            if self.wants("memory"):
                time.sleep(SETTLING_S)
                self.note_memory(brokers, "memory when idle")
            if plan:
                self.warm_up(brokers)
            for number in range(self.rounds):
                for name, scenario in plan.items():
                    self.measure(name, scenario, brokers, number)
            if self.wants("memory") and plan:
                self.note_memory(brokers, "memory after the load")

    @contextmanager
    def running_brokers(self) -> Iterator[list[BrokerProcess]]:
        say("starting the brokers")
        with ExitStack() as stack:
            brokers = [stack.enter_context(odradek_broker(self.data / "odradek", OVERRIDES))]
            if self.kafka is not None:
                kafka = self.kafka.broker(self.data / "apache-kafka", OVERRIDES)
                brokers.append(stack.enter_context(kafka))
            yield brokers

    def warm_up(self, brokers: Sequence[BrokerProcess]) -> None:
        """Runs a load of the measured size first, so that Java's just-in-time compiler has done its
        work."""
        for broker in brokers:
            say(f"warming up {broker.name}")
            for record_bytes, partitions in ((100, 1), (100, 12), (1000, 1), (1000, 12)):
                scenarios.throughput(
                    broker,
                    self.effort,
                    record_bytes=record_bytes,
                    partitions=partitions,
                    acks="1",
                )
            scenarios.one_record_requests(broker, self.effort)

    def measure(
        self, name: str, scenario: Scenario, brokers: Sequence[BrokerProcess], number: int
    ) -> None:
        for broker in _in_turn(brokers, number):
            figures = scenario(broker, self.effort)
            self.results.add(broker.name, figures)
            shown = ", ".join(f"{value:,.4g}" for value in figures.values())
            say(f"round {number + 1}/{self.rounds} {name} {broker.name}: {shown}")

    def measure_cold_start(self) -> None:
        for number in range(self.rounds):
            starts: dict[str, Callable[[], BrokerProcess]] = {
                OURS: partial(start_odradek, self.data / f"cold-odradek-{number}")
            }
            if self.kafka is not None:
                # Formatting Kafka's storage is not counted: it is done once, by another command.
                starts[THEIRS] = self.kafka.prepare(self.data / f"cold-kafka-{number}").start
            for name in _in_turn(list(starts), number):
                figures = scenarios.first_acknowledgement(starts[name])
                self.results.add(name, figures)
                shown = ", ".join(f"{value:.3f} s" for value in figures.values())
                say(f"round {number + 1}/{self.rounds} cold-start {name}: {shown}")

    def note_memory(self, brokers: Sequence[BrokerProcess], name: str) -> None:
        for broker in brokers:
            figures = scenarios.memory(broker, name)
            self.results.add(broker.name, figures)
            say(f"{name} {broker.name}: {figures[name]:.0f} MB")


def _in_turn(items: Sequence[T], number: int) -> list[T]:
    """Returns the items, reversed in every second round."""
    return list(items) if number % 2 == 0 else list(reversed(items))


def main() -> int:
    options = arguments()
    if options.list:
        print("\n".join(["cold-start", *broker_scenarios(None), "java-producer", "memory"]))
        return 0
    kafka = find_kafka(wanted=not options.without_kafka)
    with tempfile.TemporaryDirectory(prefix="odradek-benchmark-", dir=options.data) as directory:
        run = Run(options, kafka, Path(directory))
        run.measure_all()
    comparisons = run.results.compare(OURS, THEIRS)
    print(plain_table(comparisons))
    if options.json:
        values: Mapping[str, object] = run.results.values
        options.json.write_text(json.dumps(values, indent=2) + "\n")
    if options.page:
        size = "a quick run, good only to see that it works" if options.quick else "a full run"
        write_page(comparisons, f"{size}, medians of {options.rounds} rounds")
        say(f"wrote {PAGE}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
