"""The contents of a file on the simulated disk, and what a crash leaves of them.

A node knows, for every page written since its last sync, what the page durably holds. A crash
decides page by page: kept, taken back, or torn at a sector; and how long the file is now.
"""

from random import Random

PAGE_BYTES = 4096
SECTOR_BYTES = 512


class Node:
    """The contents of a file, whatever its names."""

    __slots__ = (
        "_before",
        "_durable_size",
        "_lost",
        "_shortest",
        "contents",
        "reading",
        "rewrites",
    )

    def __init__(self) -> None:
        self.contents = bytearray()
        # How often anything else was done to the contents than appending to them.
        self.rewrites = 0
        # A cache for a checker that reads the file from outside (`cluster_invariants`).
        self.reading: object = None
        # What durable pages held before they were written to, since the last sync.
        self._before: dict[int, bytes] = {}
        # The same for pages whose sync failed: no later sync brings them.
        self._lost: dict[int, bytes] = {}
        self._durable_size = 0
        self._shortest = 0

    def write(self, position: int, data: bytes) -> None:
        size = len(self.contents)
        self._remember(min(position, size), position + len(data))
        if position > size:
            self.contents.extend(bytes(position - size))
        elif position < size:
            self.rewrites += 1
        self.contents[position : position + len(data)] = data

    def truncate(self, size: int) -> None:
        present = len(self.contents)
        self._remember(min(size, present), max(size, present))
        if size < present:
            self.rewrites += 1
            del self.contents[size:]
            self._shortest = min(self._shortest, size)
        else:
            self.contents.extend(bytes(size - present))

    def _remember(self, start: int, end: int) -> None:
        """Keeps the durable form of the pages that are about to change."""
        for page in range(start // PAGE_BYTES, -(-end // PAGE_BYTES)):
            if page in self._before:
                continue
            if page in self._lost:
                self._before[page] = self._lost.pop(page)
            else:
                first = page * PAGE_BYTES
                self._before[page] = bytes(self.contents[first : first + PAGE_BYTES])

    def sync(self) -> None:
        self._before.clear()
        self._durable_size = self._shortest = len(self.contents)

    def sync_failed(self) -> None:
        self._lost.update(self._before)
        self._before.clear()

    @property
    def is_dirty(self) -> bool:
        return bool(self._before or self._lost) or self._durable_size != len(self.contents)

    def crash(self, random: Random) -> None:
        """Keeps what is durable and a random part of the rest."""
        if self.is_dirty:
            self.rewrites += 1
            self.contents = self._survivor(random)
        self._before.clear()
        self._lost.clear()
        self._durable_size = self._shortest = len(self.contents)

    def _survivor(self, random: Random) -> bytearray:
        new, old = self.contents, self._durable()
        # Whether a shortening reached the disk; if it did not, nothing after it did.
        was_shortened = self._shortest < len(old)
        if was_shortened and random.random() < 0.5:
            return old
        base = min(self._shortest, len(old))
        del old[base:]
        size = _random_size(random, base, len(new))
        old.extend(bytes(max(0, size - len(old))))
        torn = random.choice(tuple(self._before)) if self._before else -1
        keep = random.choice((0.0, 0.5, 0.9, 1.0))
        for page in self._before:
            if random.random() >= keep:
                continue
            first = page * PAGE_BYTES
            end = min(first + PAGE_BYTES, size)
            if page == torn:
                end = min(end, first + SECTOR_BYTES * random.randint(0, PAGE_BYTES // SECTOR_BYTES))
            if end > first:
                old[first:end] = new[first:end]
        return old

    def _durable(self) -> bytearray:
        """The contents as of the last sync."""
        durable = bytearray(self.contents[: self._durable_size])
        durable.extend(bytes(self._durable_size - len(durable)))
        for pages in (self._before, self._lost):
            for page, before in pages.items():
                first = page * PAGE_BYTES
                if first < self._durable_size:
                    whole = before + bytes(PAGE_BYTES - len(before))
                    durable[first : first + PAGE_BYTES] = whole
        del durable[self._durable_size :]
        return durable


def _random_size(random: Random, lowest: int, highest: int) -> int:
    if highest <= lowest:
        return lowest
    kind = random.randrange(4)
    if kind == 0:
        return lowest
    if kind == 1:
        return highest
    size = random.randint(lowest, highest)
    return size if kind == 2 else max(lowest, size - size % PAGE_BYTES)
