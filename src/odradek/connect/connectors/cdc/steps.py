"""What a task has read from its source, and what is not yet stored in the topic.

A database sends its log once for each connection, while the engine may ask for a range again. So a
task keeps what it has made of the log, in steps, until the engine says that it is stored. A step is
what one call of `reach` has found; its end is where the next one begins.
"""

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from odradek.connect.connectors.positions import SourceOffset
from odradek.connect.errors import DataError
from odradek.connect.records import SourceRecord


class Step(NamedTuple):
    """`offset` is the position after the records; None before the first one."""

    offset: SourceOffset | None
    records: list[SourceRecord]


class Steps:
    """Invariant: the steps follow each other, and the first one begins where everything before is
    stored."""

    def __init__(self) -> None:
        self._steps: deque[Step] = deque()

    def begin_at(self, offset: SourceOffset | None) -> None:
        """Forgets everything, and begins at a stored position."""
        self._steps.clear()
        self._steps.append(Step(offset, []))

    @property
    def end(self) -> SourceOffset | None:
        return self._steps[-1].offset

    @property
    def is_all_stored(self) -> bool:
        return len(self._steps) == 1

    def add(self, step: Step) -> None:
        self._steps.append(step)

    def is_known(self, offset: SourceOffset | None) -> bool:
        """Whether a step ends here."""
        return any(step.offset == offset for step in self._steps)

    def after(self, offset: SourceOffset | None) -> SourceOffset | None:
        """Returns the end of the step that begins here; None if there is none yet."""
        found = False
        for step in self._steps:
            if found:
                return step.offset
            found = step.offset == offset
        return None

    def between(
        self, start: SourceOffset | None, end: SourceOffset | None
    ) -> Iterator[SourceRecord]:
        """Returns the records between two ends of steps. Raises `DataError` if they are gone."""
        offsets = [step.offset for step in self._steps]
        try:
            first = offsets.index(start)
            last = offsets.index(end, first)
        except ValueError:
            raise DataError(
                f"the changes between {start} and {end} were read by an earlier run of this task,"
                " or are stored already; start the task again, and it goes on where it was"
            ) from None
        for index in range(first + 1, last + 1):
            yield from self._steps[index].records

    def stored(self, offset: SourceOffset | None) -> bool:
        """Forgets the records before this position. Returns whether it is a known one."""
        if not self.is_known(offset):
            return False
        while self._steps[0].offset != offset:
            self._steps.popleft()
        self._steps[0] = Step(offset, [])
        return True
