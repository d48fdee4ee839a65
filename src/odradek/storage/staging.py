"""Large batches are written behind the end of the log first, and appended afterwards.

A hundred megabytes take the disk's cache a third of a second, and their checksum a tenth of it. So
a batch above `large_bytes` is *staged*: a worker thread writes all of it but its first 16 bytes
(base offset, length, leader epoch) to where the next append will go, a piece at a time. Nobody
sees these bytes, because they lie behind the end of the segment; a crash leaves a batch without a
head, and recovery cuts it off. `Log.append` then decides as for any other batch, and writes the
16 bytes: from then on the batch is in the log.

Batches of clients wait while another is staged, in the order in which they came (`room_for`). What
cannot wait does not: a marker, a truncation, a roll or a clean stop takes the stage away (waiting
for the piece that is just being written), cuts the file back, and goes on as if nothing had been
there. The batch is then staged again; if that happens often, at once and on the event loop.

Invariant: between `is_whole` and the append that uses the stage, nothing else is awaited.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from odradek.storage.staged_batch import STAGING_SIZES
from odradek.world.disk import Buffer

if TYPE_CHECKING:
    from odradek.storage.log import Log

# How often a batch is staged again when something that cannot wait came in between.
_MAX_TRIES: Final = 3


@asynccontextmanager
async def room_for(log: "Log", records: Buffer) -> AsyncIterator[None]:
    """Waits for large batches that came before, and stages this one if it is large itself.

    The caller appends it inside, without awaiting anything before. Raises `StorageError`.
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
