"""Hosts, and the `odradek.world.World` that a program on one of them is given.

A host has a disk, a clock and a place in the network; it keeps them when a process on it dies.
`kill` ends a process as SIGKILL does: the page cache survives and peers see their connections
end. `power_off` ends the machine: what was not flushed is lost and peers hear nothing.
"""

import asyncio
import hashlib
import math
from collections.abc import Callable, Coroutine
from contextvars import copy_context
from random import Random
from typing import Any, TypeVar

from odradek.world import Randomness, World
from simulation.disk import SimulatedDisk
from simulation.loop import SimulatedLoop
from simulation.network import Network
from simulation.process import Process, State, current_process
from simulation.trace import Trace

T = TypeVar("T")

# The moment at which every simulation begins: 2023-11-14 22:13:20 UTC.
EPOCH_MS = 1_700_000_000_000
# What every simulated machine has.
_MEMORY_BYTES = 8 << 30


class SimulatedClock:
    """Virtual time as a host sees it: with an offset that can be stepped."""

    __slots__ = ("_loop", "offset_ms")

    def __init__(self, loop: SimulatedLoop, offset_ms: int = 0) -> None:
        self._loop = loop
        self.offset_ms = offset_ms

    def now_ms(self) -> int:
        return EPOCH_MS + self.offset_ms + int(self._loop.time() * 1000)

    def monotonic_s(self) -> float:
        return self._loop.time()

    def step(self, by_ms: int) -> None:
        """Makes the time of day jump. Elapsed (monotonic) time does not."""
        self.offset_ms += by_ms


class InlineWorkers:
    """Blocking calls run on the loop, at some moment of virtual time before they answer."""

    async def run_blocking(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(None, call)

    compute = run_blocking

    def close(self) -> None:
        """There are no threads."""


class Host:
    """A machine with a disk, a clock and a place in the network. `start` runs programs on it."""

    def __init__(self, simulation: "Simulation", name: str) -> None:
        self.name = name
        self.simulation = simulation
        self.clock = SimulatedClock(simulation.loop)
        self.disk = SimulatedDisk(simulation.random(f"{name}/disk"))
        self.disk.on_event = self.trace
        self.disk.on_power_cut = self.power_off
        self.processes: list[Process] = []
        self._is_up = True
        self._boots = 1
        self._starts = 0
        simulation.network.add_host(name)

    def trace(self, event: str) -> None:
        self.simulation.trace.add(self.name, event)

    def world(self) -> World:
        """Returns the `World` of a new process: the disk and clock of this host, new randomness."""
        seed = self.simulation.random(f"{self.name}/world/{self._starts}").getrandbits(64)
        return World(
            clock=self.clock,
            disk=self.disk,
            randomness=Randomness(seed),
            workers=InlineWorkers(),
            boot_id=f"{self.name}/{self._boots}",
            memory_bytes=_MEMORY_BYTES,
        )

    def start(
        self, program: Callable[[World], Coroutine[Any, Any, T]], name: str = ""
    ) -> "asyncio.Task[T]":
        """Runs a program as a process of this host, powering it on if need be."""
        if not self._is_up:
            self.power_on()
        self._starts += 1
        loop = self.simulation.loop
        process = Process(name or f"{self.name}#{self._starts}", self.name, loop.next_number())
        self.processes.append(process)
        self.trace(f"process {process.name} starts")
        context = copy_context()
        context.run(current_process.set, process)
        task: asyncio.Task[T] = loop.create_task(
            program(self.world()), name=process.name, context=context
        )
        process.main = task
        task.add_done_callback(lambda _: self._ended(process), context=self.simulation.no_process)
        return task

    def _ended(self, process: Process) -> None:
        if process in self.processes:
            self.trace(f"process {process.name} ends")
            self._finish(process, State.ENDED)
            if not self.processes:
                self.disk.drop_handles()

    def _finish(self, process: Process, state: State) -> None:
        self.processes.remove(process)
        self.simulation.loop.bury(process, state)
        self.simulation.network.process_died(process)

    def kill(self) -> None:
        """SIGKILL to every process of the host."""
        self.trace("killed")
        for process in list(self.processes):
            self._finish(process, State.KILLED)
        self.disk.drop_handles()

    def stop(self) -> None:
        """SIGSTOP to every process of the host."""
        self.trace("stopped")
        for process in self.processes:
            self.simulation.loop.stop_process(process)

    def resume(self) -> None:
        self.trace("resumed")
        for process in self.processes:
            self.simulation.loop.resume_process(process)

    def power_off(self) -> None:
        """The machine loses power: every process ends, and unsynced data may be lost."""
        self.trace("power off")
        self._is_up = False
        self.simulation.network.host_went_down(self.name)
        for process in list(self.processes):
            self.processes.remove(process)
            self.simulation.loop.bury(process, State.KILLED)
        self.disk.crash()

    def power_on(self) -> None:
        self.trace("power on")
        self._boots += 1
        self.disk.power_on()
        self._is_up = True
        self.simulation.network.host_came_up(self.name)


class Simulation:
    """One run: the loop, the network, the hosts and the random sources of one seed."""

    def __init__(
        self, seed: int, *, time_limit_s: float = 86_400.0, cpu_limit_s: float = math.inf
    ) -> None:
        self.seed = seed
        # Sockets, signals and subprocesses of AbstractEventLoop are left out on purpose.
        self.loop = SimulatedLoop(time_limit_s=time_limit_s, cpu_limit_s=cpu_limit_s)  # type: ignore[abstract]
        self.trace = Trace(self.loop.time)
        self.network = Network(self.loop, self.random("network"), self.trace)
        self.loop.network = self.network
        self.no_process = self.network.no_process
        workers = self.random("workers")
        self.worker_delay_s = (0.0, 0.002)
        self.loop.blocking_delay_s = lambda: (
            workers.uniform(*self.worker_delay_s),
            workers.uniform(*self.worker_delay_s),
        )
        self.hosts: dict[str, Host] = {}
        self._at_end: list[Callable[[], None]] = []

    def at_end(self, undo: Callable[[], None]) -> None:
        """Calls `undo` when the run is over. A scenario that failed may never get as far as its own
        `finally`, because its coroutine is not resumed."""
        self._at_end.append(undo)

    def end(self) -> None:
        """Calls the functions given to `at_end`, the last one first."""
        while self._at_end:
            self._at_end.pop()()

    def random(self, purpose: str) -> Random:
        """Returns a random source for one purpose. Draws for one purpose do not change another."""
        digest = hashlib.sha256(f"{self.seed}/{purpose}".encode()).digest()
        return Random(int.from_bytes(digest[:8], "big"))

    def host(self, name: str) -> Host:
        """The host of this name, made when first asked for."""
        if name not in self.hosts:
            self.hosts[name] = Host(self, name)
        return self.hosts[name]
