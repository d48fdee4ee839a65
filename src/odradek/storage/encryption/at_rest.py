"""Encryption at rest in a broker: what `LogManager` opens if `odradek.key.provider` is set.

It brings the disk that knows encrypted files, the keys, and the partitions that are *locked*: their
keys could not be had when the broker started, so their logs are not loaded. No log is made in their
place. They are loaded when the key service is back.
"""

import logging

from odradek.config import BrokerSettings
from odradek.protocol.types import TopicPartition
from odradek.security.keys.opening import open_provider
from odradek.storage.encryption.data_keys import DataKeys
from odradek.storage.encryption.encrypting_disk import EncryptingDisk, slots_below
from odradek.storage.encryption.key_supply import KeySupply
from odradek.storage.errors import PartitionLocked, StorageError
from odradek.storage.locked_log import LockedLog
from odradek.storage.log import Log
from odradek.storage.log_directory import LogDirectory
from odradek.world import World

logger = logging.getLogger("odradek.storage")


class EncryptionAtRest:
    def __init__(self, settings: BrokerSettings, world: World) -> None:
        self.keys = DataKeys(world.randomness)
        self.supply = KeySupply(
            open_provider(settings, world),
            self.keys,
            world,
            refresh_ms=settings.odradek_key_refresh_ms,
        )
        self.disk = EncryptingDisk(world.disk, self.keys)
        self.locked: dict[TopicPartition, LockedLog] = {}
        self.supply.locked_files = lambda: [
            slot for log in self.locked.values() for slot in slots_below(world.disk, log.path)
        ]

    # Loading

    async def prepare(self, partitions: dict[str, str]) -> None:
        """Gets the keys of all partitions of a directory: of their files, and for new ones.
        `partitions` are their directories, with the topic key of each ("" for none)."""
        await self.supply.fetch(name for name in partitions.values() if name)
        await self.supply.unwrap(
            slot for path in partitions for slot in slots_below(self.disk.disk, path)
        )
        for path, name in partitions.items():
            self.keys.assign(path, name)

    def reason_to_lock(self, path: str) -> str | None:
        """Why a log cannot be loaded now; None if it can."""
        for slot in slots_below(self.disk.disk, path):
            if not self.keys.knows(slot):
                problem = self.supply.problems.get(slot.key_name, "it was not asked for yet")
                return f"the key {slot.key_name} cannot be had: {problem}"
        return None

    def lock(self, log: LockedLog, reason: str) -> None:
        self.locked[log.topic_partition] = log
        logger.error("%s-%d is offline: %s", *log.topic_partition, reason)
        for slot in slots_below(self.disk.disk, log.path):
            if not self.keys.knows(slot):
                self.supply.problems.setdefault(slot.key_name, reason)

    def locked_in(self, directory: LogDirectory) -> list[LockedLog]:
        return [log for log in self.locked.values() if log.directory is directory]

    def locked_of(self, topic: str) -> list[LockedLog]:
        return [log for log in self.locked.values() if log.topic_partition.topic == topic]

    def load_locked(self, locked: LockedLog) -> Log:
        """Loads a locked log; raises `PartitionLocked` if its keys still cannot be had."""
        reason = self.reason_to_lock(locked.path)
        if reason is not None:
            raise PartitionLocked(f"{locked.topic_partition} is offline: {reason}")
        with locked.directory.disk_errors():
            log = locked.load()
        del self.locked[locked.topic_partition]
        return log

    # Appending

    def require_key(self, key_name: str) -> None:
        """Raises `StorageError` unless a new log can be encrypted with this key."""
        if key_name and not self.keys.has_key(key_name):
            self.supply.fetch_at_once(key_name)
            if self.keys.has_key(key_name):
                return
            problem = self.supply.problems.get(key_name, "it is being fetched")
            raise StorageError(f"the key {key_name} is not at hand: {problem}")

    def begin_to_use(self, log: Log) -> None:
        """Called when a log is loaded or made, and when its settings change: its next segment
        begins with the next append if the last one must not be continued."""
        name = log.settings.odradek_encryption_key
        self.keys.assign(log.path, name)
        if name and not self.keys.has_key(name):
            self.supply.fetch_at_once(name)
        active = log.active_segment
        if not active.size:
            # Whether it is encrypted is decided when it is opened. No byte of a batch that is
            # staged may be in it then.
            if active.stage is not None:
                active.drop_stage()
            active.unpin_for_appends()
            active.file.close_if_idle()
            return
        handle = active.file.pin()
        try:
            if not self.disk.takes_appends(active.file.path, handle):
                active.indexes.is_full = True
        finally:
            active.file.unpin()
