"""The outside world: clock, disk, randomness, worker threads and processes.

Only this package uses `time`, `open()`, `os` and `random`. Timers and the network come from the
running asyncio loop. So the simulation can run a whole cluster in one process, in virtual time and
repeatably from a seed, with the same code that runs in production.

The names below are imported when they are first used: a tool that asks a broker a question needs
randomness alone.
"""

from typing import TYPE_CHECKING

from odradek.lazy_names import lazy_names

if TYPE_CHECKING:
    from odradek.world.clock import Clock, SystemClock
    from odradek.world.disk import Disk, File, OsDisk
    from odradek.world.memory_disk import MemoryDisk
    from odradek.world.processes import OsProcesses, Processes
    from odradek.world.randomness import Randomness
    from odradek.world.workers import ThreadWorkers, Workers
    from odradek.world.world import World

_HOMES = {
    "Clock": "odradek.world.clock",
    "Disk": "odradek.world.disk",
    "File": "odradek.world.disk",
    "MemoryDisk": "odradek.world.memory_disk",
    "OsDisk": "odradek.world.disk",
    "OsProcesses": "odradek.world.processes",
    "Processes": "odradek.world.processes",
    "Randomness": "odradek.world.randomness",
    "SystemClock": "odradek.world.clock",
    "ThreadWorkers": "odradek.world.workers",
    "Workers": "odradek.world.workers",
    "World": "odradek.world.world",
}

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

if not TYPE_CHECKING:
    __getattr__ = lazy_names(__name__, _HOMES)
