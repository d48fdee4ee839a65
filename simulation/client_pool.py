"""Clients that are killed, paused and replaced.

A slot has one program at a time, each on a host of its own. A program is killed and replaced,
paused and resumed, asked to leave and later replaced; or it is paused and replaced, and resumes as
a zombie while its successor works already. A program that ends with an error ends the run.
"""

import asyncio
from collections.abc import Callable, Mapping
from random import Random
from typing import Protocol

from odradek.world import World
from simulation.world import Host, Simulation

_MAX_PAUSE_S = 15.0


class Program(Protocol):
    name: str
    # Set by the pool: the program is to end by itself.
    is_leaving: bool

    async def run(self, world: World) -> None: ...


class _Instance:
    """One program on its host."""

    def __init__(self, program: Program, host: Host) -> None:
        self.program = program
        self.host = host
        self.is_stopped = False
        self.task: asyncio.Task[None] = host.start(program.run, program.name)

    @property
    def is_over(self) -> bool:
        return not self.host.processes


class ClientPool:
    def __init__(
        self, simulation: Simulation, random: Random, slots: Mapping[str, Callable[[str], Program]]
    ) -> None:
        """`slots` has for each slot a function that makes its program, given a name."""
        self._simulation = simulation
        self._random = random
        self._slots = slots
        self._instances: dict[str, _Instance] = {}
        self._zombies: list[_Instance] = []
        self._count = 0
        self.replaced = 0
        for slot in slots:
            self.start(slot)

    def start(self, slot: str) -> None:
        self._count += 1
        name = f"{slot}.{self._count}"
        program = self._slots[slot](name)
        self._instances[slot] = _Instance(program, self._simulation.host(name))

    @property
    def hosts(self) -> list[str]:
        """The names of the hosts on which programs run, including zombies."""
        return [instance.host.name for instance in (*self._instances.values(), *self._zombies)]

    def is_current(self, name: str) -> bool:
        return any(instance.program.name == name for instance in self._instances.values())

    def inject(self) -> None:
        """Injects a fault into one of the programs."""
        self.raise_failures()
        slot = self._random.choice(list(self._slots))
        instance = self._instances[slot]
        if instance.is_over:
            self.start(slot)
            return
        match self._random.randrange(6):
            case 0 | 1:
                self.replaced += 1
                instance.host.kill()
                self.start(slot)
            case 2:
                self._pause(instance)
            case 3:
                instance.program.is_leaving = True
            case _:
                self.replaced += 1
                self._pause(instance)
                self._zombies.append(instance)
                self.start(slot)

    def _pause(self, instance: _Instance) -> None:
        if instance.is_stopped:
            return
        instance.is_stopped = True
        instance.host.stop()
        after_s = self._random.uniform(0, _MAX_PAUSE_S)
        self._simulation.loop.call_later(
            after_s, self._resume, instance, context=self._simulation.no_process
        )

    def _resume(self, instance: _Instance) -> None:
        if instance.is_stopped:
            instance.is_stopped = False
            instance.host.resume()

    def raise_failures(self) -> None:
        """Raises the error of a program that ended by itself."""
        for instance in (*self._instances.values(), *self._zombies):
            if instance.task.done() and not instance.task.cancelled():
                instance.task.result()
        self._zombies = [instance for instance in self._zombies if not instance.is_over]

    def stop_faults(self, *, refill: bool = True) -> None:
        """Resumes every paused program and, with `refill`, starts one in every empty slot."""
        for instance in (*self._instances.values(), *self._zombies):
            self._resume(instance)
        self.raise_failures()
        for slot, instance in list(self._instances.items()):
            if refill and (instance.is_over or instance.program.is_leaving):
                self._zombies.append(instance)
                self.start(slot)

    async def finished(self) -> None:
        """Returns when every program has ended by itself."""
        for instance in (*self._instances.values(), *self._zombies):
            if not instance.is_over:
                await asyncio.wait([instance.task])
        self.raise_failures()

    def kill_all(self) -> None:
        """Kills what still runs."""
        self.raise_failures()
        for instance in (*self._instances.values(), *self._zombies):
            if not instance.is_over:
                instance.host.kill()
