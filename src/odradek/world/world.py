"""All of the outside world in one object, which components are given."""

from dataclasses import dataclass, field

from odradek.world.boot_id import boot_id
from odradek.world.clock import Clock, SystemClock
from odradek.world.disk import Disk, OsDisk
from odradek.world.processes import OsProcesses, Processes
from odradek.world.randomness import Randomness
from odradek.world.resource_limits import memory_bytes
from odradek.world.workers import ThreadWorkers, Workers


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
