"""The lines of a file, as they are written.

It is `org.apache.kafka.connect.file.FileStreamSourceConnector`. A record is a line that is
complete, without its end. The offset is the position after it. The file may be made later than the
connector. If another file takes its name (rotation), the rest of the first one is read before the
new one; if it becomes shorter than what was read, it is read from its start. In both cases the task
goes to position 0 by a range without records, because a position in one file says nothing of the
other.
"""

import logging
import os
from collections.abc import Iterator
from typing import Any, BinaryIO, ClassVar, Final

from odradek.config.kinds import integer, string
from odradek.config.setting import Importance
from odradek.connect.connectors.connector import SourceConnector, SourceTask
from odradek.connect.connectors.positions import Positions, SourceOffset, SourcePartition
from odradek.connect.data import schemas
from odradek.connect.errors import DataError
from odradek.connect.records import SourceRecord
from odradek.connect.settings import REQUIRED, PluginSettings

FILENAME: Final = "filename"
POSITION: Final = "position"
_CHUNK_BYTES: Final = 1 << 16
_MAX_LINE_BYTES: Final = 64 << 20

_log = logging.getLogger("odradek.connect")


class FileSourceSettings(PluginSettings):
    file = string(
        "file",
        None,
        "The file to read. A worker does not read its standard input.",
        importance=Importance.HIGH,
    )
    topic = string(
        "topic",
        REQUIRED,
        "The topic for the lines.",
        may_be_empty=False,
        importance=Importance.HIGH,
    )
    batch_size = integer(
        "batch.size",
        2000,
        "The number of lines that are read at once, at most.",
        at_least=1,
        importance=Importance.LOW,
    )


class FileSource(SourceConnector):
    settings_class: ClassVar = FileSourceSettings
    keeps_no_offsets: ClassVar = True

    def __init__(self, settings: FileSourceSettings) -> None:
        self._settings = settings

    def task(self) -> "FileSourceTask":
        path = self._settings.file
        if not path:
            raise DataError("file is not set: name the file to read")
        return FileSourceTask(path, self._settings.topic, self._settings.batch_size)

    def check_offset(self, partition: SourcePartition, offset: SourceOffset | None) -> None:
        if partition.keys() != {FILENAME}:
            raise DataError(f"Partition objects should contain the key '{FILENAME}' alone")
        position = 0 if offset is None else offset.get(POSITION)
        if position is None:
            raise DataError(f"Offset objects should either be null or contain the key '{POSITION}'")
        if isinstance(position, bool) or not isinstance(position, int):
            raise DataError(
                f"The value for the '{POSITION}' key in the offset is expected to be a whole number"
            )
        if position < 0:
            raise DataError(
                f"The value for the '{POSITION}' key in the offset should be a non-negative value"
            )


class FileSourceTask(SourceTask):
    def __init__(self, path: str, topic: str, batch_size: int) -> None:
        self._path = path
        self._topic = topic
        self._batch_size = batch_size
        # The file that is being read, and the one that has its name now, if that is another one.
        self._open: BinaryIO | None = None
        self._next: BinaryIO | None = None
        self._has_said_missing = False

    def partition(self) -> SourcePartition:
        return {FILENAME: self._path}

    def reach(self, start: Positions, max_records: int) -> Positions:
        begin = self._position(start)
        file = self._current()
        if file is None:
            return start
        if _size(file) < begin:
            return self._at(start, 0)  # It was truncated.
        end = _end_of_lines(file, begin, min(max_records, self._batch_size))
        if end > begin:
            return self._at(start, end)
        if self._has_successor():
            self._follow()
            return self._at(start, 0) if begin else self.reach(start, max_records)
        return start

    def read(self, start: Positions, end: Positions) -> Iterator[SourceRecord]:
        file = self._open or self._current()
        if file is None:
            raise DataError(f"{self._path} is gone, and was to be read again")
        first, last = self._position(start), self._position(end)
        position = first
        for line in _lines(file, first, last):
            position += len(line)
            yield SourceRecord(
                self._topic,
                value=_text(line),
                value_schema=schemas.STRING,
                source_partition=self.partition(),
                source_offset={POSITION: position},
            )

    def close(self) -> None:
        for file in (self._open, self._next):
            if file is not None:
                file.close()
        self._open = self._next = None

    def _position(self, positions: Positions) -> int:
        offset = positions.of(self.partition())
        return 0 if offset is None else _position(offset)

    def _at(self, positions: Positions, position: int) -> Positions:
        return positions.with_offset(self.partition(), {POSITION: position})

    def _current(self) -> BinaryIO | None:
        if self._open is None:
            self._open = self._opened()
            if self._open is None and not self._has_said_missing:
                self._has_said_missing = True
                _log.warning("there is no file %s yet; it is read when it is there", self._path)
        return self._open

    def _opened(self) -> BinaryIO | None:
        try:
            return open(self._path, "rb")
        except FileNotFoundError:
            return None
        except OSError as error:
            raise DataError(f"{self._path} cannot be read: {error.strerror}") from error

    def _has_successor(self) -> bool:
        """Whether another file has the name of the one that is open, which is read to its end."""
        if self._open is None:
            return False
        found = self._opened()
        if found is None:
            return False
        if _identity(found) == _identity(self._open):
            found.close()
            return False
        self._next = found
        return True

    def _follow(self) -> None:
        assert self._open is not None
        self._open.close()
        self._open, self._next = self._next, None


def _identity(file: BinaryIO) -> tuple[int, int]:
    found = os.fstat(file.fileno())
    return found.st_dev, found.st_ino


def _size(file: BinaryIO) -> int:
    return os.fstat(file.fileno()).st_size


def _position(offset: SourceOffset) -> int:
    position: Any = offset.get(POSITION)
    if isinstance(position, bool) or not isinstance(position, int):
        raise DataError(f'{dict(offset)} is not an offset in a file: {{"{POSITION}": N}} is needed')
    return position


def _end_of_lines(file: BinaryIO, begin: int, count: int) -> int:
    """Returns where the last of the next `count` complete lines ends."""
    file.seek(begin)
    end, position, pending = begin, begin, 0
    while count and (chunk := file.read(_CHUNK_BYTES)):
        at = 0
        while count and (found := chunk.find(b"\n", at)) >= 0:
            at = found + 1
            end = position + at
            pending = 0
            count -= 1
        position += len(chunk)
        pending += len(chunk) - at
        if pending > _MAX_LINE_BYTES:
            raise DataError(
                f"the line at {end} has more than {_MAX_LINE_BYTES >> 20} MB; is it a text file?"
            )
    return end


def _lines(file: BinaryIO, begin: int, end: int) -> Iterator[bytes]:
    file.seek(begin)
    left = end - begin
    while left > 0:
        line = file.readline(left)
        if not line.endswith(b"\n"):
            raise DataError("the file has changed: a line that was complete is not any more")
        left -= len(line)
        yield line


def _text(line: bytes) -> str:
    line = line[:-2] if line.endswith(b"\r\n") else line[:-1]
    return line.decode("utf-8", "replace")
