"""The consumer: reads partitions from a position on.

    async with Consumer(bootstrap_servers="localhost:9092") as consumer:
        consumer.assign([TopicPartition("clicks", 0)])
        consumer.seek_to_beginning()
        async for record in consumer:
            print(record.offset, record.value)

`positions` knows where the consumer is, `fetcher` keeps records on hand; this module is the
face of both. Groups (`subscribe`, commits) come with a later release and will stand beside
`assign`: they decide which partitions are assigned and from where, nothing below changes.
"""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Self

from odradek.client.cluster import Cluster
from odradek.client.errors import ClientClosed, ClientError, RequestTimedOut
from odradek.client.fetched import ConsumerRecord
from odradek.client.fetcher import Fetcher
from odradek.client.leaders import EARLIEST, LATEST, ListedOffset, list_offsets
from odradek.client.positions import PartitionState, Positions
from odradek.client.settings import ConsumerSettings
from odradek.protocol.errors import KafkaError
from odradek.protocol.types import LeaderEpoch, Offset, TopicPartition
from odradek.world import World

# How long the iterator waits at a time; it goes on until there is a record.
_ITERATION_WAIT_MS = 60_000


class Consumer:
    """Reads records. Use it with `async with`, or `start` and `close` it yourself."""

    def __init__(
        self,
        settings: ConsumerSettings | None = None,
        /,
        *,
        world: World | None = None,
        **options: object,
    ) -> None:
        """`options` are the settings by name (see `ConsumerSettings`), if none were given."""
        if settings is None:
            settings = ConsumerSettings.from_options(options)
        elif options:
            raise TypeError("give either settings or options, not both")
        self.settings = settings
        self._world = world or World()
        self._cluster: Cluster | None = None
        self._positions_: Positions | None = None
        self._fetcher_: Fetcher | None = None
        self._running: asyncio.Task[None] | None = None
        self._ahead: list[ConsumerRecord] = []
        self._closed = False

    async def start(self) -> Self:
        """Starts the background work; `assign` and `poll` do it too."""
        self._start()
        return self

    def _start(self) -> Cluster:
        if self._closed:
            raise ClientClosed("the consumer is closed")
        if self._cluster is None:
            settings = self.settings
            self._cluster = Cluster(
                settings,
                self._world.randomness,
                auto_create_topics=settings.allow_auto_create_topics,
            )
            self._positions_ = Positions(
                self._cluster,
                settings,
                self._world.clock,
                on_change=self._positions_changed,
                on_failure=self._failed,
            )
            self._fetcher_ = Fetcher(self._cluster, settings, self._positions_)
            loop = asyncio.get_running_loop()
            self._running = loop.create_task(self._fetcher_.run(), name="odradek-consumer")
        return self._cluster

    def _wake_fetcher(self) -> None:
        if self._fetcher_ is not None:
            self._fetcher_.wake()

    def _positions_changed(self) -> None:
        if self._fetcher_ is not None:
            self._fetcher_.positions_changed()

    def _failed(self, error: BaseException) -> None:
        if self._fetcher_ is not None:
            self._fetcher_.fail(error)

    @property
    def _positions(self) -> Positions:
        self._start()
        if self._positions_ is None:
            raise ClientClosed("the consumer is closed")
        return self._positions_

    @property
    def _fetcher(self) -> Fetcher:
        self._start()
        if self._fetcher_ is None:
            raise ClientClosed("the consumer is closed")
        if self._fetcher_.failure is not None:
            fault = self._fetcher_.failure
            raise ClientClosed(f"the consumer ended with {fault!r}") from fault
        return self._fetcher_

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Ends the background work and closes the connections."""
        if self._closed:
            return
        self._closed = True
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)
        if self._fetcher_ is not None:
            await self._fetcher_.stop()
        if self._positions_ is not None:
            await self._positions_.close()
        if self._cluster is not None:
            await self._cluster.close()

    # Which partitions, and from where

    def assign(self, partitions: Iterable[TopicPartition | tuple[str, int]]) -> None:
        """Makes these the partitions to read; those that stay keep their positions.

        The others start where `auto.offset.reset` says, unless `seek` says something else.
        """
        self._drop_ahead()
        self._positions.assign(TopicPartition(*one) for one in partitions)

    def unassign(self) -> None:
        self.assign(())

    def assignment(self) -> list[TopicPartition]:
        return list(self._positions.assigned)

    def seek(self, partition: TopicPartition, offset: int, leader_epoch: int = -1) -> None:
        """The next record to read is at `offset`."""
        if offset < 0:
            raise ValueError(f"offset={offset}: an offset cannot be negative")
        self._drop_ahead()
        self._state(partition).seek(offset, leader_epoch)
        self._wake_fetcher()

    def seek_to_beginning(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        """To the first record there is; all assigned partitions unless some are named."""
        self._seek_to_time(partitions, EARLIEST)

    def seek_to_end(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        """To what will be written next; all assigned partitions unless some are named."""
        self._seek_to_time(partitions, LATEST)

    def seek_to_timestamp(
        self, timestamp_ms: int, partitions: Iterable[TopicPartition] | None = None
    ) -> None:
        """To the first record that is not older, or to the end if all are."""
        if timestamp_ms < 0:
            raise ValueError(f"timestamp_ms={timestamp_ms}: a time cannot be before 1970")
        self._seek_to_time(partitions, timestamp_ms)

    def _seek_to_time(self, partitions: Iterable[TopicPartition] | None, timestamp: int) -> None:
        self._drop_ahead()
        for partition in self.assignment() if partitions is None else partitions:
            self._state(partition).request_reset(timestamp)
        self._wake_fetcher()

    def pause(self, *partitions: TopicPartition) -> None:
        """Returns no records of these partitions until `resume`; positions stay."""
        self._drop_ahead()
        for partition in partitions:
            self._state(partition).is_paused = True

    def resume(self, *partitions: TopicPartition) -> None:
        for partition in partitions:
            self._state(partition).is_paused = False
        self._wake_fetcher()

    def paused(self) -> list[TopicPartition]:
        return [one for one, state in self._positions.assigned.items() if state.is_paused]

    async def position(self, partition: TopicPartition) -> Offset:
        """The offset of the next record to read, looked up first if it must be."""
        state = self._state(partition)
        for record in reversed(self._ahead):
            if TopicPartition(record.topic, record.partition) == partition:
                return Offset(record.offset)
        deadline_s = self._now_s() + self.settings.default_api_timeout_ms / 1000
        while state.position is None:
            self._raise_fault(state)
            remaining_s = deadline_s - self._now_s()
            if remaining_s <= 0:
                raise RequestTimedOut(f"the position of {partition} could not be looked up in time")
            await self._fetcher.wait(remaining_s)
        return Offset(state.position)

    def high_watermark(self, partition: TopicPartition) -> Offset | None:
        """The end of what consumers may read, as of the last fetch."""
        found = self._state(partition).high_watermark
        return None if found is None else Offset(found)

    def lag(self, partition: TopicPartition) -> int | None:
        """How many offsets lie between the position and the end, as of the last fetch."""
        state = self._state(partition)
        end = state.high_watermark
        if self.settings.isolation_level == "read_committed":
            end = state.last_stable_offset
        return None if end is None or state.position is None else max(0, end - state.position)

    # Reading

    async def poll(
        self, timeout_ms: int = 0, max_records: int | None = None
    ) -> dict[TopicPartition, list[ConsumerRecord]]:
        """Records by partition, as soon as there are any, or nothing when the time is over."""
        limit = max_records or self.settings.max_poll_records
        deadline_s = self._now_s() + timeout_ms / 1000
        self._drop_ahead()
        fetcher = self._fetcher
        # A loop of polls that never has to wait must not keep the fetcher from running.
        await asyncio.sleep(0)
        while True:
            taken = fetcher.take(limit)
            if taken:
                return taken
            self._raise_faults()
            remaining_s = deadline_s - self._now_s()
            if remaining_s <= 0:
                return {}
            await fetcher.wait(remaining_s)
            fetcher = self._fetcher

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ConsumerRecord:
        """The next record, however long it takes to come."""
        while not self._ahead:
            taken = await self.poll(_ITERATION_WAIT_MS)
            # Reversed, so that the next one is cheap to take.
            self._ahead = [record for records in taken.values() for record in records][::-1]
        return self._ahead.pop()

    def _drop_ahead(self) -> None:
        """Puts back what the iterator took and did not hand out."""
        ahead, self._ahead = self._ahead, []
        returned: dict[TopicPartition, ConsumerRecord] = {}
        for record in ahead:
            # The list is reversed: the last one seen is the first to read again.
            returned[TopicPartition(record.topic, record.partition)] = record
        for partition, record in returned.items():
            state = self._positions.assigned.get(partition)
            if state is not None and state.position is not None:
                state.seek(record.offset, record.leader_epoch)
                self._wake_fetcher()

    # Asking about offsets

    async def beginning_offsets(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, Offset]:
        """The offset of the first record of each partition."""
        found = await self._offsets(dict.fromkeys(partitions, EARLIEST))
        return {one: listed.offset for one, listed in found.items()}

    async def end_offsets(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, Offset]:
        """The offset that the next record of each partition will get (or the last stable one)."""
        found = await self._offsets(dict.fromkeys(partitions, LATEST))
        return {one: listed.offset for one, listed in found.items()}

    async def offsets_for_times(
        self, timestamps_ms: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, ListedOffset | None]:
        """The first record that is not older than a time; None if there is none."""
        for partition, timestamp_ms in timestamps_ms.items():
            if timestamp_ms < 0:
                raise ValueError(f"{partition}: {timestamp_ms}: a time cannot be before 1970")
        found = await self._offsets(timestamps_ms)
        return {one: listed if listed.offset >= 0 else None for one, listed in found.items()}

    async def partitions_for(self, topic: str) -> list[int]:
        """The partitions of a topic."""
        cluster = self._start()
        described = await cluster.topic(topic, self.settings.default_api_timeout_ms)
        return list(described.all_partitions)

    async def _offsets(
        self, wanted: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, ListedOffset]:
        answers = await list_offsets(
            self._start(),
            wanted,
            read_committed=self.settings.isolation_level == "read_committed",
            timeout_ms=self.settings.default_api_timeout_ms,
        )
        found: dict[TopicPartition, ListedOffset] = {}
        for partition in wanted:
            answer = answers[partition]
            if isinstance(answer, KafkaError):
                raise answer
            found[partition] = answer
        return found

    # Small things

    def _state(self, partition: TopicPartition) -> PartitionState:
        state = self._positions.assigned.get(partition)
        if state is None:
            raise ValueError(f"{TopicPartition(*partition)} is not assigned: assign() it first")
        return state

    def _now_s(self) -> float:
        return asyncio.get_running_loop().time()

    def _raise_faults(self) -> None:
        for state in self._positions.assigned.values():
            self._raise_fault(state)

    def _raise_fault(self, state: PartitionState) -> None:
        """Raises what keeps a partition from being read."""
        fault = state.fault
        if fault is None:
            return
        if isinstance(fault, KafkaError) or not isinstance(fault, ClientError):
            # It may be cured by the time of the next poll: permissions change, topics appear.
            state.fault = None
            if state.position is None:
                self._positions.reset(state)
            self._wake_fetcher()
        raise fault


__all__ = ["Consumer", "ConsumerRecord", "LeaderEpoch", "ListedOffset"]
