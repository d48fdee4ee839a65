"""A skewed cluster of three brokers with a live producer is balanced: nothing lost, also if the
command is killed.

    python -m tests.scenarios.balance [--records N] [--replicas R] [--throttle BYTES] [--end HOW]

`odradek up --brokers 3` gets a topic whose replicas are all on one broker (replication factor 1) or
on two, with N records, and an idempotent producer with acks=all goes on. Then `odradek balance run`
moves them. `--end` says how:

    whole    the command comes to its end
    resume   it is killed with kill -9 while data moves; `odradek balance run` finishes
    cancel   it is killed so, and `odradek balance cancel` stops the moves
    stop     `odradek balance cancel` is given while it runs

What must hold: each acknowledged record is in the log exactly once and in order; after the kill,
`status` says that it was interrupted and which moves are in progress; at the end no throttle is
left, no partition is being reassigned, and, unless it was cancelled, every broker is within 10 % of
the average. Printed: how fast data moved, and the latencies of the producer before and meanwhile.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from confluent_kafka import KafkaError, Message

from odradek.client.admin.admin import Admin
from odradek.client.admin.config_types import ConfigResource, ConfigType
from odradek.client.admin.topic_types import NewTopic
from odradek.ops.balance.model import Resource
from odradek.ops.balance.planner import make_plan
from odradek.ops.balance.reading import BalanceAdmin, read_model, sizes
from tests.scenarios.chaos_load import Worker
from tests.scenarios.grow_load import (
    PARTITIONS,
    PATIENCE_S,
    TOPIC,
    LiveProducer,
    end_of_run,
    read_log,
    verdict_on,
    wait_until,
)
from tests.scenarios.up_process import COMMAND, three_free_ports, wait_for_line

ENDS: Final = ("whole", "resume", "cancel", "stop")
_STEADY_S: Final = 6.0
_WATCH_S: Final = 0.25
_WINDOW_S: Final = 5.0
# A throttled broker sends what a fetch asks for, then waits as long as that is worth. So one fetch
# of a partition (replica.fetch.max.bytes) more than the throttle may fall into a window.
_FETCH_BYTES: Final = 1 << 20


class TimedProducer(LiveProducer):
    """Also notes how long each record took to be acknowledged."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap, 0)
        self.latencies: list[tuple[float, float]] = []

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        super()._delivered(error, message)
        latency = message.latency()
        if latency is not None:
            self.latencies.append((time.monotonic(), latency))

    def p99_ms(self, began_s: float, ended_s: float) -> float:
        values = sorted(
            latency for moment, latency in self.latencies if began_s <= moment <= ended_s
        )
        return values[len(values) * 99 // 100] * 1000 if values else 0.0


class CopyWatch(Worker):
    """Notes again and again how much has been copied to each broker. What producers add to a
    partition beyond its size at first does not count: in-sync replicas have no throttle."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__("watch")
        self._bootstrap = bootstrap
        self._copied: list[tuple[float, dict[int, int]]] = []

    def work(self) -> None:
        asyncio.run(self._watch())

    async def _watch(self) -> None:
        async with BalanceAdmin(bootstrap_servers=self._bootstrap) as admin:
            first = await admin.describe_log_dirs()
            before = {broker: sizes({broker: listed}) for broker, listed in first.items()}
            wanted = {name: size for name, size in sizes(first).items() if name.topic == TOPIC}
            while not self._stops.is_set():
                copied = dict.fromkeys(map(int, before), 0)
                for broker, listed in (await admin.describe_log_dirs()).items():
                    for name, size in sizes({broker: listed}).items():
                        if name not in before[broker]:
                            copied[broker] += min(size, wanted.get(name, 0))
                self._copied.append((time.monotonic(), copied))
                await asyncio.sleep(_WATCH_S)

    def highest_rate(self, *, of_all: bool) -> float:
        """Returns the most bytes a second, in any five seconds, that a broker received; or that all
        of them received together, which is what a single sender sent."""
        rates = [0.0]
        for index, (began_s, before) in enumerate(self._copied):
            for ended_s, after in self._copied[index:]:
                if ended_s - began_s >= _WINDOW_S:
                    growth = [after[broker] - before[broker] for broker in after]
                    rates.append((sum if of_all else max)(growth) / (ended_s - began_s))
                    break
        return max(rates)


@dataclass
class Outcome:
    """What the run saw, for people and for tests."""

    records: int = 0
    lost: int = 0
    doubled: int = 0
    moved_bytes: int = 0
    took_s: float = 0.0
    rate: float = 0.0
    p99_before_ms: float = 0.0
    p99_meanwhile_ms: float = 0.0
    longest_pause_s: float = 0.0
    spread_before: float = 0.0
    spread_after: float = 0.0
    problems: list[str] = field(default_factory=list)

    @property
    def is_sound(self) -> bool:
        return not (self.lost or self.doubled or self.problems)

    def __str__(self) -> str:
        return "\n".join(
            [
                f"{self.records:,} records acknowledged: {self.lost} lost, {self.doubled} doubled",
                (
                    f"{self.moved_bytes:,} bytes moved in {self.took_s:.1f} s; a broker"
                    f" sent or received at most {self.rate:,.0f} bytes a second, over 5 s"
                ),
                (
                    f"p99 of the producer {self.p99_before_ms:.1f} ms before,"
                    f" {self.p99_meanwhile_ms:.1f} ms meanwhile; longest pause"
                    f" {self.longest_pause_s:.2f} s"
                ),
                f"disk furthest from average: {self.spread_before:.0%} -> {self.spread_after:.0%}",
                *self.problems,
            ]
        )


class BalanceScenario:
    """A cluster, its producer and the commands, in a directory of their own."""

    def __init__(
        self,
        directory: Path,
        records: int,
        replicas: int,
        throttle: int,
        *,
        steady_s: float = _STEADY_S,
    ) -> None:
        """`steady_s` is for how long the producer runs before the moves, for its latencies."""
        self._steady_s = steady_s
        self._directory = directory
        self._records = records
        self._replicas = replicas
        self._throttle = throttle
        self._port = three_free_ports()
        self.bootstrap = f"127.0.0.1:{self._port}"
        self.outcome = Outcome()

    def run(self, end: str) -> Outcome:
        words = ["up", "--brokers", "3", "--port", str(self._port)]
        words += ["--data", str(self._directory / "data")]
        with subprocess.Popen([*COMMAND, *words], stdout=subprocess.PIPE, text=True) as cluster:
            try:
                wait_for_line(cluster, "odradek is ready at ")
                asyncio.run(self._create())
                self._with_producer(end)
            finally:
                cluster.terminate()
                cluster.wait(PATIENCE_S)
        return self.outcome

    async def _create(self) -> None:
        replicas = [1, 2][: self._replicas]
        async with Admin(bootstrap_servers=self.bootstrap) as admin:
            topic = NewTopic(
                TOPIC,
                assignments=dict.fromkeys(range(PARTITIONS), replicas),
                configs={"min.insync.replicas": 1},
            )
            for answer in (await admin.create_topics([topic])).values():
                assert not isinstance(answer, Exception), answer

    def _with_producer(self, end: str) -> None:
        producer = TimedProducer(self.bootstrap)
        producer.fill(self._records)
        producer.start()
        before_s = self._observe_steady()
        self.outcome.spread_before = asyncio.run(self._spread())
        began_s = time.monotonic()
        {
            "whole": self._whole,
            "resume": self._resume,
            "cancel": self._cancel,
            "stop": self._stop,
        }[end]()
        ended_s = time.monotonic()
        producer.finish()
        outcome = self.outcome
        outcome.took_s = ended_s - began_s
        outcome.p99_before_ms = producer.p99_ms(before_s, began_s)
        outcome.p99_meanwhile_ms = producer.p99_ms(began_s, ended_s)
        outcome.longest_pause_s = producer.longest_pause_s
        self._judge(producer, is_cancelled=end in {"cancel", "stop"})

    def _observe_steady(self) -> float:
        """Lets the producer run for a while beside the same observers as later: the watch and
        commands, which take processor time too. So the difference is made by the moves alone.
        Returns when that began."""
        began_s = time.monotonic()
        watch = CopyWatch(self.bootstrap)
        watch.start()
        while time.monotonic() - began_s < self._steady_s:
            self._ask("plan")
        watch.finish()
        return began_s

    # Commands

    def _command(self, *words: str) -> list[str]:
        journal = str(self._directory / "journal.json")
        flags = ["--journal", journal, "--bootstrap-server", self.bootstrap, "--measure", "0s"]
        return [*COMMAND, "balance", *words, *flags, "--throttle", str(self._throttle)]

    def _ask(self, *words: str) -> dict[str, Any]:
        done = subprocess.run(
            self._command(*words, "--json"), capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer

    def _whole(self) -> None:
        planned = self._ask("plan")
        self.outcome.moved_bytes = planned["bytesToMove"]
        watch = CopyWatch(self.bootstrap)
        watch.start()
        answer = self._ask("run")
        watch.finish()
        # With one replica, broker 1 has all leaders and sends everything under its throttle.
        self.outcome.rate = watch.highest_rate(of_all=self._replicas == 1)
        if answer["state"] != "completed":
            self.outcome.problems.append(f"the run ended as {answer}")
        if self.outcome.rate > self._throttle * 1.1 + _FETCH_BYTES / _WINDOW_S:
            self.outcome.problems.append(f"{self.outcome.rate:,.0f} bytes a second were copied")

    def _kill_midway(self) -> None:
        with subprocess.Popen(self._command("run"), stdout=subprocess.DEVNULL) as command:
            wait_until(self._is_moving, "no data moves")
            command.kill()
        status = self._ask("status")
        if status["state"] != "interrupted" or not status["partitions"]["moving"]:
            self.outcome.problems.append(f"after the kill, status says {status}")
        if not asyncio.run(self._throttles()):
            self.outcome.problems.append("there was no throttle to remove")

    def _is_moving(self) -> bool:
        return bool(self._ask("status").get("partitions", {}).get("moving"))

    def _resume(self) -> None:
        self._kill_midway()
        answer = self._ask("run")
        if answer["state"] != "completed":
            self.outcome.problems.append(f"the second run ended as {answer}")

    def _cancel(self) -> None:
        self._kill_midway()
        if not self._ask("cancel")["cancelled"]:
            self.outcome.problems.append("there was nothing to cancel")

    def _stop(self) -> None:
        with subprocess.Popen(self._command("run"), stdout=subprocess.DEVNULL) as command:
            wait_until(self._is_moving, "no data moves")
            self._ask("cancel")
            if command.wait(PATIENCE_S) != 1:
                self.outcome.problems.append(f"the stopped run ended with {command.returncode}")

    # The judgement

    def _judge(self, producer: TimedProducer, *, is_cancelled: bool) -> None:
        outcome = self.outcome
        outcome.records = len(producer.acknowledged)
        log = read_log(self.bootstrap, TOPIC, PARTITIONS)
        outcome.lost, outcome.doubled, problems = verdict_on(log, producer)
        outcome.problems += problems
        asyncio.run(self._judge_cluster(is_cancelled))

    async def _judge_cluster(self, is_cancelled: bool) -> None:
        problems = self.outcome.problems
        problems += [f"a throttle is left: {left}" for left in await self._throttles()]
        self.outcome.spread_after = await self._spread()
        async with BalanceAdmin(bootstrap_servers=self.bootstrap) as admin:
            if moving := await admin.list_partition_reassignments():
                problems.append(f"still moving: {moving}")
            model = await read_model(admin)
        state = self._ask("status")["state"]
        if state != ("cancelled" if is_cancelled else "completed"):
            problems.append(f"status says {state}")
        if not is_cancelled:
            plan = make_plan(model)
            problems += [f"not met: {goal}" for goal in plan.goals if not goal.is_met]
            for resource in (Resource.REPLICAS, Resource.LEADERS, Resource.DISK):
                if (spread := plan.spread(model, resource)) > 0.1:
                    problems.append(f"{resource.name} is {spread:.0%} from the average")

    async def _spread(self) -> float:
        async with BalanceAdmin(bootstrap_servers=self.bootstrap) as admin:
            model = await read_model(admin)
        return make_plan(model).spread(model, Resource.DISK)

    async def _throttles(self) -> list[str]:
        async with Admin(bootstrap_servers=self.bootstrap) as admin:
            resources = [ConfigResource(ConfigType.TOPIC, TOPIC)]
            resources += [ConfigResource(ConfigType.BROKER, str(number)) for number in (1, 2, 3)]
            found = []
            for resource, answer in (await admin.describe_configs(resources)).items():
                assert isinstance(answer, dict)
                found += [
                    f"{resource.name}: {name}={entry.value}"
                    for name, entry in answer.items()
                    if "replication.throttled" in name and not entry.is_default
                ]
        return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--replicas", type=int, choices=(1, 2), default=1)
    parser.add_argument("--throttle", type=int, default=5_000_000)
    parser.add_argument("--end", choices=ENDS, default="whole")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix=f"odradek-balance-{os.getpid()}-"))
    scenario = BalanceScenario(directory, options.records, options.replicas, options.throttle)
    return end_of_run(scenario.run(options.end), directory, as_json=options.json)


if __name__ == "__main__":
    sys.exit(main())
