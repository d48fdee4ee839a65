"""A disk in memory: for `odradek up --memory` and, with crashes added, for the simulation.

All open files of one path share their contents, so a removed or renamed file stays readable through
an open file, as on a real disk.
"""

import errno
import posixpath
from collections.abc import Sequence

from odradek.world.disk import Buffer


class MemoryFile:
    """An open file, with contents that other open files may share."""

    __slots__ = ("contents", "path")

    def __init__(self, path: str, contents: bytearray) -> None:
        self.path = path
        self.contents = contents

    def size(self) -> int:
        return len(self.contents)

    def read_at(self, position: int, length: int) -> bytes:
        return bytes(self.contents[position : position + length])

    def write_at(self, position: int, buffers: Sequence[Buffer]) -> None:
        contents = self.contents
        if position > len(contents):
            contents.extend(bytes(position - len(contents)))
        for data in buffers:
            contents[position : position + len(data)] = data
            position += len(data)

    def truncate(self, size: int) -> None:
        if size <= len(self.contents):
            del self.contents[size:]
        else:
            self.contents.extend(bytes(size - len(self.contents)))

    def sync(self) -> None:
        """Memory cannot be made more durable."""

    def close(self) -> None:
        """Contents stay as long as a path or an open file refers to them."""


class MemoryLock:
    def __init__(self, disk: "MemoryDisk", path: str) -> None:
        self._disk = disk
        self._path = path

    def release(self) -> None:
        self._disk.locks.discard(self._path)


class MemoryDisk:
    """Invariant: every path in `files` and in `_below` stands in its parent's names."""

    def __init__(self, capacity_bytes: int = 1 << 40) -> None:
        self.files: dict[str, bytearray] = {}
        self.locks: set[str] = set()
        self._capacity_bytes = capacity_bytes
        # The names in each directory. A dict keeps their order where a set would not.
        self._below: dict[str, dict[str, None]] = {"/": {}}

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> MemoryFile:
        path = posixpath.normpath(path)
        contents = self.files.get(path)
        if contents is None:
            if not create or not writable:
                raise _missing(path)
            contents = self._put(path, bytearray())
        return MemoryFile(path, contents)

    def exists(self, path: str) -> bool:
        path = posixpath.normpath(path)
        return path in self.files or path in self._below

    def size(self, path: str) -> int:
        return len(self._contents(path))

    def modified_ms(self, path: str) -> int | None:
        self._contents(path)
        return None

    def list_directory(self, path: str) -> list[str]:
        return sorted(self._names(posixpath.normpath(path)))

    def make_directories(self, path: str) -> None:
        path = posixpath.normpath(path)
        if path in self._below:
            return
        if path in self.files:
            raise FileExistsError(errno.EEXIST, "a file has this name", path)
        parent, name = posixpath.split(path)
        self.make_directories(parent or "/")
        self._below[path] = {}
        self._below[parent or "/"][name] = None

    def rename(self, source: str, target: str) -> None:
        source, target = posixpath.normpath(source), posixpath.normpath(target)
        if source in self.files:
            contents = self.files[source]
            self._forget(source)
            self._put(target, contents)
            return
        names = self._names(source)
        self.make_directories(target)
        for name in list(names):
            self.rename(posixpath.join(source, name), posixpath.join(target, name))
        self._forget(source)

    def remove(self, path: str) -> None:
        self._contents(path)
        self._forget(posixpath.normpath(path))

    def remove_tree(self, path: str) -> None:
        path = posixpath.normpath(path)
        for name in list(self._names(path)):
            below = posixpath.join(path, name)
            if below in self._below:
                self.remove_tree(below)
            else:
                self._forget(below)
        self._forget(path)

    def sync_directory(self, path: str) -> None:
        self._names(posixpath.normpath(path))

    def read(self, path: str) -> bytes:
        return bytes(self._contents(path))

    def replace(self, path: str, content: bytes) -> None:
        self._put(posixpath.normpath(path), bytearray(content))

    def allocate(self, path: str, size_bytes: int) -> None:
        self._put(posixpath.normpath(path), bytearray(size_bytes))

    def lock(self, path: str) -> MemoryLock:
        if path in self.locks:
            raise BlockingIOError(errno.EAGAIN, "locked by another", path)
        self.locks.add(path)
        return MemoryLock(self, path)

    def free_bytes(self, path: str) -> int:
        self.sync_directory(path)
        return self._capacity_bytes - sum(map(len, self.files.values()))

    def total_bytes(self, path: str) -> int:
        self.sync_directory(path)
        return self._capacity_bytes

    def max_open_files(self) -> int:
        return 1 << 20

    def _contents(self, path: str) -> bytearray:
        path = posixpath.normpath(path)
        try:
            return self.files[path]
        except KeyError:
            raise _missing(path) from None

    def _names(self, directory: str) -> dict[str, None]:
        try:
            return self._below[directory]
        except KeyError:
            raise _missing(directory) from None

    def _put(self, path: str, contents: bytearray) -> bytearray:
        parent, name = posixpath.split(path)
        self._names(parent)[name] = None
        self.files[path] = contents
        return contents

    def _forget(self, path: str) -> None:
        parent, name = posixpath.split(path)
        del self._below[parent][name]
        self.files.pop(path, None)
        self._below.pop(path, None)


def _missing(path: str) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, "no such file or directory", path)
