"""A disk in memory: for `odradek up --memory` and, with crashes added, for the simulation.

Contents are byte arrays shared by everyone who has the file open, so a removed or renamed
file stays readable through an open handle, as on a real disk.
"""

import errno
import posixpath
from collections.abc import Sequence

from odradek.world.disk import Buffer


class MemoryFile:
    """A handle on shared contents."""

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
        """Memory has nothing more durable to offer."""

    def close(self) -> None:
        """Contents stay as long as a name or a handle holds them."""


class MemoryLock:
    def __init__(self, disk: "MemoryDisk", path: str) -> None:
        self._disk = disk
        self._path = path

    def release(self) -> None:
        self._disk.locks.discard(self._path)


class MemoryDisk:
    def __init__(self, capacity_bytes: int = 1 << 40) -> None:
        self.files: dict[str, bytearray] = {}
        self.directories: set[str] = {"/"}
        self.locks: set[str] = set()
        self._capacity_bytes = capacity_bytes

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> MemoryFile:
        path = posixpath.normpath(path)
        contents = self.files.get(path)
        if contents is None:
            if not create or not writable:
                raise _missing(path)
            self._require_directory(posixpath.dirname(path))
            contents = self.files[path] = bytearray()
        return MemoryFile(path, contents)

    def exists(self, path: str) -> bool:
        path = posixpath.normpath(path)
        return path in self.files or path in self.directories

    def size(self, path: str) -> int:
        return len(self._contents(path))

    def list_directory(self, path: str) -> list[str]:
        path = posixpath.normpath(path)
        self._require_directory(path)
        prefix = _prefix(path)
        names = {
            name[len(prefix) :].split("/", 1)[0]
            for kind in (self.files, self.directories)
            for name in kind
            if name.startswith(prefix) and name != path
        }
        return sorted(names)

    def make_directories(self, path: str) -> None:
        path = posixpath.normpath(path)
        while path not in self.directories:
            if path in self.files:
                raise FileExistsError(errno.EEXIST, "a file has this name", path)
            self.directories.add(path)
            path = posixpath.dirname(path) or "/"

    def rename(self, source: str, target: str) -> None:
        source, target = posixpath.normpath(source), posixpath.normpath(target)
        if source in self.files:
            self.files[target] = self.files.pop(source)
            return
        self._require_directory(source)
        old, new = _prefix(source), _prefix(target)
        for name in [name for name in self.files if name.startswith(old)]:
            self.files[new + name[len(old) :]] = self.files.pop(name)
        for name in [name for name in self.directories if name.startswith(old)]:
            self.directories.remove(name)
            self.directories.add(new + name[len(old) :])
        self.directories.remove(source)
        self.directories.add(target)

    def remove(self, path: str) -> None:
        self._contents(path)
        del self.files[posixpath.normpath(path)]

    def remove_tree(self, path: str) -> None:
        path = posixpath.normpath(path)
        self._require_directory(path)
        prefix = _prefix(path)
        for name in [name for name in self.files if name.startswith(prefix)]:
            del self.files[name]
        self.directories -= {name for name in self.directories if name.startswith(prefix)}
        self.directories.discard(path)

    def sync_directory(self, path: str) -> None:
        self._require_directory(path)

    def read(self, path: str) -> bytes:
        return bytes(self._contents(path))

    def replace(self, path: str, content: bytes) -> None:
        path = posixpath.normpath(path)
        self._require_directory(posixpath.dirname(path))
        self.files[path] = bytearray(content)

    def lock(self, path: str) -> MemoryLock:
        if path in self.locks:
            raise BlockingIOError(errno.EAGAIN, "locked by another", path)
        self.locks.add(path)
        return MemoryLock(self, path)

    def free_bytes(self, path: str) -> int:
        self._require_directory(path)
        return self._capacity_bytes - sum(map(len, self.files.values()))

    def total_bytes(self, path: str) -> int:
        self._require_directory(path)
        return self._capacity_bytes

    def _contents(self, path: str) -> bytearray:
        path = posixpath.normpath(path)
        try:
            return self.files[path]
        except KeyError:
            raise _missing(path) from None

    def _require_directory(self, path: str) -> None:
        if posixpath.normpath(path) not in self.directories:
            raise _missing(path)


def _prefix(directory: str) -> str:
    return directory if directory.endswith("/") else directory + "/"


def _missing(path: str) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, "no such file or directory", path)
