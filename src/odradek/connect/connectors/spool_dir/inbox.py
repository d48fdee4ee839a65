"""The directories: files that wait, that are finished and that have errors."""

import os
import shutil
import time
import zlib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

from odradek.connect.connectors.spool_dir.settings import SpoolSettings
from odradek.connect.errors import DataError
from odradek.connect.transforms.java_patterns import java_pattern

_MS: Final = 1_000_000


class Waiting(NamedTuple):
    """A file in the directory. `name` has the directories in between, if it is in some."""

    path: Path
    name: str
    size: int
    modified_ms: int

    @property
    def partition(self) -> dict[str, Any]:
        return {"fileName": self.name}


class Inbox:
    def __init__(self, settings: SpoolSettings) -> None:
        self._settings = settings
        self._root = Path(settings.input_path)
        self._pattern = java_pattern(settings.input_file_pattern)

    def waiting(self) -> list[Waiting]:
        """Returns the files of this task that may be read, in their order. Raises `DataError`."""
        settings = self._settings
        oldest_ms = time.time_ns() // _MS - settings.file_minimum_age_ms
        found = []
        for path in self._paths():
            name = path.relative_to(self._root).as_posix()
            if zlib.crc32(name.encode()) % settings.task_count != settings.task_index:
                continue
            try:
                status = path.stat()
            except FileNotFoundError:
                continue
            modified_ms = status.st_mtime_ns // _MS
            if modified_ms <= oldest_ms:
                found.append(Waiting(path, name, status.st_size, modified_ms))
        for sort in reversed(settings.files_sort_attributes):
            found.sort(key=_SORTS[sort.removesuffix("Asc").removesuffix("Desc")])
            if sort.endswith("Desc"):
                found.reverse()
        return found

    def _paths(self) -> list[Path]:
        settings = self._settings
        try:
            if settings.input_path_walk_recursively:
                paths = [path for path in self._root.rglob("*") if path.is_file()]
            else:
                paths = [Path(entry.path) for entry in os.scandir(self._root) if entry.is_file()]
        except OSError as error:
            raise DataError(f"{self._root} cannot be read: {error.strerror}") from error
        return [
            path
            for path in paths
            if self._pattern.fullmatch(path.name)
            and not path.name.endswith(settings.processing_file_extension)
        ]

    def finish(self, file: Waiting) -> None:
        """Does what the policy says with a file that was read. One that was replaced or changed
        since then stays, and is read as another one. Raises `DataError`."""
        policy = self._settings.cleanup_policy
        try:
            if not _is_unchanged(file):
                return
            if policy == "DELETE":
                file.path.unlink(missing_ok=True)
            elif policy != "NONE":
                target = Path(self._settings.finished_path)
                if policy == "MOVEBYDATE":
                    day = datetime.fromtimestamp(file.modified_ms / 1000, UTC).date()
                    target /= day.isoformat()
                _move(file, target)
        except OSError as error:
            raise DataError(f"{file.path} cannot be moved: {error.strerror}") from error

    def refuse(self, file: Waiting) -> Path:
        """Moves a file to those with errors. Raises `DataError`."""
        try:
            return _move(file, Path(self._settings.error_path))
        except OSError as error:
            raise DataError(f"{file.path} cannot be moved: {error.strerror}") from error


_SORTS: Final = {
    "Name": lambda file: file.name,
    "Length": lambda file: file.size,
    "LastModified": lambda file: file.modified_ms,
}


def _is_unchanged(file: Waiting) -> bool:
    try:
        status = file.path.stat()
    except FileNotFoundError:
        return False
    return (status.st_size, status.st_mtime_ns // _MS) == (file.size, file.modified_ms)


def _move(file: Waiting, directory: Path) -> Path:
    """Moves a file, and leaves one that has its name there already."""
    target = directory / file.name
    target.parent.mkdir(parents=True, exist_ok=True)
    number = 0
    while target.exists():
        number += 1
        target = directory / f"{file.name}.{number}"
    if file.path.exists():
        shutil.move(file.path, target)
    return target
