"""Our own Python client beside aiokafka and confluent-kafka, on one broker in one run.

    python -m benchmarks.clients                      # 100,000 and 5,000,000 records of 100 bytes
    python -m benchmarks.clients --records 100000 --rounds 5 --loop uvloop

Each client works in a process of its own (`client_work`), one after the other; the order changes
every round, and a figure is the median over the rounds. A production counts only if the broker's
end offsets say that every record is there. All consumers read the same topic, which librdkafka
filled with batches of the same size. CPU is user and system time of the client's process.

Request and reply: one process sends a record and waits for the answer, another one with the same
client answers.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from typing import Any, Final

from benchmarks.broker_process import BrokerProcess, odradek_broker
from benchmarks.client_work import CLIENTS
from odradek.client import Admin, Consumer, TopicPartition

PRODUCING: Final = ("send", "send+gather")
CONSUMING: Final = ("iterate", "poll")
SAYS: Final = {
    "send": "produce: send, then flush",
    "send+gather": "produce: send 1,000, wait for all",
    "iterate": "consume: one record at a time",
    "poll": "consume: 500 records at a time",
}
BASELINE: Final = "aiokafka"
STOP_TIMEOUT_S: Final = 10.0


@dataclass(frozen=True)
class Figures:
    """What one process measured."""

    records_per_s: float
    cpu_us: float
    peak_mb: float


def median_of(rounds: Sequence[Figures]) -> Figures:
    return Figures(
        median(one.records_per_s for one in rounds),
        median(one.cpu_us for one in rounds),
        median(one.peak_mb for one in rounds),
    )


class Run:
    def __init__(self, options: argparse.Namespace, broker: BrokerProcess) -> None:
        self._options = options
        self._broker = broker
        self._topics = 0

    def measure(self) -> dict[str, Any]:
        """Measures everything, prints a table for each number of records, and returns all."""
        results: dict[str, Any] = {}
        for count in self._options.records:
            figures = self._throughput(count)
            print(table(count, self._options.record_bytes, figures), flush=True)
            results[str(count)] = {
                f"{work} {client}": vars(found) for (work, client), found in figures.items()
            }
        if self._options.pairs:
            results["pairs"] = pairs = self._request_reply()
            print(pairs_table(self._options.pairs, pairs), flush=True)
        return results

    # Producing and consuming

    def _throughput(self, count: int) -> dict[tuple[str, str], Figures]:
        found: dict[tuple[str, str], list[Figures]] = defaultdict(list)
        with self._new_topic() as filled:
            self._produce("confluent", "send", filled, count)
            for number in range(self._options.rounds):
                for work in self._options.works:
                    for client in in_turn(self._options.clients, number):
                        figures = self._once(client, work, filled, count)
                        found[work, client].append(figures)
                        say(f"{work} {client}: {figures}")
        return {key: median_of(rounds) for key, rounds in found.items()}

    def _once(self, client: str, work: str, filled: str, count: int) -> Figures:
        if work in PRODUCING:
            with self._new_topic() as topic:
                return self._produce(client, work, topic, count)
        return self._work(client, work, filled, count)

    def _produce(self, client: str, work: str, topic: str, count: int) -> Figures:
        figures = self._work(client, work, topic, count)
        end = asyncio.run(end_of(self._broker.bootstrap, topic))
        if end != count:
            raise RuntimeError(f"{client} sent {count} records to {topic}, {end} are there")
        return figures

    def _work(self, client: str, work: str, topic: str, count: int) -> Figures:
        command = self._command(client, work, topic, count, self._options.linger_ms)
        self._topics += 1
        command += ["--group", f"group-{self._topics}"]
        found = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
        return Figures(count / found["seconds"], found["cpu_s"] / count * 1e6, found["peak_mb"])

    def _command(self, client: str, work: str, topic: str, count: int, linger_ms: int) -> list[str]:
        options = {
            "bootstrap": self._broker.bootstrap,
            "records": count,
            "record-bytes": self._options.record_bytes,
            "linger-ms": linger_ms,
            "loop": self._options.loop,
        }
        command = [sys.executable, "-m", "benchmarks.client_work", client, work, topic]
        for name, value in options.items():
            command += [f"--{name}", str(value)]
        return command

    # Request and reply

    def _request_reply(self) -> dict[str, dict[str, float]]:
        found: dict[str, list[float]] = defaultdict(list)
        for number in range(self._options.rounds):
            for client in in_turn(self._options.clients, number):
                durations_ms = self._pairs(client)
                found[client] += durations_ms
                say(f"request/reply {client}: p50 {median(durations_ms):.2f} ms")
        return {client: percentiles(durations) for client, durations in found.items()}

    def _pairs(self, client: str) -> list[float]:
        with self._new_topic() as requests, self._new_topic() as replies:
            count = self._options.pairs
            answer = [*self._command(client, "reply", requests, 1, 0), "--replies", replies]
            ask = [*self._command(client, "ask", requests, count, 0), "--replies", replies]
            replier = subprocess.Popen(answer)
            try:
                asked = subprocess.run(ask, check=True, stdout=subprocess.PIPE).stdout
            finally:
                replier.kill()
                replier.wait(STOP_TIMEOUT_S)
        return [duration_s * 1000 for duration_s in json.loads(asked)["durations_s"]]

    @contextmanager
    def _new_topic(self) -> Iterator[str]:
        """A topic with one partition, deleted at the end."""
        self._topics += 1
        name = f"clients-{self._topics}"
        asyncio.run(create(self._broker.bootstrap, name))
        try:
            yield name
        finally:
            asyncio.run(delete(self._broker.bootstrap, name))


async def create(bootstrap: str, topic: str) -> None:
    async with Admin(bootstrap_servers=bootstrap) as admin:
        await admin.create_topic(topic, 1, 1)


async def delete(bootstrap: str, topic: str) -> None:
    async with Admin(bootstrap_servers=bootstrap) as admin:
        await admin.delete_topic(topic)


async def end_of(bootstrap: str, topic: str) -> int:
    """Returns the end offset of a topic's only partition."""
    partition = TopicPartition(topic, 0)
    async with Consumer(bootstrap_servers=bootstrap) as consumer:
        return (await consumer.end_offsets([partition]))[partition]


