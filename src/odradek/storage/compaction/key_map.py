"""The newest offset of each key in a stretch of log: what compaction decides by.

A value is `offset << 1 | is_tombstone`. A map takes keys batch by batch, in the order of the log,
within a budget of memory; whoever fills it stops at the first batch that has no room left and
compacts what lies behind another time.

`PlainKeyMap` is a dict. `vector_key_map` has the same on arrays, where numpy is installed: a
quarter of the memory a key.

Invariant: two keys are never taken for one. Short keys are compared as they are, long ones by a
digest that is longer than any short key.
"""

import sys
from array import array
from collections.abc import Sequence
from hashlib import blake2b
from typing import Final, Protocol

# Keys up to this length are kept as they are.
_SHORT_KEY_BYTES: Final = 32
_DIGEST_BYTES: Final = _SHORT_KEY_BYTES + 1
# What an entry takes besides its key and its place in the table: two objects' heads, a number.
_ENTRY_BYTES: Final = 72


class KeyMap(Protocol):
    def has_room(self, keys: int) -> bool:
        """Whether so many more keys fit into the budget, even if all of them are new."""
        ...

    def put(self, keys: Sequence[bytes], values: Sequence[int]) -> None:
        """Values are higher than all that were put before."""
        ...

    def contains(self, keys: Sequence[bytes]) -> Sequence[bool]: ...

    def values(self) -> "array[int]":
        """All values, rising."""
        ...


class PlainKeyMap:
    __slots__ = ("_budget_bytes", "_newest", "_put_bytes", "_put_count")

    def __init__(self, budget_bytes: int) -> None:
        self._budget_bytes = budget_bytes
        self._newest: dict[bytes, int] = {}
        self._put_count = 1
        self._put_bytes = 0

    def has_room(self, keys: int) -> bool:
        # Keys that come again weigh as much as new ones: the average is what is known.
        key_bytes = self._put_bytes / self._put_count
        entries = (len(self._newest) + keys) * (_ENTRY_BYTES + key_bytes)
        return sys.getsizeof(self._newest) + entries <= self._budget_bytes

    def put(self, keys: Sequence[bytes], values: Sequence[int]) -> None:
        known = _identities(keys)
        self._put_count += len(known)
        self._put_bytes += sum(map(len, known))
        self._newest.update(zip(known, values, strict=True))

    def contains(self, keys: Sequence[bytes]) -> Sequence[bool]:
        newest = self._newest
        return [key in newest for key in _identities(keys)]

    def values(self) -> "array[int]":
        return array("q", sorted(self._newest.values()))


def _identities(keys: Sequence[bytes]) -> Sequence[bytes]:
    if max(map(len, keys), default=0) <= _SHORT_KEY_BYTES:
        return keys
    return [
        key
        if len(key) <= _SHORT_KEY_BYTES
        else blake2b(key, digest_size=_DIGEST_BYTES, usedforsecurity=False).digest()
        for key in keys
    ]


def make_key_map(budget_bytes: int) -> KeyMap:
    """On arrays if numpy is there, else on a dict."""
    try:
        from odradek.storage.compaction.vector_key_map import VectorKeyMap  # noqa: PLC0415 - heavy
    except ImportError:
        return PlainKeyMap(budget_bytes)
    return VectorKeyMap(budget_bytes)
