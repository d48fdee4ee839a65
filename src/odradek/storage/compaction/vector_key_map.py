"""The newest offset of each key in numpy arrays: 24 bytes a slot, filled many keys at a time.

This is a hash table with open addressing and linear probing. A slot has two hashes of its key, 128
bits together, and the value. Two keys with equal hashes would be taken for one key; with ten
million keys this happens once in 10^24 compactions. The hashes are Python's own for bytes: SipHash
with a secret of this process, so that clients cannot choose keys that collide.

Only the worker that compacts imports this module, and numpy with it.
"""

from array import array
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

SLOT_BYTES: Final = 24
_EMPTY: Final = -1
_FIRST_SLOTS: Final = 1 << 16
# So many keys are collected and then inserted together: numpy calls have a fixed cost.
_BATCH_ENTRIES: Final = 1 << 16
# Above this load, probing becomes slow.
_MAX_LOAD: Final = 0.75
_SALT: Final = b"\x01"

Numbers = npt.NDArray[np.int64]


class VectorKeyMap:
    __slots__ = (
        "_checks",
        "_count",
        "_hashes",
        "_max_keys",
        "_max_slots",
        "_slots",
        "_values",
        "_waiting",
        "_waiting_count",
    )

    def __init__(self, budget_bytes: int) -> None:
        self._count = 0
        self._waiting: list[tuple[Numbers, Numbers, Numbers]] = []
        self._waiting_count = 0
        # While a table is copied into one of twice its size, both are in memory.
        self._max_slots = max(budget_bytes * 2 // (3 * SLOT_BYTES), 2)
        self._max_keys = int(self._max_slots * _MAX_LOAD)
        self._allocate(min(self._max_slots, _FIRST_SLOTS))

    def _allocate(self, slots: int) -> None:
        self._slots = slots
        self._hashes = np.zeros(slots, np.int64)
        self._checks = np.zeros(slots, np.int64)
        self._values = np.full(slots, _EMPTY, np.int64)

    def has_room(self, keys: int) -> bool:
        if self._count + self._waiting_count + keys > self._max_keys:
            self._insert_waiting()
        return self._count + keys <= self._max_keys

    def put(self, keys: Sequence[bytes], values: Sequence[int]) -> None:
        self._waiting.append((*_hash(keys), np.fromiter(values, np.int64, len(keys))))
        self._waiting_count += len(keys)
        if self._waiting_count >= _BATCH_ENTRIES:
            self._insert_waiting()

    def _insert_waiting(self) -> None:
        """Inserts the collected keys into the table."""
        if not self._waiting:
            return
        hashes, checks, values = map(np.concatenate, zip(*self._waiting, strict=True))
        self._waiting.clear()
        self._waiting_count = 0
        # Space for all of them, as if all were new.
        needed = self._count + len(hashes)
        if needed > self._slots * _MAX_LOAD:
            self._grow(needed)
        self._insert(hashes, checks, values)

    def _insert(self, hashes: Numbers, checks: Numbers, values: Numbers) -> None:
        slots = self._slots
        slot = hashes % slots
        while len(slot):
            empty = self._values[slot] == _EMPTY
            if empty.any():
                # If several keys hash to one empty slot, the last one written gets it. The others,
                # unless they are the same key, go on to the next slot.
                taken = slot[empty]
                number = np.arange(len(taken))
                self._hashes[taken] = hashes[empty]
                self._checks[taken] = checks[empty]
                self._values[taken] = number
                self._count += int(np.count_nonzero(self._values[taken] == number))
            same = (self._hashes[slot] == hashes) & (self._checks[slot] == checks)
            # numpy assigns in order, so the last and highest value of a key stays.
            self._values[slot[same]] = values[same]
            rest = ~same
            hashes, checks, values = hashes[rest], checks[rest], values[rest]
            slot = (slot[rest] + 1) % slots

    def _grow(self, needed: int) -> None:
        slots = self._slots
        while needed > slots * _MAX_LOAD:
            # Above the maximum only for a single batch with more keys than the budget allows.
            slots = min(2 * slots, self._max_slots) if slots < self._max_slots else 2 * slots
        hashes, checks, values = self._hashes, self._checks, self._values
        self._allocate(slots)
        self._count = 0
        for start in range(0, len(values), _BATCH_ENTRIES):
            part = slice(start, start + _BATCH_ENTRIES)
            used = values[part] != _EMPTY
            self._insert(hashes[part][used], checks[part][used], values[part][used])

    def contains(self, keys: Sequence[bytes]) -> Sequence[bool]:
        self._insert_waiting()
        hashes, checks = _hash(keys)
        found = np.zeros(len(keys), np.bool_)
        number = np.arange(len(keys))
        slot = hashes % self._slots
        while len(slot):
            same = (self._hashes[slot] == hashes) & (self._checks[slot] == checks)
            empty = self._values[slot] == _EMPTY
            found[number[same & ~empty]] = True
            rest = ~(same | empty)
            hashes, checks, number = hashes[rest], checks[rest], number[rest]
            slot = (slot[rest] + 1) % self._slots
        return found.tolist()

    def values(self) -> "array[int]":
        self._insert_waiting()
        values = self._values[self._values != _EMPTY]
        values.sort()
        return array("q", values.tobytes())


def _hash(keys: Sequence[bytes]) -> tuple[Numbers, Numbers]:
    count = len(keys)
    return (
        np.fromiter(map(hash, keys), np.int64, count),
        np.fromiter([hash(_SALT + key) for key in keys], np.int64, count),
    )
