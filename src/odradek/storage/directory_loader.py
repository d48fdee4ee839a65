"""Loads the logs of one log directory when the broker starts. Used by `LogManager.load`.

It locks the directory, takes its clean-shutdown marker away, and loads each log: as it stands after
a clean stop, and by recovery otherwise. A log whose keys cannot be had is not loaded. It becomes a
*locked* one, which `LogManager.create` loads later.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from odradek.config import TopicSettings
from odradek.protocol.types import FIRST_OFFSET, TopicPartition
from odradek.storage.broker_run import BrokerRun, note_run, read_run
from odradek.storage.checkpointer import CheckpointedOffsets, Checkpointer
from odradek.storage.compaction.cleanable import first_dirty_offset
from odradek.storage.errors import CorruptLog, StorageError
from odradek.storage.file_names import (
    CLEAN_SHUTDOWN,
    DELETE_DIRECTORY_SUFFIX,
    STRAY_DIRECTORY_SUFFIX,
    is_deleted_directory,
    is_former_directory,
    parse_partition_directory,
    partition_directory,
)
from odradek.storage.locked_log import LockedLog, read_topic_id
from odradek.storage.log import Log
from odradek.storage.log_directory import LogDirectory
from odradek.storage.ownership import DirectoryOwnership
from odradek.storage.recovery import LogLoader
from odradek.storage.text_files import CleanStop
from odradek.world import World

if TYPE_CHECKING:
    from odradek.storage.encryption.at_rest import EncryptionAtRest as AtRest

logger = logging.getLogger("odradek.storage")

# Loading yields to the loop after this many logs.
_LOGS_A_TURN: Final = 64


class DirectoryLoader:
    def __init__(
        self,
        directory: LogDirectory,
        world: World,
        checkpoints: Checkpointer,
        *,
        settings_of: Callable[[str], TopicSettings],
        encryption: "AtRest | None",
        add: Callable[[Log], None],
    ) -> None:
        """`add` gets each log that is loaded; `encryption` is None if the broker has no key
        provider."""
        self._directory = directory
        self._world = world
        self._checkpoints = checkpoints
        self._settings_of = settings_of
        self._encryption = encryption
        self._add = add
        # None if there was no clean-shutdown marker.
        self._clean_stop: CleanStop | None = None
        # Whether the operating system was not booted since the previous run: if there is no marker
        # the broker was killed, and the page cache still has everything that it wrote.
        self._pages_survived = False

    async def load(
        self, ownership: DirectoryOwnership, *, pages_survived: bool
    ) -> CleanStop | None:
        """Returns what the clean-shutdown marker says; None if there was no marker."""
        self._pages_survived = pages_survived
        directory, disk = self._directory, self._world.disk
        path = directory.path
        disk.make_directories(path)
        ownership.lock(directory)
        # Recovery needs space to write; housekeeping makes the reserve again.
        directory.reserve.release()
        names = disk.list_directory(path)
        has_logs = any(parse_partition_directory(name) is not None for name in names)
        ownership.claim(directory, has_logs=has_logs)
        if CLEAN_SHUTDOWN in names:
            self._clean_stop = self._take_clean_marker()
        checkpoints = self._checkpoints.of_directory(directory)
        offsets = checkpoints.read()
        if not has_logs and not offsets.has_recovery_points:
            # From now on a file that is missing was lost.
            checkpoints.recovery_points.create()
        begun_s = self._world.clock.monotonic_s()
        if self._encryption is not None:
            await self._encryption.prepare(_key_names(path, names, self._settings_of))
        loaded = await self._load_logs(names, offsets)
        # What is committed may be in the page cache alone, and with it the name of the directory.
        is_whole = self._clean_stop is not None or pages_survived
        for topic_partition in _removed_logs(names, offsets.with_records(is_whole=is_whole)):
            self._checkpoints.removed[topic_partition] = directory
        if self._clean_stop is None:
            # A log may have been made just before the crash: its directory is durable from now on.
            disk.sync_directory(path)
            self._checkpoints.recovered(directory)
        took_ms = 1000 * (self._world.clock.monotonic_s() - begun_s)
        how = _describe_loading(is_clean=self._clean_stop is not None, has_logs=has_logs)
        logger.info("%s: %s; logs: %d, %d ms", path, how, loaded, took_ms)
        return self._clean_stop

    def _take_clean_marker(self) -> CleanStop:
        """Reads the marker of a clean shutdown and removes it."""
        disk, path = self._world.disk, self._directory.path
        clean_stop = CleanStop.decode(disk.read(f"{path}/{CLEAN_SHUTDOWN}"))
        clean_epoch = clean_stop.broker_epoch
        # A broker that stopped before it was registered has -1 in its marker.
        run = read_run(self._world, path)
        if clean_epoch >= 0 and (run is None or clean_epoch not in run):
            note_run(self._world, path, BrokerRun(clean_epoch, clean_epoch))
        # From here on a crash must be recognized as one, even if nothing was written yet.
        disk.remove(f"{path}/{CLEAN_SHUTDOWN}")
        disk.sync_directory(path)
        return clean_stop

    async def _load_logs(self, names: Iterable[str], offsets: CheckpointedOffsets) -> int:
        """Returns how many logs were loaded."""
        directory, path = self._directory, self._directory.path
        loaded = 0
        for name in names:
            if is_deleted_directory(name):
                remove = partial(self._world.disk.remove_tree, f"{path}/{name}")
                directory.delete_later(0, remove)
                continue
            topic_partition = parse_partition_directory(name)
            if topic_partition is None:
                continue
            log = self._load_or_lock(topic_partition, offsets)
            if log is None:
                continue
            self._add(log)
            await _make_durable(log)
            loaded += 1
            # A log that is recovered is read. The session with the store must be kept meanwhile.
            if self._clean_stop is None or loaded % _LOGS_A_TURN == 0:
                await asyncio.sleep(0)
        return loaded

    def _load_or_lock(
        self, topic_partition: TopicPartition, offsets: CheckpointedOffsets
    ) -> Log | None:
        """Returns the log; None if it is locked, or if a file is named like a partition."""
        load = partial(self._load_log, topic_partition, offsets)
        is_clean = self._clean_stop is not None
        encryption = self._encryption
        if encryption is not None:
            path = f"{self._directory.path}/{partition_directory(topic_partition)}"
            reason = encryption.reason_to_lock(path)
            if reason is not None:
                self._lock(encryption, topic_partition, load, reason, is_clean=is_clean)
                return None
        try:
            return load()
        except NotADirectoryError:
            return None
        except CorruptLog as error:
            if encryption is None:
                raise
            # A file at another place, for instance: the other partitions are served.
            self._lock(encryption, topic_partition, load, str(error), is_clean=False)
            return None

    def _lock(
        self,
        encryption: "AtRest",
        topic_partition: TopicPartition,
        load: Callable[[], Log],
        reason: str,
        *,
        is_clean: bool,
    ) -> None:
        path = f"{self._directory.path}/{partition_directory(topic_partition)}"
        topic_id = read_topic_id(self._world.disk, path)
        locked = LockedLog(topic_partition, self._directory, path, topic_id, is_clean, load)
        encryption.lock(locked, reason)

    def _load_log(self, topic_partition: TopicPartition, offsets: CheckpointedOffsets) -> Log:
        settings = self._settings_of(topic_partition.topic)
        log = LogLoader(topic_partition, self._directory, settings, self._world).load(
            recovery_point=offsets.recovery_points.get(topic_partition, FIRST_OFFSET),
            log_start_offset=offsets.log_starts.get(topic_partition, FIRST_OFFSET),
            is_clean=self._clean_stop is not None,
            pages_survived=self._pages_survived,
            gaps_allowed_below=offsets.gaps_allowed_below(topic_partition),
        )
        log.high_watermark = min(
            max(offsets.high_watermarks.get(topic_partition, FIRST_OFFSET), log.log_start_offset),
            log.log_end_offset,
        )
        compacted = offsets.compacted.get(topic_partition, FIRST_OFFSET)
        log.first_dirty_offset = first_dirty_offset(log, compacted)
        return log


def _removed_logs(
    names: Sequence[str], had_records: Iterable[TopicPartition]
) -> list[TopicPartition]:
    """Returns the partitions that had records and whose directory is gone, though this broker has
    not deleted it: somebody removed it by hand."""
    present = set(names)
    former = [
        name for name in names if name.endswith((DELETE_DIRECTORY_SUFFIX, STRAY_DIRECTORY_SUFFIX))
    ]
    return [
        topic_partition
        for topic_partition in had_records
        if partition_directory(topic_partition) not in present
        and not any(is_former_directory(name, topic_partition) for name in former)
    ]


def _key_names(
    path: str, names: Iterable[str], settings_of: Callable[[str], TopicSettings]
) -> dict[str, str]:
    """Returns the directories of partitions, with the topic key of each."""
    found = ((name, parse_partition_directory(name)) for name in names)
    return {
        f"{path}/{name}": settings_of(topic_partition.topic).odradek_encryption_key
        for name, topic_partition in found
        if topic_partition is not None
    }


def _describe_loading(*, is_clean: bool, has_logs: bool) -> str:
    if is_clean:
        return "loaded after a clean stop"
    return "loaded after no clean stop, so recovered" if has_logs else "no logs yet"


async def _make_durable(log: Log) -> None:
    """Syncs what a killed process left in the page cache if `flush.messages` is 1, before any
    client sees it: a producer that sends such a batch again gets it acknowledged as a duplicate at
    once, and the acknowledgement promises that it is durable."""
    if log.flushes_before_acknowledging and log.has_unflushed:
        try:
            await log.flush()
        except StorageError:
            return  # The directory is offline now, and has logged it.
