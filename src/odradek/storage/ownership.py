"""Makes sure that a log directory is used by one process and belongs to one broker of one cluster.

A lock file excludes other processes; `meta.properties` names the cluster and the broker. Two
brokers that wrote to one directory would mix their records, and a broker of another cluster would
serve records that its cluster does not know.

`meta.properties` also has the id of the metadata store that knows every log of the directory
(`odradek.store.id`). It is empty while the directory may have logs that the store does not know;
the broker adopts such logs instead of deleting them (docs/decisions/0010-lost-metadata-store.md).
"""

import logging
from collections.abc import Mapping
from uuid import UUID

from odradek.protocol.types import BrokerId
from odradek.storage.errors import StorageError
from odradek.storage.file_names import LOCK, META_PROPERTIES
from odradek.storage.log_directory import LogDirectory
from odradek.storage.text_files import (
    STORE_ID_PROPERTY,
    DirectoryProperties,
    MalformedCheckpoint,
    decode_uuid,
    read_directory_properties,
)
from odradek.world import World
from odradek.world.disk import DirectoryLock

logger = logging.getLogger("odradek.storage")

_BROKER_ID_PROPERTIES = ("node.id", "broker.id")
"""Kafka writes `broker.id` in version 0 of the file and `node.id` in version 1."""


class DirectoryOwnership:
    """Locks the log directories of this broker and checks that they belong to it."""

    def __init__(self, world: World, *, cluster_id: str, node_id: BrokerId, store_id: str) -> None:
        self._world = world
        self._cluster_id = cluster_id
        self._node_id = node_id
        self._store_id = store_id
        self._locks: dict[LogDirectory, DirectoryLock] = {}

    def lock(self, directory: LogDirectory) -> None:
        """Locks the directory. Raises `BlockingIOError` if another process has locked it."""
        self._locks[directory] = self._world.disk.lock(f"{directory.path}/{LOCK}")

    def release_all(self) -> None:
        for lock in self._locks.values():
            lock.release()
        self._locks.clear()

    def claim(self, directory: LogDirectory, *, has_logs: bool) -> None:
        """Checks the cluster id and the broker id in `meta.properties`, and adds what is missing
        in the file.

        Raises `StorageError` if the directory belongs to another cluster or broker. Logs whose
        owner is unknown are accepted with a warning, as Kafka accepts them with ZooKeeper: an
        operator who moves logs to another cluster removes the file.
        """
        properties = read_directory_properties(self._world.disk, directory.path)
        self._check_owner(directory, properties, has_logs=has_logs)
        try:
            directory.directory_id = UUID(bytes=decode_uuid(properties["directory.id"]))
        except (KeyError, MalformedCheckpoint):
            directory.directory_id = self._world.randomness.uuid()
        store_id = properties.get(STORE_ID_PROPERTY, "")
        directory.store_id = store_id if has_logs else self._store_id
        if directory.store_id != store_id or not properties.keys() >= {
            "cluster.id",
            "node.id",
            "directory.id",
            "version",
        }:
            self._write_properties(directory)

    def _check_owner(
        self, directory: LogDirectory, properties: Mapping[str, str], *, has_logs: bool
    ) -> None:
        path = f"{directory.path}/{META_PROPERTIES}"
        expected = {"cluster.id": self._cluster_id}
        expected |= dict.fromkeys(_BROKER_ID_PROPERTIES, str(self._node_id))
        for name, own in expected.items():
            value = properties.get(name, own)
            if value != own:
                raise StorageError(
                    f"{path} says that the directory belongs to {name}={value}, but this broker "
                    f"has {name}={own}; choose another directory with log.dirs, or remove the "
                    "file if this broker is to take over the logs in the directory"
                )
        if has_logs:
            missing = [] if "cluster.id" in properties else ["cluster.id"]
            if not any(name in properties for name in _BROKER_ID_PROPERTIES):
                missing.append("node.id")
            if missing:
                logger.warning(
                    "%s: the directory has logs, but %s does not name their owner (no %s); "
                    "broker %d of cluster %s takes them over",
                    directory.path,
                    META_PROPERTIES,
                    ", no ".join(missing),
                    self._node_id,
                    self._cluster_id,
                )

    def trust_store(self, directory: LogDirectory) -> None:
        """Writes the id of the metadata store to `meta.properties`. From then on a log that the
        store does not know was deleted while the broker was away."""
        if directory.is_online and directory.store_id != self._store_id:
            directory.store_id = self._store_id
            try:
                self._write_properties(directory)
            except OSError as error:
                directory.fail(error)

    def _write_properties(self, directory: LogDirectory) -> None:
        properties = DirectoryProperties(
            self._cluster_id, self._node_id, directory.directory_id, directory.store_id
        )
        self._world.disk.replace(f"{directory.path}/{META_PROPERTIES}", properties.encode())
