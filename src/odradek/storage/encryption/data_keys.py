"""The data keys that a process has at hand, and which topic key is for which partition.

`KeySupply` fills it in a broker. A worker process gets a copy of what its job needs, over the pipe
to its parent, never through a file or an argument.

Nothing here waits. If no next data key is ready when a segment begins, because the key service is
down, the last one serves again: with the salt of the new file it makes another key (see `layout`).
"""

import base64
import errno
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from odradek.storage.encryption.layout import Slot, derive_key
from odradek.storage.errors import StorageError
from odradek.world import Randomness


class KeyNotAtHand(StorageError):
    """The data key of a file was not unwrapped, or could not be."""


class DataKey(NamedTuple):
    key_name: str  # Of the topic key that has wrapped it.
    wrapped: bytes
    data_key: bytes

    def __repr__(self) -> str:
        return f"DataKey({self.key_name})"


class DataKeys:
    __slots__ = ("_last", "_names", "_ready", "_unwrapped", "on_taken", "randomness")

    def __init__(self, randomness: Randomness) -> None:
        self.randomness = randomness
        # The directory of a partition to the name of the topic key for its new files.
        self._names: dict[str, str] = {}
        self._unwrapped: dict[tuple[str, bytes], bytes] = {}
        # By the name of the topic key: data keys for the next files, and the one used last.
        self._ready: dict[str, deque[DataKey]] = {}
        self._last: dict[str, DataKey] = {}
        # Called with the name of a topic key of which a data key was taken.
        self.on_taken: Callable[[str], None] = _ignore

    # Which key is for new files

    def assign(self, directory: str, key_name: str) -> None:
        """From now on, new files of a partition are encrypted with this topic key; plain if the
        name is empty."""
        if key_name:
            self._names[directory] = key_name
        else:
            self._names.pop(directory, None)

    def name_for(self, directory: str) -> str | None:
        return self._names.get(directory)

    @property
    def names(self) -> set[str]:
        return set(self._names.values())

    def has_key(self, name: str) -> bool:
        return name in self._last or bool(self._ready.get(name))

    def ready_count(self, name: str) -> int:
        return len(self._ready.get(name, ()))

    def add_ready(self, keys: Iterable[DataKey], *, replaces: bool = False) -> None:
        """Adds data keys for the next files; `replaces` drops those that were ready before, and the
        one that would serve again, because the topic key was rotated."""
        for key in keys:
            ready = self._ready.setdefault(key.key_name, deque())
            if replaces:
                ready.clear()
                self._last.pop(key.key_name, None)
                replaces = False
            ready.append(key)
            self.add(key)

    def for_new_file(self, directory: str) -> DataKey | None:
        """The data key for a new file in this directory; None if it is not to be encrypted.

        Raises `OSError` (EAGAIN) if the topic key was never at hand: the append is refused, and the
        client tries again.
        """
        name = self._names.get(directory)
        if name is None:
            return None
        ready = self._ready.get(name)
        if ready:
            self._last[name] = ready.popleft()
        self.on_taken(name)
        if name not in self._last:
            raise OSError(
                errno.EAGAIN, f"the key {name} is not at hand: the key service was not reached yet"
            )
        return self._last[name]

    # Keys of files

    def add(self, key: DataKey) -> None:
        self._unwrapped[key.key_name, key.wrapped] = key.data_key

    def knows(self, slot: Slot) -> bool:
        return (slot.key_name, slot.wrapped) in self._unwrapped

    def of_file(self, slot: Slot) -> bytes:
        """The key of a file; raises `KeyNotAtHand`."""
        data_key = self._unwrapped.get((slot.key_name, slot.wrapped))
        if data_key is None:
            raise KeyNotAtHand(
                f"{slot.place} is encrypted, and its key {slot.key_name} is not at hand"
            )
        return derive_key(data_key, slot.salt)

    # For a worker process

    def as_message(self, directory: str, slots: Iterable[Slot]) -> dict[str, object]:
        """What a worker needs to read these files of a partition, and to write new ones."""
        name = self._names.get(directory)
        new = None if name is None else self.for_new_file(directory)
        known = {(slot.key_name, slot.wrapped) for slot in slots}
        return {
            "directory": directory,
            "new": None if new is None else _encoded(new),
            "known": [
                _encoded(DataKey(*entry, self._unwrapped[entry]))
                for entry in sorted(known)
                if entry in self._unwrapped
            ],
        }

    @classmethod
    def from_message(cls, message: Mapping[str, Any]) -> "DataKeys":
        keys = cls(Randomness())
        for encoded in message["known"]:
            keys.add(_decoded(encoded))
        if message["new"] is not None:
            new = _decoded(message["new"])
            keys.add_ready([new])
            keys.assign(message["directory"], new.key_name)
        return keys


def _encoded(key: DataKey) -> list[str]:
    name, wrapped, data_key = key
    return [name, base64.b64encode(wrapped).decode(), base64.b64encode(data_key).decode()]


def _decoded(fields: list[str]) -> DataKey:
    name, wrapped, data_key = fields
    return DataKey(name, base64.b64decode(wrapped), base64.b64decode(data_key))


def _ignore(_: str) -> None:
    """Nobody fetches keys in advance."""
