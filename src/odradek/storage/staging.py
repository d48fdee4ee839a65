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

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from odradek.protocol.records import read_header
from odradek.storage import rolling
from odradek.storage.stage import SIZES, Stage
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
    if log.staging is None:
        log.staging = asyncio.Lock()
    async with log.staging:
        try:
            if len(records) > SIZES.large_bytes:
                await _stage(log, records)
            yield
        finally:
            _drop(log, records)


async def _stage(log: "Log", records: Buffer) -> None:
    for _ in range(_MAX_TRIES):
        stage = _begin(log, records)
        try:
            await stage.write(log.world.workers)
        except OSError as error:
            raise log.directory.fail(error) from error
        if stage.is_whole:
            return
    stage = _begin(log, records)
    with log.disk_errors():
        stage.write_at_once()


def _begin(log: "Log", records: Buffer) -> Stage:
    log.require_room()
    header = read_header(records)
    last_offset = log.log_end_offset + header.last_offset_delta
    now_ms = log.world.clock.now_ms()
    with log.disk_errors():
        if rolling.must_roll(log, len(records), last_offset, header.max_timestamp, now_ms):
            rolling.roll(log, log.log_end_offset)
        return log.active_segment.begin_stage(records)


def _drop(log: "Log", records: Buffer) -> None:
    """What was staged and not appended goes: refused, a duplicate, or the client is gone."""
    segment = log.active_segment
    if segment.stage is not None and segment.stage.records is records:
        try:
            segment.drop_stage()
        except OSError as error:
            # Bytes that belong to nobody lie behind the end of the file.
            log.directory.fail(error)
