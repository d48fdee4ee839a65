"""The outside world: clock, disk, randomness, workers and processes.

Nothing above this room touches time, `open()`, `os` or `random` itself. Timers and the
network come from the running asyncio loop. So a whole cluster runs in one process, in
virtual time and from a seed, and the code that runs in production does not know.
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
    """What a component is given instead of reaching outside by itself."""

    clock: Clock = field(default_factory=SystemClock)
    disk: Disk = field(default_factory=OsDisk)
    randomness: Randomness = field(default_factory=Randomness)
    workers: Workers = field(default_factory=ThreadWorkers)
    processes: Processes = field(default_factory=OsProcesses)
    # Of the machine, since it was started last; empty if it cannot be told.
    boot_id: str = field(default_factory=boot_id)
    # What the machine has, or its container may use.
    memory_bytes: int = field(default_factory=memory_bytes)
