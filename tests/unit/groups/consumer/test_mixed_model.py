"""Members of both protocols in one group, at random: it changes its kind while they are at work.

Classic clients are eager: they give up everything before they join, and the leader shares
out by turns. Whatever the group is at the moment, no partition is read by two of its members,
and when it calms down every partition has a reader.
"""

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from odradek.groups.classic_group import ClassicGroup
from odradek.groups.commands import (
    Heartbeat,
    JoinReply,
    LeaveGroup,
    LeavingMember,
    SyncGroup,
    SyncReply,
)
from odradek.groups.consumer.commands import ConsumerHeartbeatReply
from odradek.groups.consumer.group import ConsumerGroup, GroupState
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    TopicPartition,
    decode_versioned,
    encode_versioned,
)
from odradek.statemachine.machine import Command
from tests.unit.groups.consumer.driver import Consumer, ConsumerCoordinator
from tests.unit.groups.driver import GROUP, Waiting, join_command

PARTITIONS = 5
START_AGAIN = (
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.GROUP_ID_NOT_FOUND,
)


class EagerClient:
    """One step a turn: join, synchronise, then beat until told to join again."""

    def __init__(self, coordinator: ConsumerCoordinator) -> None:
        self.coordinator = coordinator
        self.member_id = ""
        self.generation = -1
        self.owned: frozenset[int] = frozenset()
        self.waiting: Waiting | None = None

    def ask(self, command: Command[Any]) -> Waiting | ErrorCode:
        try:
            return self.coordinator.ask(command)
        except ApiError as refused:
            return refused.code

    def join(self) -> None:
        self.owned = frozenset()
        answer = self.ask(join_command(self.member_id))
        if isinstance(answer, ErrorCode):
            self.fail(answer)
        else:
            self.waiting = answer

    def fail(self, error: ErrorCode) -> None:
        self.waiting, self.generation, self.owned = None, -1, frozenset()
        if error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH):
            self.member_id = ""
        else:
            assert error in (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION)

    def step(self) -> None:
        if self.waiting is not None:
            if self.waiting.is_answered:
                (answer,) = self.waiting.answers
                self.waiting = None
                self.answered(answer)
        elif self.generation < 0:
            self.join()
        else:
            answer = self.ask(Heartbeat(GROUP, self.member_id, None, self.generation))
            error = answer if isinstance(answer, ErrorCode) else answer.answer(ErrorCode)
            if error is not ErrorCode.NONE:
                self.fail(error)

    def answered(self, answer: object) -> None:
        assert isinstance(answer, JoinReply | SyncReply)
        if answer.error is not ErrorCode.NONE:
            self.fail(answer.error)
        elif isinstance(answer, JoinReply):
            self.member_id, self.generation = answer.member_id, answer.generation_id
            synced = self.ask(self.sync_command(answer))
            if isinstance(synced, ErrorCode):
                self.fail(synced)
            else:
                self.waiting = synced
        else:
            read = decode_versioned(ConsumerProtocolAssignment, answer.assignment)
            topics = read.assigned_partitions
            self.owned = frozenset(each for topic in topics for each in topic.partitions)

    def sync_command(self, joined: JoinReply) -> SyncGroup:
        """The leader of a classic group shares out by turns."""
        names = [each.member_id for each in joined.members]
        assignments = {}
        for at, name in enumerate(names):
            topic = TopicPartition(topic="t", partitions=list(range(PARTITIONS))[at :: len(names)])
            assignment = ConsumerProtocolAssignment(assigned_partitions=[topic])
            assignments[name] = encode_versioned(assignment, 0)
        return SyncGroup(
            GROUP,
            joined.member_id,
            None,
            joined.generation_id,
            joined.protocol_type,
            joined.protocol_name,
            assignments,
        )


class MixedGroup(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.coordinator = ConsumerCoordinator(
            {"t": PARTITIONS}, group_initial_rebalance_delay_ms="0"
        )
        self.classic: list[EagerClient] = []
        self.consumers: list[Consumer] = []
        self.names = 0

    @precondition(lambda self: len(self.classic) < 3)
    @rule()
    def classic_comes(self) -> None:
        self.classic.append(EagerClient(self.coordinator))

    @precondition(lambda self: len(self.consumers) < 3)
    @rule()
    def consumer_comes(self) -> None:
        self.names += 1
        self.consumers.append(Consumer(self.coordinator, f"m{self.names}"))

    @rule(choice=st.integers(0, 5))
    def step(self, choice: int) -> None:
        everybody: list[EagerClient | Consumer] = [*self.classic, *self.consumers]
        if everybody:
            self.move(everybody[choice % len(everybody)])

    def move(self, one: EagerClient | Consumer) -> None:
        if isinstance(one, EagerClient):
            one.step()
            return
        try:
            one.receive(self.coordinator.ask(one.request()).answer(ConsumerHeartbeatReply))
        except ApiError as refused:
            if refused.code not in START_AGAIN:
                raise
            one.forget()

    @precondition(lambda self: self.classic)
    @rule(says_so=st.booleans())
    def classic_goes(self, says_so: bool) -> None:
        gone = self.classic.pop(0)
        if says_so and gone.member_id:
            gone.ask(LeaveGroup(GROUP, (LeavingMember(gone.member_id),)))

    @precondition(lambda self: self.consumers)
    @rule(says_so=st.booleans())
    def consumer_goes(self, says_so: bool) -> None:
        gone = self.consumers.pop(0)
        if says_so and gone.epoch > 0:
            try:
                gone.leave()
            except ApiError as refused:
                if refused.code not in START_AGAIN:
                    raise

    @rule(by_ms=st.sampled_from([1, 5_000, 30_000]))
    def pass_time(self, by_ms: int) -> None:
        self.coordinator.pass_time(by_ms)

    @rule()
    def calm_down(self) -> None:
        everybody: list[EagerClient | Consumer] = [*self.classic, *self.consumers]
        # Long enough for whoever is gone to be forgotten, in steps shorter than a session.
        for _ in range(60):
            for each in everybody:
                self.move(each)
            self.coordinator.pass_time(2_000)
        if not everybody:
            return
        group = self.coordinator.machine.groups[GROUP]
        assert isinstance(group, ConsumerGroup if self.consumers else ClassicGroup)
        if isinstance(group, ConsumerGroup):
            assert group.state is GroupState.STABLE
        owned = [each for parts in self.parts().values() for each in parts]
        assert sorted(owned) == list(range(PARTITIONS))

    def parts(self) -> dict[str, frozenset[int]]:
        """What those read whom the group knows as members."""
        group = self.coordinator.machine.groups.get(GROUP)
        if not isinstance(group, ClassicGroup | ConsumerGroup):
            return {}
        parts = {each.member_id: each.owned for each in self.classic}
        for consumer in self.consumers:
            parts[consumer.member_id] = frozenset(each.partition for each in consumer.owned)
        return {member: owned for member, owned in parts.items() if member in group.members}

    @invariant()
    def nobody_reads_what_another_reads(self) -> None:
        group = self.coordinator.machine.groups.get(GROUP)
        if isinstance(group, ConsumerGroup):
            owned = [each for parts in self.parts().values() for each in parts]
            assert len(owned) == len(set(owned))

    @invariant()
    def a_replay_gives_the_same(self) -> None:
        self.coordinator.check_replay()


TestMixedGroup = MixedGroup.TestCase
TestMixedGroup.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
