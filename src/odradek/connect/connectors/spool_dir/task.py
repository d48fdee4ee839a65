"""Reads the files of a directory one after the other: which comes next, and what becomes of it.

The offset of a file, `{"offset": N, "size": B, "modified": MS}`, says how far it was read and which
file it was: one with the same name and another size or time is read from its start. `"done": true`
is added when all of it was read.

So a file that was read in part is read on exactly there, and a range gives the same records again
as long as the file is not changed. A file is moved or deleted when its end is stored, or, if the
worker ends before that, when it is seen again.
"""

import logging
import time
from collections.abc import Iterator
from datetime import datetime
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

from odradek.connect.connectors.connector import SourceTask
from odradek.connect.connectors.positions import Positions, SourceOffset
from odradek.connect.connectors.spool_dir.formats import Format, Item
from odradek.connect.connectors.spool_dir.inbox import Inbox, Waiting
from odradek.connect.connectors.spool_dir.settings import SpoolSettings
from odradek.connect.data import schemas, values
from odradek.connect.errors import DataError
from odradek.connect.records import Header, SourceRecord

_log = logging.getLogger("odradek.connect")
OFFSET: Final = "offset"
DONE: Final = "done"
_SIZE: Final = "size"
_MODIFIED: Final = "modified"
_MAX_BATCH_BYTES: Final = 16 << 20


class Batch(NamedTuple):
    """The records of a file between two offsets."""

    file: Waiting
    start: int
    end: SourceOffset
    records: list[SourceRecord]


class Open(NamedTuple):
    file: Waiting
    items: Iterator[Item]
    # How far `items` has come.
    offset: int


