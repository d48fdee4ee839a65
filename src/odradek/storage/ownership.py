"""Makes sure that a log directory is used by one process and belongs to one broker of one cluster.

A lock file excludes other processes; `meta.properties` names the cluster and the broker. Two
brokers that wrote to one directory would mix their records, and a broker of another cluster would
serve records that its cluster does not know.
"""

from uuid import UUID

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


class Owner:
    """This broker, and the directories that it has locked."""

    def __init__(self, world: World, *, cluster_id: str, node_id: int, store_id: str) -> None:
        self._world = world
        self._cluster_id = cluster_id
        self._node_id = node_id
        self._store_id = store_id
        self._locks: dict[LogDirectory, DirectoryLock] = {}

    def lock(self, directory: LogDirectory) -> None:
        """Raises BlockingIOError if another process has locked the directory."""
        self._locks[directory] = self._world.disk.lock(f"{directory.path}/{LOCK}")

    def release_all(self) -> None:
        for lock in self._locks.values():
            lock.release()
        self._locks.clear()

    def claim(self, directory: LogDirectory, *, has_logs: bool) -> None:
        """Checks that the directory belongs to this broker. An unused directory is given to it."""
        found = read_directory_properties(self._world.disk, directory.path)
        for name, expected in (("cluster.id", self._cluster_id), ("node.id", str(self._node_id))):
            value = found.get(name, expected)
            if value != expected:
                raise StorageError(
                    f"{directory.path}/{META_PROPERTIES} says {name}={value}, this broker has "
                    f"{expected}; choose another directory with log.dirs, or remove the file if "
                    "it is stale"
                )
        try:
            directory.directory_id = UUID(bytes=decode_uuid(found["directory.id"]))
        except (KeyError, MalformedCheckpoint):
            directory.directory_id = self._world.randomness.uuid()
        known = found.get(STORE_ID_PROPERTY, "")
        directory.store_id = known if has_logs else self._store_id
        if directory.store_id != known or not found.keys() >= {
            "cluster.id",
            "node.id",
            "directory.id",
            "version",
        }:
            self._write_properties(directory)

    def trust_store(self, directory: LogDirectory) -> None:
        """From now on the metadata store knows every log in the directory: a log that the store
        lacks was deleted."""
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
