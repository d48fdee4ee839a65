"""Finds out when a broker starts that a log directory was replaced, and which logs were in it.

Every log directory has an id of its own in `meta.properties` (KIP-858). A broker stores in its
epoch node which ids it had when it registered. If one of them is missing at the next start, a disk
was replaced, or is not mounted and its mount point is empty. The logs of this broker that are
missing were in that directory, and are lost.

A log may be missing while all directories are the same. If a checkpoint says that it had records,
somebody has removed it by hand, and it is lost too. If not, it was never on the disk: the broker
stopped before it had created the log, or the operating system went down before the directory entry
was synced. No acknowledged record is lost with it, within the promises of docs/replication.md.
"""

import logging
from collections.abc import Sequence
from typing import Final

from odradek.metadata import ClusterImage
from odradek.protocol.types import BrokerId, TopicPartition
from odradek.storage import LogManager
from odradek.wording import counted

logger = logging.getLogger("odradek.server")

# The first partitions are logged one by one, of the others only their number.
_MAX_LOGGED: Final = 20


class ReplacedDisks:
    """Compares the directories of this broker with those of its last registration."""

    def __init__(self, logs: LogManager, known: Sequence[str]) -> None:
        self._logs = logs
        present = [str(directory.directory_id) for directory in logs.directories]
        missing = [directory_id for directory_id in known if directory_id not in present]
        unreadable = sum(
            not directory.is_online and str(directory.directory_id) not in known
            for directory in logs.directories
        )
        # A directory that cannot be read now may be any of the missing ones: its logs are offline,
        # not lost, and `replication.replicas` does not create new ones.
        self.missing: tuple[str, ...] = () if unreadable else tuple(missing)
        readable = [
            str(directory.directory_id) for directory in logs.directories if directory.is_online
        ]
        self.registered: tuple[str, ...] = (*readable, *(missing if unreadable else ()))

    def is_lost(self, topic_partition: TopicPartition) -> bool:
        """Returns whether the log of a replica of this broker was in a replaced directory, or was
        removed by hand."""
        if self._logs.get(topic_partition) is not None:
            return False
        return bool(self.missing) or self.was_removed(topic_partition)

    def was_removed(self, topic_partition: TopicPartition) -> bool:
        """Returns whether the directory of this log was removed, and no disk replaced."""
        return not self.missing and self._logs.was_removed(topic_partition)

    def is_back(self, topic_partition: TopicPartition) -> bool:
        """Returns whether the lost log of a partition is here again. A log that was created since
        then has no leader epoch, because no replica has led."""
        log = self._logs.get(topic_partition)
        return log is not None and log.is_usable and log.leader_epochs.latest >= 0


def announce(
    image: ClusterImage, broker: BrokerId, lost: Sequence[TopicPartition], disks: ReplacedDisks
) -> None:
    """Logs which logs are lost, and what an operator can do about it."""
    if disks.missing:
        logger.error(
            "log directories of this broker were replaced since it registered last (ids %s): the "
            "logs of %s are not here",
            ", ".join(disks.missing),
            counted(len(lost), "partition"),
        )
        old = "the old disk"
    else:
        logger.error(
            "the directories of %s were removed by hand since this broker ran last: what was in "
            "them is lost here",
            counted(len(lost), "partition"),
        )
        old = "the directory"
    for topic, index in lost[:_MAX_LOGGED]:
        partition = image.partition(topic, index)
        if partition is None:
            continue
        others = [replica for replica in (*partition.isr, *partition.eligible) if replica != broker]
        if others:
            logger.warning("%s-%d: is copied again from the replicas in sync", topic, index)
        elif len(partition.replicas) == 1:
            logger.error(
                "%s-%d: this broker is its only replica: it is empty now, and what it held is lost "
                "unless %s is brought back",
                topic,
                index,
                old,
            )
        else:
            logger.error(
                "%s-%d: this broker was the last one in sync: the partition is offline. Bring %s "
                "back, or let the replica with the longest log lead, at the cost of what only this "
                "one had: odradek leader-election --election-type unclean --topic %s --partition "
                "%d",
                topic,
                index,
                old,
                topic,
                index,
            )
    if lost[_MAX_LOGGED:]:
        logger.error("and %d more partitions", len(lost) - _MAX_LOGGED)
