"""What groups have committed, and what is committed once a transaction ends.

    committed[group][partition]              counts
    pending[producer][group][partition]      counts when the producer's transaction commits

An offset is kept while its group is used, and `offsets.retention.minutes` after: from when the
group became empty, or from the commit where there is no group to speak of (a consumer on its
own), or where the group no longer subscribes to the topic. An offset in an open transaction is
never dropped.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from odradek.groups.commands import CommitOffsets, FetchedOffset, FetchOffsets, OffsetToCommit
from odradek.groups.group import Group
from odradek.groups.records import (
    CommittedOffset,
    offset_record,
    offset_tombstone,
    read_offset,
    read_offset_key,
)
from odradek.protocol.errors import ErrorCode
from odradek.protocol.types import NO_TOPIC_ID, TopicPartition
from odradek.statemachine.machine import LogRecord, Marker, Now, ProducerIdentity, Written

Partitions = dict[TopicPartition, CommittedOffset]

_NONE: Final[Partitions] = {}
# The latest time that a record can hold.
_LATEST_MS: Final = 2**63 - 1


class Offsets:
    """Invariant: no dictionary in it is empty."""

    __slots__ = ("_open", "committed", "pending")

    def __init__(self) -> None:
        self.committed: dict[str, Partitions] = {}
        self.pending: dict[int, dict[str, Partitions]] = {}
        # Producers with an open transaction on a group, as an ordered set.
        self._open: dict[str, dict[int, None]] = {}

    # Looking

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
        """The groups whose offsets are in the open transaction of a producer."""
        return list(self.pending.get(producer.producer_id, ()))

    def known(self, group_id: str) -> list[TopicPartition]:
        """Every partition that the group has an offset for, committed or pending."""
        partitions = dict.fromkeys(self.of(group_id))
        for offsets in self._pending_of(group_id):
            partitions.update(dict.fromkeys(offsets))
        return list(partitions)

    def fetch(self, query: FetchOffsets) -> list[FetchedOffset]:
        offsets = self.of(query.group_id)
        if query.partitions is None:
            asked = [(partition, NO_TOPIC_ID) for partition in offsets]
        else:
            asked = [(each.partition, each.topic_id) for each in query.partitions]
        stable_only = query.require_stable and self.has_open_transaction(query.group_id)
        answers = []
        for partition, topic_id in asked:
            found = offsets.get(partition)
            if stable_only and self.is_pending(query.group_id, partition):
                answer = FetchedOffset(partition, error=ErrorCode.UNSTABLE_OFFSET_COMMIT)
            elif found is None or _is_of_another(found, topic_id):
                answer = FetchedOffset(partition)
            else:
                answer = FetchedOffset(
                    partition,
                    found.offset,
                    found.leader_epoch,
                    found.metadata,
                    topic_id=found.topic_id,
                )
            answers.append(answer)
        return answers

    # Deciding

    def commit(self, command: CommitOffsets, offset: OffsetToCommit, now: Now) -> LogRecord:
        expires = command.retention_ms >= 0
        # A client may ask for more than the record can say; it means "for ever" either way.
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
        """For those of the partitions that there is something to forget of."""
        known = dict.fromkeys(self.known(group_id))
        return [
            offset_tombstone(group_id, partition) for partition in partitions if partition in known
        ]

    def expired(self, group: Group, retention_ms: int, now: Now) -> list[TopicPartition]:
        group_id = group.group_id
        return [
            partition
            for partition, committed in self.of(group_id).items()
            if not group.is_subscribed_to(partition.topic)
            and _is_expired(group, committed, retention_ms, now.wall_ms)
            and not self.is_pending(group_id, partition)
        ]

    def groups_with(self, topics: frozenset[str]) -> dict[str, list[TopicPartition]]:
        """What groups have of these topics, committed or pending."""
        found = {}
        for group_id in dict.fromkeys((*self.committed, *self._open)):
            partitions = [each for each in self.known(group_id) if each.topic in topics]
            if partitions:
                found[group_id] = partitions
        return found

    # Changing

    def apply(self, entry: Written) -> str:
        """An offset that stands in the log; returns the group it is of."""
        group_id, partition = read_offset_key(entry.record.key)
        value = entry.record.value
        if value is None:
            self._forget(group_id, partition)
            return group_id
        committed = read_offset(value, entry.offset)
        if entry.producer is None:
            self.committed.setdefault(group_id, {})[partition] = committed
            return group_id
        producer_id = entry.producer.producer_id
        groups = self.pending.setdefault(producer_id, {})
        groups.setdefault(group_id, {})[partition] = committed
        self._open.setdefault(group_id, {})[producer_id] = None
        return group_id

    def end_transaction(self, marker: Marker) -> None:
        producer_id = marker.producer.producer_id
        for group_id, offsets in self.pending.pop(producer_id, {}).items():
            self._close(group_id, producer_id)
            if marker.committed:
                self._commit_pending(group_id, offsets)

    def _commit_pending(self, group_id: str, offsets: Partitions) -> None:
        committed = self.committed.setdefault(group_id, {})
        for partition, offset in offsets.items():
            # A plain commit that came after the one in the transaction is the newer.
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


def _is_of_another(committed: CommittedOffset, topic_id: bytes) -> bool:
    """The topic was deleted and made again since the commit."""
    return NO_TOPIC_ID not in (committed.topic_id, topic_id) and committed.topic_id != topic_id


def _is_expired(group: Group, committed: CommittedOffset, retention_ms: int, now_ms: int) -> bool:
    unused_since_ms = group.unused_since(committed.commit_timestamp_ms)
    if unused_since_ms is None:
        return False
    if committed.expire_timestamp_ms >= 0:
        # Clients before 2.1 said themselves how long.
        return now_ms >= committed.expire_timestamp_ms
    return now_ms - unused_since_ms >= retention_ms
