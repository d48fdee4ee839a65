"""A disk with encrypted files among others: everybody who uses it sees plain bytes.

Segments (`.log`) and key indexes (`.keys`) may be encrypted, also while they are made, replaced or
deleted. An encrypted file says so in its first bytes. All other files hold no records: offsets,
positions, timestamps, producer ids.
"""

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from cryptography.exceptions import InvalidTag

from odradek.storage.encryption.encrypted_file import EncryptedFile, read_slots
from odradek.storage.encryption.layout import Slot, place_of
from odradek.storage.file_names import ENCRYPTED_FILE
from odradek.world.disk import Disk, File

if TYPE_CHECKING:
    from odradek.storage.encryption.data_keys import DataKeys

_SUFFIXES: Final = (".log", ".keys")


class EncryptingDisk:
    """`Disk`, on top of another one. What is not defined here is the other one's."""

    def __init__(
        self, disk: Disk, keys: "DataKeys", *, reads_unsealed: bool = False, any_place: bool = False
    ) -> None:
        """`reads_unsealed`: see `EncryptedFile`. `any_place` reads files that are not where they
        belong, for tools."""
        self.disk = disk
        self.keys = keys
        self._reads_unsealed = reads_unsealed
        self._any_place = any_place

    def __getattr__(self, name: str) -> Any:
        return getattr(self.disk, name)

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> File:
        file = self.disk.open(path, create=create, writable=writable)
        if not holds_records(path):
            return file
        try:
            return self._recognized(file, path)
        except BaseException:
            file.close()
            raise

    def _recognized(self, file: File, path: str) -> File:
        start = file.read_at(0, len(ENCRYPTED_FILE))
        if not start:
            directory = path.rpartition("/")[0]
            if self.keys.name_for(directory) is None:
                return file
            return EncryptedFile(file, path, self.keys, None)
        slots = read_slots(file)
        if not slots:
            # A power cut can leave a header without its end; then nothing was synced yet.
            return EncryptedFile(file, path, self.keys, None) if start == ENCRYPTED_FILE else file
        # A power cut may have lost the part that a slot has of a frame. Then the other slot is
        # true, or the file as it was before it was cut.
        for slot in (*slots, replace(slots[0], cut=-1, cut_salt=b"")):
            try:
                return EncryptedFile(
                    file,
                    path,
                    self.keys,
                    slot,
                    place=slot.place if self._any_place else None,
                    reads_unsealed=self._reads_unsealed,
                )
            except InvalidTag:
                continue
        raise AssertionError("a slot without a cut part is always accepted")

    def size(self, path: str) -> int:
        size = self.disk.size(path)
        if not size or not holds_records(path):
            return size
        file = self.open(path, writable=False)
        try:
            return file.size()
        finally:
            file.close()

    def keys_for_worker(self, directory: str) -> dict[str, object]:
        """What a worker process needs to read and write the files of a partition."""
        return self.keys.as_message(directory, slots_below(self.disk, directory))

    def takes_appends(self, path: str, handle: File) -> bool:
        """Returns whether a file that is not empty may be appended to: the file was begun by this
        process, and with the key that its topic has now."""
        if isinstance(handle, EncryptedFile):
            return handle.takes_appends
        return self.keys.name_for(path.rpartition("/")[0]) is None


def holds_records(path: str) -> bool:
    name = place_of(path)
    return name.endswith(_SUFFIXES)


def slots_below(disk: Disk, path: str) -> list[Slot]:
    """How the files in a partition's directory are encrypted."""
    slots = []
    try:
        names = disk.list_directory(path)
    except (FileNotFoundError, NotADirectoryError):
        return []
    for name in names:
        if holds_records(f"{path}/{name}"):
            file = disk.open(f"{path}/{name}", writable=False)
            try:
                slots += read_slots(file)[:1]
            finally:
                file.close()
    return slots
