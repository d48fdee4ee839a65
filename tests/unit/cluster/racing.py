"""Two brokers that change the same nodes at the same moment."""

from collections.abc import Awaitable, Callable, Mapping

from odradek.cluster.acls import AclStore
from odradek.cluster.configs import Configs
from odradek.cluster.producer_ids import ProducerIds
from odradek.cluster.topics import NewTopic, Topics
from odradek.config import BrokerSettings, parse_listener
from odradek.config.live import LiveSettings
from odradek.metadata import (
    ClusterImage,
    Create,
    MetadataCache,
    Operation,
    node_values,
    paths,
    store_setup,
)
from odradek.metadata.memory import MemoryMetadata, MemorySession
from odradek.protocol.types import BrokerId
from odradek.world import Randomness


class RacingSession(MemorySession):
    """Lets a rival go first, once, when the next change is about to be written."""

    rival: Callable[[], Awaitable[object]] | None = None
    has_raced = False

    async def multi(self, *operations: Operation) -> list[int]:
        rival, self.rival = self.rival, None
        if rival is not None:
            await rival()
            self.has_raced = True
        return await super().multi(*operations)


class Broker:
    """What one broker changes the store with."""

    def __init__(self, number: int, store: MemorySession) -> None:
        self.number = number
        self.store = store
        self.images = MetadataCache(store)
        settings = LiveSettings(BrokerSettings())
        self.topics = Topics(store, self.images, settings, Randomness(number))
        self.configs = Configs(store, self.images, settings)
        self.rules = AclStore(store, self.images)
        self.producer_ids = ProducerIds(self.images, BrokerId(number))


class Pair:
    """Two brokers on one store, with a topic `t` of two partitions on brokers 1 and 2 of 4."""

    def __init__(self) -> None:
        self.metadata = MemoryMetadata()
        self.racing = RacingSession(self.metadata)
        self.first = Broker(1, self.racing)
        self.second = Broker(2, self.metadata.connect())

    async def prepare(self) -> None:
        await store_setup.prepare_store(self.second.store, "cluster")
        for number in range(1, 5):
            listeners = (parse_listener(f"PLAINTEXT://h:{number}"),)
            registration = node_values.BrokerRegistration(
                listeners, {"PLAINTEXT": "PLAINTEXT"}
            ).encode()
            node = Create(paths.broker_path(number), registration, ephemeral=True)
            await self.second.store.multi(node)
        await self.second.images.load()
        await self.second.topics.create(
            NewTopic("t", assignment={0: [BrokerId(1), BrokerId(2)], 1: [BrokerId(2), BrokerId(1)]})
        )
        await self.first.images.load()

    @property
    def image(self) -> ClusterImage:
        from tests.unit.metadata.images import image_of

        return image_of(self.metadata.tree.read_tree("/"))


def setting(name: str, value: str) -> Callable[[Mapping[str, str]], Mapping[str, str]]:
    return lambda before: {**before, name: value}
