"""Consumer groups in a machine without a loop, over topics that a test makes and removes."""

from types import MappingProxyType

from odradek.config import BrokerSettings
from odradek.groups.commands import CommitOffsets, FetchOffsets, OffsetToCommit
from odradek.groups.consumer.commands import (
    ConsumerHeartbeat,
    ConsumerHeartbeatReply,
    TopicsChanged,
)
from odradek.groups.consumer.coordinator import ConsumerGroups
from odradek.groups.consumer.group import ConsumerGroup
from odradek.groups.consumer.member import TopicIdPartition
from odradek.metadata import ClusterImage, TopicImage
from odradek.metadata.image import BrokerImage, PartitionImage
from odradek.protocol.types import BrokerId, LeaderEpoch, TopicId
from odradek.statemachine.machine import Written
from tests.unit.groups.driver import GROUP, T0, Coordinator

REBALANCE_MS = 60_000
SESSION_MS = 45_000


def topic_id(name: str, life: int = 1) -> TopicId:
    return TopicId(f"{name}/{life}".encode().ljust(16, b"\0")[:16])


def image_of(
    topics: dict[str, int],
    lives: dict[str, int] | None = None,
    racks: tuple[str, ...] = (),
    number: int = 1,
) -> ClusterImage:
    """Partitions by topic. With racks there is a broker in each, and partition n is on the
    broker n modulo their number."""
    made = {}
    for name, count in topics.items():
        partitions = tuple(
            PartitionImage(
                each,
                (BrokerId(each % (len(racks) or 1)),),
                BrokerId(0),
                LeaderEpoch(0),
                (BrokerId(0),),
                1,
                0,
            )
            for each in range(count)
        )
        identity = topic_id(name, (lives or {}).get(name, 1))
        made[name] = TopicImage(name, identity, partitions, {}, 0)
    brokers = {
        BrokerId(number): BrokerImage(BrokerId(number), 1, (), {}, rack)
        for number, rack in enumerate(racks)
    }
    return ClusterImage(
        number=number,
        brokers=brokers,
        topics=MappingProxyType(made),
        topics_by_id=MappingProxyType({each.topic_id: each for each in made.values()}),
    )


class ConsumerCoordinator(Coordinator):
    has_authorizer = False

    def __init__(self, topics: dict[str, int] | None = None, **properties: str) -> None:
        named = {name.replace("_", "."): value for name, value in properties.items()}
        self.topics = {"t": 4} if topics is None else topics
        self.lives = dict.fromkeys(self.topics, 1)
        self.racks: tuple[str, ...] = ()
        self.made_ids = 0
        kind = ConsumerGroups(
            BrokerSettings.from_properties(named),
            self._make_id,
            has_authorizer=self.has_authorizer,
        )
        super().__init__(plugins=(kind,), **properties)
        self.image = image_of(self.topics)

    def _make_id(self) -> str:
        self.made_ids += 1
        return f"made-{self.made_ids}"

    def set_topics(self, **topics: int) -> None:
        """A topic of 0 partitions is deleted; one that comes again is another topic."""
        for name, count in topics.items():
            if count:
                if name not in self.topics:
                    self.lives[name] = self.lives.get(name, 0) + 1
                self.topics[name] = count
            else:
                self.topics.pop(name, None)
        self.image = image_of(self.topics, self.lives, self.racks, self.image.number + 1)
        self.ask(TopicsChanged(frozenset(topics)))

    @property
    def consumer_group(self) -> ConsumerGroup:
        group = self.machine.groups[GROUP]
        assert isinstance(group, ConsumerGroup)
        return group

    def commit_command(self, member_id: str, epoch: int) -> CommitOffsets:
        return CommitOffsets(GROUP, member_id, None, epoch, (OffsetToCommit(T0, 7),))

    def fetch_command(self, member_id: str, epoch: int) -> FetchOffsets:
        return FetchOffsets(GROUP, None, member_id=member_id, member_epoch=epoch)

    def check_replay(self) -> None:
        """Another coordinator reads the same, from the log as it is and as compaction leaves it."""
        known = self.machine.groups.get(GROUP)
        for log in (self.log, self.compacted()):
            machine = self._new_machine()
            for entry in log:
                machine.apply(entry)
            read = machine.groups.get(GROUP)
            if isinstance(known, ConsumerGroup):
                assert isinstance(read, ConsumerGroup)
                assert is_same(read, known)
            else:
                assert not isinstance(read, ConsumerGroup)

    def compacted(self) -> list[Written]:
        """The last record of each key, where it stands; forgotten keys leave nothing."""
        last = {entry.record.key: entry for entry in self.log if isinstance(entry, Written)}
        kept = sorted(last.values(), key=lambda entry: entry.offset)
        return [entry for entry in kept if entry.record.value is not None]


