"""Members of a consumer group that record what they own, are given and commit."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from odradek.client import Consumer, ConsumerSettings, RebalanceListener
from odradek.client.errors import ClientError, CommitFailed
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.types import TopicPartition
from odradek.world import World
from simulation.checkers import History
from simulation.group_checkers import Commit, GroupHistory, Observation, Span, Start
from simulation.workload import Options

Refusal = (ClientError, KafkaError)

_COMMITS_AGAIN_S = 3.0


_TAKEN = (ErrorCode.FENCED_INSTANCE_ID, ErrorCode.UNRELEASED_INSTANCE_ID)


def has_lost_its_place(error: BaseException) -> bool:
    """Whether another consumer has taken over the static membership."""
    return isinstance(error, KafkaError) and error.code in _TAKEN


@dataclass(frozen=True, slots=True)
class MemberBehaviour:
    """How a member polls and commits."""

    topic: str
    commits_async: bool
    # How often it works on a batch for so long that the group may remove it.
    stall_probability: float
    max_stall_s: float = 10.0
    # All topics if there are others beside the first one; or a pattern that they match.
    topics: tuple[str, ...] = ()
    pattern: str | None = None


class OwnershipRecorder(RebalanceListener):
    """Records which partitions are assigned and where the member starts to read."""

    def __init__(self, name: str, groups: GroupHistory, log: History, world: World) -> None:
        self.consumer: Consumer | None = None
        self._name = name
        self._groups = groups
        self._log = log
        self._clock = world.clock
        self._came_s: dict[TopicPartition, float] = {}
        self._began_s = world.clock.monotonic_s()

    async def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        assert self.consumer is not None
        for partition in partitions:
            self._came_s[partition] = self._clock.monotonic_s()
            self._log.moved(self._name, partition)
        self._note(self.consumer.assignment())

    def _note(self, partitions: list[TopicPartition]) -> None:
        assert self.consumer is not None
        who = self.consumer.group_metadata()
        if who.generation_id >= 0:
            # A consumer that takes over a static membership is the same member.
            owner = who.group_instance_id or who.member_id
            given = Span(self._began_s, self._clock.monotonic_s())
            self._groups.owned(owner, who.generation_id, partitions, given)

    def polled(self, partition: TopicPartition, offset: int, value: bytes) -> None:
        came_s = self._came_s.pop(partition, None)
        if came_s is not None:
            now_s = self._clock.monotonic_s()
            self._groups.starts.append(Start(self._name, partition, offset, came_s, now_s))
        self._groups.was_given(partition, offset)
        self._log.polled(self._name, partition, offset, value)

    def sought(self, partition: TopicPartition) -> None:
        """The member has called seek()."""
        self._came_s.pop(partition, None)
        self._log.moved(self._name, partition)


class GroupMember:
    """Reads, and commits what it has read, until it is asked to leave."""

    def __init__(
        self,
        name: str,
        groups: GroupHistory,
        log: History,
        options: Options,
        habits: MemberBehaviour,
        *,
        is_current: Callable[[str], bool],
    ) -> None:
        self.name = name
        self.is_leaving = False
        self._is_current = is_current
        self._groups = groups
        self._log = log
        self._options = options
        self._habits = habits

    async def run(self, world: World) -> None:
        settings = ConsumerSettings.from_options(self._options)
        # A zombie does not take back a static membership that its successor has.
        while not self.is_leaving and self._is_current(self.name):
            notes = _CommitsWhenRevoked(self.name, self._groups, self._log, world)
            async with Consumer(settings, world=world) as consumer:
                notes.consumer = consumer
                if self._habits.pattern is not None:
                    consumer.subscribe(pattern=self._habits.pattern, listener=notes)
                else:
                    topics = self._habits.topics or (self._habits.topic,)
                    consumer.subscribe(topics, listener=notes)
                await self._take_part(consumer, notes, world)

    async def _take_part(
        self, consumer: Consumer, notes: "_CommitsWhenRevoked", world: World
    ) -> None:
        while not self.is_leaving:
            try:
                await self._turn(consumer, notes, world)
            except Refusal as error:
                await asyncio.sleep(0.5)
                if has_lost_its_place(error):
                    return

    async def _turn(self, consumer: Consumer, notes: "_CommitsWhenRevoked", world: World) -> None:
        taken = await consumer.poll(1000, 1 + world.randomness.integer_below(10))
        for partition, records in taken.items():
            for record in records:
                notes.polled(partition, record.offset, record.value)
            notes.done[partition] = records[-1].offset + 1
        habits = self._habits
        if taken and world.randomness.fraction() < habits.stall_probability:
            await asyncio.sleep(world.randomness.fraction() * habits.max_stall_s)
        held = set(consumer.assignment())
        # What is committed already is committed again now and then: a lost request that arrives
        # late may have put the group back, in Kafka too.
        is_due = world.clock.monotonic_s() >= notes.next_commit_s
        positions = {
            topic_partition: offset
            for topic_partition, offset in notes.done.items()
            if topic_partition in held
            and (is_due or notes.committed.get(topic_partition) != offset)
        }
        if not positions:
            return
        notes.next_commit_s = world.clock.monotonic_s() + _COMMITS_AGAIN_S
        if habits.commits_async:
            notes.commit_async(positions)
        else:
            await notes.commit(positions)


class _CommitsWhenRevoked(OwnershipRecorder):
    """Also commits finished records when partitions are revoked."""

    def __init__(self, name: str, groups: GroupHistory, log: History, world: World) -> None:
        super().__init__(name, groups, log, world)
        self.done: dict[TopicPartition, int] = {}
        self.committed: dict[TopicPartition, int] = {}
        self.next_commit_s = 0.0

    async def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        for partition in partitions:
            self.done.pop(partition, None)
            self.committed.pop(partition, None)
        await super().on_partitions_assigned(partitions)

    async def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        positions = {
            partition: self.done.pop(partition)
            for partition in partitions
            if partition in self.done
        }
        if positions:
            # If this fails, the next owner reads some records again.
            with suppress(*Refusal):
                await self.commit(positions)

    async def on_partitions_lost(self, partitions: list[TopicPartition]) -> None:
        for partition in partitions:
            self.done.pop(partition, None)

    async def commit(self, positions: Mapping[TopicPartition, int]) -> None:
        assert self.consumer is not None
        commits = self._asked(positions)
        # Tried again within, so a refusal says nothing about the first try.
        await self.consumer.commit(positions, timeout_ms=5000)
        self._acknowledged(commits, positions)

    def commit_async(self, positions: Mapping[TopicPartition, int]) -> None:
        assert self.consumer is not None
        commits = self._asked(positions)

        def told(_: object, error: BaseException | None) -> None:
            if error is None:
                self._acknowledged(commits, positions)
            elif isinstance(error, CommitFailed):  # Others may have happened all the same.
                for commit in commits:
                    commit.is_refused = True

        self.consumer.commit_async(positions, told)

    def _asked(self, positions: Mapping[TopicPartition, int]) -> list[Commit]:
        now_s = self._clock.monotonic_s()
        commits = [
            Commit(self._name, partition, offset, now_s) for partition, offset in positions.items()
        ]
        self._groups.commits += commits
        return commits

    def _acknowledged(self, commits: list[Commit], positions: Mapping[TopicPartition, int]) -> None:
        self.committed.update(positions)
        for commit in commits:
            commit.is_acknowledged = True
            commit.ended_s = self._clock.monotonic_s()


class Observer:
    """Asks for the committed offsets of the group, from outside the group."""

    def __init__(
        self,
        name: str,
        groups: GroupHistory,
        partitions: list[TopicPartition],
        options: Options,
    ) -> None:
        self.name = name
        self._groups = groups
        self._partitions = partitions
        self._options = options

    async def run(self, world: World) -> None:
        while True:
            await self.look(world)
            await asyncio.sleep(world.randomness.fraction() * 3)

    async def look(self, world: World) -> dict[TopicPartition, int]:
        """One look; empty if nobody answered in time."""
        async with Consumer(ConsumerSettings.from_options(self._options), world=world) as consumer:
            asked_s = world.clock.monotonic_s()
            try:
                found = await consumer.committed(self._partitions, timeout_ms=10_000)
            except Refusal:
                return {}
            now_s = world.clock.monotonic_s()
        told = {
            partition: None if known is None else known.offset for partition, known in found.items()
        }
        self._groups.observations += [
            Observation(self.name, partition, offset, asked_s, now_s)
            for partition, offset in told.items()
        ]
        return {partition: offset for partition, offset in told.items() if offset is not None}
