"""Room kept free on the disk of a log directory, given up when the disk is full.

Appends stop at the first write that finds no room. What must still be written then is small:
checkpoints, the ends of indexes, the metadata store's file beside them. The reserve is a file of
that size, allocated but never filled; removing it takes no room, and making it again is the proof
that there is some.
"""

from contextlib import suppress

from odradek.world.disk import Disk

_NAME = ".odradek_reserve"
# Without a reserve: as much must be free before appends go on.
_MIN_ROOM_BYTES = 1 << 20
# A disk of a few megabytes, as tests have them, is not all reserve.
_MAX_SHARE = 64


class ReservedSpace:
    __slots__ = ("_disk", "_path", "_size_bytes", "directory")

    def __init__(self, disk: Disk, directory: str, size_bytes: int = 0) -> None:
        self.directory = directory
        self._disk = disk
        self._path = f"{directory}/{_NAME}"
        self._size_bytes = size_bytes

    def make(self) -> None:
        """Takes the room, or proves that it is there; raises `OSError` if it is not."""
        try:
            self._disk.allocate(self._path, self._room_bytes())
        except OSError:
            self.release()
            raise
        if not self._size_bytes:
            self.release()

    def find_room(self) -> bool:
        """Makes the reserve again if as much is free beside it: else the next write is refused."""
        try:
            if self._disk.free_bytes(self.directory) < 2 * self._room_bytes():
                return False
            self.make()
        except OSError:
            return False
        return True

    def _room_bytes(self) -> int:
        share_bytes = self._disk.total_bytes(self.directory) // _MAX_SHARE
        return min(self._size_bytes or _MIN_ROOM_BYTES, share_bytes)

    def release(self) -> None:
        with suppress(FileNotFoundError):
            self._disk.remove(self._path)
