"""The outside world: clock, disk, randomness, worker threads and processes.

Only this package uses `time`, `open()`, `os` and `random`. Timers and the network come from the
running asyncio loop. So the simulation can run a whole cluster in one process, in virtual time and
repeatably from a seed, with the same code that runs in production.
"""

from dataclasses import dataclass, field

from odradek.world.boot_id import boot_id
from odradek.world.clock import Clock, SystemClock
from odradek.world.disk import Disk, File, OsDisk
from odradek.world.memory_disk import MemoryDisk
from odradek.world.processes import OsProcesses, Processes
from odradek.world.randomness import Randomness
from odradek.world.resource_limits import memory_bytes
from odradek.world.workers import ThreadWorkers, Workers

__all__ = [
    "Clock",
    "Disk",
    "File",
    "MemoryDisk",
    "OsDisk",
    "OsProcesses",
    "Processes",
    "Randomness",
    "SystemClock",
    "ThreadWorkers",
    "Workers",
    "World",
]


@dataclass(frozen=True, slots=True)
class World:
    """Given to components, so that none of them uses the operating system directly."""

    clock: Clock = field(default_factory=SystemClock)
    disk: Disk = field(default_factory=OsDisk)
    randomness: Randomness = field(default_factory=Randomness)
    workers: Workers = field(default_factory=ThreadWorkers)
    processes: Processes = field(default_factory=OsProcesses)
    # Another value after each start of the operating system; empty if it is not known.
    boot_id: str = field(default_factory=boot_id)
    # The memory of the machine, or what its container may use.
    memory_bytes: int = field(default_factory=memory_bytes)