class SpoolTask(SourceTask):
    def __init__(self, settings: SpoolSettings, format_: Format) -> None:
        self._settings = settings
        self._format = format_
        self._inbox = Inbox(settings)
        self._open: Open | None = None
        self._batches: list[Batch] = []
        self._unfinished: dict[str, Waiting] = {}
        self._look_again_s = 0.0

    def reach(self, start: Positions, max_records: int) -> Positions:
        end = start
        self._batches = []
        if not self._open and time.monotonic() < self._look_again_s:
            return start
        left, left_bytes = min(max_records, self._settings.batch_size), _MAX_BATCH_BYTES
        for file in self._waiting(start):
            batch = self._batch(file, _offset(start, file), left)
            if batch is not None:
                self._batches.append(batch)
                end = end.with_offset(file.partition, batch.end)
                left -= len(batch.records)
                left_bytes -= file.size
            if left <= 0 or left_bytes <= 0 or (batch is not None and not batch.end.get(DONE)):
                return end
        self._look_again_s = time.monotonic() + self._settings.empty_poll_wait_ms / 1000
        return end

    def read(self, start: Positions, end: Positions) -> Iterator[SourceRecord]:
        for partition, offset in end.since(start):
            name = str(partition["fileName"])
            begin = start.of(partition)
            for batch in self._batches:
                is_same = batch.file.name == name and batch.end == offset
                if is_same and batch.start == _begin(begin, batch.file):
                    yield from batch.records
                    break
            else:
                yield from self._again(name, begin, offset)

    def stored(self, positions: Positions) -> None:
        for name, file in list(self._unfinished.items()):
            offset = positions.of(file.partition)
            if offset is not None and offset.get(DONE) and _is_of(offset, file):
                self._inbox.finish(file)
                del self._unfinished[name]

    def close(self) -> None:
        self._open = None

    def _waiting(self, start: Positions) -> Iterator[Waiting]:
        """Returns the files to read. Finished ones are put away where they are still there."""
        opened = self._open
        if opened is not None:
            yield opened.file
        for file in self._inbox.waiting():
            if opened is not None and file.name == opened.file.name:
                continue
            offset = start.of(file.partition)
            is_done = offset is not None and offset.get(DONE) and _is_of(offset, file)
            if not is_done:
                yield file
            elif self._settings.cleanup_policy != "NONE" and file.name not in self._unfinished:
                self._inbox.finish(file)

    def _batch(self, file: Waiting, start: int, limit: int) -> Batch | None:
        """Returns the next records of a file; None if the file was refused."""
        items, at = self._items(file, start)
        records: list[SourceRecord] = []
        is_done = False
        try:
            for item in islice(items, limit):
                records.append(self._record(file, item))
                at = item.offset
            is_done = len(records) < limit
        except (DataError, OSError, UnicodeError, EOFError) as error:
            self._open = None
            if not records:
                self._refuse(file, start, error)
                return None
            # What is before the error is read first; the next look finds the error again.
            return Batch(file, start, self._end(file, at, is_done=False), records)
        self._open = None if is_done else Open(file, items, at)
        if is_done:
            self._unfinished[file.name] = file
        return Batch(file, start, self._end(file, at, is_done=is_done), records)

    def _items(self, file: Waiting, start: int) -> tuple[Iterator[Item], int]:
        opened = self._open
        if opened is not None and opened.file == file and opened.offset == start:
            return opened.items, start
        return self._format.items(file.path, start), start

    def _refuse(self, file: Waiting, start: int, error: Exception) -> None:
        target = self._inbox.refuse(file)
        before = f"; what is before {start + 1} in it has been written" if start else ""
        message = f"{file.path}: {error} (the file is now {target}{before})"
        if self._settings.halt_on_error:
            raise DataError(message) from error
        _log.error("%s", message)

    def _end(self, file: Waiting, offset: int, *, is_done: bool) -> dict[str, Any]:
        end: dict[str, Any] = {OFFSET: offset, _SIZE: file.size, _MODIFIED: file.modified_ms}
        return {**end, DONE: True} if is_done else end

    def _again(
        self, name: str, begin: SourceOffset | None, end: SourceOffset
    ) -> Iterator[SourceRecord]:
        """Reads a range that another task has found."""
        path = Path(self._settings.input_path) / name
        try:
            status = path.stat()
        except OSError as error:
            raise DataError(f"{path} is gone, and was to be read again") from error
        file = Waiting(path, name, status.st_size, status.st_mtime_ns // 1_000_000)
        for item in self._format.items(path, _begin(begin, file)):
            if item.offset > int(end[OFFSET]):
                break
            yield self._record(file, item)

    def _record(self, file: Waiting, item: Item) -> SourceRecord:
        return SourceRecord(
            self._settings.topic,
            key=item.key,
            value=item.value,
            key_schema=item.key_schema,
            value_schema=item.value_schema,
            timestamp_ms=self._timestamp(file, item),
            headers=_headers(file, item.offset),
            source_partition=file.partition,
            source_offset=self._end(file, item.offset, is_done=False),
        )

    def _timestamp(self, file: Waiting, item: Item) -> int | None:
        match self._settings.timestamp_mode:
            case "FILE_TIME":
                return file.modified_ms
            case "FIELD":
                name = str(self._settings.timestamp_field)
                moment = item.value.get(name) if isinstance(item.value, dict) else None
                if not isinstance(moment, datetime):
                    raise DataError(
                        f"field {name} at {item.offset} is not a Timestamp: check timestamp.field"
                    )
                return values.timestamp_to_ms(moment)
        return None


def _offset(positions: Positions, file: Waiting) -> int:
    return _begin(positions.of(file.partition), file)


def _begin(offset: SourceOffset | None, file: Waiting) -> int:
    """Returns where to begin. A file that was replaced or changed since is read from its start;
    other connectors do not say which file an offset is of."""
    if offset is None or offset.get(DONE) or (_SIZE in offset and not _is_of(offset, file)):
        return 0
    return int(offset.get(OFFSET, 0))


def _is_of(offset: SourceOffset, file: Waiting) -> bool:
    return (offset.get(_SIZE), offset.get(_MODIFIED)) == (file.size, file.modified_ms)


def _headers(file: Waiting, offset: int) -> tuple[Header, ...]:
    return (Header("file.offset", schemas.INT64, offset), *_headers_of_file(file))


@lru_cache(maxsize=8)
def _headers_of_file(file: Waiting) -> tuple[Header, ...]:
    path = file.path.absolute()
    found = [
        Header("file.name", schemas.STRING, path.name),
        Header("file.name.without.extension", schemas.STRING, path.stem),
        Header("file.path", schemas.STRING, str(path)),
        Header("file.parent.dir.name", schemas.STRING, path.parent.name),
        Header("file.length", schemas.INT64, file.size),
        Header("file.last.modified", schemas.timestamp(), values.ms_to_timestamp(file.modified_ms)),
    ]
    if "/" in file.name:
        relative = file.name.rpartition("/")[0]
        found.append(Header("file.relative.path", schemas.STRING, relative))
    return tuple(found)
