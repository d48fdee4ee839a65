"""Tracks which directory entries of a log are not durable yet.

On Linux a new, renamed or removed file survives a power cut once its directory was synced, not
when the file itself was. The parts of a log tell `DirectoryEntries` when they change entries, and
`Flusher` syncs them together with the records.
"""

from typing import NamedTuple


class Unsynced(NamedTuple):
    """The changes that a sync must make durable. `Flusher` gives them back if the sync fails."""

    has_changed: bool
    has_new_topic_id: bool


class DirectoryEntries:
    __slots__ = ("_has_changed", "_has_new_topic_id", "created_version")

    def __init__(self) -> None:
        self._has_changed = False
        self._has_new_topic_id = False
        # The version of the log directory (`LogDirectory.add_name`) in which the directory of this
        # partition was made. 0 if it was there when the broker started.
        self.created_version = 0

    @property
    def has_changed(self) -> bool:
        return self._has_changed

    def change(self) -> None:
        """Files of the partition were made, renamed or removed."""
        self._has_changed = True

    def write_topic_id(self) -> None:
        """`partition.metadata` was written.

        It is durable before the first record is recorded as flushed. Otherwise a power cut could
        bring records of a deleted topic back into a new topic of the same name.
        """
        self._has_changed = self._has_new_topic_id = True

    def create_partition(self, version: int) -> None:
        """The directory of the partition was made."""
        self.created_version = version
        self.write_topic_id()

    def take_unsynced(self) -> Unsynced:
        """A sync begins: entries that change from now on belong to the next sync."""
        unsynced = Unsynced(self._has_changed, self._has_new_topic_id)
        self._has_changed = self._has_new_topic_id = False
        return unsynced

    def keep_topic_id(self, unsynced: Unsynced) -> None:
        """The sync failed: the next sync must make the topic id durable."""
        self._has_new_topic_id |= unsynced.has_new_topic_id
