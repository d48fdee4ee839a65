"""The format of an encrypted file.

    slot 0 | slot 1 | frame 0 | frame 1 | ... | last frame, which may be shorter

A *frame* is up to `FRAME_BYTES` bytes, encrypted by AES-256-GCM, and the tag of 16 bytes behind
them. Only the last frame of a file is shorter. So the position of a plain byte says where its
cipher byte is, and index files stay valid. The nonce of a frame is its number, and the key of the
file is used in this file alone, so no nonce repeats.

A frame is not written as a whole. GCM encrypts byte by byte: what is appended is encrypted and
written at once, in one write, and the tag follows when the frame is full or the file is *sealed*
(closed for appends). Nothing that was written is ever overwritten. So an append costs what it costs
in a plain file, and after a crash the file is what a plain file would be: its bytes up to some
point.

A file is written by one `EncryptedFile` from its first byte on, and is never appended to after it
was closed, cut or recovered. The log begins another segment then.

A *slot* says with which key the file is encrypted. Both slots are written at the beginning. When
the file is *cut* (truncated, or recovered after a crash), the older slot is replaced:

- `cut` is the size of the file now. All frames before it stay as they are.
- If the cut is inside a frame, the part of that frame that stays is encrypted again, with a key of
  its own, and is stored in the slot itself. The old frame is not touched: until the slot is on disk
  the file is as before.

The key of a file is HMAC-SHA256(data key, salt): the data key is what the topic key has wrapped,
and the salt is random and new for each file. The key of a cut part is HMAC-SHA256(key of the file,
another salt). So keys never repeat, even if one data key must serve for several files because the
key service is down.

The associated data of a frame is the place of the file (`orders-0/00000000000000000042.log`) and
the number of the frame: a file that was moved to another partition or offset, and frames that were
swapped, do not decrypt.
"""

import base64
import binascii
import hmac
import json
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import Final

from odradek.protocol.checksum import crc32c
from odradek.storage.file_names import ENCRYPTED_FILE

FRAME_BYTES: Final = 16 * 1024
TAG_BYTES: Final = 16
SEALED_FRAME_BYTES: Final = FRAME_BYTES + TAG_BYTES
SALT_BYTES: Final = 32

_FORMAT: Final = 1
_DESCRIPTION_BYTES: Final = 4096
# A slot begins on a page of its own and ends with one: a torn write damages one slot alone.
SLOT_BYTES: Final = _DESCRIPTION_BYTES + FRAME_BYTES + 4096
FRAMES_START: Final = 2 * SLOT_BYTES
_PREFIX_BYTES: Final = len(ENCRYPTED_FILE) + 8
_NONCE_BYTES: Final = 12
_ENDINGS: Final = (".cleaned", ".swap", ".deleted", ".tmp")


@dataclass(frozen=True, slots=True)
class Slot:
    """How a file is encrypted."""

    number: int  # Rises with every change; the slot with the higher number counts.
    place: str
    key_name: str  # Of the topic key.
    wrapped: bytes
    salt: bytes
    # The size of a file that was cut; -1 if it was not.
    cut: int = -1
    # Of the key of the part of a frame that is stored in the slot; empty if there is none.
    cut_salt: bytes = b""

    @property
    def cut_bytes(self) -> int:
        """How many plain bytes are stored in the slot."""
        return self.cut % FRAME_BYTES if self.cut >= 0 else 0

    def encode(self) -> bytes:
        fields = asdict(self) | {
            name: base64.b64encode(getattr(self, name)).decode()
            for name in ("wrapped", "salt", "cut_salt")
        }
        text = json.dumps(fields | {"format": _FORMAT}, separators=(",", ":")).encode()
        if len(text) > _DESCRIPTION_BYTES - _PREFIX_BYTES:
            raise ValueError(f"a header of {len(text)} bytes is too long for its slot")
        prefix = ENCRYPTED_FILE + len(text).to_bytes(4, "big") + crc32c(text).to_bytes(4, "big")
        return prefix + text

    @classmethod
    def decode(cls, data: bytes) -> "Slot | None":
        """None if the slot is damaged, or was never written."""
        length = int.from_bytes(data[8:12], "big")
        text = data[_PREFIX_BYTES : _PREFIX_BYTES + length]
        if not data.startswith(ENCRYPTED_FILE) or len(text) != length:
            return None
        if crc32c(text) != int.from_bytes(data[12:16], "big"):
            return None
        try:
            fields = json.loads(text)
            if fields.pop("format") != _FORMAT:
                return None
            for name in ("wrapped", "salt", "cut_salt"):
                fields[name] = base64.b64decode(fields[name])
            return cls(**fields)
        except (ValueError, TypeError, KeyError, binascii.Error):
            return None


def slot_position(number: int) -> int:
    return number % 2 * SLOT_BYTES


def cut_part_position(number: int) -> int:
    """Where the part of a frame begins that is stored in a slot."""
    return slot_position(number) + _DESCRIPTION_BYTES


def description_bytes() -> int:
    return _DESCRIPTION_BYTES


def raw_position(position: int) -> int:
    """Where the byte of a file is that is at `position` of its plain bytes."""
    return FRAMES_START + position + position // FRAME_BYTES * TAG_BYTES


def frame_position(frame: int) -> int:
    return FRAMES_START + frame * SEALED_FRAME_BYTES


def nonce_of(frame: int) -> bytes:
    return frame.to_bytes(_NONCE_BYTES, "big")


def associated_data(place: str, frame: int) -> bytes:
    return place.encode() + b"\0" + frame.to_bytes(8, "big")


def derive_key(key: bytes, salt: bytes) -> bytes:
    return hmac.digest(key, b"odradek file key 1" + salt, sha256)


def place_of(path: str) -> str:
    """The name of the partition's directory and of the file, without the endings that a file gets
    while it is made, replaced or deleted."""
    directory, _, name = path.rpartition("/")
    while name.endswith(_ENDINGS):
        name = name.rpartition(".")[0]
    return f"{directory.rpartition('/')[2]}/{name}"
