"""An encrypted file that is read and written by the positions of its plain bytes (see `layout`).

An object is in one of three states:

- *empty*: nothing is written. The first write decides whether the file is encrypted, and with which
  key (`DataKeys.for_new_file`).
- *written*: this object has written all of the file. It appends, and keeps the plain bytes of the
  last frame, which has no tag yet, in memory.
- *read*: the file was there before, or was sealed or cut. It takes no appends.

Invariant: a frame is encrypted once. Every tag is checked before a byte of its frame is returned.
There is one exception: the last frame of a file whose process was killed or lost its power has no
tag, or a tag that does not fit. Recovery reads it all the same (`begin_recovery`), checks the
checksum of each batch, and seals what is left.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from odradek.invariants import InvariantViolation
from odradek.storage.encryption.layout import (
    FRAME_BYTES,
    FRAMES_START,
    SALT_BYTES,
    SEALED_FRAME_BYTES,
    TAG_BYTES,
    Slot,
    associated_data,
    cut_part_position,
    derive_key,
    description_bytes,
    frame_position,
    nonce_of,
    place_of,
    raw_position,
    slot_position,
)
from odradek.storage.errors import CorruptLog
from odradek.world.disk import Buffer, File, read_into

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers import AEADEncryptionContext

    from odradek.storage.encryption.data_keys import DataKeys

_NO_FRAME: Final = -1
# What is read for a reply at once. Memory for it is used again: to get it from the system each time
# costs twice as much as to decrypt what is in it.
_SCRATCH_FRAMES: Final = 16
_SCRATCH_BYTES: Final = _SCRATCH_FRAMES * SEALED_FRAME_BYTES
_free_scratch: Final[list[bytearray]] = []


class _Writer:
    """Encrypts what is appended to a file, from its first byte on."""

    __slots__ = ("_aead", "_context", "_key", "_place", "end", "is_sealed", "last_frame")

    def __init__(self, key: bytes, place: str) -> None:
        self._key = algorithms.AES(key)
        self._aead = AESGCM(key)
        self._place = place
        self._context: AEADEncryptionContext | None = None
        self.end = 0
        # The plain bytes of the last frame, which is not full.
        self.last_frame = bytearray()
        self.is_sealed = False

    def encrypt(self, buffers: Sequence[Buffer]) -> list[bytes]:
        """What is to be written at the end of the file."""
        written: list[bytes] = []
        for buffer in buffers:
            if len(self.last_frame) + len(buffer) < FRAME_BYTES:  # Most appends.
                context = self._context or self._begin_frame()
                written.append(context.update(buffer))
                self.last_frame += buffer
                self.end += len(buffer)
            else:
                self._encrypt_long(memoryview(buffer), written)
        return written

    def _encrypt_long(self, view: memoryview, written: list[bytes]) -> None:
        position = 0
        while position < len(view):
            room = FRAME_BYTES - len(self.last_frame)
            part = view[position : position + room]
            if len(part) == FRAME_BYTES:
                frame = self.end // FRAME_BYTES
                written.append(
                    self._aead.encrypt(nonce_of(frame), part, associated_data(self._place, frame))
                )
            else:
                context = self._context or self._begin_frame()
                written.append(context.update(part))
                self.last_frame += part
                if len(part) == room:
                    written.append(self._end_frame(context))
            position += len(part)
            self.end += len(part)

    def _begin_frame(self) -> "AEADEncryptionContext":
        frame = self.end // FRAME_BYTES
        context = self._context = Cipher(self._key, modes.GCM(nonce_of(frame))).encryptor()
        context.authenticate_additional_data(associated_data(self._place, frame))
        return context

    def _end_frame(self, context: "AEADEncryptionContext") -> bytes:
        context.finalize()
        self._context = None
        self.last_frame.clear()
        return context.tag

    def seal(self) -> bytes:
        """The tag of a last frame that is not full. Nothing can be appended after that."""
        self.is_sealed = True
        return b"" if self._context is None else self._end_frame(self._context)


class EncryptedFile:
    __slots__ = (
        "_aead",
        "_cut_part",
        "_directory",
        "_keys",
        "_reads_unsealed",
        "_unchecked_frame",
        "_writer",
        "file",
        "is_plain",
        "path",
        "slot",
    )

    def __init__(
        self,
        file: File,
        path: str,
        keys: "DataKeys",
        slot: Slot | None,
        *,
        place: str | None = None,
        reads_unsealed: bool = False,
    ) -> None:
        """`slot` is what the file says of itself, None if it is empty. `place` is where it should
        be, if that is not where `path` says. `reads_unsealed` allows to read the last frame of a
        file that another process is writing."""
        self.file = file
        self.path = path
        self._directory = path.rpartition("/")[0]
        self._keys = keys
        self._writer: _Writer | None = None
        self.slot = slot
        # An empty file turned out to be not encrypted when it was first written.
        self.is_plain = False
        self._cut_part = b""
        self._unchecked_frame = _NO_FRAME
        self._reads_unsealed = reads_unsealed
        self._aead: AESGCM | None = None
        if slot is not None:
            self._adopt(slot, place or place_of(path))

    def _adopt(self, slot: Slot, place: str) -> None:
        if slot.place != place:
            raise CorruptLog(self.path, 0, f"it is the file {slot.place}, at another place")
        key = self._keys.of_file(slot)
        self._aead = AESGCM(key)
        if slot.cut_salt:
            self._cut_part = read_cut_part(self.file, slot, key)

    # Sizes

    @property
    def takes_appends(self) -> bool:
        if self.is_plain:
            return self._keys.name_for(self._directory) is None
        if self.slot is None:
            return True
        writer = self._writer
        return (
            writer is not None
            and not writer.is_sealed
            and self._keys.name_for(self._directory) == self.slot.key_name
        )

    def size(self) -> int:
        if self.is_plain:
            return self.file.size()
        if self.slot is None:
            return 0
        if self._writer is not None:
            return self._writer.end
        if self.slot.cut >= 0:
            return self.slot.cut
        raw = max(self.file.size() - FRAMES_START, 0)
        frame, rest = divmod(raw, SEALED_FRAME_BYTES)
        if rest and self._is_sealed(frame):
            rest -= TAG_BYTES
        return frame * FRAME_BYTES + min(rest, FRAME_BYTES)

    def _is_sealed(self, frame: int) -> bool:
        """Returns whether the last frame, which is not full, has its tag."""
        try:
            self._decrypt(frame, self._raw(frame))
        except CorruptLog:
            return False
        return True

    def _raw(self, frame: int) -> bytes:
        return self.file.read_at(frame_position(frame), SEALED_FRAME_BYTES)

    # Reading

    def read_at(self, position: int, length: int) -> bytes:
        if self.is_plain:
            return self.file.read_at(position, length)
        if self.slot is None:
            return b""
        end = position + length
        if self._writer is not None:
            end = min(end, self._writer.end)
        elif self.slot.cut >= 0:
            end = min(end, self.slot.cut)
        if self._unchecked_frame != _NO_FRAME:
            end = min(end, (self._unchecked_frame + 1) * FRAME_BYTES)
        if end <= position:
            return b""
        first, last = position // FRAME_BYTES, (end - 1) // FRAME_BYTES
        raw = self.file.read_at(frame_position(first), (last + 1 - first) * SEALED_FRAME_BYTES)
        if self.slot.cut < 0:
            last = min(last, first - 1 + -(-len(raw) // SEALED_FRAME_BYTES))
        if last < first:
            return b""
        parts = []
        for frame in range(first, last + 1):
            start = (frame - first) * SEALED_FRAME_BYTES
            parts.append(self._frame(frame, memoryview(raw)[start : start + SEALED_FRAME_BYTES]))
        parts[-1] = parts[-1][: end - last * FRAME_BYTES]
        parts[0] = parts[0][position - first * FRAME_BYTES :]
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def read_some(self, position: int, length: int) -> Buffer:
        """The bytes from `position` on, perhaps fewer than there are: whole frames, which are
        decrypted where the caller gets them. Less than half as expensive as `read_at`."""
        frames = min((position + length) // FRAME_BYTES, self._full_frames())
        first = position // FRAME_BYTES
        count = min(frames - first, _SCRATCH_FRAMES)
        if count < 2:
            return self.read_at(position, length)
        scratch = _free_scratch.pop() if _free_scratch else bytearray(_SCRATCH_BYTES)
        try:
            with memoryview(scratch)[: count * SEALED_FRAME_BYTES] as raw:
                if read_into(self.file, frame_position(first), raw) < len(raw):
                    return self.read_at(position, length)
                plain = memoryview(bytearray(count * FRAME_BYTES))
                self._decrypt_frames(first, count, raw, plain)
        finally:
            _free_scratch.append(scratch)
        return plain[position - first * FRAME_BYTES :]

    def _full_frames(self) -> int:
        """Returns how many frames there are that are full, and have a tag that fits."""
        if self.is_plain or self.slot is None or self._unchecked_frame != _NO_FRAME:
            return 0
        if self._writer is not None:
            return self._writer.end // FRAME_BYTES
        if self.slot.cut >= 0:
            return self.slot.cut // FRAME_BYTES
        return (self.file.size() - FRAMES_START) // SEALED_FRAME_BYTES

    def _decrypt_frames(self, first: int, count: int, raw: memoryview, plain: memoryview) -> None:
        assert self._aead is not None
        assert self.slot is not None
        place, decrypt_into = self.slot.place, self._aead.decrypt_into
        for number in range(count):
            frame, at, to = first + number, number * SEALED_FRAME_BYTES, number * FRAME_BYTES
            try:
                decrypt_into(
                    nonce_of(frame),
                    raw[at : at + SEALED_FRAME_BYTES],
                    associated_data(place, frame),
                    plain[to : to + FRAME_BYTES],
                )
            except (InvalidTag, ValueError):
                raise self._damaged(frame) from None

    def _damaged(self, frame: int) -> CorruptLog:
        reason = "the frame that begins here fails its check"
        return CorruptLog(self.path, frame * FRAME_BYTES, reason)

    def _frame(self, frame: int, raw: memoryview) -> bytes:
        """The plain bytes of a frame. `raw` is what is in the file of it."""
        writer, slot = self._writer, self.slot
        assert slot is not None
        if writer is not None and frame == writer.end // FRAME_BYTES and not writer.is_sealed:
            return bytes(writer.last_frame)
        if slot.cut >= 0 and frame == slot.cut // FRAME_BYTES:
            return self._cut_part
        if frame == self._unchecked_frame:
            return self._decrypt_unchecked(frame, raw)
        is_unsealed = len(raw) < SEALED_FRAME_BYTES and self._reads_unsealed
        if is_unsealed and not self._is_sealed(frame):
            return self._decrypt_unchecked(frame, raw)
        return self._decrypt(frame, raw)

    def _decrypt(self, frame: int, raw: Buffer) -> bytes:
        assert self._aead is not None
        assert self.slot is not None
        try:
            return self._aead.decrypt(nonce_of(frame), raw, associated_data(self.slot.place, frame))
        except (InvalidTag, ValueError):
            raise self._damaged(frame) from None

    def _decrypt_unchecked(self, frame: int, raw: Buffer) -> bytes:
        assert self.slot is not None
        key = self._keys.of_file(self.slot)
        context = Cipher(algorithms.AES(key), modes.GCM(nonce_of(frame))).decryptor()
        return context.update(memoryview(raw)[:FRAME_BYTES])

    # Writing

    def write_at(self, position: int, buffers: Sequence[Buffer]) -> None:
        if self.is_plain:
            self.file.write_at(position, buffers)
            return
        writer = self._writer
        if writer is None:
            writer = self._begin(position)
            if writer is None:
                self.is_plain = True
                self.file.write_at(position, buffers)
                return
        if position != writer.end or writer.is_sealed:
            raise InvariantViolation(
                self.path, f"bytes are written at {position}, but the file ends at {writer.end}"
            )
        try:
            self.file.write_at(raw_position(position), writer.encrypt(buffers))
        except OSError:
            # A part may be written. The caller truncates the file to what it was.
            self._writer, self._unchecked_frame = None, position // FRAME_BYTES
            raise

    def _begin(self, position: int) -> _Writer | None:
        """Begins a file with a fresh key; None if it is not to be encrypted."""
        if position or self.slot is not None:
            raise InvariantViolation(
                self.path, f"bytes are written at {position} of a file that takes none any more"
            )
        made = self._keys.for_new_file(self._directory)
        if made is None:
            return None
        salt = self._keys.randomness.bytes(SALT_BYTES)
        slot = Slot(1, place_of(self.path), made.key_name, made.wrapped, salt)
        description = slot.encode()
        self.file.truncate(0)
        for number in (1, 0):
            self.file.write_at(slot_position(number), [description])
        key = derive_key(made.data_key, salt)
        self.slot, self._aead = slot, AESGCM(key)
        self._writer = _Writer(key, slot.place)
        return self._writer

    # Closing for appends

    def seal(self, size: int) -> None:
        """Closes the file for appends at its end, `size`: every frame has its tag now. A file that
        recovery has read, or that took only a part of the last write, is cut there."""
        writer = self._writer
        if writer is not None and writer.end == size:
            if not writer.is_sealed:
                end, tag = raw_position(size), writer.seal()
                if tag:
                    self.file.write_at(end, [tag])
        else:
            self.truncate(size)

    def truncate(self, size: int) -> None:
        if self.is_plain or self.slot is None:
            self.file.truncate(size)
            self.is_plain = False
        elif not size:
            self.file.truncate(0)
            self.slot = self._writer = self._aead = None
            self._unchecked_frame = _NO_FRAME
        elif size < self.size() or self._unchecked_frame != _NO_FRAME:
            self._cut(size)

    def _cut(self, size: int) -> None:
        """Ends the file at `size`, for good. The bytes of the last frame that stay are encrypted
        again: its nonce and key were used already."""
        slot = self.slot
        assert slot is not None
        frame, length = divmod(size, FRAME_BYTES)
        part = self.read_at(size - length, length) if length else b""
        key = self._keys.of_file(slot)
        salt = self._keys.randomness.bytes(SALT_BYTES) if part else b""
        changed = Slot(
            slot.number + 1, slot.place, slot.key_name, slot.wrapped, slot.salt, size, salt
        )
        if part:
            sealed = AESGCM(derive_key(key, salt)).encrypt(
                nonce_of(frame), part, associated_data(slot.place, frame)
            )
            self.file.write_at(cut_part_position(changed.number), [sealed])
        self.file.write_at(slot_position(changed.number), [changed.encode()])
        # The frame that was cut stays where it is: the slot may not be on disk yet.
        self.file.truncate(frame_position(frame + (length > 0)))
        self.slot, self._cut_part = changed, part
        self._writer, self._aead = None, AESGCM(key)
        self._unchecked_frame = _NO_FRAME

    # Recovering

    def begin_recovery(self) -> int:
        """Allows the reading of one frame that has no valid tag, because a crash interrupted its
        writing. Returns how many bytes can be read.

        That is the last frame, or the first one of which pages are missing after a power cut: what
        was synced before lies in it or in earlier frames.
        """
        if self.is_plain or self.slot is None or self._writer is not None:
            return self.size()
        if self.slot.cut >= 0:
            return self._sound_size(self.slot.cut // FRAME_BYTES, self.slot.cut)
        frames = -(-max(self.file.size() - FRAMES_START, 0) // SEALED_FRAME_BYTES)
        return self._sound_size(frames, None)

    def _sound_size(self, frames: int, cut: int | None) -> int:
        for frame in range(frames):
            raw = self._raw(frame)
            try:
                plain = self._decrypt(frame, raw)
            except CorruptLog:
                self._unchecked_frame = frame
                return frame * FRAME_BYTES + min(len(raw), FRAME_BYTES)
            if len(plain) < FRAME_BYTES:
                return frame * FRAME_BYTES + len(plain)
        return frames * FRAME_BYTES if cut is None else cut

    def sync(self) -> None:
        self.file.sync()

    def close(self) -> None:
        self.file.close()


def read_cut_part(file: File, slot: Slot, key: bytes) -> bytes:
    """The part of a frame that is stored in a slot; raises `InvalidTag`."""
    frame = slot.cut // FRAME_BYTES
    raw = file.read_at(cut_part_position(slot.number), slot.cut_bytes + TAG_BYTES)
    return AESGCM(derive_key(key, slot.cut_salt)).decrypt(
        nonce_of(frame), raw, associated_data(slot.place, frame)
    )


def read_slots(file: File) -> list[Slot]:
    """The valid slots of a file, the newest first; none if it is not an encrypted file."""
    slots = [
        slot
        for number in (0, 1)
        if (slot := Slot.decode(file.read_at(slot_position(number), description_bytes())))
        is not None
    ]
    return sorted(slots, key=lambda slot: slot.number, reverse=True)
