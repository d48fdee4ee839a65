"""A broker whose clock can be stepped while it runs.

    python -m tests.scenarios.hosts.broker CLOCK broker server.properties ...

The real clock is not part of a namespace, so a step of it would hit every host and every other
program of the machine. Brokers see time only through `odradek.world`; here its clock adds the
number of milliseconds that stands in the file CLOCK. Elapsed time (`monotonic_s`, timers) does not
step, as on a real machine. Worker processes of the broker, which compact and recompress, are not
stepped.
"""

import mmap
import struct
import sys
import time
from pathlib import Path

from odradek.cli.main import main as odradek_main
from odradek.world.clock import SystemClock

_OFFSET = struct.Struct("<q")


class SteppedClock:
    """The file that says by how much the clock of one broker is wrong; tests write it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.step(0)

    def step(self, offset_ms: int) -> None:
        # In place: the broker has the file mapped.
        with self.path.open("r+b" if self.path.exists() else "wb") as file:
            file.write(_OFFSET.pack(offset_ms))


def main() -> None:
    with Path(sys.argv[1]).open("rb") as file:
        offset = mmap.mmap(file.fileno(), _OFFSET.size, prot=mmap.PROT_READ)

    def now_ms(_: SystemClock) -> int:
        wrong_by_ms: int = _OFFSET.unpack_from(offset)[0]
        return time.time_ns() // 1_000_000 + wrong_by_ms

    SystemClock.now_ms = now_ms  # type: ignore[assignment, method-assign]
    sys.argv = ["odradek", *sys.argv[2:]]
    sys.exit(odradek_main())


if __name__ == "__main__":
    main()
