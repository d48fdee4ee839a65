"""State of operators: dicts in memory. Every change is shown to a changelog, if there is one.

Replaying the changelog of a store with `restore` makes the same store. Stores of windows forget
what is older than their retention, counted from the stream time that their operator tells them.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator
from typing import Any, Final

from odradek.streams.plan.records import Timestamped, Window

Log = Callable[[str, Any, Any], None]
"""Called with the store's name, the key in the store, and the new value or None."""


class KeyValueStore:
    """A value for each key. Reading in the order of keys needs keys that can be compared."""

    def __init__(self, name: str, log: Log | None = None) -> None:
        self.name = name
        self._log = log
        self._values: dict[Any, Any] = {}

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: Any) -> Any:
        return self._values.get(key)

    def put(self, key: Any, value: Any) -> None:
        """Stores a value; None deletes the key."""
        self.restore(key, value)
        if self._log is not None:
            self._log(self.name, key, value)

    def restore(self, key: Any, value: Any) -> None:
        if value is None:
            self._values.pop(key, None)
        else:
            self._values[key] = value

    def delete(self, key: Any) -> Any:
        value = self._values.get(key)
        if value is not None:
            self.put(key, None)
        return value

    def items(self) -> Iterator[tuple[Any, Any]]:
        """Returns all keys with their values, in the order in which keys came."""
        return iter(list(self._values.items()))

    def range(self, first: Any = None, last: Any = None) -> Iterator[tuple[Any, Any]]:
        """Returns the keys from `first` to `last`, both included, in order."""
        for key in sorted(self._values):
            if (first is None or key >= first) and (last is None or key <= last):
                yield key, self._values[key]


class WindowStore:
    """A value for each key and start of a window."""

    def __init__(self, name: str, retention_ms: int, log: Log | None = None) -> None:
        self.name = name
        self._log = log
        self._retention_ms = retention_ms
        self._starts: list[int] = []
        self._by_start: dict[int, dict[Any, Timestamped]] = {}

    def get(self, key: Any, start_ms: int) -> Timestamped | None:
        return self._by_start.get(start_ms, {}).get(key)

    def put(self, key: Any, start_ms: int, value: Timestamped) -> None:
        self.restore((key, start_ms), value)
        if self._log is not None:
            self._log(self.name, (key, start_ms), value)

    def restore(self, place: tuple[Any, int], value: Timestamped | None) -> None:
        key, start_ms = place
        if value is None:
            self._by_start.get(start_ms, {}).pop(key, None)
            return
        if start_ms not in self._by_start:
            self._by_start[start_ms] = {}
            insort(self._starts, start_ms)
        self._by_start[start_ms][key] = value

    def fetch(self, key: Any, first_ms: int, last_ms: int) -> Iterator[tuple[int, Timestamped]]:
        """Returns the windows of a key that start from `first_ms` to `last_ms`, in order."""
        for start_ms in self._between(first_ms, last_ms):
            value = self._by_start[start_ms].get(key)
            if value is not None:
                yield start_ms, value

    def items(self) -> Iterator[tuple[Any, int, Timestamped]]:
        for start_ms in list(self._starts):
            for key, value in list(self._by_start[start_ms].items()):
                yield key, start_ms, value

    def _between(self, first_ms: int, last_ms: int) -> list[int]:
        starts = self._starts
        return starts[bisect_left(starts, first_ms) : bisect_right(starts, last_ms)]

    def expire(self, stream_time_ms: int) -> None:
        """Forgets windows that started longer ago than the retention."""
        oldest_ms = stream_time_ms - self._retention_ms
        starts = self._starts
        if not starts or starts[0] >= oldest_ms:
            return
        count = bisect_left(starts, oldest_ms)
        for start_ms in starts[:count]:
            for key in self._by_start.pop(start_ms):
                if self._log is not None:
                    self._log(self.name, (key, start_ms), None)
        del starts[:count]


