"""Changes the in-sync replicas (ISR) of the partitions that this broker leads.

`Leadership.next_in_sync` decides which replicas are in the ISR, and `Leadership.next_eligible`
which others may still be elected (KIP-966). This module writes both to the metadata store.

A follower leaves the ISR when it was not caught up for `replica.lag.time.max.ms`, or at once when
its broker leaves the cluster's image. One that has not fetched in this leader epoch stays until the
lease of a deposed leader must have ended. A follower is added when it has every committed record.

Each change is a compare-and-set on the partition's node, which also holds leader and epoch, so a
deposed leader changes nothing. A change that adds a follower also checks two other nodes: its
broker epoch, so a broker that restarted meanwhile, and may have lost its tail, is not added
(KIP-903); and the topic's assignment, so a replica that a reassignment has dropped meanwhile is not
added. Such a replica would count for `min.insync.replicas` while it deletes its log.

While a change is being written, or its outcome is unknown, the high watermark waits for the
followers of the old and the new ISR (`Leadership.propose`). There is one change per partition at a
time; changes of many partitions share one multi.
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import Final, NamedTuple

from odradek.config.live import LiveSettings
from odradek.metadata import ClusterImage, ImageChange, MetadataCache
from odradek.metadata.compare_and_set import attempt
from odradek.metadata.node_values import PartitionState
from odradek.metadata.paths import broker_epoch_path, partition_state_path
from odradek.metadata.store import Check, MetadataError, Operation, OperationFailed, Set
from odradek.protocol.types import BrokerId
from odradek.replication.leadership import LagLimits, Leadership
from odradek.replication.partition import Partition
from odradek.replication.replicas import Replicas
from odradek.storage import StorageError

logger = logging.getLogger("odradek.state_change")

_MAX_CHANGES_PER_MULTI: Final = 100
_RETRY_S: Final = 0.05
_MAX_RETRY_S: Final = 2.0


class _Proposal(NamedTuple):
    """A new ISR, and the operations that store it."""

    partition: Partition
    leadership: Leadership
    before: tuple[BrokerId, ...]
    in_sync: tuple[BrokerId, ...]
    version: int
    operations: tuple[Operation, ...]

    @property
    def is_led(self) -> bool:
        """Whether this broker still leads in the epoch in which it proposed."""
        return self.partition.leadership is self.leadership

    @property
    def is_obsolete(self) -> bool:
        """Whether the proposal can no longer be stored: the node has changed since."""
        return not self.is_led or self.leadership.version != self.version


class IsrChanges:
    """Invariant: a leadership has a proposal exactly while its outcome is not known, or is not in
    the image yet."""

    def __init__(
        self, broker_id: BrokerId, replicas: Replicas, cache: MetadataCache, settings: LiveSettings
    ) -> None:
        self._broker_id = broker_id
        self._replicas = replicas
        self._cache = cache
        self._settings = settings
        # Partitions whose ISRs are checked next; a dict keeps their order.
        self._to_check: dict[Partition, None] = {}
        self._woken = asyncio.Event()
        # Writes that the metadata store refused, or whose outcome was unknown, since the start.
        self.failed = 0

    def check_soon(self, partition: Partition) -> None:
        """Makes `run` check the ISR of this partition next. The fetch handler calls it when a
        follower may be added (`Partition.note_fetch`)."""
        self._to_check[partition] = None
        self._woken.set()

    def follow(self, change: ImageChange) -> None:
        """Schedules checks after a change of the image. `Replicas.follow` is called before this."""
        for name in change.topics:
            topic = change.after.topics.get(name)
            if topic is None:
                continue
            # `min.insync.replicas` is a setting of the topic.
            is_reconfigured = change.is_reconfigured(topic)
            for state in topic.partitions if is_reconfigured else change.partitions(topic):
                if state.eligible and state.leader == self._broker_id:
                    led = self._replicas.get(name, state.partition)
                    if led is not None:
                        self.check_soon(led)
        left_brokers = [
            broker_id
            for broker_id in sorted(change.brokers)
            if broker_id in change.before.brokers and broker_id not in change.after.brokers
        ]
        if left_brokers:
            self._forget_followers(left_brokers)

    def _forget_followers(self, broker_ids: Sequence[BrokerId]) -> None:
        """Forgets the followers on brokers that have left the cluster."""
        for partition in self._replicas.partitions():
            leadership = partition.leadership
            if leadership is None:
                continue
            for broker_id in broker_ids:
                if broker_id in leadership.followers:
                    partition.forget_follower(broker_id)
                    self.check_soon(partition)

    async def run(self) -> None:
        """Changes ISRs as needed, until cancelled."""
        loop = asyncio.get_running_loop()
        swept_s = loop.time()
        while True:
            due_s = swept_s + self._settings.broker.replica_lag_time_max_ms / 2000
            await self._pause(due_s - loop.time())
            self._woken.clear()
            if loop.time() >= due_s:
                swept_s = loop.time()
                for partition in self._replicas.partitions():
                    if partition.leadership is not None and partition.leadership.followers:
                        self._to_check[partition] = None
            partitions, self._to_check = list(self._to_check), {}
            for first in range(0, len(partitions), _MAX_CHANGES_PER_MULTI):
                await self._change(partitions[first : first + _MAX_CHANGES_PER_MULTI])

    async def _pause(self, max_pause_s: float) -> None:
        timer = asyncio.get_running_loop().call_later(max(max_pause_s, 0.0), self._woken.set)
        try:
            await self._woken.wait()
        finally:
            timer.cancel()

    # One round

    async def _change(self, partitions: Sequence[Partition]) -> None:
        proposals = self._propose(partitions)
        if not proposals:
            return
        if await self._write(proposals):
            for proposal in proposals:
                self._settle(proposal)
        else:
            await self._write_each(proposals)

    async def _write_each(self, proposals: Sequence[_Proposal]) -> None:
        """Writes the proposals by themselves, and settles each as soon as its outcome is known.
        Pauses between tries: the store may refuse one for long. No other ISR is changed
        meanwhile."""
        pause_s = _RETRY_S
        while True:
            unknown = []
            for proposal in proposals:
                if await self._write([proposal]) or proposal.is_obsolete:
                    self._settle(proposal)
                else:
                    unknown.append(proposal)
            if not unknown:
                return
            proposals = unknown
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _MAX_RETRY_S)

    def _settle(self, proposal: _Proposal) -> None:
        proposal.partition.settle(proposal.leadership)
        if proposal.is_obsolete and proposal.leadership.in_sync != proposal.in_sync:
            self.check_soon(proposal.partition)

    def _propose(self, partitions: Sequence[Partition]) -> list[_Proposal]:
        proposals = [
            proposal
            for partition in partitions
            if (proposal := self._proposal(partition)) is not None
        ]
        for proposal in proposals:
            proposal.partition.propose(proposal.leadership, proposal.in_sync)
        # A partition whose proposal violated an invariant is offline and no longer leads.
        return [proposal for proposal in proposals if proposal.is_led]

    def _proposal(self, partition: Partition) -> _Proposal | None:
        leadership = partition.leadership
        if leadership is None or not leadership.followers or leadership.proposed is not None:
            return None
        image = self._cache.image
        name, index = partition.topic_partition
        state = image.partition(name, index)
        if state is None or state.version != leadership.version:
            return None
        now_s = asyncio.get_running_loop().time()
        max_lag_s = self._settings.broker.replica_lag_time_max_ms / 1000
        limits = LagLimits(max_lag_s, self._max_lease_s(image))
        live = {broker_id: broker.epoch for broker_id, broker in image.brokers.items()}
        try:
            in_sync = partition.next_in_sync(live, now_s=now_s, limits=limits)
        except StorageError:
            return None  # The replica is offline now (`cluster.offline_replicas`).
        eligible = leadership.next_eligible(in_sync, partition.min_in_sync)
        if in_sync == leadership.in_sync and eligible == leadership.eligible:
            return None
        stored = PartitionState(
            self._broker_id,
            leadership.leader_epoch,
            in_sync,
            state.controller_epoch,
            eligible=eligible,
        )
        operations: list[Operation] = [
            *image.topics[name].checks(),
            Set(partition_state_path(name, index), stored.encode(), leadership.version),
        ]
        added = [replica for replica in in_sync if replica not in leadership.in_sync]
        if added:
            operations.append(image.topics[name].check_assignment())
        operations += [
            Check(broker_epoch_path(replica), leadership.followers[replica].broker_epoch)
            for replica in added
        ]
        return _Proposal(
            partition,
            leadership,
            leadership.in_sync,
            in_sync,
            leadership.version,
            tuple(operations),
        )

    def _max_lease_s(self, image: ClusterImage) -> float:
        """Returns how long a deposed leader may still assume that it leads: brokers may have
        different session timeouts, and one of an earlier version does not say which it has."""
        known_ms = (broker.session_timeout_ms for broker in image.brokers.values())
        return max(self._replicas.max_lease_s, max(known_ms, default=0) / 1000)

    async def _write(self, proposals: Sequence[_Proposal]) -> bool:
        """Writes the proposals in one multi, and returns whether the outcome of each is known, and
        in the image if it was stored. A multi whose reply was lost may still be carried out later,
        so the caller repeats it until the node has another version."""
        operations = list(
            dict.fromkeys(operation for proposal in proposals for operation in proposal.operations)
        )
        try:
            await attempt(self._cache, *operations)
        except OperationFailed as failure:
            logger.info("the ISRs were not changed: %s", failure)
            self.failed += 1
            await self._read_back(operations, failure.path)
            # A single proposal was refused for its own sake. With several it is unknown which one
            # was refused.
            return len(proposals) == 1
        except MetadataError as error:
            logger.warning("it is not known whether ISRs were changed: %s", error)
            self.failed += 1
            await self._read_back(operations)
            return False
        for proposal in proposals:
            logger.info(
                "%s: in sync are %s, were %s",
                proposal.partition.topic_partition,
                list(proposal.in_sync),
                list(proposal.before),
            )
        if not all(proposal.is_obsolete for proposal in proposals):
            # The store went away before the image had the change. Until it has, the high watermark
            # must go on to wait for the new members of the ISR.
            await self._read_back(operations)
        return True

    async def _read_back(self, operations: Sequence[Operation], *refused: str) -> None:
        """Waits until the image has the state of the store, which has the ISRs, and what the
        `refused` nodes hold now."""
        written = [one.path for one in operations if not isinstance(one, Check)]
        paths = [*written, *refused]
        while True:
            try:
                await self._cache.catch_up(*paths)
            except MetadataError:
                await asyncio.sleep(_RETRY_S)
            else:
                return
