"""A state machine whose memory is a log.

    decide(command, caller, now) -> Outcome      looks, and changes nothing
    apply(entry)                                 changes, and decides nothing

An outcome carries records for the log, events that live in memory alone, replies, and
deadlines. Records and events are applied as soon as the records are appended locally, so the
next decision sees them; replies leave when the log has committed them. What is in memory
after a replay of the log is what it was before, less the events: whoever waited for an answer
asks again.

One outcome may answer many callers: a finished rebalance answers every member that waits. A
caller is a token; a machine keeps it (in an event) until it has an answer, and never looks
inside.
"""

from collections.abc import Hashable, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

Command_contra = TypeVar("Command_contra", contravariant=True)
Event = TypeVar("Event")


class Now(NamedTuple):
    """`wall_ms` is for timestamps that people see and may jump; `elapsed_ms` only rises."""

    wall_ms: int
    elapsed_ms: int


class Caller:
    """Who waits for a reply. Compared by identity."""

    __slots__ = ()


class LogRecord(NamedTuple):
    """What is written: the newest value of a key, or None to forget it."""

    key: bytes
    value: bytes | None


class ProducerIdentity(NamedTuple):
    producer_id: int
    producer_epoch: int


class Written(NamedTuple):
    """A record as it stands in the log. `producer` is set inside a transaction alone: then it
    counts only once the transaction commits."""

    record: LogRecord
    offset: int
    producer: ProducerIdentity | None = None


class Marker(NamedTuple):
    """The end of a producer's transaction in this log."""

    producer: ProducerIdentity
    committed: bool


class Reply(NamedTuple):
    caller: Caller
    response: object


class Deadline(NamedTuple):
    """Sets, moves or (with None) lifts the deadline of a key. When it passes, the machine is
    given the command that `Machine.expire` makes of the key."""

    key: Hashable
    after_ms: int | None


class Outcome(NamedTuple, Generic[Event]):
    """All of it happens, or (when the append fails) none of it."""

    records: Sequence[LogRecord] = ()
    events: Sequence[Event] = ()
    replies: Sequence[Reply] = ()
    deadlines: Sequence[Deadline] = ()
    # The records belong to this producer's open transaction.
    producer: ProducerIdentity | None = None
    # What the outcome is about; None for everything that the machine knows. The records change
    # these subjects, and the replies of an outcome without records rest on these subjects alone:
    # they wait for the newest uncommitted record about one of them, and for no other.
    subjects: Sequence[Hashable] | None = None


class Machine(Protocol[Command_contra, Event]):
    """Synchronous, without clock, loop or I/O: tests call it directly."""

    def decide(
        self, command: Command_contra, caller: Caller | None, now: Now
    ) -> Outcome[Event]: ...

    def apply(self, entry: Written | Marker | Event) -> None: ...

    def subjects_of(self, marker: Marker) -> Sequence[Hashable] | None:
        """The subjects that the marker will change when it is applied; None for all of them."""
        ...

    def expire(self, key: Hashable, now: Now) -> Outcome[Event]:
        """What follows when a deadline passes."""
        ...

    def loaded(self, now: Now) -> Outcome[Event]:
        """What follows when the log has been replayed: usually deadlines."""
        ...
