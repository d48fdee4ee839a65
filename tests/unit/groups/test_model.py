"""Random clients against one coordinator, and what must hold whatever they do.

- in one generation a partition has one owner;
- the generation never falls, not even when a new coordinator takes over;
- the leader of a group is one of its members;
- everybody who asks is answered once, and in the end everybody is answered;
- a replay of the log gives what is in memory, less what is under way.
"""

from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from odradek.groups.classic_group import ClassicGroup, State
from odradek.groups.commands import (
    DeleteGroup,
    Heartbeat,
    JoinReply,
    LeavingMember,
    Protocol,
    SyncReply,
)
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.types import ProducerEpoch, ProducerId, TopicPartition
from odradek.statemachine.machine import Command, ProducerIdentity
from tests.unit.groups.driver import (
    GROUP,
    SESSION_MS,
    Coordinator,
    Waiting,
    join_command,
    subscription,
)

PARTITIONS = range(4)
HOUR_MS = 3_600_000
# Shorter than the session: who is late for a rebalance is still alive.
REBALANCE_MS = SESSION_MS // 2

OFFERS = (
    (Protocol("range", subscription("t")),),
    (Protocol("range", subscription("t", "u")),),
    (Protocol("sticky", subscription("t")), Protocol("range", subscription("t"))),
)

clients = st.integers(0, 4)
offsets = st.integers(0, 100)
producers = st.integers(1, 2).map(
    lambda number: ProducerIdentity(ProducerId(number), ProducerEpoch(0))
)


class Client:
    """A consumer: what it believes about itself, and what it waits for."""

    def __init__(self, number: int) -> None:
        # Two of five are static.
        self.instance = f"i{number}" if number < 2 else None
        self.member_id = ""
        self.joined: JoinReply | None = None
        self.joining: Waiting | None = None
        self.syncing: Waiting | None = None
        self.synced_generation = -1

    @property
    def name(self) -> str:
        """Who owns a partition: a static member is the same under any id."""
        return self.instance or self.member_id


