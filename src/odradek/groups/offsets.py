"""The offsets that groups have committed, and those that are pending in open transactions.

    committed[group][partition]              is visible to clients
    pending[producer][group][partition]      becomes visible when the producer's transaction commits

Retention: an offset is kept while it is in use, and for `offsets.retention.minutes` after. The time
runs from when the group became empty, or from the commit if the group has no members of its own or
no longer subscribes to the topic. An offset that is pending in a transaction is never deleted.

Whether a commit is accepted at all is decided by the group (`Group.check_commit`).
"""

from collections.abc import Iterable, Iterator
from typing import Final, NoReturn

from odradek import invariants
from odradek.groups.commands import CommitOffsets, FetchedOffset, FetchOffsets, OffsetToCommit
from odradek.groups.group import Group, GroupDecisionContext
from odradek.groups.records import (
    CommittedOffset,
    offset_record,
    offset_tombstone,
    read_offset,
    read_offset_key,
)
from odradek.invariants import InvariantViolation
from odradek.protocol.errors import ErrorCode
from odradek.protocol.types import NO_TOPIC_ID, TopicPartition
from odradek.statemachine.machine import LogRecord, Marker, ProducerIdentity, Written

Partitions = dict[TopicPartition, CommittedOffset]

_NONE: Final[Partitions] = {}
# The latest time that a record can hold.
_LATEST_MS: Final = 2**63 - 1


