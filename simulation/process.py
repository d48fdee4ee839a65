"""A process on a simulated host: the unit that is killed, stopped and resumed.

Every task, timer and socket callback carries the process it belongs to in its context, so
several brokers and clients live in one loop, and the loop can drop (killed) or hold back
(stopped) all of one process at once without the code in it noticing.
"""

import asyncio
from collections import deque
from contextvars import ContextVar
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from simulation.loop import SimulatedHandle


class State(Enum):
    RUNNING = "running"
    STOPPED = "stopped"
    ENDED = "ended"
    KILLED = "killed"


class Process:
    """One run of a program. A restart makes a new process."""

    __slots__ = ("held", "host", "main", "name", "number", "place", "state")

    def __init__(self, name: str, host: str, number: int) -> None:
        self.name = name
        # The name as bytes, for the fingerprint of the run.
        self.place = name.encode()
        self.host = host
        self.number = number
        self.state = State.RUNNING
        self.held: deque[SimulatedHandle] = deque()
        self.main: asyncio.Task[Any] | None = None

    @property
    def is_dead(self) -> bool:
        return self.state in (State.ENDED, State.KILLED)

    def __repr__(self) -> str:
        return f"<Process {self.name} on {self.host}, {self.state.value}>"


current_process: ContextVar[Process | None] = ContextVar("current_process", default=None)
