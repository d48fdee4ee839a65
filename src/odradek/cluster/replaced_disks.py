"""Notices at a broker's start that a log directory was replaced, and what was in it.

Every log directory has an id of its own in `meta.properties` (KIP-858). A broker notes in the
metadata store which ids it had when it registered. If one of them is missing at the next start, a
disk was replaced, or is not mounted and its mount point is empty: logs that should be here and are
not were in it, and are lost.

A log that is missing while all directories are the same is something else: the broker went down
before it had made it, or the machine before its name was on the disk. Nothing that was acknowledged
was in it that others do not have, within the promises of docs/replication.md.
"""

import logging
from collections.abc import Sequence
from typing import Final

from odradek.metadata import ClusterImage
from odradek.protocol.types import BrokerId, TopicPartition
from odradek.storage import LogManager
from odradek.wording import counted

logger = logging.getLogger("odradek.server")

# Partitions that are named one by one; of the others the log says only how many there are.
_FEW: Final = 20


class ReplacedDisks:
    """What this broker's directories are, compared with those that it registered last."""

    def __init__(self, logs: LogManager, known: Sequence[str]) -> None:
        self._logs = logs
        present = [str(directory.directory_id) for directory in logs.directories]
        missing = [one for one in known if one not in present]
        unreadable = sum(
            not directory.is_online and str(directory.directory_id) not in known
            for directory in logs.directories
        )
        # A directory that cannot be read now may be any of those that are missing: its logs are
        # offline, not lost, and `replication.replicas` makes no new ones.
        self.missing: tuple[str, ...] = () if unreadable else tuple(missing)
        readable = [
            str(directory.directory_id) for directory in logs.directories if directory.is_online
        ]
        self.registered: tuple[str, ...] = (*readable, *(missing if unreadable else ()))

    def is_lost(self, where: TopicPartition) -> bool:
        """Whether the log of a partition that this broker holds was in a replaced directory."""
        return bool(self.missing) and self._logs.get(where) is None

    def is_back(self, where: TopicPartition) -> bool:
        """Whether the log of a partition that was lost is here again. One that was made since then
        is empty, and of no epoch, because nobody has led."""
        log = self._logs.get(where)
        return log is not None and log.is_usable and log.leader_epochs.latest >= 0


def announce(
    image: ClusterImage, broker: BrokerId, lost: Sequence[TopicPartition], missing: Sequence[str]
) -> None:
    """Says in the log what was lost, and what an operator can do about it."""
    logger.error(
        "log directories of this broker were replaced since it registered last (ids %s): the logs "
        "of %s are not here",
        ", ".join(missing),
        counted(len(lost), "partition"),
    )
    for topic, index in lost[:_FEW]:
        partition = image.partition(topic, index)
        if partition is None:
            continue
        others = [one for one in (*partition.isr, *partition.eligible) if one != broker]
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
    if lost[_FEW:]:
        logger.error("and %d more partitions", len(lost) - _FEW)
