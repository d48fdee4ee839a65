"""The coordinators of one internal topic: a state machine for each partition that this broker
leads.

A machine is loaded from the partition's log when this broker becomes the leader, and discarded when
it no longer is, or when its log fails. Until it is loaded, clients are told to try again, so that
no client is answered from state that another broker may have changed. For the same reason no client
is answered while this broker has no lease (`Replicas.is_leased`): every access to a machine checks
it.

If a machine violates an invariant, its partition alone goes out of service: the violation and the
recent history go to the log, the replica goes offline, and clients get COORDINATOR_NOT_AVAILABLE
until another broker is elected or this one restarts.

The partition of a key is computed from the hash of the key as in Kafka, so that Kafka and Odradek
can read each other's internal topics.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any, Final, Generic, TypeVar

from odradek import invariants
from odradek.invariants import InvariantViolation
from odradek.metadata import ClusterImage
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.types import BrokerId, LeaderEpoch, Offset
from odradek.replication.partition_log import PartitionLog, unleased
from odradek.replication.replicas import Replicas
from odradek.statemachine.machine import Caller, Command, Effect, Machine, Marker, R
from odradek.statemachine.pending_replies import CommitTimeout
from odradek.statemachine.runner import Runner
from odradek.storage import StorageError
from odradek.world import Clock

logger = logging.getLogger("odradek.server")

M = TypeVar("M", bound=Machine[Any, Any, ClusterImage])
T = TypeVar("T")


_FIRST_PAUSE_S: Final = 0.02
_MAX_PAUSE_S: Final = 1.0


class _Coordinator(Generic[M, Effect]):
    """The coordinator of one partition in one leader epoch."""

    __slots__ = ("is_out_of_service", "leader_epoch", "machine", "runner", "task", "told_later")

    def __init__(self, leader_epoch: LeaderEpoch) -> None:
        self.leader_epoch = leader_epoch
        # None until the log can be opened.
        self.machine: M | None = None
        self.runner: Runner[Any, Effect, ClusterImage] | None = None
        self.task: asyncio.Task[None] | None = None
        # Commands for all machines that came while this one was being loaded.
        self.told_later: list[Command[Any]] = []
        self.is_out_of_service = False

    @property
    def is_loaded(self) -> bool:
        return self.runner is not None and self.runner.is_loaded


class CoordinatorPartitions(Generic[M, Effect]):
    """The coordinators of one internal topic on this broker. Handlers send commands through it.

    Invariant: a partition has at most one machine here, that of the current leader epoch."""

    def __init__(
        self,
        topic: str,
        broker_id: BrokerId,
        replicas: Replicas,
        clock: Clock,
        make_machine: Callable[[int], M],
        *,
        perform: Callable[[Effect], None],
        limit: CommitTimeout | None = None,
    ) -> None:
        """`perform` performs the effects of the machines' outcomes. `limit` is how long a reply
        waits at most until the replicas have the records that it depends on."""
        self.topic = topic
        self._broker_id = broker_id
        self._replicas = replicas
        self._clock = clock
        self._make_machine = make_machine
        self._perform = perform
        self._limit = limit
        self._image = ClusterImage()
        self._coordinators: dict[int, _Coordinator[M, Effect]] = {}
        self._group: asyncio.TaskGroup | None = None
        # Set, and replaced, when the lease is back or a coordinator was unloaded.
        self._changed = asyncio.Event()

    async def run(self) -> None:
        """Loads machines as leadership comes, until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                try:
                    self.follow(self._image)
                    await asyncio.get_running_loop().create_future()
                finally:
                    # The group takes no more tasks while it waits for those that it cancels.
                    self._group = None
        finally:
            for partition in list(self._coordinators):
                self._unload(partition)

    # Commands

    async def ask(self, key: str, command: Command[R]) -> R:
        """Returns the reply of the state machine when the records that it depends on are
        committed."""
        return await self._runner(partition_of(key, self._image, self.topic)).ask(command)

    def begin(self, key: str, command: Command[R]) -> asyncio.Future[R]:
        """Decides about the command at once: see `Runner.begin`."""
        return self._runner(partition_of(key, self._image, self.topic)).begin(command)

    def begin_together(
        self,
        key: str,
        commands: Sequence[T],
        together: Callable[[Sequence[tuple[T, Caller[R]]]], Command[None]],
    ) -> list[asyncio.Future[R]]:
        """Decides about several commands of one key as one: see `Runner.begin_together`."""
        runner = self._runner(partition_of(key, self._image, self.topic))
        return runner.begin_together(commands, together)

    @property
    def has_coordinators(self) -> bool:
        """Whether this broker leads a partition of the topic."""
        return bool(self._coordinators)

    def tell_all(self, command: Command[Any]) -> None:
        """Gives a command to every machine here; a machine that is being loaded gets it later."""
        for coordinator in list(self._coordinators.values()):
            if coordinator.runner is not None and coordinator.runner.is_loaded:
                coordinator.runner.tell(command)
            else:
                coordinator.told_later.append(command)

    def leader_epoch(self, key: str) -> LeaderEpoch:
        """Returns the leader epoch of the key's partition, which this broker leads."""
        partition = partition_of(key, self._image, self.topic)
        self._runner(partition)
        return self._coordinators[partition].leader_epoch

    def note(self, partition: int, marker: Marker, end_offset: Offset) -> None:
        """Tells the state machine of a transaction marker that was written to its own log."""
        coordinator = self._coordinators.get(partition)
        if coordinator is not None and coordinator.runner is not None:
            coordinator.runner.note(marker, end_offset)

    def machines(self) -> Iterator[M]:
        """Returns the machines that are loaded here. Raises `ApiError` while there is no lease."""
        if not self._replicas.is_leased:
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, unleased().message)
        return self._loaded_machines()

    def _loaded_machines(self) -> Iterator[M]:
        for partition in sorted(self._coordinators):
            coordinator = self._coordinators[partition]
            if coordinator.machine is not None and coordinator.is_loaded:
                yield coordinator.machine

    def is_loading(self) -> bool:
        return any(
            not coordinator.is_loaded and not coordinator.is_out_of_service
            for coordinator in self._coordinators.values()
        )

    def _runner(self, partition: int) -> Runner[Any, Effect, ClusterImage]:
        coordinator = self._coordinators.get(partition)
        if coordinator is None:
            raise ApiError(ErrorCode.NOT_COORDINATOR)
        if not self._replicas.is_leased:
            raise unleased()
        if coordinator.is_out_of_service:
            raise ApiError(
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
                f"{self.topic}-{partition} is out of service after an internal error; see the"
                " broker's log.",
            )
        if coordinator.runner is None or not coordinator.runner.is_loaded:
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return coordinator.runner

    # The lease

    def fail_waiters(self) -> None:
        """Fails every client that waits for a machine, because the lease is lost (`broker.lease`):
        members that wait for a rebalance, and replies that wait for replicas."""
        for coordinator in self._coordinators.values():
            if coordinator.runner is not None:
                coordinator.runner.fail_waiters()

    async def regains(self, key: str) -> bool:
        """Waits for the lease after a request about the key was refused, and returns whether this
        broker answers for the key again from the same state machine. It does not if it lost its
        role, or loads a new state machine from the log."""
        partition = partition_of(key, self._image, self.topic)
        coordinator = self._coordinators.get(partition)
        runner = None if coordinator is None else coordinator.runner
        if runner is None:
            return False
        while runner.is_loaded and not self._replicas.is_leased:
            await self._change_within(_MAX_PAUSE_S)
        return runner.is_loaded and runner.may_answer

    async def _change_within(self, max_wait_s: float) -> None:
        """Waits for `wake`, but no longer than this: a lease that was lost for a moment only may
        be back without a call of `wake`."""
        with suppress(TimeoutError):
            async with asyncio.timeout(max_wait_s):
                await self._changed.wait()

    def wake(self) -> None:
        """Wakes the tasks that wait for the lease, in `regains` or to load a machine.
        `broker.lease` calls it when the lease is back, and the broker when it has registered
        again."""
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    # Leadership

    def follow(self, image: ClusterImage) -> None:
        """Loads and unloads machines as the image says which partitions this broker leads."""
        self._image = image
        if self._group is None:
            return
        topic = image.topics.get(self.topic)
        led = {
            state.partition: state.leader_epoch
            for state in (topic.partitions if topic is not None else ())
            if state.leader == self._broker_id
        }
        for partition, coordinator in list(self._coordinators.items()):
            if led.get(partition) != coordinator.leader_epoch:
                self._unload(partition)
        for partition, leader_epoch in led.items():
            if partition not in self._coordinators:
                coordinator = self._coordinators[partition] = _Coordinator(leader_epoch)
                coordinator.task = self._group.create_task(self._keep(partition, coordinator))

    async def _keep(self, partition: int, coordinator: _Coordinator[M, Effect]) -> None:
        """Loads the state machine, and loads it again when its log has failed."""
        pause_s = _FIRST_PAUSE_S
        while True:
            try:
                runner = self._open(partition, coordinator)
                await runner.load()
            except (ApiError, StorageError) as error:
                logger.warning("cannot load %s-%d yet: %s", self.topic, partition, error)
                if coordinator.runner is not None:
                    coordinator.runner.end(ApiError(ErrorCode.NOT_COORDINATOR))
            except InvariantViolation as violation:
                self._take_out_of_service(partition, coordinator, violation)
                return
            else:
                pause_s = _FIRST_PAUSE_S
                told_later, coordinator.told_later = coordinator.told_later, []
                for command in told_later:
                    if runner.is_loaded:
                        runner.tell(command)
                await runner.ended.wait()
                if isinstance(runner.failure, InvariantViolation):
                    self._take_out_of_service(partition, coordinator, runner.failure)
                    return
                logger.warning("loading %s-%d again: its log failed", self.topic, partition)
            await self._change_within(pause_s)
            pause_s = min(2 * pause_s, _MAX_PAUSE_S)

    def _open(
        self, partition: int, coordinator: _Coordinator[M, Effect]
    ) -> Runner[Any, Effect, ClusterImage]:
        replica = self._replicas.leader(self.topic, partition)
        log = PartitionLog(replica, lambda: self._replicas.is_leased)
        machine = coordinator.machine = self._make_machine(partition)
        coordinator.runner = Runner(
            machine,
            log,
            self._clock,
            image=lambda: self._image,
            perform=self._perform,
            limit=self._limit,
        )
        return coordinator.runner

    def _take_out_of_service(
        self, partition: int, coordinator: _Coordinator[M, Effect], violation: InvariantViolation
    ) -> None:
        """Serves the partition no more after a machine violated an invariant.

        If the state machine was loaded, its replica goes offline, so that another broker is elected
        and loads the state from its log. If the violation comes while the log is replayed, it would
        come at every other replica too: then the replica keeps its role, and only the coordinator
        is out of service.
        """
        coordinator.is_out_of_service = True
        runner = coordinator.runner
        was_loaded = runner is not None and runner.was_loaded
        if runner is not None:
            runner.end(violation)
        name = f"{self.topic}-{partition}"
        logger.error(
            "the coordinator of %s is out of service: %s", name, violation, exc_info=violation
        )
        if was_loaded:
            with suppress(ApiError):
                self._replicas.leader(self.topic, partition).go_offline(violation)
        if invariants.is_thorough():
            raise violation

    def _unload(self, partition: int) -> None:
        coordinator = self._coordinators.pop(partition)
        if coordinator.task is not None:
            coordinator.task.cancel()
        if coordinator.runner is not None:
            coordinator.runner.end(ApiError(ErrorCode.NOT_COORDINATOR))
        self.wake()


def partition_of(key: str, image: ClusterImage, topic: str) -> int:
    """Returns the partition of an internal topic that holds the state of a key."""
    topic_image = image.topics.get(topic)
    if topic_image is None:
        raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return (_java_hash(key) & 0x7FFFFFFF) % len(topic_image.partitions)


@lru_cache(maxsize=4096)
def _java_hash(text: str) -> int:
    """`String.hashCode` of Java: over UTF-16 code units, in 32 bits. The results for recent keys
    are cached, because each request of a group's member needs one."""
    value = 0
    units = text.encode("utf-16-be")
    for position in range(0, len(units), 2):
        value = (31 * value + (units[position] << 8) + units[position + 1]) & 0xFFFFFFFF
    return value
