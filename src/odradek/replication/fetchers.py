"""What this broker follows, by whom it follows: a fetcher for each leader, kept by the image."""

import asyncio
from typing import TYPE_CHECKING

from odradek.config.live import LiveSettings
from odradek.metadata import ImageChange, ImageKeeper
from odradek.protocol.types import BrokerId
from odradek.replication.partition import Partition
from odradek.replication.peers import Peers
from odradek.replication.replicas import Replicas

if TYPE_CHECKING:
    from odradek.replication.fetch_session import Key
    from odradek.replication.fetcher import LeaderFetcher


class ReplicaFetchers:
    """Invariant: a partition is fetched from at most one leader, the one that it follows."""

    def __init__(
        self,
        broker_id: BrokerId,
        replicas: Replicas,
        peers: Peers,
        images: ImageKeeper,
        settings: LiveSettings,
    ) -> None:
        self._broker_id = broker_id
        self._replicas = replicas
        self._peers = peers
        self._images = images
        self._settings = settings
        self._group: asyncio.TaskGroup | None = None
        self._fetchers: dict[BrokerId, tuple[LeaderFetcher, asyncio.Task[None]]] = {}
        self._leaders: dict[Key, BrokerId] = {}

    async def run(self) -> None:
        """Copies what this broker follows, until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                try:
                    for partition in list(self._replicas.partitions()):
                        self._place(partition)
                    await asyncio.get_running_loop().create_future()
                finally:
                    # The group takes no more tasks while it waits for those that it cancels.
                    self._group = None
        finally:
            self._fetchers.clear()
            self._leaders.clear()

    def follow(self, change: ImageChange) -> None:
        """Takes over a change of the image; `Replicas.follow` comes first."""
        if self._group is None:
            return
        for name in sorted(change.topics):
            for topic in (change.before.topics.get(name), change.after.topics.get(name)):
                for state in topic.partitions if topic is not None else ():
                    assert topic is not None
                    key = (topic.topic_id, state.partition)
                    partition = self._replicas.get(name, state.partition)
                    if partition is None or partition.topic_id != topic.topic_id:
                        self._remove(key)
                    else:
                        self._place(partition)
        for broker_id in change.brokers:
            known = self._fetchers.get(BrokerId(broker_id))
            if known is not None:
                known[0].wake()
        self._end_idle()

    def _place(self, partition: Partition) -> None:
        key = (partition.topic_id, partition.topic_partition.partition)
        if partition.is_leader or partition.leader < 0 or not partition.log.takes_appends:
            self._remove(key)
            return
        if self._leaders.get(key) != partition.leader:
            self._remove(key)
            self._leaders[key] = partition.leader
        self._fetcher(partition.leader).follow(partition)

    def _remove(self, key: "Key") -> None:
        leader = self._leaders.pop(key, None)
        known = None if leader is None else self._fetchers.get(leader)
        # None: a fetcher leaves what its disk does not take, and is let go with the last of it.
        if known is not None:
            known[0].leave(key)

    def _fetcher(self, leader: BrokerId) -> "LeaderFetcher":
        known = self._fetchers.get(leader)
        if known is None:
            assert self._group is not None
            from odradek.replication.fetcher import LeaderFetcher  # noqa: PLC0415 - in clusters

            fetcher = LeaderFetcher(
                self._broker_id,
                leader,
                self._peers,
                self._images,
                self._settings,
                throttle=self._replicas.follower_throttle,
            )
            known = self._fetchers[leader] = (fetcher, self._group.create_task(fetcher.run()))
        return known[0]

    def _end_idle(self) -> None:
        for leader, (fetcher, task) in list(self._fetchers.items()):
            if not fetcher:
                del self._fetchers[leader]
                task.cancel()
