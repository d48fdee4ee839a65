"""Wraps the data keys of files again, with the newest version of their topic key.

The records are not touched: only the slots at the beginning of each file are written, one after the
other, with a sync between them. So the file can be read whenever this is interrupted. The broker of
the log directory must be stopped.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from odradek.security.keys.provider import KeyProvider
from odradek.storage.encryption.encrypted_file import read_slots
from odradek.storage.encryption.encrypting_disk import holds_records
from odradek.storage.encryption.layout import (
    TAG_BYTES,
    Slot,
    cut_part_position,
    slot_position,
)
from odradek.world.disk import Disk, File


class Rewrapped(NamedTuple):
    """Files of a log directory: how many are encrypted, and how many were changed."""

    encrypted: int
    changed: int


def rewrap_directory(disk: Disk, path: str, provider: KeyProvider, name: str | None) -> Rewrapped:
    """Wraps the data keys again of all files below a log directory, or of those under the topic key
    `name`. Raises `KeyProviderError` and `OSError`."""
    encrypted = changed = 0
    for file_path in _files(disk, path):
        file = disk.open(file_path)
        try:
            slots = read_slots(file)
            if slots and name in (None, slots[0].key_name):
                encrypted += 1
                changed += _rewrap(file, slots[0], provider)
        finally:
            file.close()
    return Rewrapped(encrypted, changed)


def _files(disk: Disk, path: str) -> Iterator[str]:
    for directory in disk.list_directory(path):
        try:
            names = disk.list_directory(f"{path}/{directory}")
        except (NotADirectoryError, FileNotFoundError):
            continue
        for name in names:
            if holds_records(f"{path}/{directory}/{name}"):
                yield f"{path}/{directory}/{name}"


def _rewrap(file: File, slot: Slot, provider: KeyProvider) -> bool:
    """Returns False if the newest version has wrapped the key already."""
    (data_key,) = provider.unwrap(slot.key_name, [slot.wrapped])
    (wrapped,) = provider.wrap(slot.key_name, [data_key])
    version_of = getattr(provider, "version_of", None)
    if version_of is not None and version_of(wrapped) == version_of(slot.wrapped) > 0:
        return False
    part = b""
    if slot.cut_salt:
        part = file.read_at(cut_part_position(slot.number), slot.cut_bytes + TAG_BYTES)
    # Both slots: nothing that the old version has wrapped stays in the file.
    for number in (slot.number + 1, slot.number + 2):
        if part:
            file.write_at(cut_part_position(number), [part])
        description = replace(slot, number=number, wrapped=wrapped).encode()
        file.write_at(slot_position(number), [description])
        file.sync()
    return True
