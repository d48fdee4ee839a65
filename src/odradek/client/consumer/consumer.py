"""The consumer: reads partitions from a position on, alone or as a member of a group.

    async with Consumer(bootstrap_servers="localhost:9092", group_id="counters") as consumer:
        consumer.subscribe(["clicks"])
        async for record in consumer:
            print(record.offset, record.value)

This module is the public face; `parts` is what does the work, in the background.
"""

import asyncio
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Self

from odradek.client.consumer.fetched_batches import ConsumerRecord
from odradek.client.consumer.fetcher import Fetcher
from odradek.client.consumer.interceptors import ConsumerInterceptor
from odradek.client.consumer.key_lookup import get_records
from odradek.client.consumer.parts import ConsumerParts
from odradek.client.consumer.positions import PartitionState, Positions
from odradek.client.consumer.undelivered import Polled, Undelivered, in_reverse, move_back
from odradek.client.errors import (
    ClientClosed,
    ClientError,
    NoGroup,
    OffsetOutOfRange,
    RequestTimedOut,
)
from odradek.client.group.assignment import RebalanceListener
from odradek.client.group.group import Group, OnCommit
from odradek.client.group.offsets import GroupMetadata, OffsetAndMetadata, Offsets, with_metadata
from odradek.client.leader_requests import EARLIEST, LATEST, ListedOffset, list_offsets
from odradek.client.settings import ConsumerSettings
from odradek.protocol.errors import KafkaError
from odradek.protocol.types import LeaderEpoch, Offset, TopicPartition
from odradek.world import World

# How long the iterator waits at a time; it goes on until there is a record.
_ITERATION_WAIT_MS = 60_000
_CLOSE_TIMEOUT_MS = 30_000