@settings(
    max_examples=100,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
class GroupModel(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.coordinator = Coordinator(
            group_initial_rebalance_delay_ms="100", offsets_retention_minutes="30"
        )
        self.clients = [Client(number) for number in range(5)]
        self.asked: list[Waiting] = []
        self.owners: dict[tuple[int, int], str] = {}
        self.generation = 0

    # What clients do

    @rule(numbers=st.lists(clients, min_size=1, max_size=5))
    def follow_the_protocol(self, numbers: list[int]) -> None:
        """Clients do what their libraries would do next."""
        for number in numbers:
            client = self.clients[number]
            if client.joining is not None or client.syncing is not None:
                continue
            if client.joined is None:
                self.join(number, OFFERS[0], True)
            elif client.synced_generation != client.joined.generation_id:
                self.sync(number)
            else:
                self.beat(number)

    @rule(numbers=st.lists(clients, min_size=1, max_size=5, unique=True))
    def settle(self, numbers: list[int]) -> None:
        """Time enough for these to agree."""
        for _ in range(3):
            self.follow_the_protocol(numbers)
            self.follow_the_protocol(numbers)
            self.pass_time(100)

    @rule(number=clients, offer=st.sampled_from(OFFERS), asks_first=st.booleans())
    def join(self, number: int, offer: tuple[Protocol, ...], asks_first: bool) -> None:
        client = self.clients[number]
        command = join_command(
            client.member_id,
            instance=client.instance,
            protocols=offer,
            requires_member_id=asks_first,
            rebalance_ms=REBALANCE_MS,
        )
        client.syncing = None
        client.joining = self.ask(client, command)
        self.look()

    @rule(number=clients)
    def come_back(self, number: int) -> None:
        """The process was started anew and knows nothing of itself."""
        self.clients[number] = Client(number)
        self.join(number, OFFERS[0], True)

    @precondition(lambda self: any(each.instance and each.joined for each in self.clients))
    @rule(data=st.data())
    def an_instance_comes_back(self, data: st.DataObject) -> None:
        static = [
            number
            for number, client in enumerate(self.clients)
            if client.instance and client.joined
        ]
        self.come_back(data.draw(st.sampled_from(static)))

    @rule(number=clients)
    def sync(self, number: int) -> None:
        client = self.clients[number]
        joined = client.joined
        if joined is None:
            return
        assignments: dict[str, bytes] = {}
        if joined.leader == joined.member_id and not joined.skip_assignment:
            members = [member.member_id for member in joined.members]
            for partition in PARTITIONS:
                owner = members[partition % len(members)]
                assignments[owner] = assignments.get(owner, b"") + bytes([partition])
        try:
            client.syncing = self.coordinator.sync(joined, assignments, instance=client.instance)
        except ApiError as refusal:
            self.refused(client, refusal.code)
        else:
            assert self.coordinator.group().generation_id == joined.generation_id
            self.asked.append(client.syncing)
        self.look()

    @rule(number=clients)
    def sync_late(self, number: int) -> None:
        """A request of an earlier generation that was long under way."""
        client = self.clients[number]
        if client.joined is not None and client.joined.generation_id > 1:
            old = client.joined._replace(generation_id=client.joined.generation_id - 1)
            now, client.joined = client.joined, old
            self.sync(number)
            client.joined = now

    @rule(number=clients)
    def beat(self, number: int) -> None:
        client = self.clients[number]
        if client.joined is None:
            return
        beat = Heartbeat(GROUP, client.member_id, client.instance, client.joined.generation_id)
        waiting = self.ask(client, beat)
        if waiting is not None and waiting.answer(ErrorCode) is not ErrorCode.NONE:
            client.joined = None

    @rule(number=clients)
    def leave(self, number: int) -> None:
        client = self.clients[number]
        leaving = LeavingMember(client.member_id, client.instance)
        self.coordinator.leave(leaving)
        self.clients[number] = Client(number)
        self.look()

    @rule(number=clients, offset=offsets, partition=st.integers(0, 1))
    def commit(self, number: int, offset: int, partition: int) -> None:
        client = self.clients[number]
        generation_id = -1 if client.joined is None else client.joined.generation_id
        owned = self.owners.get((generation_id, partition)) == client.name
        before = self.coordinator.machine.offsets.committed.copy()
        try:
            self.coordinator.commit(
                offset,
                partition=TopicPartition("t", partition),
                member_id=client.member_id,
                generation_id=generation_id,
            )
        except ApiError:
            assert self.coordinator.machine.offsets.committed == before
            return
        group = self.coordinator.group()
        assert group.is_empty or group.generation_id == generation_id
        assert group.is_empty or owned or client.member_id in group.members

    @rule(producer=producers, offset=offsets, partition=st.integers(0, 1))
    def commit_in_transaction(
        self, producer: ProducerIdentity, offset: int, partition: int
    ) -> None:
        before = {key: value.copy() for key, value in self.committed().items()}
        self.coordinator.commit(offset, partition=TopicPartition("t", partition), producer=producer)
        assert self.committed() == before

    @rule(producer=producers, committed=st.booleans())
    def end_transaction(self, producer: ProducerIdentity, committed: bool) -> None:
        offsets = self.coordinator.machine.offsets
        pending = offsets.pending.get(producer.producer_id, {}).get(GROUP, {})
        expected = dict(offsets.of(GROUP))
        for partition, offset in pending.items():
            present = expected.get(partition)
            if committed and (present is None or present.log_offset < offset.log_offset):
                expected[partition] = offset
        self.coordinator.end_transaction(producer, committed=committed)
        assert producer.producer_id not in offsets.pending
        assert offsets.of(GROUP) == expected

    # What happens to the coordinator

    @rule(by_ms=st.sampled_from([1, 100, SESSION_MS // 2, SESSION_MS, 60_000, 600_000]))
    def pass_time(self, by_ms: int) -> None:
        self.coordinator.pass_time(by_ms)
        self.look()

    @precondition(lambda self: bool(self.coordinator.log))
    @rule()
    def take_over(self) -> None:
        """A new coordinator: whoever waits is cut off, and asks again or does not."""
        group = self.coordinator.machine.groups.get(GROUP)
        self.coordinator.restart()
        self.asked.clear()
        for client in self.clients:
            client.joining = client.syncing = None
        if isinstance(group, ClassicGroup):
            # A generation whose assignment was not written never was.
            self.generation = (
                0
                if GROUP not in self.coordinator.machine.groups
                else min(self.generation, self.coordinator.group().generation_id)
            )

    @rule()
    def delete(self) -> None:
        group = self.coordinator.machine.groups.get(GROUP)
        if group is not None and group.is_empty:
            self.coordinator.ask(DeleteGroup(GROUP))
            assert GROUP not in self.coordinator.machine.groups
            return
        code = self.coordinator.refusal(DeleteGroup(GROUP))
        missing = group is None
        assert code is (ErrorCode.GROUP_ID_NOT_FOUND if missing else ErrorCode.NON_EMPTY_GROUP)

    # What clients see

    def ask(self, client: Client, command: Command[Any]) -> Waiting | None:
        try:
            waiting = self.coordinator.ask(command)
        except ApiError as refusal:
            self.refused(client, refusal.code)
            return None
        self.asked.append(waiting)
        return waiting

    def refused(self, client: Client, code: ErrorCode) -> None:
        client.joined = None
        if code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            client.member_id = ""

    def look(self) -> None:
        """Clients take note of the answers that came."""
        for client in self.clients:
            if client.joining is not None and client.joining.is_answered:
                reply = client.joining.answer(JoinReply)
                client.joining = None
                client.member_id = reply.member_id
                client.joined = reply if reply.error is ErrorCode.NONE else None
            if client.syncing is not None and client.syncing.is_answered:
                synced = client.syncing.answer(SyncReply)
                client.syncing = None
                if synced.error is not ErrorCode.NONE:
                    client.joined = None
                elif client.joined is not None:
                    client.synced_generation = client.joined.generation_id
                    self.own(client, client.joined.generation_id, synced.assignment)

    def own(self, client: Client, generation_id: int, assignment: bytes) -> None:
        for partition in assignment:
            owner = self.owners.setdefault((generation_id, partition), client.name)
            assert owner == client.name, f"{partition} in {generation_id}: {owner}, {client.name}"

    # What always holds

    def committed(self) -> dict[str, dict[TopicPartition, object]]:
        return {**self.coordinator.machine.offsets.committed}  # type: ignore[dict-item]

    @invariant()
    def generation_does_not_fall(self) -> None:
        group = self.coordinator.machine.groups.get(GROUP)
        if not isinstance(group, ClassicGroup):
            # Deleted or expired: the next one of that name begins anew.
            self.generation = 0
            self.owners.clear()
            return
        assert group.generation_id >= self.generation
        self.generation = group.generation_id

    @invariant()
    def the_leader_is_a_member(self) -> None:
        group = self.coordinator.machine.groups.get(GROUP)
        if isinstance(group, ClassicGroup):
            assert (group.leader_id in group.members) if group.members else not group.leader_id
            assert set(group.static_members.values()) <= set(group.members)
            assert bool(group.members) or group.state is not State.STABLE
            assert set(group.pending_syncs) <= set(group.members)
            for member in group.members.values():
                if member.awaiting_join is not None:
                    assert group.state is State.PREPARING_REBALANCE
                if member.awaiting_sync is not None:
                    assert group.state is State.COMPLETING_REBALANCE

    @invariant()
    def whoever_is_in_a_generation_was_told(self) -> None:
        """All but static members, which may be late."""
        group = self.coordinator.machine.groups.get(GROUP)
        if not isinstance(group, ClassicGroup) or group.state is not State.COMPLETING_REBALANCE:
            return
        told = {
            answer.member_id
            for waiting in self.asked
            for answer in waiting.answers
            if isinstance(answer, JoinReply) and answer.generation_id == group.generation_id
        }
        for member in group.members.values():
            assert member.group_instance_id is not None or member.member_id in told

    @invariant()
    def nobody_is_answered_twice(self) -> None:
        assert all(len(each.answers) <= 1 for each in self.asked)

    @invariant()
    def a_replay_gives_the_same(self) -> None:
        live, replayed = self.coordinator.machine, self.coordinator.replayed()
        assert replayed.offsets.committed == live.offsets.committed
        assert replayed.offsets.pending == live.offsets.pending
        assert list(replayed.groups) == list(live.groups)
        for group_id, group in replayed.groups.items():
            now = live.groups[group_id]
            assert isinstance(group, ClassicGroup)
            assert isinstance(now, ClassicGroup)
            assert group.generation_id <= now.generation_id
            if now.state in (State.STABLE, State.EMPTY):
                assert group.record() == now.record()

    def teardown(self) -> None:
        if not hasattr(self, "coordinator"):
            return
        self.coordinator.pass_time(HOUR_MS)
        assert all(len(each.answers) == 1 for each in self.asked)
        assert set(self.coordinator.deadlines) == {("retention", 0)}


TestGroupModel = GroupModel.TestCase
