"""A machine without a loop: commands in, answers out, deadlines kept by hand.

`Coordinator` does what the runner does, at once: it appends to a list, applies, and gives out
the replies. Time passes when a test says so, and deadlines are met in their order.
"""

from collections.abc import Hashable, Sequence
from itertools import count
from typing import Any, TypeVar

from odradek.config import BrokerSettings
from odradek.groups.classic_group import ClassicGroup
from odradek.groups.commands import (
    CommitOffsets,
    FetchedOffset,
    FetchOffsets,
    Heartbeat,
    JoinGroup,
    JoinReply,
    LeaveGroup,
    LeavingMember,
    OffsetToCommit,
    PartitionToFetch,
    Protocol,
    SyncGroup,
    SyncReply,
)
from odradek.groups.group import GroupDecisionContext, GroupOutcome, GroupTypePlugin
from odradek.groups.machine import GroupMachine
from odradek.metadata import ClusterImage
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.consumer_protocol import (
    ConsumerProtocolSubscription,
    encode_versioned,
)
from odradek.protocol.types import Offset, TopicPartition
from odradek.statemachine.machine import (
    Caller,
    Command,
    DecisionContext,
    Marker,
    ProducerIdentity,
    Written,
)

T = TypeVar("T")

START_MS = 1_700_000_000_000
SESSION_MS = 10_000
REBALANCE_MS = 60_000
GROUP = "g"
T0 = TopicPartition("t", 0)
T1 = TopicPartition("t", 1)


def subscription(*topics: str) -> bytes:
    return encode_versioned(ConsumerProtocolSubscription(topics=list(topics)), 0)


RANGE = (Protocol("range", subscription("t")),)


class Waiting(Caller[Any]):
    """A caller whose answer can be looked at."""

    __slots__ = ("answers",)

    def __init__(self) -> None:
        self.answers: list[object] = []

    @property
    def is_answered(self) -> bool:
        return bool(self.answers)

    def answer(self, expected: type[T]) -> T:
        assert len(self.answers) == 1, self.answers
        (answer,) = self.answers
        assert isinstance(answer, expected), answer
        return answer


