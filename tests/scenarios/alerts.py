"""Causes in a live cluster what each shipped alert is for, and waits until it fires and resolves.

    python -m tests.scenarios.alerts [--only NAME]...

For each cause (`alert_causes`) `odradek up --brokers 3` and a real Prometheus with the shipped
rules are started; all durations in the rules are 60 times shorter. Then brokers are killed, disks
filled, groups left behind. Two of them have a real ZooKeeper, and one runs a pipeline on Spark.
Printed: a table with how long each alert took to fire, and to resolve from the moment at which its
cause began to end. The exit code is 1 if one does not fire or resolve, and 2 if a tool is missing.
It takes about 20 minutes.
"""

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from benchmarks.broker_process import ToolMissing
from tests.deploy.prometheus import prometheus_program
from tests.scenarios.alert_causes import CAUSES, Cause
from tests.scenarios.alert_cluster import FACTOR, AlertCluster, alert_cluster, until
from tests.scenarios.disk_full import small_disk
from tests.unit.metadata.zookeeper_servers import Ensemble, zookeeper_jars


@dataclass
class Seen:
    """How an alert went. `problem` is empty if it fired and resolved."""

    alert: str
    fired_s: float = 0.0
    resolved_s: float = 0.0
    problem: str = ""

    def __str__(self) -> str:
        if self.problem:
            return f"{self.alert:<36} {self.problem}"
        times = f"fired after {self.fired_s:5.1f} s, over after {self.resolved_s:5.1f} s"
        return f"{self.alert:<36} {times}"


async def cause_and_watch(cause: Cause, directory: Path) -> list[Seen]:
    """Runs a cluster, causes the condition and ends it; returns what its alerts did."""
    seen = [Seen(name) for name in cause.alerts]
    with ExitStack() as stack:
        if cause.disk_mb:
            stack.enter_context(small_disk(directory / "data" / "broker-1", cause.disk_mb))
        zookeeper = None
        if cause.has_zookeeper:
            zookeeper = stack.enter_context(Ensemble(zookeeper_jars(), directory / "ensemble"))
        async with alert_cluster(directory, cause.settings, zookeeper) as cluster:
            await _are_quiet(cluster, seen)
            began_s = time.monotonic()
            try:
                async with cause.causing(cluster):
                    await _watch(cluster, seen, began_s)
                    ended_s = time.monotonic()
                await until(lambda: _is_over(cluster, seen, ended_s), "an alert does not end")
            except Exception as error:  # noqa: BLE001 - told in the table; the next one goes on
                for one in seen:
                    if not (one.fired_s and one.resolved_s) and not one.problem:
                        what = "does not end" if one.fired_s else "does not fire"
                        one.problem = f"{what}: {error!r}"
    return seen


async def _are_quiet(cluster: AlertCluster, seen: Sequence[Seen]) -> None:
    """Waits until all brokers are scraped and ready, and the alerts do not fire: the durations of
    the rules are so short that some fire while the brokers start."""

    async def is_ready() -> bool:
        found = await cluster.prometheus.query("sum(odradek_broker_ready)")
        return bool(found) and found[0]["value"][1] == "3"

    await until(is_ready, "the cluster does not get ready")
    watched = {one.alert for one in seen}

    async def is_quiet() -> bool:
        return not await cluster.prometheus.firing() & watched

    await until(is_quiet, f"one of {watched} fires before anything happened")


async def _watch(cluster: AlertCluster, seen: Sequence[Seen], began_s: float) -> None:
    async def have_fired() -> bool:
        firing = await cluster.prometheus.firing()
        for one in seen:
            if one.alert in firing and not one.fired_s:
                one.fired_s = time.monotonic() - began_s
        return all(one.fired_s for one in seen)

    missing = "an alert does not fire"
    await until(have_fired, missing)


async def _is_over(cluster: AlertCluster, seen: Sequence[Seen], ended_s: float) -> bool:
    firing = await cluster.prometheus.firing()
    for one in seen:
        if one.alert not in firing and not one.resolved_s:
            one.resolved_s = time.monotonic() - ended_s
    return all(one.resolved_s for one in seen)


def run(names: Sequence[str]) -> int:
    wrong = 0
    for cause in CAUSES:
        if names and not set(names) & set(cause.alerts):
            continue
        with tempfile.TemporaryDirectory(prefix="odradek-alerts-") as directory:
            for one in asyncio.run(cause_and_watch(cause, Path(directory))):
                wrong += bool(one.problem)
                print(one, flush=True)
    return 1 if wrong else 0


def main() -> int:
    known = {name for cause in CAUSES for name in cause.alerts}
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--only", action="append", default=[], choices=sorted(known))
    options = parser.parse_args()
    try:
        prometheus_program()
        print(f"all durations of the rules are {FACTOR} times shorter")
        return run(options.only)
    except ToolMissing as missing:
        print(missing, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
