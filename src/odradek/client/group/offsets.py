"""The committed offsets of a group: how a client commits, reads and starts from them.

`GroupOffsets` sends the requests to the coordinator. `StartingOffsets` moves the consumer to the
committed offsets of partitions that were just assigned; without one, `auto.offset.reset` decides.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from odradek.client import arguments
from odradek.client.coordinator import Coordinator
from odradek.client.errors import ClientError, is_retriable
from odradek.client.retry import RetryPolicy
from odradek.protocol.errors import ErrorCode, KafkaError, UnknownTopic, error_for, raise_for
from odradek.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from odradek.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from odradek.protocol.types import LeaderEpoch, Offset, TopicPartition

if TYPE_CHECKING:
    from odradek.client.consumer.positions import PartitionState, Positions

_log = logging.getLogger("odradek.client")

# The newest versions that identify topics by name. Later ones use topic ids.
_COMMIT_BY_NAME = 9
_FETCH_BY_NAME = 9
_FIRST_FETCH_OF_GROUPS = 8


class OffsetAndMetadata(NamedTuple):
    """The offset of the next record to read, the epoch of the last one read, and a note."""

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


class GroupMetadata(NamedTuple):
    """The identity of a consumer in its group, as a transaction that commits offsets sends it."""

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


Offsets = Mapping[TopicPartition, OffsetAndMetadata]

OnCommit = Callable[[Offsets, BaseException | None], None]
"""Called after an asynchronous commit, with the error if it failed."""


OffsetsToCommit = Mapping[TopicPartition, OffsetAndMetadata | int | tuple[int, str]]
"""What a program gives to `commit`: the offset of the next record, with a note if it has one."""


def with_metadata(offsets: OffsetsToCommit, call: str) -> dict[TopicPartition, OffsetAndMetadata]:
    """Returns the offsets to commit; a plain offset gets empty metadata."""
    given = arguments.by_partition(offsets, call, "record.offset + 1")
    return {partition: _with_metadata(offset, call) for partition, offset in given.items()}


def _with_metadata(given: object, call: str) -> OffsetAndMetadata:
    if isinstance(given, tuple) and 1 <= len(given) <= len(OffsetAndMetadata._fields):
        found = OffsetAndMetadata(*given)
    else:
        found = OffsetAndMetadata(arguments.integer(given, call, "offset"))
    arguments.offset(found.offset, call)
    arguments.one_of(str, found.metadata, call, "metadata as text")
    arguments.integer(found.leader_epoch, call, "leader_epoch", at_most=arguments.MAX_INT)
    return found


class GroupOffsets:
    """Commits and reads the offsets of one group."""

    def __init__(self, coordinator: Coordinator, retry: RetryPolicy, group_id: str) -> None:
        self._coordinator = coordinator
        self._retry = retry
        self._group_id = group_id

    async def commit_once(self, offsets: Offsets, member: GroupMetadata) -> None:
        """Commits in one attempt. If partitions have different errors, one that is not retriable is
        raised rather than one that is.

        `UnknownTopic` means that partitions are gone, and that all other offsets are committed.
        """
        topics: dict[str, OffsetCommitRequestTopic] = {}
        for (name, index), committed in offsets.items():
            topic = topics.setdefault(name, OffsetCommitRequestTopic(name=name))
            topic.partitions.append(
                OffsetCommitRequestPartition(
                    partition_index=index,
                    committed_offset=committed.offset,
                    committed_leader_epoch=committed.leader_epoch,
                    committed_metadata=committed.metadata,
                )
            )
        response = await self._coordinator.ask(
            OffsetCommitRequest(
                group_id=member.group_id,
                generation_id_or_member_epoch=member.generation_id,
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                topics=list(topics.values()),
            ),
            OffsetCommitResponse,
            max_version=_COMMIT_BY_NAME,
        )
        passing: KafkaError | None = None
        gone: list[str] = []
        for answered in response.topics:
            for answer in answered.partitions:
                if not answer.error_code:
                    continue
                error = error_for(answer.error_code)
                self._coordinator.forget_if_moved(error)
                if not is_retriable(error):
                    raise error
                if isinstance(error, UnknownTopic):
                    gone.append(str(TopicPartition(answered.name, answer.partition_index)))
                else:
                    passing = error
        if passing is not None:
            raise passing
        if gone:
            raise error_for(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"There is no {', '.join(gone)}; all other offsets are committed.",
            )

    async def committed(
        self,
        partitions: Iterable[TopicPartition],
        timeout_ms: int,
        member: Callable[[], GroupMetadata | None],
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Returns the committed offsets, as soon as no transaction is about to change them.

        `member` is called for each attempt: a request with a stale epoch would be refused again.
        """
        asked = list(partitions)
        return await self._retry.run_within(
            timeout_ms,
            f"the offsets of group {self._group_id} could not be read",
            lambda: self.committed_once(asked, member()),
            may_retry=may_retry,
            waits_for=self._coordinator.lookup_fault,
        )

    async def committed_once(
        self, partitions: list[TopicPartition], member: GroupMetadata | None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        indexes: dict[str, list[int]] = {}
        for name, index in partitions:
            indexes.setdefault(name, []).append(index)
        request = OffsetFetchRequest(
            group_id=self._group_id,
            topics=[
                OffsetFetchRequestTopic(name=name, partition_indexes=some)
                for name, some in indexes.items()
            ],
            groups=[
                OffsetFetchRequestGroup(
                    group_id=self._group_id,
                    member_id=None if member is None else member.member_id,
                    member_epoch=-1 if member is None else member.generation_id,
                    topics=[
                        OffsetFetchRequestTopics(name=name, partition_indexes=some)
                        for name, some in indexes.items()
                    ],
                )
            ],
            require_stable=True,
        )
        response = await self._coordinator.ask(
            request, OffsetFetchResponse, max_version=_FETCH_BY_NAME
        )
        # Before version 8 the whole answer is about one group.
        group = response.groups[0] if response.groups else response
        try:
            raise_for(group.error_code)
            found = _committed_offsets(group.topics)
        except KafkaError as error:
            self._coordinator.forget_if_moved(error)
            raise
        return {partition: found.get(partition) for partition in partitions}


def may_retry(error: BaseException) -> bool:
    """Returns whether a request about offsets is sent again.

    A stale epoch is retried, because a member of the new protocol learns its epoch by heartbeat.
    """
    return is_retriable(error) or (
        isinstance(error, KafkaError) and error.code == ErrorCode.STALE_MEMBER_EPOCH
    )


def _is_of_members(error: BaseException) -> bool:
    """Returns whether the error says that the consumer is no longer a member of its group.

    This is not final: the consumer joins again, and `_current` then leaves out the partitions that
    it has lost."""
    return isinstance(error, KafkaError) and error.code == ErrorCode.UNKNOWN_MEMBER_ID


def _committed_offsets(topics: Iterable[object]) -> dict[TopicPartition, OffsetAndMetadata | None]:
    offsets: dict[TopicPartition, OffsetAndMetadata | None] = {}
    for topic in topics:
        for answer in topic.partitions:  # type: ignore[attr-defined] # both classes have them
            raise_for(answer.error_code)
            if answer.committed_offset >= 0:
                partition = TopicPartition(topic.name, answer.partition_index)  # type: ignore[attr-defined]
                offsets[partition] = OffsetAndMetadata(
                    answer.committed_offset, answer.metadata or "", answer.committed_leader_epoch
                )
    return offsets


class StartingOffsets:
    """Looks up committed offsets as the positions of partitions that were just assigned."""

    def __init__(
        self,
        offsets: GroupOffsets,
        positions: "Positions",
        retry: RetryPolicy,
        *,
        on_change: Callable[[], None],
        member: Callable[[], GroupMetadata | None],
    ) -> None:
        self._offsets = offsets
        self._positions = positions
        self._retry = retry
        self._on_change = on_change
        self._member = member
        self._waiting: dict[PartitionState, int] = {}
        self._task: asyncio.Task[None] | None = None

    def begin(self, state: "PartitionState") -> None:
        """Starts to look up the position of a partition; a seek in the meantime wins."""
        self._waiting[state] = state.seek_count
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(
                self._look_up(), name="odradek-starting-offsets"
            )

    async def _look_up(self) -> None:
        failures = self._retry.failures()
        try:
            while self._waiting:
                asked = self._current()
                if not asked:
                    return
                try:
                    found = await self._offsets.committed_once(
                        [state.partition for state in asked], self._member()
                    )
                except (ClientError, KafkaError) as error:
                    if may_retry(error) or _is_of_members(error):
                        _log.info("committed offsets could not be read, trying again: %s", error)
                        await failures.wait()
                        continue
                    self._settle(asked, None, error)
                else:
                    failures.reset()
                    self._settle(asked, found, None)
        finally:
            self._task = None

    def _current(self) -> "dict[PartitionState, int]":
        """Returns the partitions that still wait: assigned, and without a seek in the meantime."""
        self._waiting = {
            state: seek_count
            for state, seek_count in self._waiting.items()
            if state.seek_count == seek_count
            and self._positions.assigned.get(state.partition) is state
        }
        return dict(self._waiting)

    def _settle(
        self,
        requested: "dict[PartitionState, int]",
        offsets: dict[TopicPartition, OffsetAndMetadata | None] | None,
        error: BaseException | None,
    ) -> None:
        for state, seek_count in requested.items():
            if self._waiting.get(state) == seek_count:
                del self._waiting[state]
            if (
                state.seek_count != seek_count
                or self._positions.assigned.get(state.partition) is not state
            ):
                continue
            if error is not None:
                state.fault = error
                continue
            committed = None if offsets is None else offsets.get(state.partition)
            if committed is None:
                self._positions.reset(state)
            else:
                state.seek(Offset(committed.offset), LeaderEpoch(committed.leader_epoch))
                # The log may have been truncated since the commit.
                state.needs_validation = committed.leader_epoch >= 0
        self._on_change()

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)


__all__ = [
    "GroupMetadata",
    "GroupOffsets",
    "OffsetAndMetadata",
    "Offsets",
    "StartingOffsets",
    "may_retry",
]