class SessionStore:
    """The sessions of each key, ordered by time."""

    def __init__(self, name: str, retention_ms: int, log: Log | None = None) -> None:
        self.name = name
        self._log = log
        self._retention_ms = retention_ms
        self._sessions: dict[Any, list[tuple[Window, Any]]] = {}
        self._next_sweep_ms = 0

    def overlapping(self, key: Any, first_ms: int, last_ms: int) -> list[tuple[Window, Any]]:
        """Returns the sessions that end at `first_ms` or later, and start at `last_ms` at most."""
        return [
            (window, value)
            for window, value in self._sessions.get(key, ())
            if window.end_ms >= first_ms and window.start_ms <= last_ms
        ]

    def put(self, key: Any, window: Window, value: Any) -> None:
        """Stores a session; None removes it."""
        self.restore((key, window), value)
        if self._log is not None:
            self._log(self.name, (key, window), value)

    def restore(self, place: tuple[Any, Window], value: Any) -> None:
        key, window = place
        others = [pair for pair in self._sessions.get(key, ()) if pair[0] != window]
        if value is not None:
            others.append((Window(*window), value))
            others.sort(key=lambda pair: pair[0])
        if others:
            self._sessions[key] = others
        else:
            self._sessions.pop(key, None)

    def items(self) -> Iterator[tuple[Any, Window, Any]]:
        for key, sessions in list(self._sessions.items()):
            for window, value in sessions:
                yield key, window, value

    def expire(self, stream_time_ms: int) -> None:
        """Forgets sessions that ended longer ago than the retention, now and then."""
        if stream_time_ms < self._next_sweep_ms:
            return
        self._next_sweep_ms = stream_time_ms + max(1, self._retention_ms // 4)
        for key, window, _ in list(self.items()):
            if window.end_ms < stream_time_ms - self._retention_ms:
                self.put(key, window, None)


class JoinBuffer:
    """The records of one side of a join, by key and time. A key may have many at one time."""

    def __init__(self, name: str, retention_ms: int, log: Log | None = None) -> None:
        self.name = name
        self._log = log
        self._retention_ms = retention_ms
        self._records: dict[Any, list[tuple[int, int, Any]]] = {}
        self._oldest: list[tuple[int, int, Any]] = []
        self._count = 0

    def add(self, key: Any, timestamp_ms: int, value: Any) -> None:
        place = (key, timestamp_ms, self._count)
        self.restore(place, value)
        if self._log is not None:
            self._log(self.name, place, value)

    def restore(self, place: tuple[Any, int, int], value: Any) -> None:
        key, timestamp_ms, number = place
        self._count = max(self._count, number + 1)
        records = self._records.setdefault(key, [])
        position = bisect_left(records, (timestamp_ms, number))
        if value is None:
            if position < len(records) and records[position][:2] == (timestamp_ms, number):
                del records[position]
            return
        records.insert(position, (timestamp_ms, number, value))
        insort(self._oldest, (timestamp_ms, number, key), key=_order)

    def fetch(self, key: Any, first_ms: int, last_ms: int) -> list[tuple[int, Any]]:
        """Returns the records of a key from `first_ms` to `last_ms`, by time."""
        records = self._records.get(key, [])
        start = bisect_left(records, (first_ms,))
        end = bisect_left(records, (last_ms + 1,))
        return [(timestamp_ms, value) for timestamp_ms, _, value in records[start:end]]

    def expire(self, stream_time_ms: int) -> None:
        oldest_ms = stream_time_ms - self._retention_ms
        count = 0
        for timestamp_ms, number, key in self._oldest:
            if timestamp_ms >= oldest_ms:
                break
            count += 1
            self.restore((key, timestamp_ms, number), None)
            if not self._records[key]:
                del self._records[key]
            if self._log is not None:
                self._log(self.name, (key, timestamp_ms, number), None)
        del self._oldest[:count]


def _order(entry: tuple[int, int, Any]) -> tuple[int, int]:
    return entry[:2]


class StreamTime:
    """The largest timestamp that an operator has seen. It is kept in a store, so that what was late
    before a restart is late after it."""

    def __init__(self, store: KeyValueStore, name: str) -> None:
        self._store = store
        self._name = name
        self._ms: int | None = None

    @property
    def ms(self) -> int:
        if self._ms is None:
            known = self._store.get(self._name)
            self._ms = BEFORE_ALL if known is None else int(known)
        return self._ms

    def observe(self, timestamp_ms: int) -> int:
        """Moves the time forward, if this is later, and returns it."""
        if timestamp_ms > self.ms:
            self._ms = timestamp_ms
            self._store.put(self._name, timestamp_ms)
        return self.ms


Store = KeyValueStore | WindowStore | SessionStore | JoinBuffer
BEFORE_ALL: Final = -(1 << 62)
"""A stream time at which nothing is old."""
STREAM_TIMES: Final = "stream-times"
"""The store of the stream times of all operators."""
