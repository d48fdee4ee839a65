"""The process in the background that takes over from a single broker: `odradek local grow` starts
it, and it becomes the cluster.

    python -m odradek.local.growing_cluster DIR [LOG_LEVEL]

It imports everything that brokers need while the single broker still serves. Then it stops that
broker, moves its data (`local/growth.py`) and starts the cluster, so clients wait for a restart and
no longer. It is a process of its own, so that the end of the command that started it, even by
kill -9, does not interrupt the work.

If the data has been moved already, it just starts the cluster. Its output goes to DIR/up.log.
"""

import argparse
import os
import signal
import sys
from time import sleep

from odradek.local.cluster_directory import PID_FILE, read_pid, running_broker
from odradek.local.growth import Growth, is_lone, move_data
from odradek.local.processes import is_alive
from odradek.tools.failures import CommandFailed, explain
from odradek.world import SystemClock
from odradek.world.disk import OsDisk

_STOP_TIMEOUT_S = 120.0
_LOOK_AGAIN_S = 0.005


def main(data: str, log_level: str | None) -> int:
    disk = OsDisk()
    growth = Growth.read(disk, data)
    if growth is None:
        raise CommandFailed(f"nothing has been decided about {data}")
    _import_brokers()
    if is_lone(disk, data):
        _stop_lone_broker(data)
    move_data(disk, growth)
    from odradek.local.cluster_serving import LocalCluster

    arguments = argparse.Namespace(
        data=data,
        brokers=growth.brokers,
        host=growth.host,
        port=growth.port,
        zookeeper=None,
        secure=False,
        log_level=log_level,
        override=[],
    )
    return LocalCluster(arguments, {}).run(until_input_closes=False)


def _import_brokers() -> None:
    import odradek.broker
    import odradek.local.cluster_serving
    import odradek.local.metadata_serving
    import odradek.metadata.remote  # noqa: F401
    from odradek.world.event_loop import fastest_loop

    # The only name that is used: the others are imported for the processes that are forked later.
    fastest_loop()


def _stop_lone_broker(data: str) -> None:
    """Stops the broker cleanly and waits until it has released its directory."""
    disk, clock = OsDisk(), SystemClock()
    pid = running_broker(disk, data)
    if pid is None:
        return
    os.kill(pid, signal.SIGTERM)
    end_s = clock.monotonic_s() + _STOP_TIMEOUT_S
    # The pid file is removed last, when the metadata store has been closed too.
    while is_alive(pid) and read_pid(disk, f"{data}/{PID_FILE}") == pid:
        if clock.monotonic_s() > end_s:
            raise CommandFailed(f"broker 1 (process {pid}) does not stop; see {data}/server.log")
        sleep(_LOOK_AGAIN_S)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None))
    except Exception as failure:  # noqa: BLE001 - the last line of defence of the process
        print(f"odradek local grow: {explain(failure)}", file=sys.stderr)
        sys.exit(1)
