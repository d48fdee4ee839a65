"""Counts elections of leaders and changes of ISRs, from the images of the cluster.

Every broker sees every image. Elections are counted by the broker that is the active controller
when the image comes, and changes of an ISR by the partition's leader: so each is counted once in a
cluster.
"""

from odradek.metadata import ClusterImage, ImageChange, PartitionImage
from odradek.protocol.types import BrokerId
from odradek.telemetry.recent import RecentValues
from odradek.world import Clock


class LeadershipObserver:
    """Subscribed to the metadata cache (`follow`) while there is a management port."""

    def __init__(self, broker_id: BrokerId, clock: Clock) -> None:
        self._broker_id = broker_id
        self._clock = clock
        self.isr_shrinks = 0
        self.isr_expands = 0
        self.unclean_elections = 0
        # Made after the first registration of this run.
        self.registrations = 1
        # For how long partitions had no live leader before an election, in microseconds.
        self.elections = RecentValues()
        self._leaderless_s: dict[tuple[str, int], float] = {}

    def follow(self, change: ImageChange) -> None:
        """Called with every new image."""
        now_s = self._clock.monotonic_s()
        if change.brokers:
            self._note_leaderless(change.after, now_s)
            self._note_registration(change)
        for name in change.topics:
            after, before = change.after.topics.get(name), change.before.topics.get(name)
            if after is None or before is None or before.topic_id != after.topic_id:
                continue
            for state in change.partitions(after):
                if state.partition < len(before.partitions):
                    self._compare(change, name, before.partitions[state.partition], state, now_s)

    def _note_registration(self, change: ImageChange) -> None:
        before = change.before.brokers.get(self._broker_id)
        after = change.after.brokers.get(self._broker_id)
        self.registrations += after is not None and (before is None or before.epoch != after.epoch)

    def _note_leaderless(self, image: ClusterImage, now_s: float) -> None:
        """Notes which partitions have no live leader now that brokers came or went."""
        leaderless = {
            (topic.name, state.partition)
            for topic in image.topics.values()
            for state in topic.partitions
            if state.leader not in image.brokers
        }
        self._leaderless_s = {
            partition: self._leaderless_s.get(partition, now_s) for partition in leaderless
        }

    def _compare(
        self,
        change: ImageChange,
        name: str,
        before: PartitionImage,
        after: PartitionImage,
        now_s: float,
    ) -> None:
        if after.leader == self._broker_id and after.leader_epoch == before.leader_epoch:
            self.isr_shrinks += len(after.isr) < len(before.isr)
            self.isr_expands += len(after.isr) > len(before.isr)
        if after.leader_epoch == before.leader_epoch or after.leader not in change.after.brokers:
            return
        since_s = self._leaderless_s.pop((name, after.partition), now_s)
        if change.after.controller_id == self._broker_id:
            self.elections.observe(int((now_s - since_s) * 1e6), now_s)
            self.unclean_elections += after.leader not in (*before.isr, *before.eligible)
