"""Durable changes of directories on local disks.

Place: used by `filesystem` for paths on a disk of this machine. Hadoop cannot do it: the streams of
its LocalFileSystem flush to the page cache when they are asked to sync, and it has no call that
syncs a directory. Every failure is an `OSError`.
"""

import errno
import logging
import os
from collections.abc import Iterable
from typing import Final

from odradek.world.disk import OsDisk

_log = logging.getLogger("odradek.spark")

# As Hadoop creates files: the umask takes away what the user does not want.
_FILE_MODE: Final = 0o666
# Filesystems that cannot sync a directory, and those that are mounted to be read only.
_NOTHING_TO_SYNC: Final = (errno.EINVAL, errno.EROFS)


def create_once(path: str, data: bytes, scratch: str) -> None:
    """Creates a file that survives a power cut; raises `FileExistsError` if it exists.

    The data is written to `scratch`, and `path` becomes a hard link to it: unlike a rename,
    that fails if the name exists. If the link is made and cannot be synced, the file exists and
    this function raises all the same: only the next run can tell whether it survived.
    """
    for directory in {os.path.dirname(path), os.path.dirname(scratch)}:
        _make_directories(directory)
    try:
        _write(scratch, data)
        os.link(scratch, path)
        _sync(os.path.dirname(path))
    finally:
        _remove_scratch(scratch)


def sync_directories(root: str, directories: Iterable[str]) -> None:
    """Syncs directories and those above them, down from `root`, so that new, renamed and removed
    names in them survive a power cut. A directory that does not exist is left out."""
    below_root: set[str] = set()
    for directory in directories:
        path = directory
        while path.startswith(f"{root}/"):
            below_root.add(path)
            path = os.path.dirname(path)
    for path in (root, *sorted(below_root)):
        if os.path.isdir(path):
            _sync(path)


def _make_directories(path: str) -> None:
    missing = []
    parent = path
    while not os.path.isdir(parent):
        missing.append(parent)
        parent = os.path.dirname(parent)
    os.makedirs(path, exist_ok=True)
    for directory in missing:
        _sync(os.path.dirname(directory))


def _write(path: str, data: bytes) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _FILE_MODE), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync(directory: str) -> None:
    try:
        OsDisk().sync_directory(directory)
    except OSError as error:
        if error.errno not in _NOTHING_TO_SYNC:
            raise


def _remove_scratch(path: str) -> None:
    """The file at `path` of `create_once` is made, or an error tells that it is not. Neither
    changes if the scratch file is left behind: the run deletes it when it ends."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
    except OSError as error:
        _log.warning("The scratch file %s cannot be deleted: %s", path, error)
