"""One checkpoint file of a log directory: an offset for each partition, in Kafka's text format.

An offset that advanced is written at the next interval, off the event loop: an older checkpoint is
correct as well. Two changes cannot wait, because until they are written the file claims more than
is true: an offset that was set back by a truncation, and an entry of a deleted topic when a new
topic gets the same name.

Invariant: `entries` is what a new process would read if this process were killed now.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Final

from odradek.invariants import InvariantViolation
from odradek.protocol.types import FIRST_OFFSET, Offset, TopicPartition
from odradek.storage.disk_errors import is_passing
from odradek.storage.log_directory import LogDirectory
from odradek.storage.text_files import (
    MalformedCheckpoint,
    decode_offsets,
    encode_lines,
    encode_offset,
    encode_offsets,
)
from odradek.world import World
from odradek.world.timeslice import Timeslice

# Beside the name that `Disk.replace` uses, so that the two never write one file at once.
_NEXT_SUFFIX: Final = ".next"
# So many entries are collected or encoded between two looks at the clock: in about 0.2 ms.
_ENTRIES_PER_STEP: Final = 200

Offsets = Mapping[TopicPartition, Offset]


class CheckpointFile:
    """`current` yields the offset of each log of the directory as it is at that moment, or None for
    a log that has no entry in this file or was deleted meanwhile."""

    __slots__ = (
        "_being_written",
        "_current",
        "_directory",
        "_is_durable",
        "_lock",
        "_path",
        "_world",
        "entries",
        "was_found",
    )

    def __init__(
        self,
        directory: LogDirectory,
        name: str,
        world: World,
        current: Callable[[], Iterable[tuple[TopicPartition, Offset | None]]],
    ) -> None:
        self._directory = directory
        self._path = f"{directory.path}/{name}"
        self._world = world
        self._current = current
        self.entries: Offsets = {}
        # Whether the file was there, and whole, when the directory was loaded.
        self.was_found = False
        self._is_durable = False
        # The offsets of the write that is under way, as far as they were collected. None if they
        # must not be written any more.
        self._being_written: Offsets | None = None
        self._lock = asyncio.Lock()

    def read(self) -> Offsets:
        """Reads the file when the directory is loaded. A missing or damaged file has no entries."""
        try:
            self.entries = decode_offsets(self._world.disk.read(self._path))
            self._is_durable = self.was_found = True
        except (FileNotFoundError, MalformedCheckpoint):
            self.entries, self.was_found = {}, False
        return self.entries

    def create(self) -> None:
        """Writes the file of a directory that has no logs yet."""
        self._write_at_once()

    async def write(self) -> bool:
        """Returns True when the current offsets, or later ones, survive a power cut.

        The new content is written and synced under another name by a worker thread. It is renamed
        on the event loop, so no truncation can happen between the last check and the rename.
        """
        disk, workers = self._world.disk, self._world.workers
        async with self._lock:
            try:
                while self._directory.is_online:
                    offsets = await self._collect()
                    if self._being_written is offsets:
                        if self._is_durable and offsets == self.entries:
                            return True
                        content = await _encode(offsets)
                        await workers.run_blocking(partial(self._prepare, content))
                    if self._being_written is not offsets:
                        continue  # A log was truncated meanwhile.
                    disk.rename(self._path + _NEXT_SUFFIX, self._path)
                    self.entries, self._is_durable = offsets, False
                    await workers.run_blocking(partial(disk.sync_directory, self._directory.path))
                    self._is_durable = self.entries is offsets
                    return True
            except OSError as error:
                self._directory.fail(error)
            finally:
                self._being_written = None
        return False

    async def _collect(self) -> Offsets:
        """Returns the offsets of all logs, each as it is at some moment of this call, and makes
        them those that are being written: a log that is truncated, or made anew, after its offset
        was collected makes the whole collection void."""
        offsets: dict[TopicPartition, Offset] = {}
        self._being_written = offsets
        timeslice = Timeslice.of_running_loop()
        for number, (topic_partition, offset) in enumerate(self._current(), start=1):
            if offset is not None:
                offsets[topic_partition] = offset
            if not number % _ENTRIES_PER_STEP and timeslice.is_over():
                await timeslice.next_turn()
                if self._being_written is not offsets:
                    break
        return offsets

    def _prepare(self, content: bytes) -> None:
        """Runs in a worker thread."""
        file = self._world.disk.open(self._path + _NEXT_SUFFIX, create=True)
        try:
            file.truncate(0)
            file.write_at(0, [content])
            file.sync()
        finally:
            file.close()

    def limit(self, topic_partition: TopicPartition, offset: Offset) -> None:
        """The offset of a partition was set back to `offset`. When this returns, the file does not
        claim more."""
        coming = self._being_written
        if coming is not None and coming.get(topic_partition, 0) > offset:
            self._being_written = None
        if self.entries.get(topic_partition, 0) > offset:
            self._write_at_once()
            self._require(topic_partition, offset)

    def forget(self, topic_partition: TopicPartition) -> None:
        """A log is about to be made: when this returns, its partition has no entry."""
        if self._being_written is not None and topic_partition in self._being_written:
            self._being_written = None
        if topic_partition in self.entries:
            self._write_at_once()
            self._require(topic_partition, FIRST_OFFSET)

    def _require(self, topic_partition: TopicPartition, offset: Offset) -> None:
        if self.entries.get(topic_partition, 0) > offset:
            raise InvariantViolation(
                self._path,
                f"says {self.entries[topic_partition]} of {topic_partition}, where {offset} is the "
                "most that is true",
            )

    def _write_at_once(self) -> None:
        """If the file cannot be replaced it is removed: without it recovery reads everything, which
        is slow but correct."""
        disk, directory = self._world.disk, self._directory
        self._being_written = None
        offsets = {name: offset for name, offset in self._current() if offset is not None}
        try:
            disk.replace(self._path, encode_offsets(offsets))
            self.entries, self._is_durable = offsets, True
        except OSError as error:
            directory.fail(error)
            self.entries, self._is_durable = {}, False
            if directory.is_online:
                # There was no space or no file descriptor, and a removal needs neither.
                try:
                    with suppress(FileNotFoundError):
                        disk.remove(self._path)
                        disk.sync_directory(directory.path)
                except OSError as failure:
                    # Without a descriptor for the sync a kill still finds the file removed.
                    directory.fail(failure, is_halfway=not is_passing(failure))


async def _encode(offsets: Offsets) -> bytes:
    """Encodes offsets that do not change any more, and lets other tasks run meanwhile."""
    lines: list[str] = []
    timeslice = Timeslice.of_running_loop()
    async for entries in timeslice.batches([*offsets.items()], _ENTRIES_PER_STEP):
        lines += [encode_offset(topic_partition, offset) for topic_partition, offset in entries]
    return encode_lines(lines)
