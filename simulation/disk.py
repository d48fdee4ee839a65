"""A disk that forgets what was not flushed.

Contents live in nodes (see `pages`), names in one ordered journal. Creations, renames and
removals are durable once a directory they touched was synced, and a crash undoes the rest from
the latest back to a random point. Syncing a file does not make its name durable.

What is promised: bytes synced and not written since survive every crash, and so does a name
whose directory was synced since. After a failed sync the written pages count as clean and are
gone at the next crash, as on Linux.
"""

import errno
import os
import posixpath
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from random import Random

from odradek.world.disk import Buffer
from simulation.pages import Node

# Few paths, of which each is asked for at every change of a name.
_parent = lru_cache(maxsize=4096)(posixpath.dirname)


class PowerCut(BaseException):
    """Raised out of the operation during which the machine lost its power."""


# A name leads to a node, or to None for a directory.
Names = dict[str, Node | None]


@dataclass(frozen=True, slots=True)
class Change:
    """One step of the journal of names."""

    touched: tuple[str, ...]
    apply: Callable[[Names], None]


@dataclass(slots=True)
class Fault:
    operation: str
    error: int
    under: str
    times: int


class SimulatedFile:
    __slots__ = ("_disk", "_generation", "_node", "_writable", "path")

    def __init__(self, disk: "SimulatedDisk", path: str, node: Node, writable: bool) -> None:
        self._disk = disk
        self._generation = disk.generation
        self._node: Node | None = node
        self._writable = writable
        self.path = path

    def _begin(self, operation: str) -> Node:
        if self._generation != self._disk.generation:
            raise OSError(errno.EIO, "the process that opened this file is dead", self.path)
        if self._node is None:
            raise OSError(errno.EBADF, "the file is closed", self.path)
        if operation != "close":
            self._disk.begin(operation, self.path)
        return self._node

    def size(self) -> int:
        return len(self._begin("size").contents)

    def read_at(self, position: int, length: int) -> bytes:
        return bytes(self._begin("read").contents[position : position + length])

    def write_at(self, position: int, buffers: Sequence[Buffer]) -> None:
        data = b"".join(buffers)
        if not self._writable:
            raise OSError(errno.EBADF, "the file was opened for reading", self.path)
        try:
            node = self._begin("write")
            self._disk.require_room(position + len(data) - len(node.contents))
        except OSError:
            self._write_some(position, data)
            raise
        node.write(position, data)

    def _write_some(self, position: int, data: bytes) -> None:
        """A write that fails may have written a part."""
        if self._node is not None and self._generation == self._disk.generation:
            kept = self._disk.random.randint(0, len(data))
            room = self._disk.free_bytes("/") + len(self._node.contents) - position
            self._disk.added_bytes += len(data)
            self._node.write(position, data[: max(0, min(kept, room))])

    def truncate(self, size: int) -> None:
        node = self._begin("truncate")
        self._disk.added_bytes += max(0, size - len(node.contents))
        node.truncate(size)

    def sync(self) -> None:
        try:
            node = self._begin("sync")
        except OSError:
            # A handle of a dead process does nothing.
            if self._node is not None and self._generation == self._disk.generation:
                self._node.sync_failed()
            raise
        node.sync()

    def close(self) -> None:
        if self._node is not None and self._generation == self._disk.generation:
            self._begin("close")
        self._node = None


class SimulatedLock:
    def __init__(self, disk: "SimulatedDisk", path: str) -> None:
        self._disk = disk
        self._path = path
        self._generation = disk.generation

    def release(self) -> None:
        if self._generation == self._disk.generation:
            self._disk.locks.discard(self._path)