def in_turn(clients: Sequence[str], number: int) -> list[str]:
    """Returns the clients, with another one first in every round."""
    first = number % len(clients)
    return [*clients[first:], *clients[:first]]


def percentiles(durations_ms: Sequence[float]) -> dict[str, float]:
    cuts = quantiles(durations_ms, n=100, method="inclusive")
    return {"p50 ms": cuts[49], "p99 ms": cuts[98]}


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


# Tables


def table(count: int, record_bytes: int, figures: dict[tuple[str, str], Figures]) -> str:
    """Returns a table; the ratios are how many times better than aiokafka a client is."""
    lines = [
        f"\n{count:,} records of {record_bytes} bytes\n",
        "| work | client | records/s | of aiokafka's | CPU µs a record | better by | peak MB |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    for (work, client), one in figures.items():
        faster = cheaper = ""
        if (base := figures.get((work, BASELINE))) is not None:
            faster = f"{one.records_per_s / base.records_per_s:.2f}x"
            cheaper = f"{base.cpu_us / one.cpu_us:.2f}x"
        lines.append(
            f"| {SAYS[work]} | {client} | {one.records_per_s:,.0f} | {faster}"
            f" | {one.cpu_us:.2f} | {cheaper} | {one.peak_mb:.0f} |"
        )
    return "\n".join(lines)


def pairs_table(count: int, pairs: dict[str, dict[str, float]]) -> str:
    lines = [
        f"\n{count:,} requests and replies\n",
        "| client | p50 ms | p99 ms |",
        "|---|---:|---:|",
    ]
    lines += [
        f"| {client} | {found['p50 ms']:.2f} | {found['p99 ms']:.2f} |"
        for client, found in pairs.items()
    ]
    return "\n".join(lines)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Compare Python clients on one broker.")
    works = (*PRODUCING, *CONSUMING)
    parser.add_argument("--records", type=int, nargs="+", default=[100_000, 5_000_000])
    parser.add_argument("--record-bytes", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--pairs", type=int, default=1_000, help="requests with replies; 0: none")
    parser.add_argument("--linger-ms", type=int, default=5)
    parser.add_argument("--loop", choices=("asyncio", "uvloop"), default="asyncio")
    parser.add_argument("--clients", nargs="+", choices=CLIENTS, default=list(CLIENTS))
    parser.add_argument("--works", nargs="+", choices=works, default=list(works))
    parser.add_argument("--data", type=Path, help="where the broker's data go meanwhile")
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    return parser.parse_args()


def main() -> None:
    options = arguments()
    overrides = {"group.initial.rebalance.delay.ms": "0"}
    with (
        tempfile.TemporaryDirectory(prefix="odradek-clients-", dir=options.data) as directory,
        odradek_broker(Path(directory), overrides) as broker,
    ):
        results = Run(options, broker).measure()
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
