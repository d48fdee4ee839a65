"""The leader epochs of a log and their start offsets. Replicas compare them to find the offset at
which their logs diverge.

Invariant: epochs and their start offsets both rise. The file `leader-epoch-checkpoint` may be older
than what is in memory: recovery reads missing epochs from the batches, and the recovery point never
passes an epoch that is not in the file.
"""

from bisect import bisect_left, bisect_right
from typing import Final

from odradek.protocol.types import LeaderEpoch, Offset
from odradek.storage.errors import StorageError
from odradek.storage.index import is_rising
from odradek.storage.log_history import LogHistory
from odradek.storage.text_files import decode_lines, encode_lines

UNKNOWN_EPOCH: Final = LeaderEpoch(-1)
UNKNOWN_OFFSET: Final = Offset(-1)


class LeaderEpochs:
    __slots__ = ("epochs", "is_dirty", "latest", "start_offsets")

    def __init__(self) -> None:
        self.epochs: list[LeaderEpoch] = []
        self.start_offsets: list[Offset] = []
        self.latest = UNKNOWN_EPOCH
        # Whether the file is out of date.
        self.is_dirty = False

    def assign(self, epoch: LeaderEpoch, start_offset: Offset) -> None:
        """The epoch begins at this offset. Entries that contradict it are removed."""
        if epoch < 0 or start_offset < 0:
            return
        if self.epochs and epoch == self.epochs[-1] and start_offset >= self.start_offsets[-1]:
            return
        while self.epochs and (self.epochs[-1] >= epoch or self.start_offsets[-1] >= start_offset):
            self.epochs.pop()
            self.start_offsets.pop()
        self.epochs.append(epoch)
        self.start_offsets.append(start_offset)
        self._mark_changed()

    def end_offset_for(
        self, epoch: LeaderEpoch, log_end_offset: Offset
    ) -> tuple[LeaderEpoch, Offset]:
        """The largest known epoch up to `epoch` and where it ends; (-1, -1) if unknown."""
        if epoch < 0 or not self.epochs:
            return UNKNOWN_EPOCH, UNKNOWN_OFFSET
        if epoch == self.epochs[-1]:
            return epoch, log_end_offset
        higher = bisect_right(self.epochs, epoch)
        if higher == len(self.epochs):
            return UNKNOWN_EPOCH, UNKNOWN_OFFSET
        if not higher:
            # All records of that epoch were deleted: the follower continues at the first one left.
            return epoch, self.start_offsets[0]
        return self.epochs[higher - 1], self.start_offsets[higher]

    def epoch_for(self, offset: Offset) -> LeaderEpoch:
        """The epoch in which an offset was written; -1 if unknown."""
        number = bisect_right(self.start_offsets, offset)
        return self.epochs[number - 1] if number else UNKNOWN_EPOCH

    def truncate_from_end(self, end_offset: Offset) -> None:
        """Drops the epochs that begin at or above the new end of the log."""
        keep = bisect_left(self.start_offsets, end_offset)
        if keep < len(self.epochs):
            del self.epochs[keep:], self.start_offsets[keep:]
            self._mark_changed()

    def truncate_from_start(self, start_offset: Offset) -> None:
        """Drops the epochs that ended before the log start. The epoch that contains the log start
        begins there now."""
        count = bisect_right(self.start_offsets, start_offset)
        if count and self.start_offsets[count - 1] < start_offset:
            del self.epochs[: count - 1], self.start_offsets[: count - 1]
            self.start_offsets[0] = start_offset
            self._mark_changed()
        elif count > 1:
            del self.epochs[: count - 1], self.start_offsets[: count - 1]
            self._mark_changed()

    def clear(self) -> None:
        if self.epochs:
            self.epochs.clear()
            self.start_offsets.clear()
            self._mark_changed()

    def _mark_changed(self) -> None:
        self.latest = self.epochs[-1] if self.epochs else UNKNOWN_EPOCH
        self.is_dirty = True

    def take_unsynced(self) -> bytes | None:
        """The content for the file if it lacks something. `is_dirty` is to be set again if it is
        not written."""
        if not self.is_dirty:
            return None
        self.is_dirty = False
        return self.encode()

    def check(self, log_start_offset: Offset, log_end_offset: Offset, history: LogHistory) -> None:
        """Walks over all epochs: both columns rise, and none begins outside the log."""
        epochs, starts = self.epochs, self.start_offsets
        if (
            not is_rising(epochs)
            or not is_rising(starts)
            or len(epochs) != len(starts)
            or (starts and not log_start_offset <= starts[0] <= starts[-1] <= log_end_offset)
            or self.latest != (epochs[-1] if epochs else UNKNOWN_EPOCH)
        ):
            raise history.violation(
                f"leader epochs {epochs} (latest {self.latest}) begin at {starts}, but the log "
                f"has the offsets {log_start_offset} to {log_end_offset}"
            )

    def encode(self) -> bytes:
        pairs = zip(self.epochs, self.start_offsets, strict=True)
        return encode_lines([f"{epoch} {offset}" for epoch, offset in pairs])

    @classmethod
    def decode(cls, content: bytes) -> "LeaderEpochs":
        epochs = cls()
        for line in decode_lines(content):
            fields = line.split(" ")
            if len(fields) != 2:
                raise StorageError(f"leader-epoch-checkpoint has a malformed line: {line!r}")
            epochs.assign(LeaderEpoch(int(fields[0])), Offset(int(fields[1])))
        epochs.is_dirty = False
        return epochs
