"""A state machine whose state is the content of a log.

A machine is two functions:

    decide(command, caller, now) -> Outcome      reads the state and changes nothing
    apply(entry)                                 changes the state and decides nothing

The runner (`statemachine.runner`) calls them. It carries out an outcome in this order:

1. It appends the outcome's records to the log, all of them or none.
2. It applies the records, then the outcome's events. Events change the state in memory and are
   never written. The next decision sees both.
3. It sets the deadlines, writes the log lines and performs the effects.
4. It sends the replies when the log has committed the records that they depend on.

If the append fails, nothing of the outcome happens. After a replay of the log a machine is in the
same state as before, without the effect of events: a client that waited for a reply asks again.

One outcome may answer many callers: a finished rebalance answers every member that waits. A
machine may keep a caller (in an event) until it has a reply for it.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, Never, Protocol, TypeVar, dataclass_transform

from odradek.protocol.types import Offset, ProducerEpoch, ProducerId

R = TypeVar("R")
T = TypeVar("T")
R_contra = TypeVar("R_contra", contravariant=True)
Event = TypeVar("Event")
Effect = TypeVar("Effect")
Image = TypeVar("Image")


class Command(Generic[R]):
    """A request to a machine; `R` is the type of its reply. Subclasses are `command_class`es."""

    __slots__: tuple[str, ...] = ()

    def __repr__(self) -> str:
        fields = (f"{name}={getattr(self, name)!r}" for name in self.__slots__)
        return f"{type(self).__name__}({', '.join(fields)})"


@dataclass_transform(eq_default=False)
def command_class(command_type: type[T]) -> type[T]:
    """Makes a dataclass of a command. Commands are never changed after they were made.

    The dataclass is not frozen, because making a frozen instance takes three times as long, and
    each heartbeat makes one. It has no methods that commands do not need, because they are made
    when the broker starts: 0.12 ms for a class instead of 0.5 ms.
    """
    # Without a docstring, `dataclass` would compute one from the signature, which takes long.
    command_type.__doc__ = command_type.__doc__ or command_type.__name__
    return dataclass(slots=True, eq=False, repr=False, match_args=False)(command_type)


class Caller(Generic[R_contra]):
    """A client that waits for a reply of type `R`. Callers are compared by identity."""

    __slots__ = ()


class DecisionContext(NamedTuple, Generic[Image]):
    """What a decision may depend on besides the command and the machine's state."""

    # The time of day, which may jump.
    wall_ms: int
    # The cluster as this broker knows it at the moment of the decision.
    image: Image
    # Returns whether every record about a subject (`Outcome.subjects`) is committed. Until then no
    # client has been told of the newest record, so no new request can be a reaction to it.
    is_committed: Callable[[Hashable], bool]


class LogRecord(NamedTuple):
    """A record to be written: the newest value of its key, or None to delete the key."""

    key: bytes
    value: bytes | None


class ProducerIdentity(NamedTuple):
    producer_id: ProducerId
    producer_epoch: ProducerEpoch


class Written(NamedTuple):
    """A record of the log. If it is part of a transaction, `producer` is the producer, and the
    record takes effect when the transaction commits."""

    record: LogRecord
    offset: Offset
    producer: ProducerIdentity | None = None


class Marker(NamedTuple):
    """The control record that ends a producer's transaction in this log."""

    producer: ProducerIdentity
    committed: bool


class Reply(NamedTuple, Generic[R]):
    caller: Caller[R]
    response: R


class Deadline(NamedTuple):
    """Sets or moves the deadline of a key, or removes it if `after_ms` is None. When a deadline
    passes, the runner calls `Machine.expire` with the key."""

    key: Hashable
    after_ms: int | None


class LogLine(NamedTuple):
    """A line of the application log, at level INFO. `arguments` are formatted when it is
    written."""

    logger: str
    message: str
    arguments: tuple[object, ...] = ()
    # Whether a client can cause such lines as often as it likes: then only some are written.
    is_limited: bool = False


class Outcome(NamedTuple, Generic[Event, Effect]):
    """What follows from a decision. All of it happens or, when the append fails, none of it."""

    records: Sequence[LogRecord] = ()
    events: Sequence[Event] = ()
    replies: Sequence[Reply[Any]] = ()
    deadlines: Sequence[Deadline] = ()
    # The records belong to this producer's open transaction.
    producer: ProducerIdentity | None = None
    # The things that the outcome is about; None stands for everything in the machine. The records
    # change these subjects, and the replies of an outcome without records depend on these subjects
    # alone: they wait for the newest uncommitted record about one of them, and for no other.
    subjects: Sequence[Hashable] | None = None
    # What the owner of the runner has to do once the records are appended.
    effects: Sequence[Effect] = ()
    log_lines: Sequence[LogLine] = ()


class Machine(Protocol[Event, Effect, Image]):
    """A machine has no clock, no event loop and no I/O, so tests call it directly."""

    def decide(
        self, command: Command[R], caller: Caller[R] | None, now: DecisionContext[Image]
    ) -> Outcome[Event, Effect]:
        """Raises `ApiError` to refuse the command; then nothing happens."""
        ...

    def apply(self, entry: Written | Marker | Event) -> None: ...

    def subjects_of(self, marker: Marker) -> Sequence[Hashable] | None:
        """Returns the subjects that the marker will change when it is applied; None for all."""
        ...

    def expire(self, key: Hashable, now: DecisionContext[Image]) -> Outcome[Event, Effect]:
        """Decides what follows from a deadline that has passed."""
        ...

    def after_load(self, now: DecisionContext[Image]) -> Outcome[Event, Effect]:
        """Decides what follows when the log has been replayed: usually deadlines."""
        ...


C = TypeVar("C", bound=Command[Any])


class Decisions(Generic[Event, Effect, Image]):
    """The functions that decide about commands, one for each type of command."""

    __slots__ = ("_by_type",)

    def __init__(self) -> None:
        self._by_type: dict[type, Callable[..., Outcome[Event, Effect]]] = {}

    def on(
        self,
        command_type: type[C],
        decide: Callable[[C, Caller[R] | None, DecisionContext[Image]], Outcome[Event, Effect]],
    ) -> None:
        """Python's types cannot say that `R` is the reply type of `C`; a unit test compares the
        annotations of each function in a table with its command."""
        self._by_type[command_type] = decide

    def decide(
        self, command: Command[R], caller: Caller[R] | None, now: DecisionContext[Image]
    ) -> Outcome[Event, Effect]:
        return self._by_type[type(command)](command, caller, now)


def reply_to(caller: Caller[R] | None, response: R) -> Sequence[Reply[R]]:
    """Returns the replies of an outcome that answers one caller, if there is one."""
    return () if caller is None else (Reply(caller, response),)


def no_effects(effect: Never) -> None:
    """Performs the effects of a machine that has none."""
