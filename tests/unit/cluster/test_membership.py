"""How a broker that may have lost its tail joins again while a leader lets it into a set."""

from odradek.cluster.membership import Membership, PreviousRun
from odradek.config import parse_listener
from odradek.config.broker_settings import BrokerSettings
from odradek.metadata import Create, MetadataCache, Set, node_values, paths, store_setup
from odradek.metadata.memory import MemoryMetadata, StoreFaults
from odradek.metadata.topic_operations import create_topic
from odradek.protocol.types import BrokerId, LeaderEpoch, TopicId
from odradek.storage import LogManager
from odradek.world import World
from odradek.world.memory_disk import MemoryDisk

STATE = paths.partition_state_path("t", 0)


def _registration(epoch: int) -> node_values.BrokerRegistration:
    listeners = (parse_listener("PLAINTEXT://h:1"),)
    return node_values.BrokerRegistration(listeners, {"PLAINTEXT": "PLAINTEXT"}, None, 0, epoch)


def _state(*in_sync: BrokerId) -> node_values.PartitionState:
    return node_values.PartitionState(BrokerId(1), LeaderEpoch(0), in_sync, 0)


async def test_it_leaves_a_set_that_it_entered_before_its_epoch_ended() -> None:
    """The leader's write comes after the starting broker drew its image, and the store is slow to
    tell it. Its old epoch is still the current one, so the write is right; but the broker has
    lost its page cache since, so it must not stay in the set when it registers."""
    metadata = MemoryMetadata(StoreFaults(max_notification_delay_s=1_000_000))
    leader, starting = metadata.connect(), metadata.connect()
    await store_setup.prepare_store(leader, "cluster")
    assignment = node_values.TopicAssignment(
        TopicId(bytes(15) + b"1"), ((BrokerId(1), BrokerId(2)),), {}, {}
    )
    await leader.multi(
        Create(paths.broker_path(1), _registration(0).encode(), True),
        Create(paths.broker_epoch_path(2), b""),
        *create_topic("t", assignment, [_state(BrokerId(1))], {}, None),
    )
    images = MetadataCache(starting)
    await images.load()
    settings = BrokerSettings.from_properties({"node.id": "2", "log.dirs": "/data"})
    disk = MemoryDisk()
    disk.make_directories("/data")
    logs = LogManager(settings, World(disk=disk), cluster_id="c", node_id=BrokerId(2))
    membership = Membership(BrokerId(2), starting, images, _registration, logs)

    await leader.multi(Set(STATE, _state(BrokerId(1), BrokerId(2)).encode(), 0))
    await membership.join(PreviousRun(clean_epoch=None), patience_s=1.0)

    node = await leader.read(STATE)
    assert node is not None
    assert node_values.PartitionState.decode(STATE, node.value).isr == (1,)