class Coordinator:
    def __init__(self, *, plugins: Sequence[GroupTypePlugin] = (), **properties: str) -> None:
        named = {name.replace("_", "."): value for name, value in properties.items()}
        self.settings = BrokerSettings.from_properties(named)
        self.plugins = plugins
        self.image = ClusterImage()
        self.log: list[Written | Marker] = []
        self.now_ms = 0
        self.deadlines: dict[Hashable, int] = {}
        self.outcome: GroupOutcome
        self._numbers = count(1)
        self.machine = self._new_machine()
        self._carry_out(self.machine.after_load(self.now))

    def _new_machine(self) -> GroupMachine:
        return GroupMachine(
            self.settings,
            lambda: str(next(self._numbers)),
            self.plugins,
            lambda image: self.settings.topic().max_message_bytes,
        )

    @property
    def now(self) -> GroupDecisionContext:
        return DecisionContext(START_MS + self.now_ms, self.image, lambda subject: True)

    def group(self, group_id: str = GROUP) -> ClassicGroup:
        group = self.machine.groups[group_id]
        assert isinstance(group, ClassicGroup)
        return group

    # What a runner does

    def ask(self, command: Command[Any]) -> Waiting:
        waiting = Waiting()
        self._carry_out(self.machine.decide(command, waiting, self.now))
        return waiting

    def refusal(self, command: Command[Any]) -> ErrorCode:
        """The code a command is refused with, at once."""
        try:
            waiting = self.ask(command)
        except ApiError as refused:
            return refused.code
        raise AssertionError(f"not refused: {waiting.answers}")

    def _carry_out(self, outcome: GroupOutcome) -> None:
        self.outcome = outcome
        for record in outcome.records:
            written = Written(record, Offset(len(self.log)), outcome.producer)
            self.log.append(written)
            self.machine.apply(written)
        for event in outcome.events:
            self.machine.apply(event)
        for key, after_ms in outcome.deadlines:
            self.deadlines.pop(key, None)
            if after_ms is not None:
                self.deadlines[key] = self.now_ms + after_ms
        for caller, response in outcome.replies:
            assert isinstance(caller, Waiting)
            caller.answers.append(response)

    def pass_time(self, by_ms: int) -> None:
        until_ms = self.now_ms + by_ms
        while self.deadlines:
            key = min(self.deadlines, key=lambda each: self.deadlines[each])
            if self.deadlines[key] > until_ms:
                break
            self.now_ms = self.deadlines.pop(key)
            self._carry_out(self.machine.expire(key, self.now))
        self.now_ms = until_ms

    def end_transaction(self, producer: ProducerIdentity, *, committed: bool) -> None:
        marker = Marker(producer, committed)
        self.log.append(marker)
        self.machine.apply(marker)

    def replayed(self) -> GroupMachine:
        """What another coordinator reads from the log."""
        machine = self._new_machine()
        for entry in self.log:
            machine.apply(entry)
        return machine

    def restart(self) -> None:
        self.machine = self.replayed()
        self.deadlines.clear()
        self._carry_out(self.machine.after_load(self.now))

    # What clients do

    def join(
        self,
        member_id: str = "",
        *,
        group_id: str = GROUP,
        instance: str | None = None,
        protocols: tuple[Protocol, ...] = RANGE,
        protocol_type: str = "consumer",
        session_ms: int = SESSION_MS,
        rebalance_ms: int = REBALANCE_MS,
        requires_member_id: bool = False,
        can_skip_assignment: bool = True,
    ) -> Waiting:
        return self.ask(
            join_command(
                member_id,
                group_id=group_id,
                instance=instance,
                protocols=protocols,
                protocol_type=protocol_type,
                session_ms=session_ms,
                rebalance_ms=rebalance_ms,
                requires_member_id=requires_member_id,
                can_skip_assignment=can_skip_assignment,
            )
        )

    def sync(
        self,
        joined: JoinReply,
        assignments: dict[str, bytes] | None = None,
        *,
        instance: str | None = None,
        group_id: str = GROUP,
    ) -> Waiting:
        return self.ask(
            SyncGroup(
                group_id,
                joined.member_id,
                instance,
                joined.generation_id,
                joined.protocol_type,
                joined.protocol_name,
                assignments or {},
            )
        )

    def beat(self, member_id: str, generation_id: int, *, instance: str | None = None) -> ErrorCode:
        beat = Heartbeat(GROUP, member_id, instance, generation_id)
        return self.ask(beat).answer(ErrorCode)

    def leave(self, *members: LeavingMember) -> list[ErrorCode]:
        errors: list[ErrorCode] = self.ask(LeaveGroup(GROUP, members)).answer(list)
        return errors

    def commit(
        self,
        offset: int,
        *,
        partition: TopicPartition = T0,
        member_id: str = "",
        generation_id: int = -1,
        producer: ProducerIdentity | None = None,
        group_id: str = GROUP,
        metadata: str | None = None,
        retention_ms: int = -1,
    ) -> list[ErrorCode]:
        command = CommitOffsets(
            group_id,
            member_id,
            None,
            generation_id,
            (OffsetToCommit(partition, offset, 5, metadata),),
            retention_ms=retention_ms,
            producer=producer,
        )
        errors: list[ErrorCode] = self.ask(command).answer(list)
        return errors

    def fetch(
        self,
        *partitions: TopicPartition,
        group_id: str = GROUP,
        require_stable: bool = False,
    ) -> list[FetchedOffset]:
        asked = tuple(PartitionToFetch(each) for each in partitions) or None
        query = FetchOffsets(group_id, asked, require_stable)
        found: list[FetchedOffset] = self.ask(query).answer(list)
        return found

    def stable_group(self, members: int = 1, **options: int) -> list[JoinReply]:
        """A Stable group: everybody has joined and has its assignment. The first one leads."""
        waiting = [self.join(**options) for _ in range(members)]  # type: ignore[arg-type]
        while not waiting[0].is_answered:
            self.pass_time(100)
        joined = [each.answer(JoinReply) for each in waiting]
        assignments = {each.member_id: each.member_id.encode() for each in joined}
        leading = next(each for each in joined if each.member_id == each.leader)
        followers = [self.sync(each) for each in joined if each is not leading]
        for synced in (self.sync(leading, assignments), *followers):
            assert synced.answer(SyncReply).error is ErrorCode.NONE
        return joined


def join_command(
    member_id: str = "",
    *,
    group_id: str = GROUP,
    instance: str | None = None,
    protocols: tuple[Protocol, ...] = RANGE,
    protocol_type: str = "consumer",
    session_ms: int = SESSION_MS,
    rebalance_ms: int = REBALANCE_MS,
    requires_member_id: bool = False,
    can_skip_assignment: bool = True,
) -> JoinGroup:
    return JoinGroup(
        group_id,
        member_id,
        instance,
        "client",
        "/127.0.0.1",
        session_ms,
        rebalance_ms,
        protocol_type,
        protocols,
        requires_member_id,
        can_skip_assignment,
    )
