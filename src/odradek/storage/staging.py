"""Large batches are written beyond the end of the log by a worker thread, and appended afterwards.

To write a hundred megabytes to the page cache takes a third of a second, and their checksum a tenth
of a second. So a batch above `large_bytes` is *staged*:

1. A worker thread writes all of it but its first 16 bytes (base offset, length, leader epoch) to
   the place of the next append, a chunk at a time. Readers do not see these bytes, because they lie
   beyond the end of the segment. After a crash they are a batch without a header, which recovery
   truncates.
2. `Log.append` checks the batch as any other, and writes the 16 bytes. From then on the batch is in
   the log.

Batches of other clients wait meanwhile, in the order in which they came (`room_for`). A transaction
marker, a truncation, a roll and a clean shutdown do not wait: they cancel the staged batch (waiting
only for the chunk that is being written), truncate the file and go on. The batch is then staged
again; after a few such tries it is written at once, on the event loop.

Invariant: between `is_whole` and the append that uses the staged batch, nothing else is awaited.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from odradek.storage.staged_batch import STAGING_SIZES
from odradek.world.disk import Buffer

if TYPE_CHECKING:
    from odradek.storage.log import Log

# How often a batch is staged by a worker thread before it is written on the event loop.
_MAX_TRIES: Final = 3


@asynccontextmanager
async def room_for(log: "Log", records: Buffer) -> AsyncIterator[None]:
    """Waits for large batches that came before, and stages this one if it is large itself.

    The caller appends the batch inside, before it awaits anything else. A batch that was staged and
    not appended is removed at the end. Raises `StorageError`.
    """
    async with log.staging_lock:
        try:
            if len(records) > STAGING_SIZES.large_bytes:
                await _stage(log, records)
            yield
        finally:
            log.drop_stage(records)


async def _stage(log: "Log", records: Buffer) -> None:
    for _ in range(_MAX_TRIES):
        stage = log.begin_stage(records)
        with log.directory.disk_errors():
            await stage.write(log.workers)
        if stage.is_whole:
            return
    stage = log.begin_stage(records)
    with log.directory.disk_errors():
        stage.write_at_once()
