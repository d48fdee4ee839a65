"""All replicas on this broker, as the cluster's image assigns them.

A new topic gets its logs, a deleted one loses them. Requests for a partition that this broker leads
are served; others are refused with the error code that makes the client look for the leader.

Creating or deleting a partition costs some system calls. A change of more than a few partitions is
prepared before its image is published (`prepare`), a few milliseconds at a time: new partitions are
created with their roles, but not served yet; those of deleted topics end. `follow` then takes over
the whole change at once, so that the image and the replicas always agree.

The lease: a broker that was stopped or cut off for longer than its session with the metadata store
cannot know whether another broker leads by now. Its own monotonic clock tells it that it was away,
and it refuses the requests that have queued up. Three places ask `is_leased`, so that no handler
has to: `leader` and `reader` here, `replication.coordinator_partitions` for the state of
coordinators, and `broker.client_metadata` for what clients are told about the cluster.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Final, Protocol

from odradek import invariants
from odradek.config.live import LiveSettings
from odradek.invariants import InvariantViolation
from odradek.metadata import ClusterImage, ImageChange, PartitionImage, TopicImage
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.types import NO_TOPIC_ID, BrokerId, TopicId, TopicPartition
from odradek.replication.log_creation_retries import LogCreationRetries
from odradek.replication.partition import Partition
from odradek.replication.throttle import Throttle
from odradek.storage import Log, LogManager, StorageError
from odradek.storage.errors import PartitionLocked
from odradek.wording import counted
from odradek.world import Clock
from odradek.world.garbage_collection import collect_recent
from odradek.world.timeslice import Timeslice

logger = logging.getLogger("odradek.state_change")

_NO_LOG: Final = "Broker {} cannot make or open the log of the partition; its server.log says why."
# If more partitions change their role at once, they are logged in one line (each of them at DEBUG).
_MAX_LOGGED_ROLES: Final = 10
# If more partitions are created or deleted at once, they are prepared: each takes about 0.2 ms.
_MAX_AT_ONCE: Final = 20
# After so many partitions have ended the garbage collector is called, for about a millisecond.
_ENDS_PER_COLLECTION: Final = 500


class Lease(Protocol):
    """Until when this broker may assume that it still leads its partitions."""

    def is_valid(self, now_s: float) -> bool:
        """`now_s` is a time of the monotonic clock."""
        ...

    @property
    def max_s(self) -> float:
        """How long the lease of a broker lasts at most after it was last in touch with the store.
        It is the same for all brokers of a cluster."""
        ...


class Replicas:
    """Invariant: the tables by name and by id hold the same partitions."""

    def __init__(
        self,
        broker_id: BrokerId,
        logs: LogManager,
        settings: LiveSettings,
        clock: Clock | None = None,
        lease: Lease | None = None,
    ) -> None:
        """`lease` is None for a lone broker with a metadata store in its own process: no other
        broker can lead its partitions."""
        self._broker_id = broker_id
        self._logs = logs
        self._settings = settings
        self._clock = clock
        self.lease = lease
        # For what other brokers fetch from this one, and for what this broker fetches.
        self.leader_throttle, self.follower_throttle = Throttle(), Throttle()
        self._image = ClusterImage()
        self._by_name: dict[tuple[str, int], Partition] = {}
        self._by_id: dict[tuple[bytes, int], Partition] = {}
        self.log_creation_retries = LogCreationRetries()
        # Created for an image that is not published yet.
        self._prepared: dict[tuple[str, int], Partition] = {}
        # Topics whose partitions end before the image without them is published.
        self._ending: set[TopicId] = set()
        logs.on_start_moved.add(self._start_moved)
        logs.on_log_failure.add(self._log_failed)
        logs.on_keys_asked_for.add(self.log_creation_retries.hurry)
        logs.cleaner.is_on_every_replica = self._is_on_every_replica

    def __len__(self) -> int:
        return len(self._by_name)

    def partitions(self) -> Iterable[Partition]:
        return self._by_name.values()

    async def checkpoint_log_start_offsets(self) -> None:
        await self._logs.checkpoint_log_start_offsets()

    def check(self) -> None:
        """Raises `InvariantViolation` if the tables or the roles contradict each other. Walks over
        all partitions, so it is only called while `invariants.is_thorough()`."""
        by_id = {
            (partition.topic_id, partition.topic_partition.partition): partition
            for partition in self._by_name.values()
        }
        if by_id != self._by_id:
            raise InvariantViolation("replicas", "the tables by name and by id differ")
        for name, partition in self._by_name.items():
            if partition.topic_partition != name:
                raise InvariantViolation("replicas", f"{partition} stands at {name}")
            if partition.log.is_usable:
                partition.check()

    # For the handlers of requests

    def leader(self, topic: str, index: int) -> Partition:
        """Returns the partition if this broker leads it; raises `ApiError` otherwise."""
        partition = self._by_name.get((topic, index))
        if partition is None or not partition.is_leader:
            raise self._refusal(self._image.topics.get(topic), index)
        if self.lease is not None:
            self._require_lease(self.lease)
        return partition

    def leader_by_id(self, topic_id: TopicId, index: int) -> Partition:
        partition = self._by_id.get((topic_id, index))
        if partition is None or not partition.is_leader:
            topic = self._image.topics_by_id.get(topic_id)
            if topic is None:
                raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID)
            raise self._refusal(topic, index)
        if self.lease is not None:
            self._require_lease(self.lease)
        return partition

    def reader(self, topic: str, topic_id: TopicId, index: int) -> Partition:
        """Returns the partition if consumers may read it here: it leads or follows (KIP-392).
        Looks it up by the topic's name, or by its id if the name is empty."""
        partition = (
            self._by_name.get((topic, index)) if topic else self._by_id.get((topic_id, index))
        )
        if partition is None or partition.is_leader or not partition.has_role:
            return self.leader(topic, index) if topic else self.leader_by_id(topic_id, index)
        if self.lease is not None:
            # The records of a follower that is cut off are right, but it gets no new ones: a
            # consumer on its rack would wait here instead of reading from the leader.
            self._require_lease(self.lease)
        return partition

    def get(self, topic: str, index: int) -> Partition | None:
        """Returns the replica on this broker, whatever its role."""
        return self._by_name.get((topic, index))

    @property
    def is_leased(self) -> bool:
        """Whether this broker may assume that it still leads its partitions."""
        return self.lease is None or self._is_valid(self.lease)

    @property
    def max_lease_s(self) -> float:
        """How long this broker may assume that it leads after it was deposed."""
        return 0.0 if self.lease is None else self.lease.max_s

    def _is_valid(self, lease: Lease) -> bool:
        clock = self._clock
        # The event loop's own time may be as old as this turn of the loop.
        now_s = asyncio.get_running_loop().time() if clock is None else clock.monotonic_s()
        return lease.is_valid(now_s)

    def _require_lease(self, lease: Lease) -> None:
        if not self._is_valid(lease):
            raise _unleased()

    def _refusal(self, topic: TopicImage | None, index: int) -> ApiError:
        if topic is None or not 0 <= index < len(topic.partitions):
            return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if topic.topic_id in self._ending:
            return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if self._broker_id in topic.partitions[index].replicas:
            log = self._logs.get(TopicPartition(topic.name, index))
            if log is None or not log.is_usable:
                return ApiError(ErrorCode.KAFKA_STORAGE_ERROR, _NO_LOG.format(self._broker_id))
        return ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def _start_moved(self, topic_partition: TopicPartition) -> None:
        partition = self._by_name.get(topic_partition)
        if partition is not None:
            partition.start_moved()

    def _is_on_every_replica(self, topic_partition: TopicPartition) -> bool:
        """Returns whether every replica of a partition has all records below the high watermark
        that this broker knows: all are in the ISR. Without its lease the broker cannot know."""
        state = self._image.partition(*topic_partition)
        return state is not None and self.is_leased and set(state.replicas) <= set(state.isr)

    def _log_failed(self, topic_partition: TopicPartition) -> None:
        """An invariant of a log was violated outside of requests, as in retention: its replica is
        offline (`Log.fail`)."""
        partition = self._by_name.get(topic_partition)
        if partition is not None and partition.log.has_failed and partition.has_role:
            partition.resign(_offline())

    # For the cluster's image

    async def prepare(self, change: ImageChange) -> None:
        """Called before a change is published; see the module."""
        if change.before.store_id not in ("", change.after.store_id):
            return  # Another store: `follow` keeps the logs that it does not know.
        removed = [
            topic for name in change.topics if (topic := _removed_topic(change, name)) is not None
        ]
        new = [
            (topic, state)
            for name in change.topics
            if (topic := change.after.topics.get(name)) is not None
            for state in change.partitions(topic)
            if self._broker_id in state.replicas
            and (topic.topic_id, state.partition) not in self._by_id
        ]
        if len(new) + sum(len(topic.partitions) for topic in removed) <= _MAX_AT_ONCE:
            return
        timeslice = Timeslice.of_running_loop()
        for topic in removed:
            self._ending.add(topic.topic_id)
            for number, state in enumerate(topic.partitions, start=1):
                if timeslice.is_over():
                    await timeslice.next_turn()
                self._end(topic, state.partition)
                if not number % _ENDS_PER_COLLECTION:
                    collect_recent()
        for topic, state in new:
            if timeslice.is_over():
                await timeslice.next_turn()
            topic_partition = TopicPartition(topic.name, state.partition)
            if topic_partition in self._by_name:
                continue  # Of a topic whose end could not be prepared.
            partition = self._make(topic_partition, topic, state)
            if partition is not None:
                self._take_role(partition, state, asyncio.get_running_loop().time())
                self._prepared[topic_partition] = partition

    def follow(self, change: ImageChange) -> None:
        """Takes over the difference between two images."""
        self._image = change.after
        self._ending.clear()
        taken_up: list[Partition] = []
        for name in change.topics:
            removed, after = _removed_topic(change, name), change.after.topics.get(name)
            if removed is not None:
                for state in removed.partitions:
                    self._end(removed, state.partition)
                self._logs.discard_locked(removed.name)
            if after is not None:
                self._update(change, after, taken_up)
        # Partitions that were prepared for another image than this one.
        self._prepared.clear()
        if invariants.is_thorough():
            self.check()
        if taken_up:
            _log_roles(taken_up)

    def reconfigure(self) -> None:
        """Gives the settings that are in force now to every log and to the log manager."""
        self._logs.settings = self._settings.broker
        for topic in self._image.topics.values():
            settings = self._settings.put_in_force(topic.name, topic.overrides)
            self._logs.configure(topic.name, settings)

    def remove_strays(self) -> int:
        """Deletes logs of partitions that the cluster does not assign to this broker; returns how
        many there were. A log that this metadata store never knew is renamed instead and kept: the
        store may have replaced one that was lost."""
        strays = [log for log in self._logs.logs.values() if not self._is_assigned(log)]
        for log in strays:
            self._discard(log, "the cluster has no such partition here")
        self._logs.trust_store()
        return len(strays)

    def _discard(self, log: Log, reason: str) -> None:
        name = log.topic_partition
        if log.directory.store_id == self._image.store_id:
            logger.warning("deleting %s: %s", log.path, reason)
            retire: Callable[[TopicPartition], object] = self._logs.delete
        else:
            logger.warning("%s: %s, and the metadata store never knew it", log.path, reason)
            retire = self._logs.set_aside
        try:
            kept = retire(name)
        except StorageError as error:
            logger.error("cannot put %s aside: %s", log.path, error)
        else:
            if kept:
                logger.warning("%s is kept as %s", log.path, kept)

    def resign(self) -> None:
        """Gives up all roles: every request that waits is told at once to look for the leader."""
        for partition in self._by_name.values():
            partition.resign(ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER))

    async def fail_waiters(self) -> None:
        """Refuses every request that waits at a partition, because the lease is lost
        (`broker.lease`). A produce request would otherwise wait for its timeout while another
        broker leads."""
        timeslice = Timeslice.of_running_loop()
        for partition in list(self._by_name.values()):
            if timeslice.is_over():
                await timeslice.next_turn()
            partition.fail_waiters(_unleased())

    def _is_assigned(self, log: Log) -> bool:
        """Returns whether the cluster assigns a replica of this log's partition to this broker."""
        topic = self._image.topics.get(log.topic_partition.topic)
        index = log.topic_partition.partition
        return (
            topic is not None
            and log.topic_id in (NO_TOPIC_ID, topic.topic_id)
            and index < len(topic.partitions)
            and self._broker_id in topic.partitions[index].replicas
        )

    def _update(self, change: ImageChange, topic: TopicImage, taken_up: list[Partition]) -> None:
        """Adds to `taken_up` every partition whose role or leader has changed."""
        if change.is_reconfigured(topic):
            settings = self._settings.put_in_force(topic.name, topic.overrides)
            self._logs.configure(topic.name, settings)
        now_s = asyncio.get_running_loop().time()
        for state in change.partitions(topic):
            partition = self._by_name.get((topic.name, state.partition))
            if self._broker_id not in state.replicas:
                if partition is not None:
                    self._drop(partition, topic.topic_id)
                continue
            if partition is None:
                partition = self._prepared.pop((topic.name, state.partition), None)
                is_ready = partition is not None and partition.topic_id == topic.topic_id
                if not is_ready:
                    partition = self._make(
                        TopicPartition(topic.name, state.partition), topic, state
                    )
                if partition is None:
                    continue
                self._by_name[partition.topic_partition] = partition
                self._by_id[(topic.topic_id, state.partition)] = partition
                if is_ready:
                    taken_up.append(partition)
                    continue
            before = (partition.leader, partition.leader_epoch)
            self._take_role(partition, state, now_s)
            if before != (partition.leader, partition.leader_epoch):
                taken_up.append(partition)

    def _take_role(self, partition: Partition, state: PartitionImage, now_s: float) -> None:
        if not partition.log.is_usable:
            # Its directory or the log itself is offline: it has no role until the next start.
            partition.resign(_offline())
        elif state.leader == self._broker_id:
            partition.lead(state, now_s)
        else:
            partition.follow(state.leader, state.leader_epoch)

    def _make(
        self, topic_partition: TopicPartition, topic: TopicImage, state: PartitionImage
    ) -> Partition | None:
        """Returns the replica with its log, which is created if it does not exist; None if it
        cannot be."""
        settings = self._settings.topic(topic.overrides)
        known = self._logs.get(topic_partition)
        if known is not None and known.topic_id not in (NO_TOPIC_ID, topic.topic_id):
            self._discard(known, "it belongs to another topic of that name")
        is_new = state.version <= 0 or self._broker_id in state.adding
        if self._logs.get(topic_partition) is None and not is_new:
            offline = self._logs.offline_directories
            if offline:
                # A new, empty log in another directory would be taken for the one that exists.
                logger.error(
                    "%s: its log may be in %s, which is offline", topic_partition, offline[0].path
                )
                return None
        try:
            log = self._logs.create(topic_partition, topic.topic_id, settings)
        except PartitionLocked:  # It was logged why.
            self.log_creation_retries.add(topic_partition.topic)
            return None
        except StorageError as error:
            logger.error("cannot make a log for %s: %s", topic_partition, error)
            self.log_creation_retries.add(topic_partition.topic)
            return None
        return Partition(topic_partition, topic.topic_id, log, self._broker_id)

    def _end(self, topic: TopicImage, index: int) -> None:
        partition = self._by_id.get((topic.topic_id, index))
        if partition is not None:
            self._drop(partition, topic.topic_id)

    def _drop(self, partition: Partition, topic_id: TopicId) -> None:
        """The cluster no longer assigns this replica to this broker."""
        name = partition.topic_partition
        del self._by_name[name]
        del self._by_id[(topic_id, name.partition)]
        partition.resign(ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
        if partition.log.directory.store_id != self._image.store_id:
            # The topic is missing because another metadata store took the place of a lost one.
            logger.error("%s: its metadata store was lost; the log is kept", name)
            return
        try:
            self._logs.delete(name)
        except StorageError as error:
            logger.error("cannot delete the log of %s: %s", name, error)


def _removed_topic(change: ImageChange, name: str) -> TopicImage | None:
    """Returns the topic of this name that a change removes, even if a new one replaces it."""
    before, after = change.before.topics.get(name), change.after.topics.get(name)
    is_gone = before is not None and (after is None or after.topic_id != before.topic_id)
    return before if is_gone else None


def _offline() -> ApiError:
    return ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "This replica is offline.")


def _unleased() -> ApiError:
    return ApiError(
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        "This broker lost touch with its cluster; others may lead by now.",
    )


def _log_roles(taken_up: list[Partition]) -> None:
    level = logging.INFO if len(taken_up) <= _MAX_LOGGED_ROLES else logging.DEBUG
    if logger.isEnabledFor(level):
        for partition in taken_up:
            name, epoch, log = partition.topic_partition, partition.leader_epoch, partition.log
            if partition.is_leader:
                message = "%s: leads in epoch %d, log end %d"
                logger.log(level, message, name, epoch, log.log_end_offset)
            elif partition.leader < 0:
                logger.log(level, "%s: has no leader, epoch %d", name, epoch)
            else:
                message = "%s: follows broker %d in epoch %d, log end %d"
                logger.log(level, message, name, partition.leader, epoch, log.log_end_offset)
    if level == logging.DEBUG:
        led = sum(partition.is_leader for partition in taken_up)
        logger.info(
            "new roles: leads %s, follows others in %d",
            counted(led, "partition"),
            len(taken_up) - led,
        )
