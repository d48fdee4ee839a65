"""Finds out when a broker starts that a log directory was replaced, and which logs were in it.

Every log directory has an id of its own in `meta.properties` (KIP-858). A broker stores in its
epoch node which ids it had when it registered. If one of them is missing at the next start, a disk
was replaced, or is not mounted and its mount point is empty. The logs of this broker that are
missing were in that directory, and are lost.

A log that is missing while all directories are the same was never on the disk: the broker stopped
before it had created the log, or the operating system went down before the directory entry was
synced. No acknowledged record is lost with it, within the promises of docs/replication.md.
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
        """Returns whether the log of a replica of this broker was in a replaced directory."""
        return bool(self.missing) and self._logs.get(topic_partition) is None

    def is_back(self, topic_partition: TopicPartition) -> bool:
        """Returns whether the lost log of a partition is here again. A log that was created since
        then has no leader epoch, because no replica has led."""
        log = self._logs.get(topic_partition)
        return log is not None and log.is_usable and log.leader_epochs.latest >= 0


def announce(
    image: ClusterImage, broker: BrokerId, lost: Sequence[TopicPartition], missing: Sequence[str]
) -> None:
    """Logs which logs are lost, and what an operator can do about it."""
    logger.error(
        "log directories of this broker were replaced since it registered last (ids %s): the logs "
        "of %s are not here",
        ", ".join(missing),
        counted(len(lost), "partition"),
    )
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
                "unless the old disk is brought back",
                topic,
                index,
            )
        else:
            logger.error(
                "%s-%d: this broker was the last one in sync: the partition is offline. Bring the "
                "old disk back, or let the replica with the longest log lead, at the cost of what "
                "only this one had: odradek leader-election --election-type unclean --topic %s "
                "--partition %d",
                topic,
                index,
                topic,
                index,
            )
    if lost[_MAX_LOGGED:]:
        logger.error("and %d more partitions", len(lost) - _MAX_LOGGED)
