"""Registers a broker in its cluster, and again after its session with the store expired.

Before a broker registers, it gives up the leadership that its previous run held. After an unclean
shutdown it also leaves every ISR that has other members, so that a replica that lost its
tail is not elected (KIP-966). Each registration takes the next broker epoch, which is the version
of a node that outlives the broker. A leader that adds this broker to an ISR checks that
epoch in the same write (KIP-903).
"""

import asyncio
import logging
from collections.abc import Callable, Container
from typing import Final, NamedTuple

from odradek.cluster.elections import LogCondition, partitions_of, restored, returning
from odradek.cluster.replaced_disks import ReplacedDisks, announce
from odradek.cluster.state_changes import MAX_OPERATIONS, change_states
from odradek.metadata import (
    BadVersion,
    ClusterImage,
    Create,
    MetadataCache,
    MetadataStore,
    Node,
    NodeExists,
    Operation,
    OutcomeUnknown,
    PartitionImage,
    Set,
    StoreUnavailable,
)
from odradek.metadata.compare_and_set import attempt
from odradek.metadata.json_fields import MalformedNode
from odradek.metadata.node_values import BrokerRegistration, LastRegistration, PartitionState
from odradek.metadata.paths import broker_epoch_path, broker_path
from odradek.metadata.store import EVERYTHING
from odradek.protocol.types import BrokerId, TopicPartition
from odradek.storage import LogManager
from odradek.storage.text_files import NO_CLEAN_STOP, CleanStop

logger = logging.getLogger("odradek.server")

_NEVER_REGISTERED: Final = -1
_LOOK_AGAIN_S: Final = 0.05
# A large multi delays no other broker if the store has only one.
_MAX_OPERATIONS_ALONE: Final = 5_000


class BrokerIdTaken(Exception):
    """A live broker has registered under this id."""


class _Overtaken(Exception):
    """Another process has registered under this id since this one found its logs complete."""


class PreviousRun(NamedTuple):
    """What this broker knows about its previous run.

    `clean_stop` tells for which registration the logs are complete if that run shut down cleanly.
    `killed_epochs` are the epochs it may have had if it was killed while the operating system kept
    running: its page cache survived, so everything it had written is still there.
    """

    clean_stop: CleanStop | None
    killed_epochs: Container[int] = ()

    def log_condition(self, last_epoch: int, last_run: str) -> LogCondition:
        """Returns what is left of the logs. `last_epoch` is the last broker epoch that the store
        knows, and `last_run` the run that wrote it: if it was not the previous run, another one
        came in between."""
        if self.clean_stop is not None and self.clean_stop.covers(last_epoch, last_run):
            return LogCondition.COMPLETE
        if last_epoch != _NEVER_REGISTERED and last_epoch in self.killed_epochs:
            return LogCondition.PAGE_CACHE_KEPT
        return LogCondition.TAIL_MAY_BE_LOST


