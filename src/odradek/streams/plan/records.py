"""What flows between operators: records, whose keys may be of a window, and changes of tables."""

from typing import Any, Final, NamedTuple


class Window(NamedTuple):
    """A span of event time. `end_ms` is the first millisecond after a tumbling or hopping window,
    and the last one in a session."""

    start_ms: int
    end_ms: int


class Windowed(NamedTuple):
    """The key of a windowed aggregate."""

    key: Any
    window: Window


class Change(NamedTuple):
    """What happened to a row of a table: its value before, and now; None where there is none."""

    old: Any
    new: Any


class Timestamped(NamedTuple):
    """A value in a store, with the largest timestamp of the records that made it."""

    value: Any
    timestamp_ms: int


NO_TIMESTAMP: Final = -1
Headers = tuple[tuple[str, bytes | None], ...]


class RecordContext:
    """Where the record that is being handled came from. One object is used for all records."""

    __slots__ = ("headers", "now_ms", "offset", "partition", "timestamp_ms", "topic")

    def __init__(self) -> None:
        self.topic = ""
        self.partition = 0
        self.offset = 0
        self.timestamp_ms = 0
        self.headers: Headers = ()
        self.now_ms = 0
        """The time of the clock, which a test driver advances."""
