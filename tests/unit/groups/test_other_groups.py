"""The seam for groups of another kind: their commands, records, deadlines, and the change over."""

from collections.abc import Hashable
from dataclasses import dataclass
from functools import partial
from typing import Any

from odradek.groups.classic_group import ClassicGroup, State
from odradek.groups.commands import (
    ClassicCommand,
    CommitOffsets,
    DeleteGroup,
    DescribeGroup,
    GroupListing,
    Heartbeat,
    JoinReply,
)
from odradek.groups.group import (
    Group,
    GroupChanged,
    GroupDecisionContext,
    GroupDecisions,
    GroupOutcome,
    Groups,
    GroupType,
    GroupTypePlugin,
    PartitionCheck,
)
from odradek.metadata import ClusterImage
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.types import TopicId, TopicPartition
from odradek.statemachine.machine import Caller, Command, Deadline, LogRecord, Outcome, Reply
from tests.unit.groups.driver import GROUP, SESSION_MS, T0, T1, Coordinator

KIND = 99


@dataclass(slots=True)
class Knock(Command[str]):
    group_id: str
    visitors: int


class House:
    """A group that counts its visitors."""

    def __init__(self, group_id: str, visitors: int) -> None:
        self.group_id = group_id
        self.visitors = visitors

    @property
    def type(self) -> GroupType:
        return GroupType.CONSUMER

    @property
    def is_empty(self) -> bool:
        return self.visitors == 0

    def listing(self) -> GroupListing:
        return GroupListing(self.group_id, "house", str(self.visitors), self.type.value)

    def check_commit(self, commit: CommitOffsets, image: ClusterImage) -> PartitionCheck | None:
        if commit.generation_id != self.visitors:
            raise ApiError(ErrorCode.STALE_MEMBER_EPOCH)
        return self._check

    def _check(self, partition: TopicPartition, topic_id: TopicId) -> ErrorCode:
        return ErrorCode.NONE if partition == T0 else ErrorCode.STALE_MEMBER_EPOCH

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        if member_id is not None:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)

    def check_offset_deletion(self) -> None: ...

    def is_subscribed_to(self, topic: str) -> bool:
        return not self.is_empty

    def unused_since(self, committed_ms: int) -> int | None:
        return committed_ms

    def check(self) -> None:
        assert self.visitors >= 0

    def tombstones(self) -> list[LogRecord]:
        return [LogRecord(house_key(self.group_id), None)]


def house_key(group_id: str) -> bytes:
    return KIND.to_bytes(2, "big") + group_id.encode()


class Houses:
    record_kinds = frozenset({KIND})
    deadline_key_prefix = "house"

    def is_type_of(self, group: Group) -> bool:
        return isinstance(group, House)

    def add_decisions(self, decisions: GroupDecisions, groups: Groups) -> None:
        decisions.on(Knock, partial(self.decide, groups))

    def decide(
        self, groups: Groups, command: Knock, caller: Caller[str] | None, now: GroupDecisionContext
    ) -> GroupOutcome:
        before = groups.get(command.group_id)
        ends = [] if before is None or self.is_type_of(before) else before.tombstones()
        house = House(command.group_id, command.visitors)
        record = LogRecord(house_key(command.group_id), str(command.visitors).encode())
        return Outcome(
            [*ends, record],
            (GroupChanged(house),),
            () if caller is None else (Reply(caller, "come in"),),
            (Deadline(("house", command.group_id), 1_000),),
        )

    def decide_classic(
        self,
        group: Group,
        command: ClassicCommand,
        caller: Caller[Any] | None,
        now: GroupDecisionContext,
    ) -> GroupOutcome:
        raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)

    def group_of(self, key: bytes) -> str:
        return key[2:].decode()

    def replay(self, group: Group | None, key: bytes, value: bytes | None) -> Group | None:
        return None if value is None else House(self.group_of(key), int(value))

    def expire(self, groups: Groups, key: Hashable, now: GroupDecisionContext) -> GroupOutcome:
        assert isinstance(key, tuple)
        return self.decide(groups, Knock(key[1], 0), None, now)._replace(deadlines=())

    def after_load(self, group: Group, now: GroupDecisionContext) -> GroupOutcome:
        return Outcome(deadlines=(Deadline(("house", group.group_id), 1_000),))


