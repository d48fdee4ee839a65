"""Reconciliation under everything a network does, step by step at random.

Requests are lost, come twice or late; answers are lost; members crash, fall silent, leave and
come back; topics come, grow and go; the coordinator moves. Clients do what they are told and no
more. At no time do two members own a partition, and when it calms down everybody has its
target, and every partition an owner.
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from odradek.groups.consumer.commands import ConsumerHeartbeat, ConsumerHeartbeatReply
from odradek.groups.consumer.group import ConsumerGroup, GroupState
from odradek.groups.consumer.member import MemberState
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from tests.unit.groups.consumer.driver import Consumer, ConsumerCoordinator
from tests.unit.groups.driver import GROUP

TOPICS = ("t", "u", "v")
START_AGAIN = (
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.GROUP_ID_NOT_FOUND,
)
STOP = (ErrorCode.FENCED_INSTANCE_ID, ErrorCode.UNRELEASED_INSTANCE_ID)


class Reconciliation(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.coordinator = ConsumerCoordinator({})
        self.consumers: dict[str, Consumer] = {}
        # Requests on their way: a client sends no other before it is answered or gives up.
        self.in_flight: dict[str, ConsumerHeartbeat] = {}
        self.names = 0

    # The network

    def deliver(self, request: ConsumerHeartbeat) -> ConsumerHeartbeatReply | ErrorCode:
        try:
            return self.coordinator.ask(request).answer(ConsumerHeartbeatReply)
        except ApiError as refused:
            return refused.code

    def answered(self, consumer: Consumer, answer: ConsumerHeartbeatReply | ErrorCode) -> None:
        if isinstance(answer, ConsumerHeartbeatReply):
            consumer.receive(answer)
        elif answer in STOP:
            del self.consumers[consumer.member_id]
        else:
            assert answer in START_AGAIN, answer
            consumer.forget()

    def choose(self, choice: int) -> Consumer:
        consumers = list(self.consumers.values())
        return consumers[choice % len(consumers)]

    def idle(self, choice: int) -> Consumer | None:
        consumer = self.choose(choice)
        return None if consumer.member_id in self.in_flight else consumer

    # What happens

    @initialize(partitions=st.integers(1, 6))
    def start(self, partitions: int) -> None:
        self.coordinator.set_topics(t=partitions)

    @precondition(lambda self: len(self.consumers) < 5)
    @rule(
        topics=st.sampled_from([("t",), ("t", "u"), ("v",), ()]),
        pattern=st.sampled_from([None, None, "[tu]", ".*"]),
        instance=st.sampled_from([None, None, "i1", "i2"]),
    )
    def come(self, topics: tuple[str, ...], pattern: str | None, instance: str | None) -> None:
        self.names += 1
        consumer = Consumer(
            self.coordinator,
            f"m{self.names}",
            topics=topics,
            pattern=pattern,
            instance=instance,
        )
        self.consumers[consumer.member_id] = consumer
        self.answered(consumer, self.deliver(consumer.request()))

    @precondition(lambda self: self.consumers)
    @rule(choice=st.integers(0, 4))
    def beat(self, choice: int) -> None:
        if consumer := self.idle(choice):
            self.answered(consumer, self.deliver(consumer.request()))

    @precondition(lambda self: self.consumers)
    @rule(choice=st.integers(0, 4))
    def beat_twice(self, choice: int) -> None:
        """The same request comes twice; the client hears the first answer."""
        if consumer := self.idle(choice):
            request = consumer.request()
            answer = self.deliver(request)
            self.deliver(request)
            self.answered(consumer, answer)

    @precondition(lambda self: self.consumers)
    @rule(choice=st.integers(0, 4), arrives=st.booleans())
    def beat_in_vain(self, choice: int, arrives: bool) -> None:
        """The request or its answer is lost."""
        if consumer := self.idle(choice):
            if arrives:
                self.deliver(consumer.request())
            consumer.says_everything = True

    @precondition(lambda self: self.consumers)
    @rule(choice=st.integers(0, 4))
    def beat_late(self, choice: int) -> None:
        if consumer := self.idle(choice):
            self.in_flight[consumer.member_id] = consumer.request()

    @precondition(lambda self: self.in_flight)
    @rule()
    def arrive(self) -> None:
        member_id, request = next(iter(self.in_flight.items()))
        del self.in_flight[member_id]
        self.answered(self.consumers[member_id], self.deliver(request))

    @precondition(lambda self: self.consumers)
    @rule(
        choice=st.integers(0, 4), how=st.sampled_from(["leave", "leave for now", "crash", "change"])
    )
    def end(self, choice: int, how: str) -> None:
        consumer = self.idle(choice)
        if consumer is None:
            return
        if how == "change":
            consumer.topics = ("u",) if consumer.topics == ("t",) else ("t",)
            consumer.says_everything = True
            return
        if how == "leave":
            self.deliver(consumer.request(epoch=-1))
        elif how == "leave for now" and consumer.instance is not None:
            self.deliver(consumer.request(epoch=-2))
        del self.consumers[consumer.member_id]

    @rule(topic=st.sampled_from(TOPICS), more=st.integers(0, 3))
    def change_topics(self, topic: str, more: int) -> None:
        """Partitions are added, or the topic goes."""
        count = self.coordinator.topics.get(topic, 0) + more if more else 0
        self.coordinator.set_topics(**{topic: count})

    @rule(by_ms=st.sampled_from([100, 20_000, 50_000, 100_000]))
    def pass_time(self, by_ms: int) -> None:
        self.coordinator.pass_time(by_ms)

    @rule()
    def move_the_coordinator(self) -> None:
        self.coordinator.restart()

    @rule()
    def calm_down(self) -> None:
        while self.in_flight:
            self.arrive()
        for _ in range(12):
            for consumer in list(self.consumers.values()):
                self.answered(consumer, self.deliver(consumer.request()))
            # Whoever is gone, or will not come back, is removed; whoever beats is not.
            self.coordinator.pass_time(20_000)
        group = self.coordinator.machine.groups.get(GROUP)
        if not self.consumers or not isinstance(group, ConsumerGroup):
            return
        assert group.state is GroupState.STABLE, list(group.history)
        assert group.members.keys() == self.consumers.keys()
        for consumer in self.consumers.values():
            assert consumer.owned == group.target_of(consumer.member_id)
        owned = [each for consumer in self.consumers.values() for each in consumer.owned]
        image = self.coordinator.image
        wanted = [
            (image.topics[name].topic_id, partition)
            for name in group.subscribed_topics & image.topics.keys()
            for partition in range(len(image.topics[name].partitions))
        ]
        assert sorted(owned) == sorted(wanted)

    # What must hold

    @invariant()
    def a_partition_has_one_owner(self) -> None:
        group = self.coordinator.machine.groups.get(GROUP)
        if not isinstance(group, ConsumerGroup):
            return
        placed: dict[object, str] = {}
        for member in group.members.values():
            for partition in (*member.assigned, *member.to_revoke):
                assert placed.setdefault(partition, member.member_id) == member.member_id
            assert bool(member.to_revoke) == (member.state is MemberState.UNREVOKED_PARTITIONS)
            assert member.epoch <= group.assignment_epoch <= group.epoch
        assert placed == group.owners
        read: dict[object, str] = {}
        for consumer in self.consumers.values():
            known = group.members.get(consumer.member_id)
            # Whoever was removed while it was silent does not know yet: nobody can help that.
            if known is not None and consumer.epoch > 0:
                for partition in consumer.owned:
                    assert read.setdefault(partition, consumer.member_id) == consumer.member_id
                    assert partition in known.assigned or partition in known.to_revoke

    @invariant()
    def a_replay_gives_the_same(self) -> None:
        self.coordinator.check_replay()


TestReconciliation = Reconciliation.TestCase
TestReconciliation.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
