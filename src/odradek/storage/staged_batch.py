"""The bytes of a large batch beyond the end of a segment, before it is appended (see `staging`)."""

from collections.abc import Iterator
from functools import partial
from typing import Final

from odradek.protocol.records import PREFIX_SIZE
from odradek.world import Workers
from odradek.world.disk import Buffer, File
from odradek.world.workers import WorkerLock


class Sizes:
    """A batch of more than `large_bytes` is staged, and written `chunk_bytes` at a time. The
    simulation makes both smaller (`simulation.batch_staging`)."""

    __slots__ = ("chunk_bytes", "large_bytes")

    def __init__(self) -> None:
        self.large_bytes = 2 << 20
        self.chunk_bytes = 1 << 20


STAGING_SIZES: Final = Sizes()


class StagedBatch:
    """One batch that is being written beyond the end of a segment. `Segment` makes and drops it."""

    __slots__ = (
        "_is_cancelled",
        "_lock",
        "handle",
        "is_whole",
        "position",
        "records",
        "writes_ahead",
    )

    def __init__(
        self, handle: File, position: int, records: Buffer, *, writes_ahead: bool = True
    ) -> None:
        self.handle = handle
        # An encrypted file is only appended to: then all of the batch is written when it is
        # appended.
        self.writes_ahead = writes_ahead
        # Where the batch begins in the file.
        self.position = position
        self.records = records
        self.is_whole = False
        self._is_cancelled = False
        self._lock = WorkerLock()

    def holds(self, records: Buffer) -> bool:
        """Returns whether this batch was staged, and completely."""
        return self.is_whole and self.records is records

    async def write(self, workers: Workers) -> None:
        """Writes all but the first 16 bytes. Stops when `cancel` was called."""
        for position, chunk in self._chunks():
            await workers.run_blocking(partial(self._write_chunk, position, chunk))
            if self._is_cancelled:
                return
        self.is_whole = True

    def write_at_once(self) -> None:
        for position, chunk in self._chunks():
            self._write_chunk(position, chunk)
        self.is_whole = True

    def _chunks(self) -> Iterator[tuple[int, memoryview]]:
        if not self.writes_ahead:
            return
        view, step = memoryview(self.records), STAGING_SIZES.chunk_bytes
        for start in range(PREFIX_SIZE, len(view), step):
            yield self.position + start, view[start : start + step]

    def _write_chunk(self, position: int, chunk: memoryview) -> None:
        """Runs in a worker thread."""
        with self._lock:
            if not self._is_cancelled:
                self.handle.write_at(position, [chunk])

    def cancel(self) -> None:
        """When this returns no thread writes this batch any more."""
        self._is_cancelled = True
        with self._lock:
            pass
