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
from typing import TYPE_CHECKING

from odradek.config import BrokerSettings, TopicSettings
from odradek.config.key_settings import NO_PROVIDER
from odradek.protocol.types import NO_TOPIC_ID, BrokerId, TopicId, TopicPartition
from odradek.storage.broker_run import BrokerRun, note_run, read_run, remove_run
from odradek.storage.checkpointer import Checkpointer
from odradek.storage.compaction.cleaner import LogCleaner
from odradek.storage.descriptors import Descriptors
from odradek.storage.directory_loader import DirectoryLoader
from odradek.storage.errors import StorageError
from odradek.storage.file_names import (
    CLEAN_SHUTDOWN,
    deleted_directory,
    stray_directory,
)
from odradek.storage.housekeeping import Housekeeping
from odradek.storage.index import LoadedIndexes
from odradek.storage.log import Log
from odradek.storage.log_directory import LogDirectory
from odradek.storage.ownership import DirectoryOwnership
from odradek.storage.recovery import create_log
from odradek.storage.segment_indexes import SegmentStores
from odradek.storage.subscribers import Subscribers
from odradek.storage.text_files import NO_CLEAN_STOP, CleanStop, common_stop
from odradek.storage.validation import MAX_LONG, AppendRules
from odradek.world import Disk, World

if TYPE_CHECKING:
    from odradek.storage.encryption.at_rest import EncryptionAtRest as AtRest

