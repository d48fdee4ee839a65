"""Invariants: what must hold of an object's state whenever that state has moved.

Objects that keep the cluster's promises (`Partition`, `Log`, ISRs, producer state,
coordinators) have a method `check()` and call it where their state moves. There are two degrees:

- A comparison or two is always made: it costs less than a microsecond.
- What has to walk over all segments, members or producers is only done while `is_thorough()`,
  which tests and the simulation switch on.

A violation is a defect of this program, never a fault of a disk, a client or a peer, so nothing
handles it but the code that isolates it: in a broker the partition goes offline with its recent
history in the log, and the other partitions are served on. In tests and in the simulation it ends
the run.
"""

from collections.abc import Iterable
from typing import Final

_HISTORY_LENGTH: Final = 32

_thorough = False


class InvariantViolation(Exception):
    """`rule` does not hold of `subject`; `history` is what happened to it last, oldest first."""

    def __init__(self, subject: str, rule: str, history: Iterable[str] = ()) -> None:
        self.subject = subject
        self.rule = rule
        self.history = tuple(history)
        story = "".join(f"\n  {event}" for event in self.history)
        super().__init__(f"{subject}: {rule}{story}")


class History:
    """The last events of one object, kept for the message of a violation.

    Only events that are rare are noted (a new leader epoch, a truncation, a roll): noting is not
    free, and a hot path would push everything else out.
    """

    __slots__ = ("_events",)

    def __init__(self) -> None:
        # A list, because thousands of partitions have a history of one or two events each: a deque
        # takes 600 bytes more.
        self._events: list[str] = []

    def note(self, event: str) -> None:
        self._events.append(event)
        if len(self._events) > _HISTORY_LENGTH:
            del self._events[0]

    def events(self) -> tuple[str, ...]:
        return tuple(self._events)


def is_thorough() -> bool:
    """Returns whether checks that walk over much state are wanted: in tests and simulations."""
    return _thorough


def check_thoroughly(wanted: bool) -> None:
    """Switches thorough checks on or off for this process. Tests and the simulation call it."""
    global _thorough  # noqa: PLW0603 - a switch of the process, like the level of a logger
    _thorough = wanted
