"""All logs of a broker in one or more `log.dirs`, and their housekeeping.

`load` loads the logs that are on disk. `run` does the periodic work (flushes by time, checkpoints,
retention, file deletion, expiration of producers) and compaction. `close` makes everything durable
and writes the clean-shutdown marker; without the marker the next `load` recovers the logs.

Invariant: a partition has one log, in one directory. A directory that failed is not used until the
broker starts again, and its logs raise `LogDirectoryFailed`.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial

from odradek.config import BrokerSettings, TopicSettings
from odradek.protocol.types import FIRST_OFFSET, NO_TOPIC_ID, BrokerId, TopicId, TopicPartition
from odradek.storage.broker_run import BrokerRun, note_run, read_run, remove_run
from odradek.storage.checkpointer import Checkpointer
from odradek.storage.compaction.cleanable import first_dirty_offset
from odradek.storage.compaction.cleaner import LogCleaner
from odradek.storage.descriptors import Descriptors
from odradek.storage.errors import StorageError
from odradek.storage.file_names import (
    CLEAN_SHUTDOWN,
    deleted_directory,
    is_deleted_directory,
    parse_partition_directory,
    stray_directory,
)
from odradek.storage.housekeeping import Housekeeping
from odradek.storage.index import LoadedIndexes
from odradek.storage.log import Log
from odradek.storage.log_directory import LogDirectory
from odradek.storage.ownership import DirectoryOwnership
from odradek.storage.recovery import LogLoader, create_log
from odradek.storage.segment_indexes import SegmentStores
from odradek.storage.subscribers import Subscribers
from odradek.storage.text_files import NO_CLEAN_STOP, CleanStop, common_stop
from odradek.storage.validation import MAX_LONG, AppendRules
from odradek.world import World

logger = logging.getLogger("odradek.storage")

# Loading yields to the loop after this many logs.
_LOGS_A_TURN = 64
# A client may name directories for partitions that are never created (AlterReplicaLogDirs).
_MAX_PREFERENCES = 100_000
# How many logs are made durable at once when the broker stops.
_CLOSES_AT_ONCE = 16


class LogManager:
    def __init__(
        self,
        settings: BrokerSettings,
        world: World,
        *,
        cluster_id: str,
        node_id: BrokerId,
        store_id: str = "",
        run_id: str = "",
        max_open_files: int | None = None,
    ) -> None:
        """`run_id` is unique to this run of the broker. Without it, the registrations that this run
        did not hear of are not known as its own."""
        self.settings = settings
        self.run_id = run_id
        self.logs: dict[TopicPartition, Log] = {}
        # The logs of topics that set `flush.ms`.
        self.flushed_by_age: dict[Log, None] = {}
        # What the clean-shutdown markers will say if the logs are closed now.
        self.clean_stop = NO_CLEAN_STOP
        # What the markers said when the logs were loaded; None unless every directory had a marker.
        self.last_clean_stop: CleanStop | None = None
        # The previous run, if it was killed and the operating system was not booted since, and if
        # the run files of all directories agree.
        self.killed_run: BrokerRun | None = None
        self._world = world
        self._ownership = DirectoryOwnership(
            world, cluster_id=cluster_id, node_id=node_id, store_id=store_id
        )
        self._by_topic: dict[str, dict[int, Log]] = {}
        self._rules: dict[TopicSettings, AppendRules] = {}
        # The directories in which logs are to be made that do not exist yet.
        self._preferred: dict[TopicPartition, LogDirectory] = {}
        # Called when a directory goes offline or is full: other brokers must lead its partitions.
        self.on_directory_failure: Subscribers[LogDirectory] = Subscribers()
        # Called when a single log goes offline because an invariant was violated (`Log.fail`).
        self.on_log_failure: Subscribers[TopicPartition] = Subscribers()
        # Called when a directory is full, and when it has room again.
        self.on_room_changed: Subscribers[LogDirectory] = Subscribers()
        # Called when retention has moved the start of a log.
        self.on_start_moved: Subscribers[TopicPartition] = Subscribers()
        self.checkpoints = Checkpointer(self.logs, world)
        # Half of the file descriptors: the other half is for connections.
        max_open_files = max_open_files or world.disk.max_open_files() // 2
        descriptors = Descriptors(world.disk, max_open_files)
        indexes = LoadedIndexes()
        self.directories = [
            LogDirectory(
                path.rstrip("/") or "/",
                world.disk,
                SegmentStores(world.disk, descriptors, indexes),
                reserve_bytes=settings.odradek_log_dirs_reserve_bytes,
            )
            for path in settings.data_directories
        ]
        for directory in self.directories:
            directory.on_failure.add(self._directory_failed)
            directory.on_log_failure.add(self.on_log_failure.notify)
            directory.on_full.add(self._directory_full)
            directory.on_truncation.add(self.checkpoints.truncated)
        self.cleaner = LogCleaner(self, world)

    # Starting

    async def load(self, topic_settings: Callable[[str], TopicSettings] | None = None) -> None:
        """Locks the directories and loads every log in them."""
        settings_of = topic_settings or (lambda topic: self.settings.topic_defaults)
        stops, runs = [], []
        try:
            for directory in self.directories:
                try:
                    run = read_run(self._world, directory.path)
                    runs.append(run)
                    stops.append(
                        await self._load_directory(
                            directory, settings_of, pages_survived=run is not None
                        )
                    )
                except BlockingIOError:
                    raise StorageError(
                        f"{directory.path} is in use by another process; "
                        "stop it or choose another directory with log.dirs"
                    ) from None
                except OSError as error:
                    failure = directory.fail(error, is_halfway=True)
                    if directory.is_online:
                        # Too many open files: the disk is healthy, but its logs are not loaded. A
                        # broker that started would take them for empty, and lead empty logs.
                        raise failure from error
            if not any(directory.is_online for directory in self.directories):
                raise self.directories[0].failure or StorageError("no log directory is usable")
        except BaseException:
            self._ownership.release_all()
            raise
        clean_stops = [stop for stop in stops if stop is not None]
        if len(clean_stops) == len(self.directories):
            self.last_clean_stop = common_stop(clean_stops)
        if len(stops) == len(self.directories) and len(set(runs)) == 1:
            self.killed_run = runs[0]

    @property
    def had_clean_shutdown(self) -> bool:
        return self.last_clean_stop is not None

    def begin_run(self, broker_epoch: int) -> None:
        """The broker is registered under this epoch from now on."""
        self.clean_stop = CleanStop(broker_epoch)
        self.note_run(broker_epoch, broker_epoch)

    def begin_registration(self) -> None:
        """This run sends a registration now, and may stop before it hears of it."""
        if self.run_id and self.run_id not in self.clean_stop.runs:
            runs = (*self.clean_stop.runs, self.run_id)
            self.clean_stop = self.clean_stop._replace(runs=runs)

    def note_run(self, first_epoch: int, last_epoch: int) -> None:
        """Notes in every directory that this run has one of these broker epochs."""
        for directory in self.directories:
            if directory.is_online:
                try:
                    note_run(self._world, directory.path, BrokerRun(first_epoch, last_epoch))
                except OSError as error:
                    directory.fail(error)

    async def _load_directory(
        self,
        directory: LogDirectory,
        settings_of: Callable[[str], TopicSettings],
        *,
        pages_survived: bool,
    ) -> CleanStop | None:
        """Returns what the clean-shutdown marker says; None if there was no marker.

        `pages_survived` says that the operating system was not booted since the previous run: if
        there is no marker the broker was killed, and the page cache still has everything that it
        wrote.
        """
        disk, path = self._world.disk, directory.path
        disk.make_directories(path)
        self._ownership.lock(directory)
        # Recovery needs space to write; housekeeping makes the reserve again.
        directory.reserve.release()
        names = disk.list_directory(path)
        has_logs = any(parse_partition_directory(name) is not None for name in names)
        self._ownership.claim(directory, has_logs=has_logs)
        clean_stop = self._take_clean_marker(path) if CLEAN_SHUTDOWN in names else None
        checkpoints = self.checkpoints.of_directory(directory)
        offsets = checkpoints.read()
        if not has_logs and not offsets.has_recovery_points:
            # From now on a file that is missing was lost.
            checkpoints.recovery_points.create()
        loaded, begun_s = 0, self._world.clock.monotonic_s()
        for name in names:
            if is_deleted_directory(name):
                directory.delete_later(0, partial(disk.remove_tree, f"{path}/{name}"))
                continue
            topic_partition = parse_partition_directory(name)
            if topic_partition is None:
                continue
            settings = settings_of(topic_partition.topic)
            try:
                log = LogLoader(topic_partition, directory, settings, self._world).load(
                    recovery_point=offsets.recovery_points.get(topic_partition, FIRST_OFFSET),
                    log_start_offset=offsets.log_starts.get(topic_partition, FIRST_OFFSET),
                    is_clean=clean_stop is not None,
                    pages_survived=pages_survived,
                    gaps_allowed_below=offsets.gaps_allowed_below(topic_partition),
                )
            except NotADirectoryError:
                continue  # A file that is named like a partition.
            log.high_watermark = min(
                max(
                    offsets.high_watermarks.get(topic_partition, FIRST_OFFSET), log.log_start_offset
                ),
                log.log_end_offset,
            )
            compacted = offsets.compacted.get(topic_partition, FIRST_OFFSET)
            log.first_dirty_offset = first_dirty_offset(log, compacted)
            self._add(log)
            await _make_durable(log)
            loaded += 1
            # A log that is recovered is read. The session with the store must be kept meanwhile.
            if clean_stop is None or loaded % _LOGS_A_TURN == 0:
                await asyncio.sleep(0)
        if clean_stop is None:
            # A log may have been made just before the crash: its directory is durable from now on.
            disk.sync_directory(path)
            self.checkpoints.recovered(directory)
        took_ms = 1000 * (self._world.clock.monotonic_s() - begun_s)
        how = _describe_loading(is_clean=clean_stop is not None, has_logs=has_logs)
        logger.info("%s: %s; logs: %d, %d ms", path, how, loaded, took_ms)
        return clean_stop

    def _take_clean_marker(self, path: str) -> CleanStop:
        """Reads the marker of a clean shutdown and removes it."""
        disk = self._world.disk
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

    def trust_store(self) -> None:
        """From now on the metadata store knows every log of this broker: a log that the store lacks
        was deleted."""
        for directory in self.directories:
            self._ownership.trust_store(directory)

    def _add(self, log: Log) -> None:
        other = self.logs.get(log.topic_partition)
        if other is not None and other.is_usable:
            raise StorageError(
                f"{log.topic_partition} is in {other.path} and in {log.path}; "
                "remove the one you do not want to keep"
            )
        self._configure(log, self._rules_for(log.settings))
        self.logs[log.topic_partition] = log
        partitions = self._by_topic.setdefault(log.topic_partition.topic, {})
        partitions[log.topic_partition.partition] = log

    def _rules_for(self, settings: TopicSettings) -> AppendRules:
        rules = self._rules.get(settings)
        if rules is None:
            if len(self._rules) >= 256:
                self._rules.clear()
            rules = self._rules[settings] = AppendRules(settings)
        return rules

    # Logs

    def get(self, topic_partition: TopicPartition) -> Log | None:
        return self.logs.get(topic_partition)

    def create(
        self, topic_partition: TopicPartition, topic_id: TopicId, settings: TopicSettings
    ) -> Log:
        """Returns the log of a partition. A new log is made in the directory that was preferred for
        it, or in the one with the fewest logs."""
        log = self.logs.get(topic_partition)
        if log is not None:
            if log.topic_id == NO_TOPIC_ID and topic_id != NO_TOPIC_ID and log.is_usable:
                log.write_topic_id(topic_id)
            if topic_id not in (NO_TOPIC_ID, log.topic_id):
                raise StorageError(f"{log.path} belongs to an earlier topic of the same name")
            return log
        online = [directory for directory in self.directories if directory.is_online]
        if not online:
            raise self.directories[0].failure or StorageError("no log directory is usable")
        preferred = self._preferred.pop(topic_partition, None)
        directory = min(
            online,
            key=lambda candidate: (
                candidate.full is not None,
                candidate is not preferred,
                len(candidate.logs),
            ),
        )
        if directory.full is not None:
            raise directory.full
        self.checkpoints.forget(directory, topic_partition)
        if directory.failure is not None:
            raise directory.failure
        try:
            log = create_log(topic_partition, topic_id, directory, settings, self._world)
        except OSError as error:
            raise directory.fail(error) from error
        self._add(log)
        return log

    def prefer_directory(self, topic_partition: TopicPartition, directory: LogDirectory) -> None:
        """Sets where `create` makes this log, until the broker stops. Drops the oldest preference
        if there are too many."""
        self._preferred.pop(topic_partition, None)
        self._preferred[topic_partition] = directory
        if len(self._preferred) > _MAX_PREFERENCES:
            del self._preferred[next(iter(self._preferred))]

    def delete(self, topic_partition: TopicPartition) -> None:
        """Deletes a log at once; its files are deleted after `file.delete.delay.ms`."""
        name = deleted_directory(topic_partition, self._world.randomness.uuid())
        log = self._retire(topic_partition, name)
        if log is not None:
            delay_s = log.settings.file_delete_delay_ms / 1000
            due_s = self._world.clock.monotonic_s() + delay_s
            target = f"{log.directory.path}/{name}"
            log.directory.delete_later(due_s, partial(self._world.disk.remove_tree, target))

    def set_aside(self, topic_partition: TopicPartition) -> str:
        """Stops serving a log and keeps its files. Returns where they are."""
        name = stray_directory(topic_partition, self._world.randomness.uuid())
        log = self._retire(topic_partition, name)
        return "" if log is None else f"{log.directory.path}/{name}"

    def _retire(self, topic_partition: TopicPartition, name: str) -> Log | None:
        """Ends a log and renames its directory. Returns None if there was nothing to rename."""
        log = self.logs.pop(topic_partition, None)
        if log is None:
            return None
        self.flushed_by_age.pop(log, None)
        partitions = self._by_topic[topic_partition.topic]
        del partitions[topic_partition.partition]
        if not partitions:
            del self._by_topic[topic_partition.topic]
        directory, disk = log.directory, self._world.disk
        if not directory.is_online:
            return None
        log.mark_deleted()
        self.checkpoints.retired(log)
        try:
            disk.rename(log.path, f"{directory.path}/{name}")
        except FileNotFoundError:
            return None  # The directory was removed by hand.
        except OSError as error:
            raise directory.fail(error) from error
        return log

    def configure(self, topic: str, settings: TopicSettings) -> None:
        """Sets the settings of all logs of a topic, from the next append on."""
        rules = self._rules_for(settings)
        for log in self._by_topic.get(topic, {}).values():
            if log.rules is not rules:
                self._configure(log, rules)

    def _configure(self, log: Log, rules: AppendRules) -> None:
        log.configure(rules)
        if rules.flush_ms < MAX_LONG:
            self.flushed_by_age[log] = None
        else:
            self.flushed_by_age.pop(log, None)

    def start_moved(self, log: Log) -> None:
        self.on_start_moved.notify(log.topic_partition)

    # Directories

    @property
    def offline_directories(self) -> list[LogDirectory]:
        return [directory for directory in self.directories if not directory.is_online]

    def _directory_failed(self, directory: LogDirectory) -> None:
        remove_run(self._world, directory.path)
        logger.error("%s; its partitions are unavailable until a restart", directory.failure)
        self.on_directory_failure.notify(directory)

    @property
    def full_directories(self) -> list[LogDirectory]:
        return [
            directory
            for directory in self.directories
            if directory.full is not None and directory.is_online
        ]

    def _directory_full(self, directory: LogDirectory) -> None:
        logger.error("%s; free some, lower retention, or move partitions away", directory.full)
        self.on_directory_failure.notify(directory)
        self.on_room_changed.notify(directory)

    def find_room(self) -> None:
        """Checks whether full directories have space again."""
        for directory in self.full_directories:
            if directory.find_room():
                logger.warning("log directory %s has room again: it takes records", directory.path)
                self.on_room_changed.notify(directory)

    async def checkpoint_log_start_offsets(self) -> None:
        """Makes every log start durable that DeleteRecords has moved; `Log.durable_start_offset`
        tells whether it worked. If there was no descriptor or no space, the next call or
        housekeeping retries."""
        for directory in self.directories:
            await self.checkpoints.checkpoint_log_start_offsets(directory)

    # Running and stopping

    async def run(self) -> None:
        """Does housekeeping and compaction until it is cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(Housekeeping(self, self._world).run())
            group.create_task(self.cleaner.run())

    async def close(self) -> None:
        """Makes everything durable and writes the clean-shutdown markers."""
        try:
            for directory in self.directories:
                if directory.is_online:
                    # The last writes need space.
                    with suppress(OSError):
                        directory.reserve.release()
            await self._close_logs(list(self.logs.values()))
            for directory in self.directories:
                if directory.is_online:
                    await self._close_directory(directory)
        finally:
            self._ownership.release_all()

    async def _close_logs(self, logs: Iterable[Log]) -> None:
        waiting = iter(logs)

        async def close_some() -> None:
            for log in waiting:
                await log.close()

        await asyncio.gather(*(close_some() for _ in range(_CLOSES_AT_ONCE)))

    async def _close_directory(self, directory: LogDirectory) -> None:
        await self.checkpoints.write_recovery_points(directory)
        await self.checkpoints.write_log_starts(directory)
        await self.checkpoints.write_high_watermarks(directory)
        await self.checkpoints.write_compacted(directory)
        is_whole = not directory.moved_starts and not directory.must_recover
        if directory.is_online and is_whole:
            marker = self.clean_stop.encode()
            path = f"{directory.path}/{CLEAN_SHUTDOWN}"
            try:
                await self._world.workers.run_blocking(
                    partial(self._world.disk.replace, path, marker)
                )
            except OSError as error:
                directory.fail(error)

    def abandon(self) -> None:
        """Releases the directories as a killed process would: no marker, no sync. For tests."""
        for log in self.logs.values():
            log.mark_deleted()
        self._ownership.release_all()


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
