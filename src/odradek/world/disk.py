"""Files and directories.

Writes go to the page cache and return at once. What was written survives a power cut after `sync`,
which is the only slow call. Reads and writes name their position. Every failure is an `OSError`.
"""

import errno
import fcntl
import os
from collections.abc import Sequence
from typing import Protocol

from odradek.world.resource_limits import raise_descriptor_limit

Buffer = bytes | bytearray | memoryview

# Only the broker's user may read records and keys. A program that has to read them too, for
# instance a backup, runs as that user, or gets access from the owner of the directory above.
_PRIVATE_FILE = 0o600
_PRIVATE_DIRECTORY = 0o700

# Linux takes at most this many buffers in one writev.
_MAX_BUFFERS = 1024


class File(Protocol):
    """An open file. It stays readable after it was renamed or removed, until it is closed."""

    def size(self) -> int: ...

    def read_at(self, position: int, length: int) -> bytes:
        """The bytes from `position`; fewer than `length` only at the end of the file."""
        ...

    def write_at(self, position: int, buffers: Sequence[Buffer]) -> None:
        """Writes all buffers one after the other, or raises."""
        ...

    def truncate(self, size: int) -> None: ...

    def sync(self) -> None:
        """Returns when everything written so far survives a power cut."""
        ...

    def close(self) -> None: ...


class DirectoryLock(Protocol):
    def release(self) -> None: ...


class Disk(Protocol):
    """Paths are plain strings. Renames and removals are durable after `sync_directory`."""

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> File: ...

    def exists(self, path: str) -> bool: ...

    def size(self, path: str) -> int: ...

    def modified_ms(self, path: str) -> int | None:
        """When a file was last written, by the wall clock; None where that is not recorded."""
        ...

    def list_directory(self, path: str) -> list[str]:
        """The names in a directory, sorted."""
        ...

    def make_directories(self, path: str) -> None: ...

    def rename(self, source: str, target: str) -> None:
        """Replaces `target` if it exists; works for files and directories."""
        ...

    def remove(self, path: str) -> None: ...

    def remove_tree(self, path: str) -> None: ...

    def sync_directory(self, path: str) -> None: ...

    def read(self, path: str) -> bytes: ...

    def replace(self, path: str, content: bytes) -> None:
        """Makes `content` the durable content of `path`: after a crash it is old or new, whole."""
        ...

    def allocate(self, path: str, size_bytes: int) -> None:
        """Makes an empty file of this size, and reserves the room for it on the disk."""
        ...

    def lock(self, path: str) -> DirectoryLock:
        """Takes an exclusive lock on a file for this process, or raises `BlockingIOError`."""
        ...

    def free_bytes(self, path: str) -> int: ...

    def total_bytes(self, path: str) -> int: ...

    def max_open_files(self) -> int:
        """How many files may be open at once."""
        ...


class OsFile:
    __slots__ = ("descriptor",)

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def size(self) -> int:
        return os.fstat(self.descriptor).st_size

    def read_at(self, position: int, length: int) -> bytes:
        data = os.pread(self.descriptor, length, position)
        if len(data) == length or not data:
            return data
        parts = [data]
        position += len(data)
        length -= len(data)
        while length and (data := os.pread(self.descriptor, length, position)):
            parts.append(data)
            position += len(data)
            length -= len(data)
        return b"".join(parts)

    def write_at(self, position: int, buffers: Sequence[Buffer]) -> None:
        expected = sum(map(len, buffers))
        written = os.pwritev(self.descriptor, buffers[:_MAX_BUFFERS], position)
        if written != expected:
            self._write_rest(position + written, b"".join(buffers)[written:])

    def _write_rest(self, position: int, data: bytes) -> None:
        while data:
            written = os.pwrite(self.descriptor, data, position)
            if not written:
                raise OSError(errno.EIO, "the disk took no bytes")
            position += written
            data = data[written:]

    def truncate(self, size: int) -> None:
        os.ftruncate(self.descriptor, size)

    def sync(self) -> None:
        os.fdatasync(self.descriptor)

    def close(self) -> None:
        if self.descriptor >= 0:
            descriptor, self.descriptor = self.descriptor, -1
            os.close(descriptor)


