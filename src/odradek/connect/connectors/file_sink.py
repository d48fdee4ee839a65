"""Values as lines of a file: `org.apache.kafka.connect.file.FileStreamSinkConnector`."""

import fcntl
import os
from collections.abc import Sequence
from typing import BinaryIO, ClassVar

from odradek.config.kinds import string
from odradek.config.setting import Importance
from odradek.connect.connectors.connector import FailedRecord, SinkConnector, SinkTask
from odradek.connect.converters.primitives import java_string
from odradek.connect.errors import DataError
from odradek.connect.records import SinkRecord
from odradek.connect.settings import PluginSettings


class FileSinkSettings(PluginSettings):
    file = string(
        "file",
        None,
        "The file to append to. A worker does not write to its output.",
        importance=Importance.HIGH,
    )


class FileSink(SinkConnector):
    settings_class: ClassVar = FileSinkSettings
    keeps_no_offsets: ClassVar = True

    def __init__(self, settings: FileSinkSettings) -> None:
        self._settings = settings

    def task(self) -> "FileSinkTask":
        if not self._settings.file:
            raise DataError("file is not set: name the file to append to")
        return FileSinkTask(self._settings.file)


class FileSinkTask(SinkTask):
    """Invariant: the file ends with the end of a line whenever `write` returns."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._file: BinaryIO | None = None

    def write(self, records: Sequence[SinkRecord]) -> Sequence[FailedRecord]:
        lines = b"".join(
            java_string(record.value, record.value_schema).encode("utf-8", "replace") + b"\n"
            for record in records
        )
        try:
            if self._file is None:
                self._file = open(self._path, "ab", buffering=0)  # noqa: SIM115 - see `close`
            self._write(self._file, lines)
        except OSError as error:
            raise DataError(f"{self._path} cannot be written: {error.strerror}") from error
        return ()

    @staticmethod
    def _write(file: BinaryIO, lines: bytes) -> None:
        """Writes all or nothing: a line that stands there in part would be read as a whole one.
        Nobody else appends meanwhile, whose lines would be taken back too."""
        fcntl.flock(file.fileno(), fcntl.LOCK_EX)
        before = os.fstat(file.fileno()).st_size
        view = memoryview(lines)
        try:
            while view:
                view = view[file.write(view) :]
            os.fsync(file.fileno())
        except OSError:
            os.ftruncate(file.fileno(), before)
            raise
        finally:
            fcntl.flock(file.fileno(), fcntl.LOCK_UN)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
