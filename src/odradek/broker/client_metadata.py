"""The cluster's image as clients are shown it.

A broker whose session with the metadata store may have expired (`Replicas.is_leased`) does not know
whether it is still a member of the cluster. If it went on to call itself the leader of partitions
or a coordinator, clients would stay with it for as long as it is cut off: librdkafka believes every
broker that it asks. So for that time the broker leaves itself out of the live brokers. The rest
follows from that, because handlers name only live brokers: Metadata shows no leader
(LEADER_NOT_AVAILABLE) for the partitions that it led, FindCoordinator does not name it, errors of
Produce and Fetch name no leader, and clients ask the other brokers.

Handlers get this in place of the `MetadataCache`, so that a new handler cannot forget the lease.
"""

from odradek.metadata import ClusterImage, MetadataCache
from odradek.metadata.node_values import NO_LEADER
from odradek.protocol.types import BrokerId
from odradek.replication.replicas import Replicas


class ClientMetadata:
    """Invariant: `image` shows this broker as alive only while its lease is valid."""

    __slots__ = ("_broker_id", "_replicas", "_without_self", "cache")

    def __init__(self, broker_id: BrokerId, replicas: Replicas, cache: MetadataCache) -> None:
        # For changes of the metadata store, which the store itself refuses without a session.
        self.cache = cache
        self._broker_id = broker_id
        self._replicas = replicas
        # The newest image that was shown without this broker, and what it was made from.
        self._without_self: tuple[ClusterImage, ClusterImage] | None = None

    @property
    def image(self) -> ClusterImage:
        return self._visible(self.cache.image)

    async def catch_up(self, *paths: str) -> ClusterImage:
        """Returns the image once it shows what the store holds at these paths now."""
        return self._visible(await self.cache.catch_up(*paths))

    def _visible(self, image: ClusterImage) -> ClusterImage:
        if self._replicas.is_leased:
            return image
        if self._without_self is None or self._without_self[0] is not image:
            self._without_self = image, _without(image, self._broker_id)
        return self._without_self[1]


def _without(image: ClusterImage, broker_id: BrokerId) -> ClusterImage:
    is_controller = image.controller_id == broker_id
    return image._replace(
        brokers={key: broker for key, broker in image.brokers.items() if key != broker_id},
        controller_id=NO_LEADER if is_controller else image.controller_id,
    )
