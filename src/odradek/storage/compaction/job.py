"""The messages between the broker and the worker that compacts. They travel as JSON.

    broker: Job ------------------------------------------------> worker
            <-- progress, from time to time (`records`, `bytes`, `pause_s`)
            <-- Replacement, for each group of segments that became one
            <-- Outcome, at the end

The worker only reads segments and writes `.cleaned` files; the broker renames them.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from odradek.protocol.types import FIRST_OFFSET, NO_OFFSET, Offset, ProducerEpoch, ProducerId

Message = dict[str, object]

Aborted = tuple[ProducerId, Offset, Offset, Offset]
"""An aborted transaction: producer, first and last offset, last stable offset."""


@dataclass(slots=True)
class Job:
    directory: str
    # Base offset and size of each segment that may be rewritten, from the log's first on.
    segments: list[tuple[Offset, int]]
    # The base offset of the first segment that is not rewritten.
    end_offset: Offset
    # A record from this offset on supersedes older records with the same key.
    first_dirty_offset: Offset
    now_ms: int
    delete_retention_ms: int
    segment_bytes: int
    segment_index_bytes: int
    index_interval_bytes: int
    key_map_bytes: int
    io_buffer_bytes: int
    max_bytes_per_second: float
    # Whether every replica of the partition has all records of the job: see `LogCleaner`.
    is_on_every_replica: bool = True
    # Every transaction that overlaps.
    aborted: list[Aborted] = field(default_factory=list)
    # Producer id, epoch, last offset of its last batch (-1 if it has none), as the log knows them.
    producers: list[tuple[ProducerId, ProducerEpoch, Offset]] = field(default_factory=list)
    # The keys of the files (`worker_disk`); None if they are not encrypted.
    encryption: Message | None = None

    def as_message(self) -> Message:
        return asdict(self)


@dataclass(slots=True)
class Replacement:
    """One `.cleaned` segment, written and synced, that replaces neighbouring segments."""

    base_offsets: list[Offset]
    end_offset: Offset
    size: int
    next_offset: Offset
    max_timestamp: int
    max_timestamp_offset: Offset
    # The aborted transactions whose markers it holds, as in `Job.aborted`.
    aborted: list[Aborted]

    def as_message(self) -> Message:
        return {"replacement": asdict(self)}


@dataclass(slots=True)
class Outcome:
    """What a pass did. `end_offset` is how far the log is compacted now."""

    end_offset: Offset = FIRST_OFFSET
    records_read: int = 0
    records_kept: int = 0
    bytes_indexed: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    keys: int = 0
    index_s: float = 0.0
    clean_s: float = 0.0
    paused_s: float = 0.0
    # Batches whose records cannot be read, which were kept as they are, and the first of them.
    unreadable: int = 0
    first_unreadable: Offset = NO_OFFSET
    # The class of the key map, for the broker's log.
    key_map: str = ""

    def as_message(self) -> Message:
        return asdict(self)


def read_job(message: Mapping[str, Any]) -> Job:
    job = Job(**message)
    # JSON knows no tuples.
    job.segments = [(base_offset, size) for base_offset, size in job.segments]
    return job


def read_replacement(message: Mapping[str, object]) -> Replacement | None:
    found = message.get("replacement")
    return Replacement(**found) if isinstance(found, dict) else None
