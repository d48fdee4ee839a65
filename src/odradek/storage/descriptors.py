"""The file descriptors of segments: a limited number, each open for as long as it is used.

Every segment has one `SegmentFile`. It is opened when first needed and stays open while it is
pinned: by the log that appends to it, by a sync under way, by each slice of a fetch. A file that is
not pinned stays open until its descriptor is needed for another one (second-chance eviction: a
file that was used since the last round is kept once more).

Invariant: a pinned file is never closed, so a slice stays readable after its segment was
evicted, rolled, deleted or its directory renamed.
"""

from collections import deque

from odradek.invariants import InvariantViolation
from odradek.storage.disk_errors import NO_DESCRIPTOR_LEFT
from odradek.world.disk import Buffer, Disk, File, send_file

# How many idle files are closed at once when the process has no descriptor left.
_CLOSED_AT_ONCE = 16


class SegmentFile:
    """The `.log` file of a segment, open or not."""

    __slots__ = ("_descriptors", "_retired", "handle", "path", "pins", "recently_used")

    def __init__(self, path: str, descriptors: "Descriptors") -> None:
        self.path = path
        self.handle: File | None = None
        self.pins = 0
        self.recently_used = False
        self._retired = False
        self._descriptors = descriptors

    def pin(self, *, create: bool = False) -> File:
        """Returns the open file. It stays open until `unpin` is called."""
        handle = self.handle
        if handle is None:
            handle = self._descriptors.open(self, create=create)
        self.pins += 1
        self.recently_used = True
        return handle

    def unpin(self) -> None:
        self.pins -= 1
        if self._retired and not self.pins:
            self.close()
        elif self.pins < 0:
            raise InvariantViolation(self.path, "the file is unpinned more often than pinned")

    def close_if_idle(self) -> None:
        """Closes the descriptor if nobody uses it. The file is opened again when it is needed."""
        if not self.pins:
            self.close()

    def retire(self) -> None:
        """Closes the descriptor as soon as the file is not pinned any more."""
        self._retired = True
        if not self.pins:
            self.close()

    def close(self) -> None:
        handle, self.handle = self.handle, None
        if handle is not None:
            self._descriptors.open_files -= 1
            handle.close()


class Descriptors:
    """Keeps about `limit` segment files open; more only if all of them are pinned."""

    __slots__ = ("_disk", "_limit", "_ring", "open_files")

    def __init__(self, disk: Disk, limit: int = 10_000) -> None:
        self._disk = disk
        self._limit = limit
        self._ring: deque[SegmentFile] = deque()
        self.open_files = 0

    def open(self, file: SegmentFile, *, create: bool = False) -> File:
        if self.open_files >= self._limit:
            self._make_room()
        try:
            handle = self._disk.open(file.path, create=create)
        except OSError as error:
            # Connections may have taken the last descriptors. Then fewer files are kept open.
            if error.errno not in NO_DESCRIPTOR_LEFT or not self._close_idle():
                raise
            handle = self._disk.open(file.path, create=create)
        file.handle = handle
        self.open_files += 1
        self._ring.append(file)
        return handle

    def _close_idle(self) -> bool:
        """Closes some files that are not pinned. Returns False if there are none."""
        idle = [file for file in self._ring if file.handle is not None and not file.pins]
        for file in idle[:_CLOSED_AT_ONCE]:
            file.close()
        return bool(idle)

    def _make_room(self) -> None:
        ring = self._ring
        for _ in range(2 * len(ring)):
            if self.open_files < self._limit:
                return
            file = ring.popleft()
            if file.handle is None:
                continue
            if file.pins or file.recently_used:
                file.recently_used = False
                ring.append(file)
            else:
                file.close()


def is_encrypted(handle: File) -> bool:
    """Returns whether a file is encrypted, so that it can only be appended to. A file that is still
    empty may become one."""
    return hasattr(handle, "seal")


def seal_file(handle: File, size: int) -> None:
    """Completes an encrypted file, which ends at `size` and takes no more appends. Does nothing to
    other files."""
    if is_encrypted(handle):
        handle.seal(size)  # type: ignore[attr-defined]


class Slice:
    """Whole batches in a pinned file: the answer to a fetch, sent as the socket drains.

    Call `release` when the bytes have been sent or will not be sent.
    """

    __slots__ = ("_handle", "_length", "file", "position")

    def __init__(self, file: SegmentFile, position: int, length: int) -> None:
        self._handle: File | None = file.pin()
        self.file = file
        self.position = position
        self._length = length

    def __len__(self) -> int:
        return self._length

    def read(self, start: int, length: int) -> bytes:
        """Up to `length` bytes from `start`, counted from the beginning of the slice."""
        if self._handle is None:
            raise ValueError("the slice was released")
        return self._handle.read_at(self.position + start, min(length, self._length - start))

    def read_some(self, start: int, length: int) -> Buffer:
        """At least one of these bytes, and as many as can be had cheaply."""
        if self._handle is None:
            raise ValueError("the slice was released")
        length = min(length, self._length - start)
        read = getattr(self._handle, "read_some", self._handle.read_at)
        found: Buffer = read(self.position + start, length)
        return found

    def send(self, descriptor: int, start: int, length: int) -> int:
        """Sends bytes to a socket with `sendfile`. Returns how many it took, or -1 if the file is
        not one of the operating system: then only `read` works.

        Raises BlockingIOError if the socket's buffer is full.
        """
        if self._handle is None:
            raise ValueError("the slice was released")
        length = min(length, self._length - start)
        return send_file(self._handle, self.position + start, length, descriptor)

    def release(self) -> None:
        if self._handle is not None:
            self._handle = None
            self.file.unpin()

    def __del__(self) -> None:
        # A reply that is dropped with its connection must not keep a deleted file open.
        if getattr(self, "_handle", None) is not None:
            self.release()