def is_same(one: ConsumerGroup, other: ConsumerGroup) -> bool:
    """Whether two groups know the same, whatever order they learnt it in."""
    names = [name for name in one.__slots__ if name not in ("_subscribed", "history")]
    return all(getattr(one, name) == getattr(other, name) for name in names)


class GuardedCoordinator(ConsumerCoordinator):
    """Of a broker with ACLs."""

    has_authorizer = True


class Consumer:
    """A client of the new protocol: it does what it is told when it is told to, and no sooner.

    `owned` is what it reads from; it gives up what an answer no longer lists, and takes up
    what it lists. After an answer that was lost it says everything again."""

    def __init__(
        self,
        coordinator: ConsumerCoordinator,
        member_id: str,
        *,
        topics: tuple[str, ...] | None = ("t",),
        pattern: str | None = None,
        instance: str | None = None,
        rack: str | None = None,
        assignor: str | None = None,
    ) -> None:
        self.coordinator = coordinator
        self.member_id = member_id
        self.topics = topics
        self.pattern = pattern
        self.instance = instance
        self.rack = rack
        self.assignor = assignor
        self.epoch = 0
        self.owned: frozenset[TopicIdPartition] = frozenset()
        self.says_everything = True
        # Names of topics that it may describe; None where nobody is asked.
        self.describable: set[str] | None = None

    def request(self, *, epoch: int | None = None) -> ConsumerHeartbeat:
        full = self.says_everything
        asked_epoch = self.epoch if epoch is None else epoch
        topics = None if self.topics is None else frozenset(self.topics)
        return ConsumerHeartbeat(
            GROUP,
            self.member_id,
            asked_epoch,
            self.instance,
            self.rack if full else None,
            "client",
            "/host",
            REBALANCE_MS if full else -1,
            topics if full else None,
            self.pattern if full else None,
            self.assignor if full else None,
            self.owned if asked_epoch > 0 else frozenset(),
            may_describe=None if self.describable is None else self.describable.__contains__,
        )

    def send(self, request: ConsumerHeartbeat | None = None) -> ConsumerHeartbeatReply:
        """The coordinator hears it; whether the answer arrives is another matter."""
        return self.coordinator.ask(request or self.request()).answer(ConsumerHeartbeatReply)

    def receive(self, reply: ConsumerHeartbeatReply) -> None:
        self.says_everything = False
        self.epoch = reply.member_epoch
        if reply.assignment is not None:
            self.owned = frozenset(
                TopicIdPartition(topic, partition)
                for topic, partitions in reply.assignment.items()
                for partition in partitions
            )

    def beat(self) -> ConsumerHeartbeatReply:
        reply = self.send()
        self.receive(reply)
        return reply

    def join(self) -> ConsumerHeartbeatReply:
        self.forget()
        return self.beat()

    def forget(self) -> None:
        self.epoch, self.owned, self.says_everything = 0, frozenset(), True

    def leave(self, *, for_now: bool = False) -> ConsumerHeartbeatReply:
        reply = self.send(self.request(epoch=-2 if for_now else -1))
        self.forget()
        return reply

    @property
    def partitions(self) -> list[int]:
        """Of the one topic there is, in most tests."""
        return sorted(each.partition for each in self.owned)


def settle(*consumers: Consumer, rounds: int = 10) -> None:
    """Everybody sends heartbeats until nothing changes."""
    for _ in range(rounds):
        before = [(each.epoch, each.owned) for each in consumers]
        for consumer in consumers:
            consumer.beat()
        if before == [(each.epoch, each.owned) for each in consumers]:
            return
    raise AssertionError("it does not settle")
