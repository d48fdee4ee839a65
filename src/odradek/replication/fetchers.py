"""The fetchers of this broker as a follower: some for each leader, as the image says who leads.

`num.replica.fetchers` is the number of fetchers per leader. Each has a connection and a fetch
session of its own. A partition is always assigned to the same fetcher, by its topic and number.
"""

import asyncio
import zlib
from typing import TYPE_CHECKING

from odradek import invariants
from odradek.config.live import LiveSettings
from odradek.invariants import InvariantViolation
from odradek.metadata import ImageChange, MetadataCache
from odradek.protocol.types import BrokerId, TopicPartition
from odradek.replication.partition import Partition
from odradek.replication.peers import Peers
from odradek.replication.replicas import Replicas

if TYPE_CHECKING:
    from odradek.replication.fetch_session import Key
    from odradek.replication.fetcher import LeaderFetcher


# A leader, and the number of one of its fetchers.
_Slot = tuple[BrokerId, int]


class ReplicaFetchers:
    """Invariant: a partition is fetched by at most one fetcher, from the leader that it follows."""

    def __init__(
        self,
        broker_id: BrokerId,
        replicas: Replicas,
        peers: Peers,
        cache: MetadataCache,
        settings: LiveSettings,
    ) -> None:
        self._broker_id = broker_id
        self._replicas = replicas
        self._peers = peers
        self._cache = cache
        self._settings = settings
        self._group: asyncio.TaskGroup | None = None
        self._fetchers: dict[_Slot, tuple[LeaderFetcher, asyncio.Task[None]]] = {}
        self._slots: dict[Key, _Slot] = {}

    async def run(self) -> None:
        """Copies the partitions that this broker follows, until cancelled."""
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
            self._slots.clear()

    def follow(self, change: ImageChange) -> None:
        """Takes over a change of the image; `Replicas.follow` comes first."""
        if self._group is None:
            return
        for name in sorted(change.topics):
            before, after = change.before.topics.get(name), change.after.topics.get(name)
            if before is not None and (after is None or after.topic_id != before.topic_id):
                for state in before.partitions:
                    self._remove((before.topic_id, state.partition))
            if after is None:
                continue
            for state in change.partitions(after):
                partition = self._replicas.get(name, state.partition)
                if partition is None or partition.topic_id != after.topic_id:
                    self._remove((after.topic_id, state.partition))
                else:
                    self._place(partition)
        for (leader, _), (fetcher, _) in self._fetchers.items():
            if leader in change.brokers:
                fetcher.wake()
        self._end_idle()
        if invariants.is_thorough():
            self.check()

    def check(self) -> None:
        """Raises `InvariantViolation` if a partition has two fetchers, or the wrong one."""
        fetched: dict[Key, _Slot] = {}
        for slot, (fetcher, _) in self._fetchers.items():
            for partition in fetcher.partitions():
                key = (partition.topic_id, partition.topic_partition.partition)
                if key in fetched:
                    raise InvariantViolation(
                        str(partition), f"it is fetched twice: by {fetched[key]} and {slot}"
                    )
                if not partition.has_role:
                    continue  # It has resigned. Answers of its leader are dropped from now on.
                if partition.is_leader or partition.leader != slot[0]:
                    raise InvariantViolation(
                        str(partition), f"it is fetched by {slot}, its leader is {partition.leader}"
                    )
                fetched[key] = slot

    def _place(self, partition: Partition) -> None:
        key = (partition.topic_id, partition.topic_partition.partition)
        if partition.is_leader or partition.leader < 0 or not partition.log.takes_appends:
            self._remove(key)
            return
        slot = (partition.leader, self._number(partition.topic_partition))
        if self._slots.get(key) != slot:
            self._remove(key)
            self._slots[key] = slot
        self._fetcher(slot).follow(partition)

    def _number(self, topic_partition: TopicPartition) -> int:
        """Returns which of its leader's fetchers copies the partition."""
        fetchers = self._settings.broker.num_replica_fetchers
        # Not hash(): it differs from one process to the next.
        topic, partition = topic_partition
        return (zlib.crc32(topic.encode()) + partition) % fetchers

    def _remove(self, key: "Key") -> None:
        slot = self._slots.pop(key, None)
        known = None if slot is None else self._fetchers.get(slot)
        # None: a fetcher leaves partitions whose disk takes no records, and ends with the last one.
        if known is not None:
            known[0].leave(key)

    def _fetcher(self, slot: _Slot) -> "LeaderFetcher":
        known = self._fetchers.get(slot)
        if known is None:
            assert self._group is not None
            from odradek.replication.fetcher import LeaderFetcher  # noqa: PLC0415 - in clusters

            leader, number = slot
            fetcher = LeaderFetcher(
                self._broker_id,
                leader,
                self._peers,
                self._cache,
                self._settings,
                throttle=self._replicas.follower_throttle,
                checkpoint_log_start_offsets=self._replicas.checkpoint_log_start_offsets,
                number=number,
            )
            known = self._fetchers[slot] = (fetcher, self._group.create_task(fetcher.run()))
        return known[0]

    def _end_idle(self) -> None:
        for slot, (fetcher, task) in list(self._fetchers.items()):
            if not fetcher:
                del self._fetchers[slot]
                task.cancel()