logger = logging.getLogger("odradek.storage")

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
        # What `note_run` has noted last.
        self.noted_run: BrokerRun | None = None
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
        # Called with the topics of locked partitions when their keys may be at hand.
        self.on_keys_asked_for: Subscribers[str] = Subscribers()
        # Called when retention has moved the start of a log.
        self.on_start_moved: Subscribers[TopicPartition] = Subscribers()
        self.checkpoints = Checkpointer(self.logs, world)
        # None unless the broker has a key provider.
        self.encryption: AtRest | None = None
        if settings.odradek_key_provider != NO_PROVIDER:
            # Imported here, so that a broker that encrypts nothing does not load cryptography.
            from odradek.storage.encryption.at_rest import EncryptionAtRest  # noqa: PLC0415

            self.encryption = EncryptionAtRest(settings, world)
            self.encryption.supply.on_retry = self._keys_asked_for_again
            self.checkpoints.locked = self.encryption.locked
        # Half of the file descriptors: the other half is for connections.
        max_open_files = max_open_files or world.disk.max_open_files() // 2
        self.directories = self._open_directories(max_open_files)
        self.cleaner = LogCleaner(self, world)

    def _open_directories(self, max_open_files: int) -> list[LogDirectory]:
        disk: Disk = self._world.disk if self.encryption is None else self.encryption.disk
        stores = partial(SegmentStores, disk, Descriptors(disk, max_open_files), LoadedIndexes())
        directories = [
            LogDirectory(
                path.rstrip("/") or "/",
                disk,
                stores(),
                reserve_bytes=self.settings.odradek_log_dirs_reserve_bytes,
            )
            for path in self.settings.data_directories
        ]
        for directory in directories:
            if self.encryption is not None:
                directory.stores.takes_appends = self.encryption.disk.takes_appends
            directory.on_failure.add(self._directory_failed)
            directory.on_log_failure.add(self.on_log_failure.notify)
            directory.on_full.add(self._directory_full)
            directory.on_truncation.add(self.checkpoints.truncated)
        return directories

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
                    loader = self._loader_of(directory, settings_of)
                    stops.append(await loader.load(self._ownership, pages_survived=run is not None))
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

    def _loader_of(
        self, directory: LogDirectory, settings_of: Callable[[str], TopicSettings]
    ) -> DirectoryLoader:
        return DirectoryLoader(
            directory,
            self._world,
            self.checkpoints,
            settings_of=settings_of,
            encryption=self.encryption,
            add=self._add,
        )

    @property
    def had_clean_shutdown(self) -> bool:
        return self.last_clean_stop is not None

    def was_removed(self, topic_partition: TopicPartition) -> bool:
        """Returns whether a log had records when the broker stopped, and its directory was removed
        by hand since. It is known until the broker has registered."""
        return topic_partition in self.checkpoints.removed and topic_partition not in self.logs

    def begin_run(self, broker_epoch: int) -> None:
        """The broker is registered under this epoch from now on."""
        self.checkpoints.removed.clear()
        self.clean_stop = CleanStop(broker_epoch)
        self.note_run(broker_epoch, broker_epoch)

    def begin_registration(self) -> None:
        """This run sends a registration now, and may stop before it hears of it."""
        if self.run_id and self.run_id not in self.clean_stop.runs:
            runs = (*self.clean_stop.runs, self.run_id)
            self.clean_stop = self.clean_stop._replace(runs=runs)

    def note_run(self, first_epoch: int, last_epoch: int) -> None:
        """Notes in every directory that this run has one of these broker epochs."""
        self.noted_run = BrokerRun(first_epoch, last_epoch)
        for directory in self.directories:
            if directory.is_online:
                try:
                    note_run(self._world, directory.path, self.noted_run)
                except OSError as error:
                    directory.fail(error)

    # Partitions whose keys cannot be had

    def _unlock(self, topic_partition: TopicPartition) -> Log | None:
        """Loads a log that was locked, if its keys are at hand now; raises `PartitionLocked`."""
        encryption = self.encryption
        locked = None if encryption is None else encryption.locked.get(topic_partition)
        if encryption is None or locked is None:
            return None
        log = encryption.load_locked(locked)
        self._add(log)
        if not locked.is_clean:
            self.checkpoints.truncated(log)
        logger.warning("%s-%d is loaded: its keys can be had again", *topic_partition)
        return log

    def discard_locked(self, topic: str) -> None:
        """A topic was deleted: the files of its locked partitions are deleted too."""
        if self.encryption is None:
            return
        for locked in self.encryption.locked_of(topic):
            name = deleted_directory(locked.topic_partition, self._world.randomness.uuid())
            target = f"{locked.directory.path}/{name}"
            with locked.directory.disk_errors():
                self._world.disk.rename(locked.path, target)
            remove = partial(self._world.disk.remove_tree, target)
            locked.directory.delete_later(self._world.clock.monotonic_s(), remove)
            del self.encryption.locked[locked.topic_partition]

    def _keys_asked_for_again(self) -> None:
        if self.encryption is not None:
            for topic in dict.fromkeys(name.topic for name in self.encryption.locked):
                self.on_keys_asked_for.notify(topic)

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
        log = self.logs.get(topic_partition) or self._unlock(topic_partition)
        if log is not None:
            if log.topic_id == NO_TOPIC_ID and topic_id != NO_TOPIC_ID and log.is_usable:
                log.write_topic_id(topic_id)
            if topic_id not in (NO_TOPIC_ID, log.topic_id):
                raise StorageError(f"{log.path} belongs to an earlier topic of the same name")
            return log
        self._require_key(topic_partition, settings)
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

    def _require_key(self, topic_partition: TopicPartition, settings: TopicSettings) -> None:
        """Raises `StorageError` if a new log must be encrypted and cannot be."""
        key_name = settings.odradek_encryption_key
        if self.encryption is not None:
            self.encryption.require_key(key_name)
        elif key_name:
            raise StorageError(
                f"{topic_partition.topic} is to be encrypted with the key {key_name}, but this "
                "broker has no key provider: set odradek.key.provider"
            )

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
        if self.encryption is not None:
            self.encryption.begin_to_use(log)
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
            if self.encryption is not None:
                group.create_task(self.encryption.supply.run())

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
        if self.encryption is not None:
            # A log that was never loaded is still to be recovered.
            is_whole &= all(log.is_clean for log in self.encryption.locked_in(directory))
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