def read_into(file: File, position: int, buffer: memoryview) -> int:
    """Reads bytes of a file into a buffer that the caller has; returns how many. Large reads cost
    a third of `read_at`, which needs fresh memory for each."""
    if isinstance(file, OsFile):
        return os.preadv(file.descriptor, [buffer], position)
    data = file.read_at(position, len(buffer))
    buffer[: len(data)] = data
    return len(data)


def send_file(file: File, position: int, length: int, descriptor: int) -> int:
    """Sends bytes of a file to a socket without copying them (`sendfile`); returns how many the
    socket took, or -1 if the file is not one of the operating system. Raises BlockingIOError if the
    socket is full."""
    if not isinstance(file, OsFile):
        return -1
    return os.sendfile(descriptor, file.descriptor, position, length)


def make_private(path: str) -> None:
    """Creates a file that only its owner may read, or changes the mode of one that exists. For
    files that a library opens.

    A file that exists is not opened here: closing it would release the locks that this process
    holds on it.
    """
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _PRIVATE_FILE))
    except FileExistsError:
        os.chmod(path, _PRIVATE_FILE)


def make_directory_private(path: str) -> None:
    """Takes the permissions of all others from a directory that may have been made by the user."""
    os.chmod(path, _PRIVATE_DIRECTORY)


class OsLock:
    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def release(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class OsDisk:
    """The machine's own file systems."""

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> OsFile:
        flags = os.O_CLOEXEC | (os.O_RDWR if writable else os.O_RDONLY)
        if create:
            flags |= os.O_CREAT
        return OsFile(os.open(path, flags, _PRIVATE_FILE))

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def size(self, path: str) -> int:
        return os.stat(path).st_size

    def modified_ms(self, path: str) -> int | None:
        return os.stat(path).st_mtime_ns // 1_000_000

    def list_directory(self, path: str) -> list[str]:
        return sorted(os.listdir(path))

    def make_directories(self, path: str) -> None:
        missing = []
        while not os.path.isdir(path):
            missing.append(path)
            path = os.path.dirname(path) or "."
        for directory in reversed(missing):
            try:
                os.mkdir(directory, _PRIVATE_DIRECTORY)
            except FileExistsError:
                if not os.path.isdir(directory):
                    raise

    def rename(self, source: str, target: str) -> None:
        os.replace(source, target)

    def remove(self, path: str) -> None:
        os.unlink(path)

    def remove_tree(self, path: str) -> None:
        import shutil  # noqa: PLC0415 - brings compression modules along, and is rarely needed

        shutil.rmtree(path)

    def sync_directory(self, path: str) -> None:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def read(self, path: str) -> bytes:
        with open(path, "rb") as file:
            return file.read()

    def replace(self, path: str, content: bytes) -> None:
        temporary = path + ".tmp"
        file = OsFile(
            os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, _PRIVATE_FILE)
        )
        try:
            if content:
                file.write_at(0, [content])
            file.sync()
        finally:
            file.close()
        os.replace(temporary, path)
        self.sync_directory(os.path.dirname(path) or ".")

    def allocate(self, path: str, size_bytes: int) -> None:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _PRIVATE_FILE)
        try:
            os.ftruncate(descriptor, size_bytes)
            if size_bytes:
                os.posix_fallocate(descriptor, 0, size_bytes)
        finally:
            os.close(descriptor)

    def lock(self, path: str) -> OsLock:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _PRIVATE_FILE)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            raise
        return OsLock(descriptor)

    def free_bytes(self, path: str) -> int:
        status = os.statvfs(path)
        return status.f_bavail * status.f_frsize

    def total_bytes(self, path: str) -> int:
        status = os.statvfs(path)
        return status.f_blocks * status.f_frsize

    def max_open_files(self) -> int:
        """Raises the limit of this process as far as it may, and returns it."""
        return raise_descriptor_limit()
