"""Tells a client that came to the wrong broker which one leads (KIP-951).

For each such partition a Produce or Fetch response names the leader and its epoch, and besides the
addresses of these leaders. So the client need not ask for metadata before it tries again.
"""

from collections.abc import Iterator

from odradek.broker.network.endpoints import brokers_on_listener
from odradek.config import Listener
from odradek.metadata import BrokerImage, ClusterImage, TopicImage
from odradek.metadata.node_values import NO_LEADER
from odradek.protocol.types import BrokerId, LeaderEpoch, TopicId


class CurrentLeaders:
    """The leaders that one response names."""

    __slots__ = ("_image", "_leaders")

    def __init__(self, image: ClusterImage) -> None:
        self._image = image
        self._leaders: dict[int, None] = {}

    def topic(self, name: str, topic_id: TopicId) -> TopicImage | None:
        """Returns the topic that a response has by its name, or by its id in later versions."""
        return self._image.topics.get(name) or self._image.topics_by_id.get(topic_id)

    def of(self, topic: TopicImage, index: int) -> tuple[BrokerId, LeaderEpoch] | None:
        """Returns who leads the partition, and the leader epoch. None if nobody does, or if this
        broker lost its lease: then the client has to ask again."""
        state = topic.partitions[index]
        leader = self._image.live_leader(state)
        if leader == NO_LEADER:
            return None
        self._leaders[leader] = None
        return leader, state.leader_epoch

    def addresses(self, listener: str) -> Iterator[tuple[BrokerImage, Listener]]:
        """Yields the leaders that were returned, with their addresses on this listener."""
        return brokers_on_listener(self._image, listener, self._leaders)
