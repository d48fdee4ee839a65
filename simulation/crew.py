"""Programs that are kept running, whatever happens to them.

A place has one program at a time, each on a host of its own. A program is killed and replaced,
paused and woken, asked to leave and later replaced; or it is frozen and replaced, and wakes up
as a zombie when its successor works already. One that ends with an error ends the run.
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
    # Set by the crew; the program ends itself in good order.
    is_leaving: bool

    async def run(self, world: World) -> None: ...


class _Life:
    """One program on its host."""

    def __init__(self, program: Program, host: Host) -> None:
        self.program = program
        self.host = host
        self.is_stopped = False
        self.task: asyncio.Task[None] = host.start(program.run, program.name)

    @property
    def is_over(self) -> bool:
        return not self.host.processes


class Crew:
    def __init__(
        self, simulation: Simulation, random: Random, places: Mapping[str, Callable[[str], Program]]
    ) -> None:
        """`places` make the program of a place, by the name of this life of it."""
        self._simulation = simulation
        self._random = random
        self._places = places
        self._lives: dict[str, _Life] = {}
        self._zombies: list[_Life] = []
        self._count = 0
        self.replaced = 0
        for place in places:
            self.start(place)

    def start(self, place: str) -> None:
        self._count += 1
        name = f"{place}.{self._count}"
        program = self._places[place](name)
        self._lives[place] = _Life(program, self._simulation.host(name))

    @property
    def hosts(self) -> list[str]:
        """Where programs run, zombies included."""
        return [life.host.name for life in (*self._lives.values(), *self._zombies)]

    def is_current(self, name: str) -> bool:
        return any(life.program.name == name for life in self._lives.values())

    def turn(self) -> None:
        """Something happens to one of the programs."""
        self.look()
        place = self._random.choice(list(self._places))
        life = self._lives[place]
        if life.is_over:
            self.start(place)
            return
        match self._random.randrange(6):
            case 0 | 1:
                self.replaced += 1
                life.host.kill()
                self.start(place)
            case 2:
                self._pause(life)
            case 3:
                life.program.is_leaving = True
            case _:
                self.replaced += 1
                self._pause(life)
                self._zombies.append(life)
                self.start(place)

    def _pause(self, life: _Life) -> None:
        if life.is_stopped:
            return
        life.is_stopped = True
        life.host.stop()
        after_s = self._random.uniform(0, _MAX_PAUSE_S)
        self._simulation.loop.call_later(after_s, self._wake, life, context=self._simulation.nobody)

    def _wake(self, life: _Life) -> None:
        if life.is_stopped:
            life.is_stopped = False
            life.host.resume()

    def look(self) -> None:
        """Raises what a program ended with, if it ended by itself."""
        for life in (*self._lives.values(), *self._zombies):
            if life.task.done() and not life.task.cancelled():
                life.task.result()
        self._zombies = [life for life in self._zombies if not life.is_over]

    def rest(self, *, refill: bool = True) -> None:
        """No more of it: everyone wakes, and every place has a program unless told otherwise."""
        for life in (*self._lives.values(), *self._zombies):
            self._wake(life)
        self.look()
        for place, life in list(self._lives.items()):
            if refill and (life.is_over or life.program.is_leaving):
                self._zombies.append(life)
                self.start(place)

    async def finished(self) -> None:
        """Returns when every program has ended by itself."""
        for life in (*self._lives.values(), *self._zombies):
            if not life.is_over:
                await asyncio.wait([life.task])
        self.look()

    def end(self) -> None:
        """Kills what still runs."""
        self.look()
        for life in (*self._lives.values(), *self._zombies):
            if not life.is_over:
                life.host.kill()
