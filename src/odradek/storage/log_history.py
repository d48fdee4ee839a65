"""The recent events of one log, for the message of a violated invariant.

The parts of a log (`LogOffsets`, `Segments`, `ProducerHistory`, `Flusher`) share one `LogHistory`.
They note in it what happens rarely: rolls, truncations, deletions, recovery, new leader epochs.
When one of them finds its state wrong it raises `violation(rule)`.
"""

from odradek.invariants import History, InvariantViolation


class LogHistory:
    """`subject` is the path of the log's directory. Most logs of an idle broker never note
    anything, so the history itself is made with the first event."""

    __slots__ = ("_events", "subject")

    def __init__(self, subject: str) -> None:
        self.subject = subject
        self._events: History | None = None

    def note(self, event: str) -> None:
        if self._events is None:
            self._events = History()
        self._events.note(event)

    def events(self) -> tuple[str, ...]:
        return () if self._events is None else self._events.events()

    def violation(self, rule: str) -> InvariantViolation:
        """The exception to raise when `rule` does not hold of this log."""
        return InvariantViolation(self.subject, rule, self.events())
