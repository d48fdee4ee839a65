"""The offsets of one log, and the order in which they must stand.

    durable start <= log start offset <= log end offset
    high watermark   <= log end offset
    first dirty offset <= log end offset

- log start offset (`start`): the first offset that a consumer may ask for. Retention and
  DeleteRecords advance it; only `reset_to` sets it back.
- durable start (`durable_start`): the lowest offset at which the log can start after a crash. It
  is lower than the log start offset until DeleteRecords has written its checkpoint.
- high watermark (`high_watermark`): the high watermark that the replica set last. The log keeps it
  for the checkpoint, for retention and for compaction, and never uses it to decide what may be
  read.
- first dirty offset (`first_dirty`): the first offset that is not compacted yet. The cleaner
  advances it, a truncation sets it back.
- log end offset (`end`): the offset that the next record gets. A truncation sets it back.

How much of the log is durable (flushed offset, recovery point) is kept by `Flusher`.
"""

from odradek.protocol.types import Offset
from odradek.storage.log_history import LogHistory


class LogOffsets:
    """The offsets of one `Log`, which alone moves them. A method that could break the order checks
    it: `reset_to` and `set_durable_start` keep it by what they assign."""

    __slots__ = ("_history", "durable_start", "end", "first_dirty", "high_watermark", "start")

    def __init__(self, start: Offset, end: Offset, history: LogHistory) -> None:
        self._history = history
        self.start = self.durable_start = self.high_watermark = self.first_dirty = start
        self.end = end
        self.check()

    def __repr__(self) -> str:
        return f"{self.start}..{self.end}"

    def advance_end(self, end: Offset) -> None:
        """Moves the log end up after an append."""
        if end <= self.end:
            raise self._history.violation(f"an append moves the log end from {self.end} to {end}")
        self.end = end

    def truncate_end(self, end: Offset) -> None:
        """Moves the log end down after a truncation, and with it every offset above it."""
        if end > self.end:
            raise self._history.violation(f"a truncation moves the log end {self.end} up to {end}")
        self.end = end
        self._limit_to_end()
        self.check()

    def reset_to(self, offset: Offset) -> None:
        """Moves all offsets of a log that was emptied: its next record gets `offset` (Kafka:
        truncateFullyAndStartAt)."""
        self.start = self.durable_start = self.end = offset
        self._limit_to_end()

    def _limit_to_end(self) -> None:
        self.high_watermark = min(self.high_watermark, self.end)
        self.first_dirty = min(self.first_dirty, self.end)

    def advance_start(self, start: Offset) -> None:
        """Moves the log start up after retention or DeleteRecords deleted the records below."""
        if not self.start < start <= self.end:
            raise self._history.violation(
                f"the log start moves from {self.start} to {start}, the log ends at {self.end}"
            )
        self.start = start

    def set_durable_start(self, start: Offset) -> None:
        """Notes that `start` is on disk. If the log was emptied meanwhile and starts at a lower
        offset, that offset is used."""
        self.durable_start = max(self.durable_start, min(start, self.start))

    def move_high_watermark(self, high_watermark: Offset) -> None:
        """Sets the high watermark. It may fall: a new leader may know only a lower one than the
        leader before."""
        if high_watermark > self.end:
            raise self._history.violation(
                f"the high watermark {high_watermark} is beyond the log end {self.end}"
            )
        self.high_watermark = high_watermark

    def move_first_dirty(self, first_dirty: Offset) -> None:
        if first_dirty > self.end:
            raise self._history.violation(
                f"the log is compacted up to {first_dirty}, but ends at {self.end}"
            )
        self.first_dirty = first_dirty

    def check(self) -> None:
        end = self.end
        is_ordered = 0 <= self.durable_start <= self.start <= end
        if not is_ordered or self.high_watermark > end or self.first_dirty > end:
            raise self._history.violation(
                f"the offsets are out of order: start {self.start} (durable "
                f"{self.durable_start}), high watermark "
                f"{self.high_watermark}, first dirty {self.first_dirty}, end {end}"
            )
