"""Every failure of every role, on every store, under load from real clients.

    python -m tests.scenarios.failures [--stores embedded,zookeeper] [--rounds N] [--kills N]
                                       [--pause-seconds 30] [--secured]

{clean stop, kill -9, bounce x5, SIGSTOP} of {the leader, the controller, a follower}: every
acknowledged record must be consumed once and in order. The topic has one partition, so that the
roles are different brokers wherever they can be. `--kills` kills the leader so many more times,
for a distribution; there nobody starts it again before another one leads. ZooKeeper is an
ensemble of three with one server dead.
"""

import argparse
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.scenarios.chaos_cluster import ChaosCluster, Seat
from tests.scenarios.chaos_run import (
    ChaosRun,
    bounce,
    kill_and_restart,
    killed_until_others_lead,
    paused_for,
    percentile,
    report,
    stop_and_restart,
)
from tests.scenarios.chaos_stores import store

ROLES = ("leader", "controller", "follower")


def faults(pause_s: float) -> dict[str, Callable[[Seat], None]]:
    return {
        "clean stop": stop_and_restart,
        "kill -9": kill_and_restart,
        "bounce x5": bounce,
        f"SIGSTOP {pause_s:g} s": paused_for(pause_s),
    }


def failures(
    directory: Path, kind: str, *, rounds: int, kills: int, pause_s: float, secured: bool = False
) -> int:
    print(f"store: {kind}{', SASL_SSL' if secured else ''}", flush=True)
    with (
        store(kind, directory / "zookeeper") as zookeeper,
        ChaosCluster(directory / "data", zookeeper=zookeeper, secured=secured) as cluster,
        ChaosRun(cluster, partitions=1) as run,
    ):
        for _ in range(rounds):
            for name, fault in faults(pause_s).items():
                for role in ROLES:
                    print(f"  {role:<10} {run.suffer(name, run.seat_of(role), fault)}", flush=True)
        killed = [
            run.suffer("kill -9", run.seat_of("leader"), killed_until_others_lead(run))
            for _ in range(kills)
        ]
        if killed:
            print(f"  {kills} more kills of the leader:")
            for what, values in (
                ("without a leader", [cost.without_leader_s for cost in killed]),
                ("longest silence", [cost.silence_s for cost in killed]),
            ):
                print(
                    f"    {what}: p50 {percentile(values, 0.5):.2f} s,"
                    f" p99 {percentile(values, 0.99):.2f} s, most {max(values):.2f} s"
                )
        return report(directory, run, run.judge())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--stores", default="embedded,zookeeper")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--pause-seconds", type=float, default=30)
    parser.add_argument("--secured", action="store_true", help="with TLS, SCRAM and ACLs")
    options = parser.parse_args()
    worst = 0
    for kind in options.stores.split(","):
        directory = Path(tempfile.mkdtemp(prefix=f"odradek-failures-{kind}-"))
        worst |= failures(
            directory,
            kind,
            rounds=options.rounds,
            kills=options.kills,
            pause_s=options.pause_seconds,
            secured=options.secured,
        )
    return worst


if __name__ == "__main__":
    sys.exit(main())
