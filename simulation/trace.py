"""The trace of a run: one readable line for each event, with virtual time, host and text.

Two runs of one seed must give the same lines. Lines hold only what the seed decides: no
addresses, no wall clock, no set order.
"""

import hashlib
from collections.abc import Callable, Iterator
from itertools import islice


class Trace:
    """Keeps events unformatted until the trace is read, because most runs pass and their traces
    are never read."""

    __slots__ = ("_events", "_is_sealed", "_now_s")

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._events: list[tuple[float, str, str, tuple[object, ...]]] = []
        self._is_sealed = False

    def add(self, host: str, event: str, *details: str | int) -> None:
        """`event` is a %-format if there are details, which must be of immutable types."""
        if not self._is_sealed:
            self._events.append((self._now_s(), host, event, details))

    def seal(self, event: str) -> None:
        """Adds the last line. Events of coroutines that are unwound afterwards are dropped."""
        self.add("-", event)
        self._is_sealed = True
        self._now_s = float

    def __iter__(self) -> Iterator[str]:
        for now_s, host, event, details in self._events:
            text = event % details if details else event
            yield f"{now_s:14.6f} {host:<12} {text}"

    def __len__(self) -> int:
        return len(self._events)

    def tail(self, count: int) -> list[str]:
        """The last lines."""
        return list(islice(self, max(0, len(self) - count), None))

    def text(self) -> str:
        return "".join(line + "\n" for line in self)

    def digest(self) -> str:
        """Equal digests mean equal traces."""
        return hashlib.sha256(self.text().encode()).hexdigest()