class Offsets:
    """The offsets of all groups of a partition.

    Invariants (`check`): no dictionary in it is empty; `_open` names exactly the producers with
    pending offsets of a group; of two commits for a partition the one that is later in the log
    counts."""

    __slots__ = ("_open", "committed", "pending")

    def __init__(self) -> None:
        self.committed: dict[str, Partitions] = {}
        self.pending: dict[int, dict[str, Partitions]] = {}
        # For each group, an ordered set of the producers with pending offsets.
        self._open: dict[str, dict[int, None]] = {}

    # Queries

    def of(self, group_id: str) -> Partitions:
        return self.committed.get(group_id, _NONE)

    def has_open_transaction(self, group_id: str) -> bool:
        return group_id in self._open

    def is_pending(self, group_id: str, partition: TopicPartition) -> bool:
        return any(partition in offsets for offsets in self._pending_of(group_id))

    def _pending_of(self, group_id: str) -> Iterator[Partitions]:
        for producer_id in self._open.get(group_id, ()):
            yield self.pending[producer_id].get(group_id, _NONE)

    def groups_in(self, producer: ProducerIdentity) -> list[str]:
        """Returns the groups whose offsets are pending in a transaction of the producer."""
        return list(self.pending.get(producer.producer_id, ()))

    def known(self, group_id: str) -> list[TopicPartition]:
        """Returns the partitions that the group has an offset for, committed or pending."""
        partitions = dict.fromkeys(self.of(group_id))
        for offsets in self._pending_of(group_id):
            partitions.update(dict.fromkeys(offsets))
        return list(partitions)

    def fetch(self, query: FetchOffsets) -> list[FetchedOffset]:
        offsets = self.of(query.group_id)
        if query.partitions is None:
            requested = [(partition, NO_TOPIC_ID) for partition in offsets]
        else:
            requested = [(partition, topic_id) for partition, topic_id in query.partitions]
        stable_only = query.require_stable and self.has_open_transaction(query.group_id)
        answers = []
        for partition, topic_id in requested:
            committed = offsets.get(partition)
            if stable_only and self.is_pending(query.group_id, partition):
                answer = FetchedOffset(partition, error=ErrorCode.UNSTABLE_OFFSET_COMMIT)
            elif committed is None or _is_of_other_topic(committed, topic_id):
                answer = FetchedOffset(partition)
            else:
                answer = FetchedOffset(
                    partition,
                    committed.offset,
                    committed.leader_epoch,
                    committed.metadata,
                    topic_id=committed.topic_id,
                )
            answers.append(answer)
        return answers

    # Records

    def commit(
        self, command: CommitOffsets, offset: OffsetToCommit, now: GroupDecisionContext
    ) -> LogRecord:
        expires = command.retention_ms >= 0
        # A client may ask for a later time than the record can hold.
        expire_ms = min(now.wall_ms + command.retention_ms, _LATEST_MS) if expires else -1
        committed = CommittedOffset(
            offset.offset,
            offset.leader_epoch,
            offset.metadata or "",
            now.wall_ms,
            expire_ms,
            offset.topic_id,
        )
        return offset_record(command.group_id, offset.partition, committed)

    def tombstones(self, group_id: str, partitions: Iterable[TopicPartition]) -> list[LogRecord]:
        """Returns a tombstone for each of the partitions that has an offset."""
        known = dict.fromkeys(self.known(group_id))
        return [
            offset_tombstone(group_id, partition) for partition in partitions if partition in known
        ]

    def expired(
        self, group: Group, retention_ms: int, now: GroupDecisionContext
    ) -> list[TopicPartition]:
        group_id = group.group_id
        return [
            partition
            for partition, committed in self.of(group_id).items()
            if not group.is_subscribed_to(partition.topic)
            and _is_expired(group, committed, retention_ms, now.wall_ms)
            and not self.is_pending(group_id, partition)
        ]

    def groups_with(self, topics: frozenset[str]) -> dict[str, list[TopicPartition]]:
        """Returns the partitions of these topics with offsets, committed or pending, by group."""
        partitions_by_group = {}
        for group_id in dict.fromkeys((*self.committed, *self._open)):
            partitions = [
                partition for partition in self.known(group_id) if partition.topic in topics
            ]
            if partitions:
                partitions_by_group[group_id] = partitions
        return partitions_by_group

    # Changes

    def apply(self, entry: Written) -> str:
        """Applies the record of an offset and returns the group that it belongs to."""
        group_id, partition = read_offset_key(entry.record.key)
        value = entry.record.value
        if value is None:
            self._forget(group_id, partition)
            return group_id
        committed = read_offset(value, entry.offset)
        if entry.producer is None:
            partitions = self.committed.setdefault(group_id, {})
            before = partitions.get(partition)
            if before is not None and before.log_offset >= entry.offset:
                self._violate(
                    group_id,
                    f"the commit for {partition} at offset {entry.offset} is applied after that at"
                    f" {before.log_offset}",
                )
            partitions[partition] = committed
            return group_id
        producer_id = entry.producer.producer_id
        groups = self.pending.setdefault(producer_id, {})
        groups.setdefault(group_id, {})[partition] = committed
        self._open.setdefault(group_id, {})[producer_id] = None
        if invariants.is_thorough():
            self.check(group_id)
        return group_id

    def end_transaction(self, marker: Marker) -> None:
        producer_id = marker.producer.producer_id
        for group_id, offsets in self.pending.pop(producer_id, {}).items():
            self._close(group_id, producer_id)
            if marker.committed:
                self._commit_pending(group_id, offsets)
            if invariants.is_thorough():
                self.check(group_id)

    def check(self, group_id: str) -> None:
        """Raises `InvariantViolation` if what is known of a group's offsets contradicts itself."""
        if self.committed.get(group_id) == {}:
            self._violate(group_id, "it has an empty set of committed offsets")
        if self._open.get(group_id) == {}:
            self._violate(group_id, "it has an empty set of open transactions")
        pending = [
            producer_id for producer_id, groups in self.pending.items() if group_id in groups
        ]
        if sorted(pending) != sorted(self._open.get(group_id, ())):
            self._violate(
                group_id,
                f"offsets of producers {sorted(pending)} are pending, and the open transactions are"
                f" those of {sorted(self._open.get(group_id, ()))}",
            )

    def _violate(self, group_id: str, rule: str) -> NoReturn:
        raise InvariantViolation(f"the offsets of group {group_id}", rule)

    def _commit_pending(self, group_id: str, offsets: Partitions) -> None:
        committed = self.committed.setdefault(group_id, {})
        for partition, offset in offsets.items():
            # A commit without a transaction that is later in the log counts.
            present = committed.get(partition)
            if present is None or present.log_offset < offset.log_offset:
                committed[partition] = offset

    def _forget(self, group_id: str, partition: TopicPartition) -> None:
        committed = self.committed.get(group_id)
        if committed is not None:
            committed.pop(partition, None)
            if not committed:
                del self.committed[group_id]
        for producer_id in list(self._open.get(group_id, ())):
            groups = self.pending[producer_id]
            offsets = groups[group_id]
            offsets.pop(partition, None)
            if not offsets:
                del groups[group_id]
                self._close(group_id, producer_id)
            if not groups:
                del self.pending[producer_id]

    def _close(self, group_id: str, producer_id: int) -> None:
        producers = self._open[group_id]
        del producers[producer_id]
        if not producers:
            del self._open[group_id]


def _is_of_other_topic(committed: CommittedOffset, topic_id: bytes) -> bool:
    """Returns whether the topic was deleted and created again since the commit."""
    return NO_TOPIC_ID not in (committed.topic_id, topic_id) and committed.topic_id != topic_id


def _is_expired(group: Group, committed: CommittedOffset, retention_ms: int, now_ms: int) -> bool:
    unused_since_ms = group.unused_since(committed.commit_timestamp_ms)
    if unused_since_ms is None:
        return False
    if committed.expire_timestamp_ms >= 0:
        # Clients before 2.1 send a retention time with the commit.
        return now_ms >= committed.expire_timestamp_ms
    return now_ms - unused_since_ms >= retention_ms
