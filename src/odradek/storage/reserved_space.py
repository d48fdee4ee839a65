"""Disk space that a log directory reserves for what must be written when the disk is full.

Appends stop at the first write that finds no space. What must still be written then is small:
checkpoints, the last index entries, the metadata store's file on the same disk. The reserve is a
file of that size, allocated but never written. It is removed when the disk is full; making it again
shows that there is space.
"""

from contextlib import suppress

from odradek.world.disk import Disk

_NAME = ".odradek_reserve"
# Without a reserve: so much must be free before appends go on.
_MIN_FREE_BYTES = 1 << 20
# The reserve takes no more than this part of a disk: tests have disks of a few megabytes.
_MAX_SHARE = 64


class ReservedSpace:
    __slots__ = ("_disk", "_path", "_size_bytes", "directory")

    def __init__(self, disk: Disk, directory: str, size_bytes: int = 0) -> None:
        self.directory = directory
        self._disk = disk
        self._path = f"{directory}/{_NAME}"
        self._size_bytes = size_bytes

    def make(self) -> None:
        """Allocates the reserve; raises `OSError` if there is no space for it."""
        try:
            self._disk.allocate(self._path, self._reserve_bytes())
        except OSError:
            self.release()
            raise
        if not self._size_bytes:
            self.release()

    def find_room(self) -> bool:
        """Makes the reserve again if twice its size is free: else the next write would fail again.
        Returns whether it was made."""
        try:
            if self._disk.free_bytes(self.directory) < 2 * self._reserve_bytes():
                return False
            self.make()
        except OSError:
            return False
        return True

    def _reserve_bytes(self) -> int:
        share_bytes = self._disk.total_bytes(self.directory) // _MAX_SHARE
        return min(self._size_bytes or _MIN_FREE_BYTES, share_bytes)

    def release(self) -> None:
        with suppress(FileNotFoundError):
            self._disk.remove(self._path)
