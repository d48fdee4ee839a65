"""The state machines of one internal topic: one for each partition that this broker leads.

A machine is loaded when leadership comes and thrown away when it goes; until it is loaded its
callers are asked to try again. Which partition a key belongs to follows from its hash, the
same way as in Kafka, so that either can read what the other wrote.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from odradek.metadata import ClusterImage
from odradek.protocol.errors import ErrorCode
from odradek.protocol.types import BrokerId, LeaderEpoch
from odradek.replication.partition_log import PartitionLog
from odradek.replication.refusal import Refused
from odradek.replication.replicas import Replicas
from odradek.statemachine.machine import Machine, Marker
from odradek.statemachine.runner import Runner
from odradek.storage import StorageError
from odradek.world import Clock

logger = logging.getLogger("odradek.server")

Command = TypeVar("Command")
Event = TypeVar("Event")


class _Loaded(Generic[Command, Event]):
    """A machine on one partition, in one leader epoch."""

    __slots__ = ("leader_epoch", "machine", "runner", "task")

    def __init__(
        self,
        runner: Runner[Command, Event],
        machine: Machine[Command, Event],
        leader_epoch: LeaderEpoch,
        task: "asyncio.Task[None]",
    ) -> None:
        self.runner = runner
        self.machine = machine
        self.leader_epoch = leader_epoch
        self.task = task


class StatePartitions(Generic[Command, Event]):
    """Invariant: a partition has at most one machine here, of the epoch this broker leads in."""

    def __init__(
        self,
        topic: str,
        broker_id: BrokerId,
        replicas: Replicas,
        clock: Clock,
        make_machine: Callable[[int], Machine[Command, Event]],
    ) -> None:
        self.topic = topic
        self._broker_id = broker_id
        self._replicas = replicas
        self._clock = clock
        self._make_machine = make_machine
        self._image = ClusterImage()
        self._loaded: dict[int, _Loaded[Command, Event]] = {}
        self._group: asyncio.TaskGroup | None = None

    async def run(self) -> None:
        """Loads machines as leadership comes, until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                self.follow(self._image)
                await asyncio.get_running_loop().create_future()
        finally:
            self._group = None
            for partition in list(self._loaded):
                self._unload(partition)

    async def ask(self, key: str, command: Command) -> object:
        """The machine's reply, once what it rests on is committed."""
        return await self._runner(partition_of(key, self._image, self.topic)).ask(command)

    def tell(self, key: str, command: Command) -> None:
        self._runner(partition_of(key, self._image, self.topic)).tell(command)

    def tell_all(self, command: Command) -> None:
        """A command for every machine that is loaded here."""
        for loaded in list(self._loaded.values()):
            if loaded.runner.is_loaded:
                loaded.runner.tell(command)

    def leader_epoch(self, key: str) -> LeaderEpoch:
        """The epoch in which this broker keeps the state of a key."""
        partition = partition_of(key, self._image, self.topic)
        self._runner(partition)
        return self._loaded[partition].leader_epoch

    def note(self, partition: int, marker: Marker) -> None:
        """Passes on the end of a transaction that was written to the machine's own log."""
        loaded = self._loaded.get(partition)
        if loaded is not None:
            loaded.runner.note(marker)

    def machines(self) -> Iterator[Machine[Command, Event]]:
        """The machines that are loaded here."""
        for partition in sorted(self._loaded):
            loaded = self._loaded[partition]
            if loaded.runner.is_loaded:
                yield loaded.machine

    def is_loading(self) -> bool:
        return any(not loaded.runner.is_loaded for loaded in self._loaded.values())

    def _runner(self, partition: int) -> Runner[Command, Event]:
        loaded = self._loaded.get(partition)
        if loaded is None:
            raise Refused(ErrorCode.NOT_COORDINATOR)
        if not loaded.runner.is_loaded:
            raise Refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return loaded.runner

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
        for partition, loaded in list(self._loaded.items()):
            if led.get(partition) != loaded.leader_epoch:
                self._unload(partition)
        for partition, leader_epoch in led.items():
            if partition not in self._loaded:
                self._start(partition, leader_epoch)

    def _start(self, partition: int, leader_epoch: LeaderEpoch) -> None:
        try:
            log = PartitionLog(self._replicas.leader(self.topic, partition))
        except Refused:
            return  # Its log directory is offline.
        machine = self._make_machine(partition)
        runner = Runner(machine, log, self._clock)
        assert self._group is not None
        task = self._group.create_task(self._load(partition, runner))
        self._loaded[partition] = _Loaded(runner, machine, leader_epoch, task)

    async def _load(self, partition: int, runner: Runner[Command, Event]) -> None:
        try:
            await runner.load()
        except (Refused, StorageError) as error:
            logger.error("cannot load %s-%d: %s", self.topic, partition, error)
            runner.end(Refused(ErrorCode.NOT_COORDINATOR))

    def _unload(self, partition: int) -> None:
        loaded = self._loaded.pop(partition)
        loaded.task.cancel()
        loaded.runner.end(Refused(ErrorCode.NOT_COORDINATOR))


def partition_of(key: str, image: ClusterImage, topic: str) -> int:
    """The partition of an internal topic that keeps the state of a key."""
    found = image.topics.get(topic)
    if found is None:
        raise Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return (_java_hash(key) & 0x7FFFFFFF) % len(found.partitions)


def _java_hash(text: str) -> int:
    """`String.hashCode` of Java: over UTF-16 code units, in 32 bits."""
    value = 0
    units = text.encode("utf-16-be")
    for position in range(0, len(units), 2):
        value = (31 * value + (units[position] << 8) + units[position + 1]) & 0xFFFFFFFF
    return value
