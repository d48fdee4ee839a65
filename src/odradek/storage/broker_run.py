"""Notes in a log directory which life of the broker writes there, and since which boot.

A process that is killed leaves everything it wrote to the kernel; only a machine that goes down
takes what was not synced. So a life that ended without a word under the boot that still lasts
has lost nothing. The note is not synced: a boot that took it away is another one.

What it cannot tell is left to caution: a directory that failed has no note, and a broker that
was merely killed leaves the in-sync sets all the same (`cluster.elections.returning`).
"""

import json
from contextlib import suppress
from typing import Final, NamedTuple

from odradek.world import World

LIFE: Final = ".odradek_life"


class BrokerRun(NamedTuple):
    """The broker epochs under which it may be known to the cluster: more than one as long as it
    is about to take another."""

    first_epoch: int
    last_epoch: int

    def __contains__(self, broker_epoch: object) -> bool:
        return isinstance(broker_epoch, int) and self.first_epoch <= broker_epoch <= self.last_epoch


def note_run(world: World, directory: str, life: BrokerRun) -> None:
    content = json.dumps({"boot": world.boot_id, "brokerEpochs": life}).encode()
    file = world.disk.open(f"{directory}/{LIFE}", create=True)
    try:
        file.truncate(0)
        file.write_at(0, [content])
    finally:
        file.close()


def read_run(world: World, directory: str) -> BrokerRun | None:
    """That of the last life, if the machine has been up since; else None."""
    try:
        fields = json.loads(world.disk.read(f"{directory}/{LIFE}"))
    except (FileNotFoundError, ValueError):
        return None
    if not isinstance(fields, dict) or not world.boot_id or fields.get("boot") != world.boot_id:
        return None
    match fields.get("brokerEpochs"):
        case [int(first), int(last)]:
            return BrokerRun(first, last)
    return None


def remove_run(world: World, directory: str) -> None:
    """Its disk failed: nobody knows what is there. One that cannot even do this cannot be
    opened by the next life either."""
    with suppress(OSError):
        world.disk.remove(f"{directory}/{LIFE}")
