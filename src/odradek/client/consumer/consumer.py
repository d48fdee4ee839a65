"""The consumer: reads partitions from a position on, alone or as a member of a group.

    async with Consumer(bootstrap_servers="localhost:9092", group_id="counters") as consumer:
        consumer.subscribe(["clicks"])
        async for record in consumer:
            print(record.offset, record.value)

This module is the public face; `parts` is what does the work, in the background.
"""

import asyncio
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Self, Unpack

from odradek.client import arguments
from odradek.client.arguments import GivenPartitions
from odradek.client.consumer.fetched_batches import ConsumerRecord
from odradek.client.consumer.interceptors import ConsumerInterceptor, Interceptors
from odradek.client.consumer.parts import ConsumerParts
from odradek.client.consumer.polled import PolledRecords
from odradek.client.consumer.seeking import ConsumerSeeking
from odradek.client.consumer.undelivered import Polled, in_reverse, move_back
from odradek.client.errors import ClientClosed, NoGroup, Wakeup
from odradek.client.group.assignment import RebalanceListener, check_listener
from odradek.client.group.offsets import (
    GroupMetadata,
    OffsetAndMetadata,
    OffsetsToCommit,
    OnCommit,
    with_metadata,
)
from odradek.client.group.subscription import checked_pattern, checked_topics
from odradek.client.habits import (
    CONSUMER,
    answers,
    awaits,
    explain,
    in_close,
    in_commit,
    in_poll,
    in_subscribe,
)
from odradek.client.leader_requests import ListedOffset
from odradek.client.settings import ConsumerSettings
from odradek.client.settings.shared import settings_from
from odradek.protocol.types import LeaderEpoch, TopicPartition
from odradek.world import World

# How long the iterator waits at a time; it goes on until there is a record.
_ITERATION_WAIT_MS = 60_000
_CLOSE_TIMEOUT_MS = 30_000
_OR_SUBSCRIBE = ', or subscribe(["topic"]) to share all of a topic\'s partitions in a group'

if TYPE_CHECKING:
    from odradek.client.group.group import Group
    from odradek.client.metrics.view import MetricName
    from odradek.client.settings.options import ConsumerOptions


