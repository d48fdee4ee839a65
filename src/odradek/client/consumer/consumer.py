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
from typing import TYPE_CHECKING, Self, Unpack

from odradek.client.consumer.fetched_batches import ConsumerRecord
from odradek.client.consumer.fetcher import Fetcher
from odradek.client.consumer.interceptors import ConsumerInterceptor, Interceptors
from odradek.client.consumer.parts import ConsumerParts
from odradek.client.consumer.positions import PartitionState, Positions
from odradek.client.consumer.queries import ConsumerQueries
from odradek.client.consumer.undelivered import Polled, Undelivered, in_reverse, move_back
from odradek.client.errors import (
    ClientClosed,
    ClientError,
    NoGroup,
    OffsetOutOfRange,
    RequestTimedOut,
    Wakeup,
)
from odradek.client.group.assignment import RebalanceListener
from odradek.client.group.offsets import GroupMetadata, OffsetAndMetadata, OnCommit, with_metadata
from odradek.client.habits import CONSUMER, answers, awaits, in_commit, in_poll, in_subscribe
from odradek.client.leader_requests import EARLIEST, LATEST, ListedOffset
from odradek.client.settings import ConsumerSettings
from odradek.client.settings.shared import settings_from
from odradek.protocol.errors import KafkaError
from odradek.protocol.types import LeaderEpoch, Offset, TopicPartition
from odradek.world import World

# How long the iterator waits at a time; it goes on until there is a record.
_ITERATION_WAIT_MS = 60_000
_CLOSE_TIMEOUT_MS = 30_000

if TYPE_CHECKING:
    from odradek.client.group.group import Group
    from odradek.client.settings.options import ConsumerOptions


@awaits
@answers(CONSUMER)
class Consumer(ConsumerQueries):
    """Reads records. Use it with `async with`, or `start` and `close` it yourself."""

    def __init__(
        self,
        *topics_or_settings: str | ConsumerSettings | Mapping[str, object],
        interceptors: Sequence[ConsumerInterceptor] = (),
        world: World | None = None,
        **options: "Unpack[ConsumerOptions]",
    ) -> None:
        """No broker is contacted before the first call.

        `Consumer("clicks", group_id="g")` subscribes at the first call; otherwise call `subscribe`
        or `assign`. Settings are keyword arguments, a `ConsumerSettings`, or a dict with Kafka's
        names: `Consumer({"group.id": "g"})`. All are described in
        docs/reference/client-settings.md.
        """
        topics = [given for given in topics_or_settings if isinstance(given, str)]
        others = [given for given in topics_or_settings if not isinstance(given, str)]
        if len(others) > 1:
            raise TypeError("give one ConsumerSettings or dict, and topics as text")
        given_settings = others[0] if others else None
        settings = settings_from(ConsumerSettings, given_settings, options, "Consumer")
        if topics and settings.group_id is None:
            raise NoGroup(_needs_group(topics))
        self._topics = topics
        self._world = world or World()
        self._started: ConsumerParts | None = None
        all_settings = settings.for_classes()
        self._interceptors = Interceptors(
            (*settings.interceptor_classes, *interceptors), all_settings
        )
        super().__init__(settings)
        self._undelivered = Undelivered()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_woken = False
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
                on_committed=self._interceptors.committed,
                deserialize=self._deserializers.deserialize,
            )
            self._loop = asyncio.get_running_loop()
            if self._topics:
                self.subscribe(self._topics)
        return self._started

    @property
    def _group(self) -> "Group | None":
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
            self._interceptors.close()
            self._deserializers.close()

    async def stop(self) -> None:
        """The same as `close`, by aiokafka's name."""
        await self.close()

    def wakeup(self) -> None:
        """Ends a `poll` that waits, or the next one, with `Wakeup`; an iteration just ends.

        It may be called from any thread and from a signal handler:
        `loop.add_signal_handler(signal.SIGTERM, consumer.wakeup)`. Records that the program has
        not seen stay unread and are not committed.
        """
        self._is_woken = True
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        if self._started is not None and not self._closed:
            # The iterator polls again before it returns another record, and poll() sees the flag.
            self._give_back_undelivered()
            self._started.positions_changed()

    def _take_wakeup(self) -> None:
        if self._is_woken:
            self._is_woken = False
            raise Wakeup("wakeup() was called")

    # Which partitions, and from where

    def assign(self, partitions: Iterable[TopicPartition | tuple[str, int]]) -> None:
        """Makes these the partitions to read; those that stay keep their positions.

        The others start at the committed offset of the group, else by `auto.offset.reset`, unless
        `seek` gives a position.
        """
        if self._group is not None and self._group.is_subscribed:
            raise ValueError("the group assigns partitions: unsubscribe() before you assign()")
        given = list(partitions)
        if not all(isinstance(item, tuple) for item in given):
            raise TypeError(
                'assign() takes partitions: write assign([("topic", 0)]), or subscribe(["topic"])'
                " to share all of a topic's partitions in a group"
            )
        self._give_back_undelivered()
        self._positions.assign(TopicPartition(*partition) for partition in given)

    @in_subscribe
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

    def _need_group(self, call: str) -> "Group":
        group = self._parts().group
        if group is None:
            raise NoGroup(f'{call} needs a group: give the consumer group_id="my-group"')
        return group

    def unassign(self) -> None:
        """Gives up the partitions that were assigned by hand."""
        self.assign(())

    def assignment(self) -> list[TopicPartition]:
        """Returns the partitions that are read now, assigned by hand or by the group."""
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
        """Returns the partitions of which `pause` holds back records."""
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

    @in_poll
    async def poll(
        self, timeout_ms: int = 0, max_records: int | None = None
    ) -> dict[TopicPartition, list[ConsumerRecord]]:
        """Returns records by partition as soon as there are any, or {} after `timeout_ms`.

        Raises `Wakeup` if `wakeup` was called.
        """
        if timeout_ms.__class__ is float:
            raise TypeError(
                f"poll() counts milliseconds: write poll({int(timeout_ms * 1000)}) for"
                f" {timeout_ms} s; it returns a dict of lists of records, by partition"
            )
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
            if self._is_woken:
                self._take_wakeup()
            while True:
                if group is not None:
                    await group.serve()
                # From here to the return nothing is awaited, so a poll() that is cancelled has
                # taken no record.
                taken = fetcher.poll_buffered(limit)
                if taken:
                    return self._intercepted(taken) if self._interceptors else taken
                if self._is_woken:
                    self._take_wakeup()
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
        try:
            return self._interceptors.consumed(taken)
        except BaseException:
            self._move_back(in_reverse(taken))
            raise

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ConsumerRecord:
        """Returns the next record, however long that takes; `wakeup` ends the iteration."""
        records = self._undelivered.latest_first
        if records:
            # In place of `_group`: a call for each record would show.
            group = None if self._started is None else self._started.group
            if group is None or not group.note_record_taken():
                return records.pop()
        return await self._poll_for_next()

    async def _poll_for_next(self) -> ConsumerRecord:
        records, group = self._undelivered.latest_first, self._group
        while not records or (group is not None and group.gate.has_work):
            try:
                polled = await self.poll(_ITERATION_WAIT_MS)
            except Wakeup:
                raise StopAsyncIteration from None
            self._undelivered.fill(polled)
            group = self._group
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

    @in_commit
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


def _needs_group(topics: list[str]) -> str:
    names = ", ".join(map(repr, topics))
    return (
        f'topics are shared in a group: write Consumer({names}, group_id="my-group"), or without a'
        f" group assign([({topics[0]!r}, 0), ...])"
    )


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