def with_houses() -> Coordinator:
    houses: GroupTypePlugin = Houses()
    return Coordinator(plugins=(houses,))


def test_commands_records_and_deadlines_reach_their_kind() -> None:
    coordinator = with_houses()
    assert coordinator.ask(Knock(GROUP, 2)).answer(str) == "come in"
    listing = GroupListing(GROUP, "house", "2", "consumer")
    assert coordinator.machine.listings() == [listing]
    assert [each.listing() for each in coordinator.replayed().groups.values()] == [listing]
    coordinator.restart()
    coordinator.pass_time(1_000)
    assert coordinator.machine.listings()[0].state == "0"


def test_offsets_are_kept_for_every_kind() -> None:
    coordinator = with_houses()
    coordinator.ask(Knock(GROUP, 2))
    assert coordinator.commit(5, generation_id=2) == [ErrorCode.NONE]
    assert coordinator.commit(5, partition=T1, generation_id=2) == [ErrorCode.STALE_MEMBER_EPOCH]
    assert [each.offset for each in coordinator.fetch(T0, T1)] == [5, -1]
    assert coordinator.refusal(DeleteGroup(GROUP)) is ErrorCode.NON_EMPTY_GROUP
    assert coordinator.refusal(DescribeGroup(GROUP)) is ErrorCode.GROUP_ID_NOT_FOUND


def test_classic_members_of_another_kind_are_its_business() -> None:
    coordinator = with_houses()
    coordinator.ask(Knock(GROUP, 1))
    beat = Heartbeat(GROUP, "m", None, 1)
    assert coordinator.refusal(beat) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_an_empty_group_gives_way_to_a_classic_one_and_keeps_its_offsets() -> None:
    coordinator = with_houses()
    coordinator.ask(Knock(GROUP, 2))
    coordinator.commit(5, generation_id=2)
    coordinator.ask(Knock(GROUP, 0))
    waiting = coordinator.join()
    coordinator.deadlines.pop(("house", GROUP))
    coordinator.pass_time(SESSION_MS)
    assert waiting.answer(JoinReply).generation_id == 1
    assert coordinator.fetch(T0)[0].offset == 5
    replayed = coordinator.replayed()
    assert isinstance(replayed.groups[GROUP], ClassicGroup)
    assert replayed.offsets.committed == coordinator.machine.offsets.committed


def test_a_classic_group_gives_way_to_another_kind() -> None:
    coordinator = with_houses()
    (joined,) = coordinator.stable_group()
    coordinator.commit(5, member_id=joined.member_id, generation_id=1)
    coordinator.ask(Knock(GROUP, 3))
    assert coordinator.machine.listings()[0].type == "consumer"
    assert coordinator.fetch(T0)[0].offset == 5
    replayed = coordinator.replayed()
    assert isinstance(replayed.groups[GROUP], House)
    # What is left of the classic group's deadlines means nothing.
    coordinator.pass_time(999)
    coordinator.deadlines.pop(("house", GROUP))
    coordinator.pass_time(SESSION_MS)
    assert coordinator.machine.listings()[0].state == "3"


def test_a_group_that_is_deleted_leaves_nothing() -> None:
    coordinator = with_houses()
    coordinator.ask(Knock(GROUP, 2))
    coordinator.commit(5, generation_id=2)
    coordinator.ask(Knock(GROUP, 0))
    coordinator.ask(DeleteGroup(GROUP))
    assert not coordinator.machine.groups
    assert not coordinator.replayed().groups
    assert coordinator.commit(1) == [ErrorCode.NONE]
    assert coordinator.group().state is State.EMPTY