@awaits
@answers(CONSUMER)
class Consumer(ConsumerSeeking):
    """Reads records. Use it with `async with`, or `start` and `close` it yourself."""

    def __init__(
        self,
        *topics_or_settings: str | Iterable[str] | ConsumerSettings | Mapping[str, object],
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
        topics, given_settings = _topics_and_settings(topics_or_settings)
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
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_woken = False
        self._is_closing = False
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
        self._started.cluster.check_loop("consumer")
        return self._started

    @property
    def _group(self) -> "Group | None":
        return None if self._started is None else self._started.group

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, _: object, error: object, *others: object) -> None:
        explain(error)
        await self.close()

    @in_close
    async def close(self, timeout_ms: int = _CLOSE_TIMEOUT_MS) -> None:
        """Commits if auto-commit is on, leaves the group and stops, within `timeout_ms`."""
        explain(sys.exception())
        if self._closed:
            return
        self._is_closing = True
        # If the event loop has ended, so has all of this.
        has_ended = self._loop is not None and self._loop.is_closed()
        try:
            if self._group is not None and not has_ended:
                self._give_back_undelivered()
                await self._group.close(timeout_ms)
        finally:
            self._closed = True
            if self._started is not None and not has_ended:
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

    def assign(self, partitions: GivenPartitions) -> None:
        """Makes these the partitions to read; those that stay keep their positions.

        The others start at the committed offset of the group, else by `auto.offset.reset`, unless
        `seek` gives a position.
        """
        if self._group is not None and self._group.is_subscribed:
            raise ValueError(
                "the group assigns partitions: unsubscribe() before you assign() (with asyncio,"
                " await it)"
            )
        assigned = arguments.partitions(partitions, "assign()", or_else=_OR_SUBSCRIBE)
        self._give_back_undelivered()
        self._is_assigned_by_hand = True
        self._positions.assign(assigned)

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
            names = checked_topics(topics, "subscribe()")
        if bool(names) == (pattern is not None):
            raise ValueError("subscribe() needs topics or a pattern; unsubscribe() ends it")
        if pattern is not None:
            pattern = checked_pattern(pattern, self.settings)
        check_listener(listener)
        if not group.is_subscribed and self._positions.assigned:
            raise ValueError("partitions are assigned by hand: unassign() before you subscribe()")
        group.subscribe(names, pattern, listener)

    def unsubscribe(self) -> "asyncio.Future[None]":
        """Leaves the group; the listener is told. Await it to know that this is done."""
        self._topics = []
        if self._group is None:
            left = asyncio.get_running_loop().create_future()
            left.set_result(None)
            return left
        self._give_back_undelivered()
        return self._group.unsubscribe()

    def subscription(self) -> list[str]:
        """Returns the subscribed topics; with a pattern, those that match it now.

        The broker compares a text pattern with `group.protocol=consumer`: then they are the topics
        that partitions are assigned of.
        """
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

    # Reading

    @in_poll
    async def poll(
        self, timeout_ms: int = 0, max_records: int | None = None
    ) -> dict[TopicPartition, list[ConsumerRecord]]:
        """Returns records by partition as soon as there are any, or {} after `timeout_ms`.

        Raises `Wakeup` if `wakeup` was called.
        """
        if timeout_ms.__class__ is not int or timeout_ms < 0:
            timeout_ms = arguments.timeout(timeout_ms, "poll()")
        limit = self.settings.max_poll_records
        if max_records is not None:
            limit = arguments.integer(max_records, "poll()", "max_records", at_least=1)
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
                    return PolledRecords()
                await fetcher.wait(remaining_s)
                fetcher = self._checked_fetcher()
        finally:
            if group is not None:
                group.gate.leave_poll()

    def _intercepted(self, taken: Polled) -> Polled:
        # An interceptor may change the dict and its lists before it raises.
        firsts = [records[0] for records in taken.values()]
        try:
            return self._interceptors.consumed(taken)
        except BaseException:
            self._move_back(firsts)
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
        offsets: OffsetsToCommit | ConsumerRecord | None = None,
        timeout_ms: int | None = None,
    ) -> None:
        """Commits the positions, or these offsets (of the next record to read), and waits.

        A record in place of offsets means that all up to it are handled. Raises `CommitFailed` when
        the group has gone on without this consumer.
        """
        group = self._need_group("commit()")
        limit_ms = self._limit_ms(timeout_ms, "commit()")
        await group.commit(_to_commit(offsets, "commit()"), limit_ms)

    def commit_async(
        self,
        offsets: OffsetsToCommit | ConsumerRecord | None = None,
        on_commit: OnCommit | None = None,
    ) -> None:
        """Commits once, in the background; `on_commit(offsets, error)` gets the outcome."""
        group = self._need_group("commit_async()")
        if on_commit is not None and not callable(on_commit):
            raise arguments.wrong("commit_async()", "on_commit as a function", on_commit)
        group.commit_async(_to_commit(offsets, "commit_async()"), on_commit)

    async def committed(
        self, partitions: GivenPartitions, timeout_ms: int | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Returns the committed offset of each partition; None if there is none."""
        group = self._need_group("committed()")
        limit_ms = self._limit_ms(timeout_ms, "committed()")
        return await group.committed(arguments.partitions(partitions, "committed()"), limit_ms)

    # Metrics

    def metrics(self) -> "dict[MetricName, float]":
        """Returns figures by Kafka's names (docs/reference/client-metrics.md)."""
        return {} if self._started is None else self._started.metrics.metrics()

    async def client_instance_id(self, timeout_ms: int = 30_000) -> str:
        """Returns the id under which brokers know this client's metrics."""
        return await self._parts().metrics.client_instance_id(timeout_ms)

    def _limit_ms(self, timeout_ms: int | None, call: str) -> int:
        if timeout_ms is None:
            return self.settings.default_api_timeout_ms
        return arguments.timeout(timeout_ms, call)

    def _offsets_to_commit(self) -> dict[TopicPartition, OffsetAndMetadata]:
        return self._undelivered.offsets_to_commit(self._positions)

    # Errors

    def _raise_faults(self) -> None:
        if self._is_closing:
            raise ClientClosed("the consumer was closed during this call")
        for state in self._positions.assigned.values():
            self._raise_fault(state)


def _topics_and_settings(given: Iterable[object]) -> tuple[list[str], object]:
    """Returns what a constructor got: topics, one by one or in lists, and settings."""
    topics: list[str] = []
    settings: list[object] = []
    for item in given:
        if isinstance(item, str | list | tuple | set | frozenset):
            topics += checked_topics(item, "Consumer()")
        else:
            settings.append(item)
    if len(settings) > 1:
        raise TypeError("give one ConsumerSettings or dict, and topics as text")
    return topics, settings[0] if settings else None


def _to_commit(
    given: OffsetsToCommit | ConsumerRecord | None, call: str
) -> dict[TopicPartition, OffsetAndMetadata] | None:
    if given is None:
        return None
    if isinstance(given, ConsumerRecord):
        partition = TopicPartition(given.topic, given.partition)
        return {partition: OffsetAndMetadata(given.offset + 1, "", given.leader_epoch)}
    return with_metadata(given, call)


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