class Membership:
    """`describe` makes the registration of a given broker epoch."""

    def __init__(
        self,
        broker_id: BrokerId,
        store: MetadataStore,
        cache: MetadataCache,
        describe: Callable[[int], BrokerRegistration],
        logs: LogManager,
    ) -> None:
        self._id = broker_id
        self._store = store
        self._cache = cache
        self._describe = describe
        self._logs = logs
        self.session_id = 0
        self.epoch = _NEVER_REGISTERED

    async def reach_store(self, patience_s: float) -> None:
        """Returns when the store answers; raises `StoreUnavailable` after `patience_s`.

        A broker that starts may take longer to load its logs than the session timeout. Then its
        session has expired, and the connection is being opened again with another session.
        """
        deadline_s = asyncio.get_running_loop().time() + patience_s
        while True:
            try:
                await self._last_epoch()
            except StoreUnavailable as error:
                if asyncio.get_running_loop().time() >= deadline_s:
                    raise
                logger.warning("cannot register yet: %s", error)
                await asyncio.sleep(_LOOK_AGAIN_S)
            else:
                return

    async def join(self, previous: PreviousRun, patience_s: float) -> int:
        """Registers and returns the broker epoch.

        Waits at most `patience_s` for the registration of the previous run to expire, then raises
        `BrokerIdTaken`."""
        deadline_s = asyncio.get_running_loop().time() + patience_s
        node = await self._epoch_node()
        last_epoch = _version(node)
        condition = previous.log_condition(last_epoch, self._decode(node).run)
        # If the logs may lack something, a stop before this broker has given it up is not a clean
        # one for any registration.
        clean_stop = previous.clean_stop if condition is LogCondition.COMPLETE else None
        self._logs.clean_stop = clean_stop or NO_CLEAN_STOP
        # If this start is interrupted, the next one must see all epochs since the previous run, to
        # know that the page cache survived. If the tail may be lost, nothing is noted before this
        # broker has left the ISRs.
        since = None if condition is LogCondition.TAIL_MAY_BE_LOST else last_epoch
        while True:
            session_id = self._store.session_id
            ours = await self._wait_for_previous_registration(deadline_s)
            try:
                if ours is None and condition is not LogCondition.COMPLETE:
                    await self._bump_epoch(since)
                    # A leader may have let the previous run into an ISR a moment before
                    # its epoch ended, and the store may be late to tell: read it all again.
                    await self._cache.catch_up(EVERYTHING)
                await self._give_up_leadership(condition)
                self.epoch = await self._register(since, condition) if ours is None else ours
            except _Overtaken:
                logger.warning("another process had registered as broker %d meanwhile", self._id)
                condition, since = LogCondition.TAIL_MAY_BE_LOST, None
                self._logs.clean_stop = NO_CLEAN_STOP
                continue
            except (BadVersion, NodeExists, OutcomeUnknown):
                # Another broker has the same id, or a reply was lost: look who is registered.
                await asyncio.sleep(_LOOK_AGAIN_S)
                continue
            await self._cache.catch_up(broker_path(self._id))
            # Not before: if the store was not available, `run` tries again with the same session.
            self.session_id = session_id
            logger.info("broker %d is registered, in broker epoch %d", self._id, self.epoch)
            return self.epoch

    async def run(
        self,
        patience_s: float,
        *,
        on_loss: Callable[[], object],
        on_return: Callable[[], object],
    ) -> None:
        """Registers again whenever a new session begins, until cancelled. `on_loss` is called
        first: without a registration this broker leads no partition and is not the controller.
        `on_return` is called when it is registered again."""
        while True:
            await self._store.next_session(self.session_id)
            logger.warning("the session with the metadata store expired; registering again")
            on_loss()
            try:
                await self._cache.catch_up(EVERYTHING)
                # This process has all its logs, whichever of its registrations the store has: the
                # reply to the last one may have been lost.
                self._logs.begin_registration()
                await self.join(PreviousRun(self._logs.clean_stop), patience_s)
                on_return()
            except StoreUnavailable as error:
                logger.warning("cannot register again yet: %s", error)
                await asyncio.sleep(_LOOK_AGAIN_S)

    async def _wait_for_previous_registration(self, deadline_s: float) -> int | None:
        """Waits until no broker is registered under this id, at most until the deadline. Returns
        the broker epoch if this broker's present session is registered already."""
        path = broker_path(self._id)
        waited = False
        while (node := await self._store.read(path)) is not None:
            if node.owner == self._store.session_id:
                return await self._last_epoch()
            if asyncio.get_running_loop().time() >= deadline_s:
                raise BrokerIdTaken(
                    f"a broker with the id {self._id} is running already; "
                    "give this one another node.id"
                )
            if not waited:
                logger.info("waiting for the last registration of broker %d to end", self._id)
                waited = True
                if self._was_here(path, node) and await self._store.end_session(node.owner):
                    continue
            await asyncio.sleep(_LOOK_AGAIN_S)
        await self._cache.catch_up(path)
        return None

    def _was_here(self, path: str, node: Node) -> bool:
        """Returns whether the broker was registered with our own addresses: then it was a previous
        run of this broker, because no other process can listen there."""
        try:
            registered = BrokerRegistration.decode(path, node.value)
        except MalformedNode:
            return False
        return registered.listeners == self._describe(registered.epoch).listeners

    async def _epoch_node(self) -> Node | None:
        return await self._store.read(broker_epoch_path(self._id))

    async def _last_epoch(self) -> int:
        return _version(await self._epoch_node())

    async def _bump_epoch(self, since: int | None) -> None:
        """Bumps the broker epoch: a leader that still wants to add the previous run to an in-sync
        set is refused."""
        last = await self._last_epoch()
        if last != _NEVER_REGISTERED:
            if since is not None:
                self._logs.note_run(since, last + 1)
            path, node = broker_epoch_path(self._id), await self._epoch_node()
            value = b"" if node is None else node.value
            await attempt(self._cache, Set(path, value, last))

    async def _give_up_leadership(self, condition: LogCondition) -> None:
        image = self._cache.image
        held = [
            topic_partition
            for topic_partition, partition in partitions_of(image, image.topics)
            if self._id in (*partition.isr, *partition.eligible, partition.leader)
        ]
        disks = await self._replaced_disks()
        lost = [topic_partition for topic_partition in held if disks.is_lost(topic_partition)]
        others = image.brokers.keys() - {self._id}
        max_operations = MAX_OPERATIONS if others else _MAX_OPERATIONS_ALONE
        if lost:
            announce(image, self._id, lost, disks)
            reason = f"broker {self._id} starts without its log"
            await self._give_up(lost, LogCondition.LOST, reason, max_operations)
            held = [
                topic_partition for topic_partition in held if not disks.is_lost(topic_partition)
            ]
        await self._give_up(held, condition, f"broker {self._id} starts", max_operations)
        await self._take_back(disks)

    async def _take_back(self, disks: ReplacedDisks) -> None:
        """Leads the partitions again whose log was lost and is back, because the old disk is."""

        def decide(image: ClusterImage, partition: PartitionImage) -> PartitionState | None:
            return restored(partition, self._id, image.controller_epoch)

        image = self._cache.image
        back = [
            topic_partition
            for topic_partition, partition in partitions_of(image, image.topics)
            if self._id in partition.last_known and disks.is_back(topic_partition)
        ]
        reason = f"broker {self._id} has its log again"
        await change_states(self._cache, back, decide, reason)

    async def _give_up(
        self, held: list[TopicPartition], condition: LogCondition, reason: str, max_operations: int
    ) -> None:
        def decide(image: ClusterImage, partition: PartitionImage) -> PartitionState | None:
            return returning(partition, self._id, image.brokers, image.controller_epoch, condition)

        await change_states(self._cache, held, decide, reason, max_operations=max_operations)

    async def _replaced_disks(self) -> ReplacedDisks:
        return ReplacedDisks(self._logs, self._decode(await self._epoch_node()).log_directories)

    def _decode(self, node: Node | None) -> LastRegistration:
        try:
            path = broker_epoch_path(self._id)
            return LastRegistration() if node is None else LastRegistration.decode(path, node.value)
        except MalformedNode as error:
            logger.error("%s; whether a log directory was replaced is not known", error)
            return LastRegistration()

    async def _register(self, since: int | None, condition: LogCondition) -> int:
        path = broker_epoch_path(self._id)
        node = await self._epoch_node()
        last = _version(node)
        is_covered = self._logs.clean_stop.covers(last, self._decode(node).run)
        if condition is LogCondition.COMPLETE and not is_covered:
            raise _Overtaken
        epoch = last + 1
        disks = await self._replaced_disks()
        value = LastRegistration(disks.registered, self._logs.run_id).encode()
        next_epoch: Operation = (
            Create(path, value) if last == _NEVER_REGISTERED else Set(path, value, last)
        )
        self._logs.note_run(epoch if since is None else since, epoch)
        self._logs.begin_registration()
        registration = self._registration(epoch).encode()
        await attempt(
            self._cache, next_epoch, Create(broker_path(self._id), registration, ephemeral=True)
        )
        return epoch

    def _registration(self, epoch: int) -> BrokerRegistration:
        timeout_ms = int(1000 * self._store.session_timeout_s)
        return self._describe(epoch)._replace(session_timeout_ms=timeout_ms)


def _version(node: Node | None) -> int:
    return _NEVER_REGISTERED if node is None else node.version
