"""Where objects are put. An object is there with all of its bytes, or not at all."""

import os
from abc import ABC, abstractmethod
from pathlib import Path

from odradek.connect.errors import DataError


class Store(ABC):
    @abstractmethod
    def put(self, name: str, data: bytes) -> None:
        """Writes an object, in place of one that has its name. Raises `Unavailable` if it may work
        later, `DataError` if not."""

    @abstractmethod
    def try_out(self) -> None:
        """Raises `DataError` or `Unavailable` if nothing can be written."""


class DirectoryStore(Store):
    def __init__(self, root: Path) -> None:
        self._root = root

    def put(self, name: str, data: bytes) -> None:
        path = self._root / name
        unfinished = path.with_name(f".{path.name}.unfinished")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with unfinished.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            unfinished.replace(path)
            directory = os.open(path.parent, os.O_RDONLY)
            try:
                os.fsync(directory)
            finally:
                os.close(directory)
        except OSError as error:
            raise DataError(f"{path} cannot be written: {error.strerror}") from error

    def try_out(self) -> None:
        existing = self._root
        while not existing.exists() and existing != existing.parent:
            existing = existing.parent
        if not existing.is_dir() or not os.access(existing, os.W_OK):
            raise DataError(f"{self._root} is not a directory that the worker can write to")
