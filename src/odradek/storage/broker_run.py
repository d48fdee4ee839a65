"""A file in each log directory that tells which run of the broker wrote to it, and in which boot.

If a process is killed, everything that it wrote is still in the page cache; unsynced data is lost
only when the operating system goes down. So if the previous run ended without a clean shutdown, but
it has not been booted since, no data was lost. The file itself is not synced: if a power cut
removed it, the operating system was booted, and that is what its absence means.

A directory that failed has no such file. A broker that was only killed still leaves the in-sync
sets of its partitions (`cluster.elections.returning`).
"""

import json
from contextlib import suppress
from typing import Final, NamedTuple

from odradek.world import World

# The name is older than this module; brokers that are upgraded look for it.
RUN_FILE: Final = ".odradek_life"


class BrokerRun(NamedTuple):
    """The broker epochs that a run of the broker may have had: more than one while it registers
    under a new epoch."""

    first_epoch: int
    last_epoch: int

    def __contains__(self, broker_epoch: object) -> bool:
        return isinstance(broker_epoch, int) and self.first_epoch <= broker_epoch <= self.last_epoch


def note_run(world: World, directory: str, run: BrokerRun) -> None:
    content = json.dumps({"boot": world.boot_id, "brokerEpochs": run}).encode()
    file = world.disk.open(f"{directory}/{RUN_FILE}", create=True)
    try:
        file.truncate(0)
        file.write_at(0, [content])
    finally:
        file.close()


def read_run(world: World, directory: str) -> BrokerRun | None:
    """The previous run, if the operating system has not been booted since; else None."""
    try:
        fields = json.loads(world.disk.read(f"{directory}/{RUN_FILE}"))
    except (FileNotFoundError, ValueError):
        return None
    if not isinstance(fields, dict) or not world.boot_id or fields.get("boot") != world.boot_id:
        return None
    match fields.get("brokerEpochs"):
        case [int(first), int(last)]:
            return BrokerRun(first, last)
    return None


def remove_run(world: World, directory: str) -> None:
    """The disk of a directory failed, so it is unknown what is on it. If the file cannot be removed
    the next run cannot open the directory either."""
    with suppress(OSError):
        world.disk.remove(f"{directory}/{RUN_FILE}")
