"""Restarts every broker in turn, cleanly, under load: no send may fail.

    python -m tests.scenarios.rolling_restart [--rounds N] [--store embedded|zookeeper]

Printed for each broker: how long it took to stop and to start, how long its partitions were
without a leader by the brokers' metadata, and the longest time in which the clients'
acknowledgements stood still; over all rounds the 99th percentile of both.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from tests.scenarios.chaos_cluster import ChaosCluster
from tests.scenarios.chaos_run import ChaosRun, percentile, report, stop_and_restart
from tests.scenarios.chaos_stores import store

_PARTITIONS = 6


def rolling_restart(directory: Path, kind: str, rounds: int) -> tuple[int, float]:
    """The exit code, and the longest silence."""
    with (
        store(kind, directory / "zookeeper") as zookeeper,
        ChaosCluster(directory / "data", zookeeper=zookeeper) as cluster,
        ChaosRun(cluster, partitions=_PARTITIONS) as run,
    ):
        for _ in range(rounds):
            for seat in cluster.seats.values():
                print(run.suffer("restart", seat, stop_and_restart), flush=True)
        silences = [cost.silence_s for cost in run.costs]
        leaderless = [cost.without_leader_s for cost in run.costs]
        failed = sum(len(producer.failures) for producer in run.producers)
        print(
            f"{len(run.costs)} restarts, {failed} failed sends; unavailability of a broker's"
            f" partitions p50 {percentile(silences, 0.5):.2f} s,"
            f" p99 {percentile(silences, 0.99):.2f} s; without a leader"
            f" p99 {percentile(leaderless, 0.99):.2f} s"
        )
        return report(directory, run, run.judge()), max(silences)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--store", choices=("embedded", "zookeeper"), default="embedded")
    options = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="odradek-rolling-"))
    return rolling_restart(directory, options.store, options.rounds)[0]


if __name__ == "__main__":
    sys.exit(main())
