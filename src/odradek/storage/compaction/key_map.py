"""Maps each key in a part of the log to its newest offset (Kafka: `OffsetMap`).

A value is `offset << 1 | is_tombstone`. The keys of a batch are added in the order of the log,
while they fit into the memory budget. The pass ends at the first batch that does not fit; the next
pass continues there.

`PlainKeyMap` is a dict. `vector_key_map` does the same with numpy arrays, if numpy is installed, in
a quarter of the memory.

Invariant: two different keys are never taken for equal. Short keys are compared as they are, long
ones by a digest that is longer than any short key.
"""

import sys
from array import array
from collections.abc import Sequence
from hashlib import blake2b
from typing import Final, Protocol

# Keys up to this length are kept as they are.
_SHORT_KEY_BYTES: Final = 32
_DIGEST_BYTES: Final = _SHORT_KEY_BYTES + 1
# The memory of an entry besides its key and its slot in the table: two object headers, a number.
_ENTRY_BYTES: Final = 72


class KeyMap(Protocol):
    def has_room(self, keys: int) -> bool:
        """Returns whether so many more keys fit into the budget, even if all of them are new."""
        ...

    def put(self, keys: Sequence[bytes], values: Sequence[int]) -> None:
        """Adds keys. `values` are higher than all that were added before."""
        ...

    def contains(self, keys: Sequence[bytes]) -> Sequence[bool]: ...

    def values(self) -> "array[int]":
        """All values in rising order."""
        ...


class PlainKeyMap:
    __slots__ = ("_budget_bytes", "_newest", "_put_bytes", "_put_count")

    def __init__(self, budget_bytes: int) -> None:
        self._budget_bytes = budget_bytes
        self._newest: dict[bytes, int] = {}
        self._put_count = 1
        self._put_bytes = 0

    def has_room(self, keys: int) -> bool:
        # The average counts every key as often as it was put: the size of single keys is not kept.
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
    """With numpy arrays if numpy is installed, else with a dict."""
    try:
        from odradek.storage.compaction.vector_key_map import VectorKeyMap  # noqa: PLC0415 - heavy
    except ImportError:
        return PlainKeyMap(budget_bytes)
    return VectorKeyMap(budget_bytes)
