"""A broker that lost touch with its cluster leads nothing, by its own monotonic clock."""

from collections.abc import Callable
from types import MappingProxyType

import pytest

from odradek.config import BrokerSettings
from odradek.config.live import LiveSettings
from odradek.metadata.image import ClusterImage, PartitionImage, TopicImage, difference
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.types import BrokerId, LeaderEpoch, TopicPartition
from odradek.replication.partition import Partition
from odradek.replication.replicas import Replicas
from odradek.storage import LogManager
from odradek.world import MemoryDisk, Randomness, World
from tests.unit.storage.storage_world import TOPIC_ID, InlineWorkers, StillClock

LED = PartitionImage(
    0, (BrokerId(1), BrokerId(2)), BrokerId(1), LeaderEpoch(3), (BrokerId(1), BrokerId(2)), 1, 0
)
FOLLOWED = PartitionImage(
    1, (BrokerId(2), BrokerId(1)), BrokerId(2), LeaderEpoch(3), (BrokerId(1), BrokerId(2)), 1, 0
)


class LeaseUntil:
    max_s = 6.0

    def __init__(self, until_s: float) -> None:
        self._until_s = until_s

    def is_valid(self, now_s: float) -> bool:
        return now_s < self._until_s


async def make_replicas(clock: StillClock, lease: LeaseUntil | None = None) -> Replicas:
    settings = BrokerSettings.from_properties({"log.dirs": "/data", "node.id": "1"})
    world = World(clock, MemoryDisk(), Randomness(1), InlineWorkers())
    logs = LogManager(settings, world, cluster_id="cluster", node_id=BrokerId(1))
    await logs.load(lambda topic: settings.topic())
    replicas = Replicas(BrokerId(1), logs, LiveSettings(settings), clock, lease)
    topic = TopicImage("t", TOPIC_ID, (LED, FOLLOWED), MappingProxyType({}), 0)
    image = ClusterImage(
        topics=MappingProxyType({"t": topic}), topics_by_id=MappingProxyType({TOPIC_ID: topic})
    )
    replicas.follow(difference(ClusterImage(), image))
    return replicas


async def test_without_a_lease_nothing_is_led() -> None:
    clock = StillClock()
    replicas = await make_replicas(clock, LeaseUntil(clock.monotonic_s() + 6))
    assert replicas.leader("t", 0).is_leader
    clock.advance(6000)
    asks: tuple[Callable[[], Partition], ...] = (
        lambda: replicas.leader("t", 0),
        lambda: replicas.leader_by_id(TOPIC_ID, 0),
        lambda: replicas.reader("t", TOPIC_ID, 0),
    )
    for ask in asks:
        with pytest.raises(ApiError) as refused:
            ask()
        assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_a_follower_without_a_lease_sends_its_consumers_to_the_leader() -> None:
    """It may be cut off from the leader too, and a consumer on its rack would read nothing."""
    clock = StillClock()
    replicas = await make_replicas(clock, LeaseUntil(clock.monotonic_s() + 6))
    assert not replicas.reader("t", TOPIC_ID, 1).is_leader
    clock.advance(6000)
    with pytest.raises(ApiError) as refused:
        replicas.reader("t", TOPIC_ID, 1)
    assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_what_every_replica_has_is_not_known_without_a_lease() -> None:
    """A replica may have left the ISR since: its tombstones must not be removed."""
    clock = StillClock()
    replicas = await make_replicas(clock, LeaseUntil(clock.monotonic_s() + 6))
    ask = replicas._logs.cleaner.is_on_every_replica
    assert ask(TopicPartition("t", 0))
    assert ask(TopicPartition("t", 1))
    assert not ask(TopicPartition("unknown", 0))
    clock.advance(6000)
    assert not ask(TopicPartition("t", 0))
