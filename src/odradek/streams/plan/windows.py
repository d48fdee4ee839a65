"""Windows of event time, with how long they are kept and how long late records are waited for.

Grace counts from the end of a window: a record is late when stream time has reached the end and the
grace period is over. Retention is how long a window can be read; it is at least size and grace.
"""

from dataclasses import dataclass
from typing import Final

from odradek.streams.plan.records import Window

DAY_MS: Final = 86_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeWindows:
    """Tumbling windows, or hopping ones if `advance_ms` is less than the size. Windows are aligned
    to the epoch."""

    size_ms: int
    advance_ms: int
    grace_ms: int
    retention_ms: int | None = None

    def __post_init__(self) -> None:
        if self.size_ms <= 0:
            raise ValueError("the size of a window is at least one millisecond")
        if not 0 < self.advance_ms <= self.size_ms:
            raise ValueError("a window advances by at least one millisecond, at most by its size")
        _check_grace(self.grace_ms, self.retention_ms, self.size_ms)

    @property
    def kept_ms(self) -> int:
        return max(self.retention_ms or 0, self.size_ms + self.grace_ms)

    @property
    def closes_after_ms(self) -> int:
        """How much stream time must pass after the end of a window until nothing changes it."""
        return self.grace_ms

    def starts_of(self, timestamp_ms: int) -> range:
        """Returns the starts of the windows that a time is in, the earliest first."""
        advance_ms = self.advance_ms
        first = max(0, timestamp_ms - self.size_ms + advance_ms) // advance_ms * advance_ms
        return range(first, timestamp_ms + 1, advance_ms)

    def window(self, start_ms: int) -> Window:
        return Window(start_ms, start_ms + self.size_ms)

    def __str__(self) -> str:
        if self.advance_ms == self.size_ms:
            return f"TUMBLING (SIZE {self.size_ms} MILLISECONDS)"
        return f"HOPPING (SIZE {self.size_ms}, ADVANCE BY {self.advance_ms} MILLISECONDS)"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionWindows:
    """A session of a key is extended by each record that is at most `gap_ms` away from it."""

    gap_ms: int
    grace_ms: int
    retention_ms: int | None = None

    def __post_init__(self) -> None:
        if self.gap_ms <= 0:
            raise ValueError("the gap between sessions is at least one millisecond")
        _check_grace(self.grace_ms, self.retention_ms, self.gap_ms)

    @property
    def kept_ms(self) -> int:
        return max(self.retention_ms or 0, self.gap_ms + self.grace_ms)

    @property
    def closes_after_ms(self) -> int:
        """How much stream time must pass after the end of a session until nothing changes it: a
        record within the gap would extend it."""
        return self.gap_ms + self.grace_ms

    def __str__(self) -> str:
        return f"SESSION ({self.gap_ms} MILLISECONDS)"


Windows = TimeWindows | SessionWindows


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinWindows:
    """Two records join if the right one is at most `before_ms` earlier and `after_ms` later than
    the left one.

    A record of an outer side that finds no partner is emitted without one when the window is
    closed. `is_eager` emits it at once, and again with a partner that comes later, as ksqlDB does
    for joins without a grace period.
    """

    before_ms: int
    after_ms: int
    grace_ms: int
    is_eager: bool = False

    def __post_init__(self) -> None:
        if self.before_ms + self.after_ms < 0:
            raise ValueError("a join's window ends before it begins")
        if self.grace_ms < 0:
            raise ValueError("a grace period is not negative")

    @property
    def kept_ms(self) -> int:
        return self.before_ms + self.after_ms + self.grace_ms

    def __str__(self) -> str:
        return f"WITHIN ({self.before_ms}, {self.after_ms} MILLISECONDS)"


def _check_grace(grace_ms: int, retention_ms: int | None, length_ms: int) -> None:
    if grace_ms < 0:
        raise ValueError("a grace period is not negative")
    if retention_ms is not None and retention_ms < length_ms + grace_ms:
        raise ValueError(
            f"the retention of {retention_ms} ms is shorter than the window and its grace period"
            f" ({length_ms + grace_ms} ms)"
        )