class Consumer:
    """Reads records. Use it with `async with`, or `start` and `close` it yourself."""

    def __init__(
        self,
        settings: ConsumerSettings | None = None,
        /,
        *,
        interceptors: Sequence[ConsumerInterceptor] = (),
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
        self._started: ConsumerParts | None = None
        self._interceptors = tuple(interceptors)
        self._undelivered = Undelivered()
        self._closed = False

    async def start(self) -> Self:
        """Starts the background work; `assign` and `poll` do it too."""
        self._parts()
        return self

    def _parts(self) -> ConsumerParts:
        """Returns the parts of the consumer, which are made and started at the first call."""
        if self._closed:
            raise ClientClosed("the consumer is closed")
        if self._started is None:
            self._started = ConsumerParts(
                self.settings,
                self._world,
                offsets_to_commit=self._offsets_to_commit,
                on_committed=self._committed,
            )
        return self._started

    @property
    def _group(self) -> Group | None:
        return None if self._started is None else self._started.group

    @property
    def _positions(self) -> Positions:
        return self._parts().positions

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self, timeout_ms: int = _CLOSE_TIMEOUT_MS) -> None:
        """Commits if auto-commit is on, leaves the group and stops, within `timeout_ms`."""
        if self._closed:
            return
        try:
            if self._group is not None:
                self._give_back_undelivered()
                await self._group.close(timeout_ms)
        finally:
            self._closed = True
            if self._started is not None:
                await self._started.close()

    # Which partitions, and from where

    def assign(self, partitions: Iterable[TopicPartition | tuple[str, int]]) -> None:
        """Makes these the partitions to read; those that stay keep their positions.

        The others start at the committed offset of the group, else by `auto.offset.reset`, unless
        `seek` gives a position.
        """
        if self._group is not None and self._group.is_subscribed:
            raise ValueError("the group assigns partitions: unsubscribe() before you assign()")
        self._give_back_undelivered()
        self._positions.assign(TopicPartition(*partition) for partition in partitions)

    def subscribe(
        self,
        topics: "Iterable[str] | str | re.Pattern[str]" = (),
        *,
        pattern: "str | re.Pattern[str] | None" = None,
        listener: RebalanceListener | object | None = None,
    ) -> None:
        """Joins the group `group.id`, which assigns partitions of these topics to its members.

        `topics` are names, or a compiled pattern; `pattern` may be text. `listener` is told which
        partitions come and go (`RebalanceListener`). A later call changes the topics.
        """
        group = self._need_group("subscribe()")
        names: list[str] = []
        if isinstance(topics, re.Pattern):
            pattern = topics
        else:
            names = [topics] if isinstance(topics, str) else list(topics)
        if bool(names) == (pattern is not None):
            raise ValueError("subscribe() needs topics or a pattern; unsubscribe() ends it")
        if not group.is_subscribed and self._positions.assigned:
            raise ValueError("partitions are assigned by hand: unassign() before you subscribe()")
        group.subscribe(names, pattern, listener)

    async def unsubscribe(self) -> None:
        """Leaves the group; the listener is told."""
        if self._group is not None:
            self._give_back_undelivered()
            await self._group.unsubscribe()

    def subscription(self) -> list[str]:
        """Returns the subscribed topics; with a pattern, those that match it now."""
        return [] if self._group is None else self._group.subscribed_topics

    def group_metadata(self) -> GroupMetadata:
        """Returns this consumer's identity in its group, which a transaction needs to commit
        offsets (`Producer.send_offsets_to_transaction`)."""
        return self._need_group("group_metadata()").metadata()

    def _need_group(self, call: str) -> Group:
        group = self._parts().group
        if group is None:
            raise NoGroup(f"{call} needs a group: set group.id")
        return group

    def unassign(self) -> None:
        self.assign(())

    def assignment(self) -> list[TopicPartition]:
        return list(self._positions.assigned)

    def seek(self, partition: TopicPartition, offset: int, leader_epoch: int = -1) -> None:
        """Moves the position to `offset`, which is the next one to be read."""
        if offset < 0:
            raise ValueError(f"offset={offset}: an offset cannot be negative")
        self._give_back_undelivered()
        self._state(partition).seek(Offset(offset), LeaderEpoch(leader_epoch))
        self._parts().positions_changed()

    def seek_to_beginning(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        """Moves to the first record; in all assigned partitions unless some are named."""
        self._seek_to_time(partitions, EARLIEST)

    def seek_to_end(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        """Moves to the end of the log; in all assigned partitions unless some are named."""
        self._seek_to_time(partitions, LATEST)

    def seek_to_timestamp(
        self, timestamp_ms: int, partitions: Iterable[TopicPartition] | None = None
    ) -> None:
        """Moves to the first record that is not older, or to the end if all are older."""
        if timestamp_ms < 0:
            raise ValueError(f"timestamp_ms={timestamp_ms}: a time cannot be before 1970")
        self._seek_to_time(partitions, timestamp_ms)

    def _seek_to_time(self, partitions: Iterable[TopicPartition] | None, timestamp: int) -> None:
        self._give_back_undelivered()
        for partition in self.assignment() if partitions is None else partitions:
            self._state(partition).request_reset(timestamp)
        self._parts().fetcher.wake()

    def pause(self, *partitions: TopicPartition) -> None:
        """Returns no records of these partitions until `resume`; positions stay."""
        self._give_back_undelivered()
        for partition in partitions:
            self._state(partition).is_paused = True

    def resume(self, *partitions: TopicPartition) -> None:
        """Ends a pause; a poll() that waits returns records that were fetched before."""
        for partition in partitions:
            self._state(partition).is_paused = False
        self._parts().positions_changed()

    def paused(self) -> list[TopicPartition]:
        return [
            partition for partition, state in self._positions.assigned.items() if state.is_paused
        ]

    async def position(self, partition: TopicPartition) -> Offset:
        """Returns the offset of the next record to read, and looks it up first if necessary."""
        state = self._state(partition)
        if (undelivered := self._undelivered.first_offset(partition)) is not None:
            return undelivered
        deadline_s = self._now_s() + self.settings.default_api_timeout_ms / 1000
        while state.position is None:
            self._raise_fault(state)
            remaining_s = deadline_s - self._now_s()
            if remaining_s <= 0:
                raise RequestTimedOut(f"the position of {partition} could not be looked up in time")
            await self._checked_fetcher().wait(remaining_s)
        return state.position

    def high_watermark(self, partition: TopicPartition) -> Offset | None:
        """Returns the high watermark, as of the last fetch."""
        found = self._state(partition).high_watermark
        return None if found is None else Offset(found)

    def lag(self, partition: TopicPartition) -> int | None:
        """Returns how far the position is behind the end of the log, as of the last fetch."""
        state = self._state(partition)
        end = state.high_watermark
        if self.settings.isolation_level == "read_committed":
            end = state.last_stable_offset
        return None if end is None or state.position is None else max(0, end - state.position)

    # Reading

    async def poll(
        self, timeout_ms: int = 0, max_records: int | None = None
    ) -> dict[TopicPartition, list[ConsumerRecord]]:
        """Returns records by partition as soon as there are any, or {} after `timeout_ms`."""
        limit = max_records or self.settings.max_poll_records
        deadline_s = self._now_s() + timeout_ms / 1000
        self._give_back_undelivered()
        fetcher = self._checked_fetcher()
        group = self._group
        if group is not None:
            group.gate.enter_poll()
        try:
            # A loop of polls that never waits must not keep the fetcher from running.
            await asyncio.sleep(0)
            while True:
                if group is not None:
                    await group.serve()
                # From here to the return nothing is awaited, so a poll() that is cancelled has
                # taken no record.
                taken = fetcher.poll_buffered(limit)
                if taken:
                    return self._intercepted(taken) if self._interceptors else taken
                self._raise_faults()
                remaining_s = deadline_s - self._now_s()
                if not self._positions.assigned and (group is None or not group.is_subscribed):
                    raise ValueError(
                        "poll() has nothing to read: subscribe() to topics or assign() partitions"
                    )
                if remaining_s <= 0:
                    return {}
                await fetcher.wait(remaining_s)
                fetcher = self._checked_fetcher()
        finally:
            if group is not None:
                group.gate.leave_poll()

    def _checked_fetcher(self) -> Fetcher:
        parts = self._parts()
        parts.check()
        return parts.fetcher

    def _intercepted(self, taken: Polled) -> Polled:
        shown = taken
        try:
            for interceptor in self._interceptors:
                shown = interceptor.on_consume(shown)
        except BaseException:
            self._move_back(in_reverse(taken))
            raise
        return shown

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ConsumerRecord:
        """Returns the next record, however long that takes."""
        # In place of `_group`: a call for each record would show.
        group = None if self._started is None else self._started.group
        records = self._undelivered.latest_first
        if group is not None and records:
            group.gate.note_iteration()
            group.commit_if_due()
        while not records or (group is not None and group.gate.has_work):
            polled = await self.poll(_ITERATION_WAIT_MS)
            self._undelivered.fill(polled)
        return records.pop()

    def return_unseen(
        self, taken: "dict[TopicPartition, list[ConsumerRecord]] | ConsumerRecord"
    ) -> None:
        """Gives back what poll() or the iterator returned last: the program has not seen it.

        `sync` calls it when a signal interrupts the thread that waited for the records: they are
        read again, and are not committed as if they had been handled.
        """
        if isinstance(taken, ConsumerRecord):
            self._undelivered.latest_first.append(taken)
        else:
            self._move_back(in_reverse(taken))

    def _give_back_undelivered(self) -> None:
        """Moves the positions back, so that records that the iterator holds are fetched again."""
        self._move_back(self._undelivered.take_all())

    def _move_back(self, records: Iterable[ConsumerRecord]) -> None:
        if move_back(self._positions, records):
            self._parts().fetcher.wake()

    # Committing

    async def commit(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None = None,
        timeout_ms: int | None = None,
    ) -> None:
        """Commits the positions, or these offsets (of the next record to read), and waits.

        Raises `CommitFailed` when the group has gone on without this consumer.
        """
        group = self._need_group("commit()")
        limit_ms = self.settings.default_api_timeout_ms if timeout_ms is None else timeout_ms
        await group.commit(None if offsets is None else with_metadata(offsets), limit_ms)

    def commit_async(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None = None,
        on_commit: OnCommit | None = None,
    ) -> None:
        """Commits once, in the background; `on_commit(offsets, error)` gets the outcome."""
        group = self._need_group("commit_async()")
        group.commit_async(None if offsets is None else with_metadata(offsets), on_commit)

    async def committed(
        self, partitions: Iterable[TopicPartition], timeout_ms: int | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Returns the committed offset of each partition; None if there is none."""
        group = self._need_group("committed()")
        limit_ms = self.settings.default_api_timeout_ms if timeout_ms is None else timeout_ms
        asked = [TopicPartition(*partition) for partition in partitions]
        return await group.committed(asked, limit_ms)

    def _offsets_to_commit(self) -> dict[TopicPartition, OffsetAndMetadata]:
        return self._undelivered.offsets_to_commit(self._positions)

    def _committed(self, offsets: Offsets) -> None:
        for interceptor in self._interceptors:
            interceptor.on_commit(offsets)

    # Asking about offsets

    async def beginning_offsets(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, Offset]:
        """Returns the log start offset of each partition."""
        found = await self._offsets(dict.fromkeys(partitions, EARLIEST))
        return {partition: listed.offset for partition, listed in found.items()}

    async def end_offsets(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, Offset]:
        """Returns the high watermarks, or with read_committed the last stable offsets."""
        found = await self._offsets(dict.fromkeys(partitions, LATEST))
        return {partition: listed.offset for partition, listed in found.items()}

    async def offsets_for_times(
        self, timestamps_ms: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, ListedOffset | None]:
        """Returns the first offset of each partition whose record is not older than a time.

        It is None if there is no such record.
        """
        for partition, timestamp_ms in timestamps_ms.items():
            if timestamp_ms < 0:
                raise ValueError(f"{partition}: {timestamp_ms}: a time cannot be before 1970")
        found = await self._offsets(timestamps_ms)
        return {
            partition: listed if listed.offset >= 0 else None for partition, listed in found.items()
        }

    async def partitions_for(self, topic: str) -> list[int]:
        """Returns the partitions of a topic."""
        cluster = self._parts().cluster
        described = await cluster.topic(topic, self.settings.default_api_timeout_ms)
        return list(described.all_partitions)

    async def _offsets(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, ListedOffset]:
        answers = await list_offsets(
            self._parts().cluster,
            timestamps,
            read_committed=self.settings.isolation_level == "read_committed",
            timeout_ms=self.settings.default_api_timeout_ms,
        )
        found: dict[TopicPartition, ListedOffset] = {}
        for partition in timestamps:
            answer = answers[partition]
            if isinstance(answer, KafkaError):
                raise answer
            found[partition] = answer
        return found

    # Asking for keys

    async def get(
        self,
        topic: str,
        key: bytes | str,
        *,
        partition: int | None = None,
        all_partitions: bool = False,
    ) -> ConsumerRecord | None:
        """Returns the newest record of a key, without reading the topic; see `look_up`.

        Without a value it is a tombstone: the key was deleted. None if there is no record.
        """
        (found,) = await get_records(
            self._parts().cluster,
            self.settings,
            topic,
            [key],
            partition=partition,
            all_partitions=all_partitions,
        )
        return found

    async def get_many(
        self, topic: str, keys: Iterable[bytes | str]
    ) -> list[ConsumerRecord | None]:
        """Returns the newest record of each key, with one request to each leader."""
        return await get_records(self._parts().cluster, self.settings, topic, list(keys))

    # Errors

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
        """Raises the error that keeps a partition from being read, if there is one."""
        fault = state.fault
        if fault is None:
            return
        if isinstance(fault, KafkaError | OffsetOutOfRange) or not isinstance(fault, ClientError):
            # The next poll tries again: permissions change, topics are created, logs grow.
            state.fault = None
            if state.position is None and state.reset_to is None:
                self._positions.start(state)
            self._parts().fetcher.wake()
        raise fault


__all__ = [
    "Consumer",
    "ConsumerInterceptor",
    "ConsumerRecord",
    "GroupMetadata",
    "LeaderEpoch",
    "ListedOffset",
    "OffsetAndMetadata",
    "RebalanceListener",
]
