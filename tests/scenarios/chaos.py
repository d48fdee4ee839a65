"""Random faults against a cluster of real processes, under load from real clients.

    python -m tests.scenarios.chaos --seconds 60 [--faults kill,stop,pause,cut] [--seed N]
                                    [--store embedded|zookeeper] [--secured] [--encrypted]

Faults: kill (kill -9 and start again), stop (clean stop and start again), bounce (kill and start,
five times), pause (SIGSTOP for some seconds), cut (off the network, by namespaces; needs root),
disk (a full disk, on a small tmpfs; needs root). Without --faults, all that this machine allows.
What cannot be done here is said and left out. Delayed packets need netem, which few machines
have; the simulation delays every message. With --secured brokers and clients speak SASL_SSL, as
`odradek up --secure` sets it up. With --encrypted the topics are encrypted on the disk, and the
brokers' files are searched for plain text in the end.
"""

import argparse
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.scenarios.chaos_cluster import ChaosCluster, Seat
from tests.scenarios.chaos_run import (
    ChaosRun,
    bounce,
    cut_for,
    full_disk_for,
    kill_and_restart,
    paused_for,
    report,
    stop_and_restart,
)
from tests.scenarios.chaos_stores import store
from tests.scenarios.namespaces import CannotRun, Namespaces

FAULTS = ("kill", "stop", "bounce", "pause", "cut", "disk")
_PARTITIONS = 6


def possible(wanted: Sequence[str], store: str) -> list[str]:
    """Those that this machine and this store allow; says which they do not."""
    found = list(wanted)
    if "cut" in found and store == "zookeeper":
        # Brokers in namespaces of their own would not reach it.
        print("left out: cut (ZooKeeper listens on loopback here; tests.scenarios.hosts has both)")
        found.remove("cut")
    if "cut" in found:
        try:
            Namespaces([1]).remove()
        except CannotRun as reason:
            print(f"left out: cut ({reason})")
            found.remove("cut")
    if "disk" in found and os.geteuid() != 0:
        print("left out: disk (mounting a small disk needs root)")
        found.remove("disk")
    return found


def fault_named(
    name: str, cluster: ChaosCluster, chance: random.Random
) -> tuple[str, Callable[[Seat], None]]:
    seconds = round(chance.uniform(0.5, 8.0), 1)
    if name == "pause":
        return f"SIGSTOP {seconds} s", paused_for(seconds)
    if name == "disk":
        return f"full disk {seconds} s", full_disk_for(seconds)
    if name == "cut":
        return f"cut {seconds} s", cut_for(cluster, seconds)
    simple = {"kill": kill_and_restart, "stop": stop_and_restart, "bounce": bounce}
    return {"kill": "kill -9", "stop": "clean stop", "bounce": "kill -9 x5"}[name], simple[name]


def chaos(
    directory: Path,
    *,
    seconds: float,
    faults: Sequence[str],
    kind: str,
    seed: int,
    secured: bool = False,
    encrypted: bool = False,
) -> int:
    chance = random.Random(seed)
    with (
        store(kind, directory / "zookeeper") as zookeeper,
        ChaosCluster(
            directory / "data",
            zookeeper=zookeeper,
            apart="cut" in faults,
            small_disks="disk" in faults,
            secured=secured,
            encrypted=encrypted,
        ) as cluster,
        ChaosRun(cluster, partitions=_PARTITIONS) as run,
    ):
        began_s = time.monotonic()
        while time.monotonic() - began_s < seconds:
            time.sleep(chance.uniform(0.1, 1.0))
            seat = cluster.seats[chance.choice(list(cluster.seats))]
            name, fault = fault_named(chance.choice(list(faults)), cluster, chance)
            cost = run.suffer(name, seat, fault)
            print(f"{time.monotonic() - began_s:6.1f} s  {cost}", flush=True)
        return report(directory, run, run.judge())


def main() -> int:
    summary, _, rest = __doc__.partition("\n\n")
    parser = argparse.ArgumentParser(
        prog="python -m tests.scenarios.chaos",
        description=summary,
        epilog=rest.partition("\n\n")[2],
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--seconds", metavar="S", type=float, default=60, help="how long faults go on (%(default)s)"
    )
    parser.add_argument(
        "--faults",
        metavar="A,B",
        default=",".join(FAULTS),
        help="which ones (%(default)s)",
    )
    parser.add_argument(
        "--store",
        choices=("embedded", "zookeeper"),
        default="embedded",
        help="where the brokers keep metadata (%(default)s)",
    )
    parser.add_argument(
        "--seed",
        metavar="N",
        type=int,
        default=random.randrange(1_000_000),
        help="which faults come when; a random one, which is printed, if not given",
    )
    parser.add_argument("--secured", action="store_true", help="with TLS, SCRAM and ACLs")
    parser.add_argument("--encrypted", action="store_true", help="with encrypted topics")
    options = parser.parse_args()
    faults = possible(options.faults.split(","), options.store)
    unknown = set(faults) - set(FAULTS)
    if unknown or not faults:
        parser.error(f"no such fault: {', '.join(unknown) or 'none left'}")
    print(f"seed {options.seed}, faults {', '.join(faults)}, store {options.store}")
    directory = Path(tempfile.mkdtemp(prefix="odradek-chaos-"))
    return chaos(
        directory,
        seconds=options.seconds,
        faults=faults,
        kind=options.store,
        seed=options.seed,
        secured=options.secured,
        encrypted=options.encrypted,
    )


if __name__ == "__main__":
    sys.exit(main())