class SimulatedDisk:
    """`odradek.world.Disk` with crashes and faults."""

    def __init__(self, random: Random, *, capacity_bytes: int = 1 << 40) -> None:
        self.random = random
        self.capacity_bytes = capacity_bytes
        # Handles of an earlier generation belong to a dead process.
        self.generation = 0
        self.locks: set[str] = set()
        self.operations = 0
        self.on_event: Callable[[str], None] = lambda event: None
        self.on_power_cut: Callable[[], None] = self.crash
        self._names: Names = {"/": None}
        self._durable_names: Names = {"/": None}
        self._journal: list[Change] = []
        self._faults: list[Fault] = []
        self._power_cut_at: int | None = None
        self._has_power = True
        # An upper bound of the used bytes. While the capacity is larger, there is surely room.
        self.added_bytes = 0
        # What `nodes` found, until a name changes.
        self._found: dict[tuple[str, str], list[Node]] = {}

    # Faults

    def fail_next(
        self, operation: str, error: int = errno.EIO, *, under: str = "/", times: int = 1
    ) -> None:
        """The next `times` operations of this kind under a path fail.

        Operations: read, write, sync, truncate, open, rename, remove, sync_directory, size.
        """
        self._faults.append(Fault(operation, error, posixpath.normpath(under), times))

    def heal(self) -> None:
        self._faults.clear()

    def cut_power_after(self, operations: int) -> None:
        """The machine dies during the operation that comes this many operations from now.

        What unwinds after that finds no disk until `power_on`.
        """
        self._power_cut_at = self.operations + operations

    def keep_power(self) -> None:
        """Cancels a power cut that has not happened yet."""
        self._power_cut_at = None

    def power_on(self) -> None:
        self._has_power = True

    def drop_handles(self) -> None:
        """The process died: its handles and locks are gone, the page cache stays."""
        self.generation += 1
        self.locks.clear()

    def crash(self) -> None:
        """The machine died: what was not flushed is lost, wholly or in part."""
        self.drop_handles()
        self._power_cut_at = None
        kept = self.random.randint(0, len(self._journal))
        if self.random.random() < 0.3:
            kept = len(self._journal)
        for change in self._journal[:kept]:
            change.apply(self._durable_names)
        nodes = self._durable_names.values()
        dirty = [node for node in nodes if node is not None and node.is_dirty]
        self.on_event(
            f"disk crash: {len(dirty)} files unsynced, "
            f"{kept} of {len(self._journal)} changes of names kept"
        )
        for node in dirty:
            node.crash(self.random)
        self._journal.clear()
        self._names = dict(self._durable_names)
        self._found.clear()

    def replace_by_empty(self, under: str = "/") -> None:
        """Replaces the disk that is mounted here by an empty one. For a host without
        processes."""
        self.drop_handles()
        under = posixpath.normpath(under)
        for names in (self._names, self._durable_names):
            for name in [one for one in names if _is_under(one, under) and one != under]:
                del names[name]
        self._journal.clear()
        self._found.clear()
        self.on_event(f"a new, empty disk at {under}")

    def begin(self, operation: str, path: str) -> None:
        """Every operation passes here first; it may be the one that fails."""
        self.operations += 1
        if not self._has_power:
            raise PowerCut(f"before {operation} {path}")
        if self._power_cut_at is not None and self.operations > self._power_cut_at:
            self._power_cut_at = None
            self.on_event(f"power cut during {operation} {path}")
            self.on_power_cut()
            self._has_power = False
            raise PowerCut(f"during {operation} {path}")
        for fault in self._faults:
            if fault.operation == operation and _is_under(path, fault.under):
                fault.times -= 1
                if not fault.times:
                    self._faults.remove(fault)
                self.on_event(f"{operation} {path} fails: {os.strerror(fault.error)}")
                raise OSError(fault.error, f"{os.strerror(fault.error)} (injected)", path)

    def require_room(self, more_bytes: int) -> None:
        if more_bytes <= 0:
            return
        self.added_bytes += more_bytes
        if self.added_bytes > self.capacity_bytes and more_bytes > self.free_bytes("/"):
            raise OSError(errno.ENOSPC, "no space left on the simulated disk")

    # Files

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> SimulatedFile:
        path = posixpath.normpath(path)
        self.begin("open", path)
        if path not in self._names:
            if not create or not writable:
                raise _missing(path)
            self._require_directory(_parent(path))
            node = Node()
            self._change([path], lambda names: _set(names, path, node))
            return SimulatedFile(self, path, node, writable)
        return SimulatedFile(self, path, self._node(path), writable)

    def read(self, path: str) -> bytes:
        path = posixpath.normpath(path)
        self.begin("read", path)
        return bytes(self._node(path).contents)

    def replace(self, path: str, content: bytes) -> None:
        """Takes the same steps as a real disk, so that a crash between any two is possible."""
        path = posixpath.normpath(path)
        temporary = path + ".tmp"
        file = self.open(temporary, create=True)
        try:
            file.truncate(0)
            if content:
                file.write_at(0, [content])
            file.sync()
        finally:
            file.close()
        self.rename(temporary, path)
        self.sync_directory(_parent(path))

    def allocate(self, path: str, size_bytes: int) -> None:
        file = self.open(path, create=True)
        try:
            file.truncate(0)
            file.write_at(0, [bytes(size_bytes)])
        finally:
            file.close()

    def exists(self, path: str) -> bool:
        return posixpath.normpath(path) in self._names

    def size(self, path: str) -> int:
        self.begin("size", path)
        return len(self._node(posixpath.normpath(path)).contents)

    def modified_ms(self, path: str) -> int | None:
        self._node(posixpath.normpath(path))
        return None

    # Names

    def list_directory(self, path: str) -> list[str]:
        path = posixpath.normpath(path)
        self.begin("read", path)
        self._require_directory(path)
        prefix = _prefix(path)
        return sorted(
            {
                name[len(prefix) :].split("/", 1)[0]
                for name in self._names
                if name.startswith(prefix) and name != path
            }
        )

    def make_directories(self, path: str) -> None:
        path = posixpath.normpath(path)
        missing = []
        while path not in self._names:
            missing.append(path)
            path = _parent(path) or "/"
        if self._names[path] is not None:
            raise FileExistsError(errno.EEXIST, "a file has this name", path)
        for directory in reversed(missing):
            self.begin("open", directory)
            self._make_directory(directory)

    def _make_directory(self, path: str) -> None:
        self._change([path], lambda names: _set(names, path, None))

    def rename(self, source: str, target: str) -> None:
        source, target = posixpath.normpath(source), posixpath.normpath(target)
        self.begin("rename", source)
        if source not in self._names:
            raise _missing(source)
        self._require_directory(_parent(target))
        if self._names[source] is None:
            self._require_replaceable(target)
        elif target in self._names and self._names[target] is None:
            raise IsADirectoryError(errno.EISDIR, "a directory has this name", target)
        self._change([source, target], lambda names: _move(names, source, target))

    def remove(self, path: str) -> None:
        path = posixpath.normpath(path)
        self.begin("remove", path)
        self._node(path)
        self._change([path], lambda names: _drop(names, path))

    def remove_tree(self, path: str) -> None:
        """One step a name, deepest first, as on a real disk."""
        path = posixpath.normpath(path)
        self._require_directory(path)
        prefix = _prefix(path)
        for name in sorted((n for n in self._names if n.startswith(prefix)), reverse=True):
            self._remove_name(name)
        self._remove_name(path)

    def _remove_name(self, path: str) -> None:
        self.begin("remove", path)
        self._change([path], lambda names: _drop(names, path))

    def sync_directory(self, path: str) -> None:
        """Makes the journal durable up to the last change in this directory."""
        path = posixpath.normpath(path)
        self.begin("sync_directory", path)
        self._require_directory(path)
        end = 0
        for position, change in enumerate(self._journal, 1):
            if path in change.touched:
                end = position
        for change in self._journal[:end]:
            change.apply(self._durable_names)
        del self._journal[:end]

    # The rest

    def lock(self, path: str) -> SimulatedLock:
        path = posixpath.normpath(path)
        if path in self.locks:
            raise BlockingIOError(errno.EAGAIN, "locked by another", path)
        self.open(path, create=True).close()
        self.locks.add(path)
        return SimulatedLock(self, path)

    def free_bytes(self, path: str) -> int:
        used = sum(len(node.contents) for node in self._names.values() if node is not None)
        return max(0, self.capacity_bytes - used)

    def total_bytes(self, path: str) -> int:
        return self.capacity_bytes

    def max_open_files(self) -> int:
        return 1 << 16

    def peek(self, directory: str, suffix: str) -> list[bytes]:
        """The files of a directory in the order of their names: no operation of the machine."""
        return [bytes(node.contents) for node in self.nodes(directory, suffix)]

    def nodes(self, directory: str, suffix: str) -> list[Node]:
        """What `peek` looks at."""
        found = self._found.get((directory, suffix))
        if found is None:
            prefix = _prefix(directory)
            found = self._found[directory, suffix] = [
                node
                for name, node in sorted(self._names.items())
                if node is not None and name.startswith(prefix) and name.endswith(suffix)
            ]
        return found

    def snapshot(self) -> dict[str, bytes]:
        """Every file and its contents, for tests."""
        return {
            name: bytes(node.contents)
            for name, node in sorted(self._names.items())
            if node is not None
        }

    def _change(self, paths: list[str], apply: Callable[[Names], None]) -> None:
        apply(self._names)
        self._found.clear()
        self._journal.append(Change(tuple(map(_parent, paths)), apply))

    def _node(self, path: str) -> Node:
        node = self._names.get(path)
        if node is None:
            if path in self._names:
                raise IsADirectoryError(errno.EISDIR, "is a directory", path)
            raise _missing(path)
        return node

    def _require_directory(self, path: str) -> None:
        if self._names.get(path, self) is not None:
            raise _missing(path)

    def _require_replaceable(self, target: str) -> None:
        if target in self._names:
            if self._names[target] is not None:
                raise NotADirectoryError(errno.ENOTDIR, "a file has this name", target)
            prefix = _prefix(target)
            if any(name.startswith(prefix) for name in self._names):
                raise OSError(errno.ENOTEMPTY, "the directory is not empty", target)


def _set(names: Names, path: str, node: Node | None) -> None:
    names[path] = node


def _drop(names: Names, path: str) -> None:
    names.pop(path, None)


def _move(names: Names, source: str, target: str) -> None:
    node = names[target] = names.pop(source)
    if node is not None:
        return  # A file: nothing lies below it.
    prefix = _prefix(source)
    for name in [name for name in names if name.startswith(prefix)]:
        names[_prefix(target) + name[len(prefix) :]] = names.pop(name)


def _prefix(directory: str) -> str:
    return directory if directory.endswith("/") else directory + "/"


def _is_under(path: str, directory: str) -> bool:
    return path == directory or path.startswith(_prefix(directory))


def _missing(path: str) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, "no such file or directory", path)
