"""The state machines of one internal topic: one for each partition that this broker leads.

A machine is loaded when leadership comes and thrown away when it goes, or when its log fails;
until it is loaded its callers are asked to try again: nobody is answered from a state that
others may have changed. For the same reason nobody is answered while this broker has no lease
(`Replicas.is_leased`): every way to a machine, or to what it remembers, asks for it.

Which partition a key belongs to follows from its hash, the same way as in Kafka, so that either
can read what the other wrote.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Final, Generic, TypeVar

from odradek.metadata import ClusterImage
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.types import BrokerId, LeaderEpoch
from odradek.replication.partition_log import PartitionLog, unleased
from odradek.replication.replicas import Replicas
from odradek.statemachine.machine import Caller, Machine, Marker
from odradek.statemachine.pending_replies import CommitLimit
from odradek.statemachine.runner import Runner
from odradek.storage import StorageError
from odradek.world import Clock

logger = logging.getLogger("odradek.server")

Command = TypeVar("Command")
Event = TypeVar("Event")
T = TypeVar("T")


_FIRST_PAUSE_S: Final = 0.02
_MAX_PAUSE_S: Final = 1.0


class _Kept(Generic[Command, Event]):
    """One partition in one leader epoch, and its machine once the log can be had."""

    __slots__ = ("leader_epoch", "runner", "task", "untold")

    def __init__(self, leader_epoch: LeaderEpoch) -> None:
        self.leader_epoch = leader_epoch
        self.runner: Runner[Command, Event] | None = None
        self.task: asyncio.Task[None] | None = None
        # For all machines, and came while this one was being loaded.
        self.untold: list[Command] = []

    @property
    def is_loaded(self) -> bool:
        return self.runner is not None and self.runner.is_loaded


class StatePartitions(Generic[Command, Event]):
    """Invariant: a partition has at most one machine here, of the epoch this broker leads in."""

    def __init__(
        self,
        topic: str,
        broker_id: BrokerId,
        replicas: Replicas,
        clock: Clock,
        make_machine: Callable[[int], Machine[Command, Event]],
        *,
        limit: CommitLimit | None = None,
    ) -> None:
        """`limit` is how long a reply waits until the replicas have what it rests on."""
        self.topic = topic
        self._broker_id = broker_id
        self._replicas = replicas
        self._clock = clock
        self._make_machine = make_machine
        self._limit = limit
        self._image = ClusterImage()
        self._kept: dict[int, _Kept[Command, Event]] = {}
        self._group: asyncio.TaskGroup | None = None
        # Set, and replaced, when the lease is back or a partition is no longer kept.
        self._news = asyncio.Event()

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
            for partition in list(self._kept):
                self._unload(partition)

    async def ask(self, key: str, command: Command) -> object:
        """The machine's reply, once what it rests on is committed."""
        return await self._runner(partition_of(key, self._image, self.topic)).ask(command)

    def begin(self, key: str, command: Command) -> asyncio.Future[object]:
        """The same for who would rather not wait: see `Runner.begin`."""
        return self._runner(partition_of(key, self._image, self.topic)).begin(command)

    def begin_together(
        self,
        key: str,
        commands: Sequence[T],
        together: Callable[[Sequence[tuple[T, Caller]]], Command],
    ) -> list[asyncio.Future[object]]:
        """Several commands about one key, decided as one: see `Runner.begin_together`."""
        runner = self._runner(partition_of(key, self._image, self.topic))
        return runner.begin_together(commands, together)

    def tell(self, key: str, command: Command) -> None:
        self._runner(partition_of(key, self._image, self.topic)).tell(command)

    def tell_all(self, command: Command) -> None:
        """A command for every machine that is kept here; those being loaded hear it later."""
        for kept in list(self._kept.values()):
            if kept.runner is not None and kept.runner.is_loaded:
                kept.runner.tell(command)
            else:
                kept.untold.append(command)

    def is_committed(self, key: str) -> bool:
        """Whether everything about a key is committed, for machines whose subjects are their keys.
        What is asked next without awaiting anything is decided on the same state."""
        return self._runner(partition_of(key, self._image, self.topic)).is_committed(key)

    def leader_epoch(self, key: str) -> LeaderEpoch:
        """The epoch in which this broker keeps the state of a key."""
        partition = partition_of(key, self._image, self.topic)
        self._runner(partition)
        return self._kept[partition].leader_epoch

    def note(self, partition: int, marker: Marker, end_offset: int) -> None:
        """Passes on the end of a transaction that was written to the machine's own log."""
        kept = self._kept.get(partition)
        if kept is not None and kept.runner is not None:
            kept.runner.note(marker, end_offset)

    def machines(self) -> Iterator[Machine[Command, Event]]:
        """The machines that are loaded here. Raises `ApiError` while there is no lease."""
        if not self._replicas.is_leased:
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, unleased().message)
        return self._loaded_machines()

    def _loaded_machines(self) -> Iterator[Machine[Command, Event]]:
        for partition in sorted(self._kept):
            runner = self._kept[partition].runner
            if runner is not None and runner.is_loaded:
                yield runner.machine

    def send_away(self) -> None:
        """Refuses everyone who waits for a machine, because the lease is lost (`broker.lease`):
        members that wait for a rebalance, and replies that wait for replicas."""
        for kept in self._kept.values():
            if kept.runner is not None:
                kept.runner.send_away()

    async def regains(self, key: str) -> bool:
        """Returns whether this broker answers for the key again after it was refused, because it
        has its lease back. It does not if it lost its role, or loads the machine anew: then the
        machine begins with what it finds in the log."""
        partition = partition_of(key, self._image, self.topic)
        kept = self._kept.get(partition)
        runner = None if kept is None else kept.runner
        if runner is None:
            return False
        while runner.is_loaded and not self._replicas.is_leased:
            await self._news_within(_MAX_PAUSE_S)
        return runner.is_loaded and runner.may_answer

    async def _news_within(self, longest_s: float) -> None:
        """Waits for `wake`, but not longer than this: a lease that was lost for a moment only may
        be back without anybody having noticed."""
        with suppress(TimeoutError):
            async with asyncio.timeout(longest_s):
                await self._news.wait()

    def wake(self) -> None:
        """Wakes those who wait for the lease, in `regains` or to load a machine. `broker.lease`
        calls it when the lease is back, and the broker when it has registered again."""
        wakened, self._news = self._news, asyncio.Event()
        wakened.set()

    def is_loading(self) -> bool:
        return any(not kept.is_loaded for kept in self._kept.values())

    def _runner(self, partition: int) -> Runner[Command, Event]:
        kept = self._kept.get(partition)
        if kept is None:
            raise ApiError(ErrorCode.NOT_COORDINATOR)
        if not self._replicas.is_leased:
            raise unleased()
        if kept.runner is None or not kept.runner.is_loaded:
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return kept.runner

    # Following leadership

    def follow(self, image: ClusterImage) -> None:
        self._image = image
        if self._group is None:
            return
        topic = image.topics.get(self.topic)
        led = {
            state.partition: state.leader_epoch
            for state in (topic.partitions if topic is not None else ())
            if state.leader == self._broker_id
        }
        for partition, kept in list(self._kept.items()):
            if led.get(partition) != kept.leader_epoch:
                self._unload(partition)
        for partition, leader_epoch in led.items():
            if partition not in self._kept:
                kept = self._kept[partition] = _Kept(leader_epoch)
                kept.task = self._group.create_task(self._keep(partition, kept))

    async def _keep(self, partition: int, kept: _Kept[Command, Event]) -> None:
        """Loads the machine; when an append fails, throws it away and loads it again."""
        pause_s = _FIRST_PAUSE_S
        while True:
            try:
                replica = self._replicas.leader(self.topic, partition)
                log = PartitionLog(replica, lambda: self._replicas.is_leased)
                runner = Runner(self._make_machine(partition), log, self._clock, self._limit)
                kept.runner = runner
                await runner.load()
            except (ApiError, StorageError) as error:
                logger.warning("cannot load %s-%d yet: %s", self.topic, partition, error)
                if kept.runner is not None:
                    kept.runner.end(ApiError(ErrorCode.NOT_COORDINATOR))
            else:
                pause_s = _FIRST_PAUSE_S
                untold, kept.untold = kept.untold, []
                for command in untold:
                    if runner.is_loaded:
                        runner.tell(command)
                await runner.ended.wait()
                logger.warning("loading %s-%d again: its log failed", self.topic, partition)
            await self._news_within(pause_s)
            pause_s = min(2 * pause_s, _MAX_PAUSE_S)

    def _unload(self, partition: int) -> None:
        kept = self._kept.pop(partition)
        if kept.task is not None:
            kept.task.cancel()
        if kept.runner is not None:
            kept.runner.end(ApiError(ErrorCode.NOT_COORDINATOR))
        self.wake()


def partition_of(key: str, image: ClusterImage, topic: str) -> int:
    """The partition of an internal topic that keeps the state of a key."""
    found = image.topics.get(topic)
    if found is None:
        raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return (_java_hash(key) & 0x7FFFFFFF) % len(found.partitions)


@lru_cache(maxsize=4096)
def _java_hash(text: str) -> int:
    """`String.hashCode` of Java: over UTF-16 code units, in 32 bits. Kept for the keys of late,
    because each request of a group's member asks for it."""
    value = 0
    units = text.encode("utf-16-be")
    for position in range(0, len(units), 2):
        value = (31 * value + (units[position] << 8) + units[position + 1]) & 0xFFFFFFFF
    return value
