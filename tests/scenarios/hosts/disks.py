"""A disk that stalls: a file system in user space (FUSE) over a directory.

    python -m tests.scenarios.hosts.disks DIRECTORY

passes everything through to what DIRECTORY held before it was mounted there. While the process is
stopped (SIGSTOP), every call of a program that needs the disk waits, as on a disk or a network
volume that does not answer. It needs root, /dev/fuse, the package mfusepy and libfuse.
"""

import ctypes.util
import errno
import importlib
import os
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from tests.scenarios.namespaces import CannotRun

_READY_S: Final = 20.0


def check_machine() -> None:
    """Raises `CannotRun` that says what is missing."""
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        raise CannotRun("a disk that stalls needs root and /dev/fuse")
    library = os.environ.get("FUSE_LIBRARY_PATH") or ctypes.util.find_library("fuse")
    if find_spec("mfusepy") is None or not library:
        raise CannotRun(
            "a disk that stalls needs mfusepy and libfuse 2: run `scripts/setup dev` as root, or"
            " `pip install mfusepy` and `apt-get install libfuse2`"
        )


class StallingDisk:
    """Mounted over a directory until it is unmounted, which ends its process."""

    def __init__(self, directory: Path) -> None:
        check_machine()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.scenarios.hosts.disks", str(directory)]
        )
        deadline_s = time.monotonic() + _READY_S
        while not _is_fuse(directory):
            if self._process.poll() is not None or time.monotonic() > deadline_s:
                raise CannotRun(f"cannot mount a file system in user space at {directory}")
            time.sleep(0.02)

    def stall(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def wait(self) -> None:
        """Returns when it is over: it was unmounted, and nobody has it open."""
        try:
            self._process.wait(_READY_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _is_fuse(directory: Path) -> bool:
    mounts = Path("/proc/mounts").read_text(encoding="utf-8").splitlines()
    return any(
        line.split()[1] == str(directory) and line.split()[2].startswith("fuse") for line in mounts
    )


class _PassThrough:
    """The calls of libfuse, each as the operation on the directory below.

    mfusepy calls methods by name and turns an `OSError` into its error number.
    """

    use_ns = True

    def __init__(self, root: int) -> None:
        self._root = f"/proc/self/fd/{root}"

    def _at(self, path: str) -> str:
        return self._root + path

    def init(self, path: str) -> None: ...

    def destroy(self, path: str) -> None: ...

    def getattr(self, path: str, fh: int | None = None) -> dict[str, int]:
        found = os.fstat(fh) if fh else os.lstat(self._at(path))
        names = ("mode", "nlink", "uid", "gid", "size", "blocks")
        shown = {f"st_{name}": getattr(found, f"st_{name}") for name in names}
        for name in ("atime", "mtime", "ctime"):
            shown[f"st_{name}"] = getattr(found, f"st_{name}_ns")
        return shown

    def readdir(self, path: str, fh: int) -> list[str]:
        return [".", "..", *os.listdir(self._at(path))]

    def readlink(self, path: str) -> str:
        return os.readlink(self._at(path))

    def mkdir(self, path: str, mode: int) -> None:
        os.mkdir(self._at(path), mode)

    def rmdir(self, path: str) -> None:
        os.rmdir(self._at(path))

    def unlink(self, path: str) -> None:
        os.unlink(self._at(path))

    def rename(self, old: str, new: str) -> None:
        os.rename(self._at(old), self._at(new))

    def link(self, target: str, source: str) -> None:
        os.link(self._at(source), self._at(target))

    def symlink(self, target: str, source: str) -> None:
        os.symlink(source, self._at(target))

    def chmod(self, path: str, mode: int) -> None:
        os.chmod(self._at(path), mode)

    def chown(self, path: str, uid: int, gid: int) -> None:
        os.chown(self._at(path), uid, gid)

    def utimens(self, path: str, times: tuple[int, int] | None = None) -> None:
        if times is None:
            os.utime(self._at(path))
        else:
            os.utime(self._at(path), ns=times)

    def mknod(self, path: str, mode: int, device: int) -> None:
        os.mknod(self._at(path), mode, device)

    def statfs(self, path: str) -> dict[str, int]:
        found = os.statvfs(self._at(path))
        names = ("bavail", "bfree", "blocks", "bsize", "favail", "ffree", "files", "frsize")
        return {f"f_{name}": getattr(found, f"f_{name}") for name in names}

    def open(self, path: str, flags: int) -> int:
        return os.open(self._at(path), flags & ~os.O_CREAT)

    def create(self, path: str, mode: int, info: object = None) -> int:
        return os.open(self._at(path), os.O_RDWR | os.O_CREAT, mode)

    def read(self, path: str, size: int, offset: int, fh: int) -> bytes:
        return os.pread(fh, size, offset)

    def write(self, path: str, data: bytes, offset: int, fh: int) -> int:
        return os.pwrite(fh, data, offset)

    def truncate(self, path: str, length: int, fh: int | None = None) -> None:
        os.truncate(fh or self._at(path), length)

    def flush(self, path: str, fh: int) -> None: ...

    def fsync(self, path: str, data_only: int, fh: int) -> None:
        os.fdatasync(fh) if data_only else os.fsync(fh)

    def fsyncdir(self, path: str, data_only: int, fh: int) -> None: ...

    def opendir(self, path: str) -> int:
        return 0

    def releasedir(self, path: str, fh: int) -> None: ...

    def release(self, path: str, fh: int) -> None:
        os.close(fh)

    def access(self, path: str, mode: int) -> None:
        if not os.access(self._at(path), mode):
            raise OSError(errno.EACCES, path)


def main() -> None:
    directory = sys.argv[1]
    # The directory as it is now; after the mount the path leads to the file system above it.
    root = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    library = importlib.import_module("mfusepy")
    # Whatever is not written out above is answered by the library.
    operations: Any = type("Operations", (_PassThrough, library.Operations), {})(root)
    library.FUSE(operations, directory, foreground=True, nothreads=True, nonempty=True)


if __name__ == "__main__":
    main()
