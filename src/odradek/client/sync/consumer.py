"""`odradek.client.Consumer` for programs without asyncio."""

import asyncio
import re
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack

from odradek.client.arguments import GivenPartition, GivenPartitions
from odradek.client.consumer.consumer import Consumer as AsyncConsumer
from odradek.client.consumer.fetched_batches import ConsumerRecord
from odradek.client.consumer.interceptors import ConsumerInterceptor
from odradek.client.group.assignment import RebalanceListener, check_listener
from odradek.client.group.offsets import (
    GroupMetadata,
    OffsetAndMetadata,
    OffsetsToCommit,
    OnCommit,
)
from odradek.client.habits import (
    CONSUMER,
    answers,
    in_close,
    in_commit,
    in_poll,
    in_subscribe,
    waits,
)
from odradek.client.leader_requests import ListedOffset
from odradek.client.settings import ConsumerSettings
from odradek.client.sync.waiting import WaitingClient
from odradek.protocol.types import Offset, TopicPartition
from odradek.world import World

if TYPE_CHECKING:
    from odradek.client.metrics.view import MetricName
    from odradek.client.settings.options import ConsumerOptions

_CLOSE_TIMEOUT_MS = 30_000


@waits
@answers(CONSUMER)
class Consumer(WaitingClient[AsyncConsumer]):
    """`odradek.client.Consumer`, waiting where that one awaits; iterate over it for records.

    Rebalance listeners are called in a thread of their own while `poll` waits, and may call
    the client. Commit callbacks are called in the client's thread, and must not.
    """

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
        super().__init__(
            lambda: AsyncConsumer(
                *topics_or_settings, interceptors=interceptors, world=world, **options
            )
        )

    @property
    def settings(self) -> ConsumerSettings:
        """The settings of this client."""
        return self._client.settings

    @in_close
    def close(self, timeout_ms: int = _CLOSE_TIMEOUT_MS) -> None:
        """Commits if auto-commit is on, leaves the group and stops, within `timeout_ms`."""
        self._close(lambda: self._client.close(timeout_ms))

    def wakeup(self) -> None:
        """Ends a `poll` that waits, or the next one, with `Wakeup`; an iteration just ends.

        It may be called from any thread and from a signal handler:
        `signal.signal(signal.SIGTERM, lambda *_: consumer.wakeup())`. Records that the program has
        not seen stay unread and are not committed.
        """
        self._client.wakeup()

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
        check_listener(listener)
        told = None if listener is None else _Elsewhere(listener)
        self._run(lambda: self._client.subscribe(topics, pattern=pattern, listener=told))

    @in_poll
    def poll(
        self, timeout_ms: int = 0, max_records: int | None = None
    ) -> dict[TopicPartition, list[ConsumerRecord]]:
        """Returns records by partition as soon as there are any, or {} after `timeout_ms`.

        Raises `Wakeup` if `wakeup` was called. If a signal interrupts it (Ctrl-C, say), no record
        is taken: the next poll returns them.
        """
        client = self._client
        return self._thread.call(
            client.poll(timeout_ms=timeout_ms, max_records=max_records), client.return_unseen
        )

    def __iter__(self) -> Iterator[ConsumerRecord]:
        """Returns one record after the other, however long that takes; `wakeup` ends it."""
        client = self._client
        while True:
            try:
                record = self._thread.call(client.__anext__(), client.return_unseen)
            except StopAsyncIteration:
                return
            yield record

    def assign(self, partitions: GivenPartitions) -> None:
        """Makes these the partitions to read; those that stay keep their positions.

        The others start at the committed offset of the group, else by `auto.offset.reset`, unless
        `seek` gives a position.
        """
        self._run(lambda: self._client.assign(partitions))

    def unsubscribe(self) -> None:
        """Leaves the group; the listener is told."""

        async def leave() -> None:
            await self._client.unsubscribe()

        self._wait(leave())

    def subscription(self) -> list[str]:
        """Returns the subscribed topics; with a pattern, those that match it now.

        The broker compares a text pattern with `group.protocol=consumer`: then they are the topics
        that partitions are assigned of.
        """
        return self._run(self._client.subscription)

    def group_metadata(self) -> GroupMetadata:
        """Returns this consumer's identity in its group, which a transaction needs to commit
        offsets (`Producer.send_offsets_to_transaction`).
        """
        return self._run(self._client.group_metadata)

    def metrics(self) -> "dict[MetricName, float]":
        """Returns figures by Kafka's names (docs/reference/client-metrics.md)."""
        return self._run(self._client.metrics)

    def client_instance_id(self, timeout_ms: int = 30_000) -> str:
        """Returns the id under which brokers know this client's metrics."""
        return self._wait(self._client.client_instance_id(timeout_ms))

    def unassign(self) -> None:
        """Gives up the partitions that were assigned by hand."""
        self._run(self._client.unassign)

    def assignment(self) -> list[TopicPartition]:
        """Returns the partitions that are read now, assigned by hand or by the group."""
        return self._run(self._client.assignment)

    def seek(self, partition: GivenPartition, offset: int, leader_epoch: int = -1) -> None:
        """Moves the position to `offset`, which is the next one to be read."""
        self._run(lambda: self._client.seek(partition, offset, leader_epoch))

    def seek_to_beginning(
        self, partitions: GivenPartitions | None = None, *more: GivenPartition
    ) -> None:
        """Moves to the first record; in all assigned partitions unless some are named."""
        self._run(lambda: self._client.seek_to_beginning(partitions, *more))

    def seek_to_end(self, partitions: GivenPartitions | None = None, *more: GivenPartition) -> None:
        """Moves to the end of the log; in all assigned partitions unless some are named."""
        self._run(lambda: self._client.seek_to_end(partitions, *more))

    def seek_to_timestamp(
        self, timestamp_ms: int, partitions: GivenPartitions | None = None
    ) -> None:
        """Moves to the first record that is not older, or to the end if all are older."""
        self._run(lambda: self._client.seek_to_timestamp(timestamp_ms, partitions))

    def pause(self, *partitions: GivenPartitions) -> None:
        """Returns no records of these partitions until `resume`; positions stay."""
        self._run(lambda: self._client.pause(*partitions))

    def resume(self, *partitions: GivenPartitions) -> None:
        """Ends a pause; a poll() that waits returns records that were fetched before."""
        self._run(lambda: self._client.resume(*partitions))

    def paused(self) -> list[TopicPartition]:
        """Returns the partitions of which `pause` holds back records."""
        return self._run(self._client.paused)

    def position(self, partition: GivenPartition) -> Offset:
        """Returns the offset of the next record to read, and looks it up first if necessary."""
        return self._wait(self._client.position(partition))

    def high_watermark(self, partition: GivenPartition) -> Offset | None:
        """Returns the high watermark, as of the last fetch."""
        return self._run(lambda: self._client.high_watermark(partition))

    def lag(self, partition: GivenPartition) -> int | None:
        """Returns how far the position is behind the end of the log, as of the last fetch."""
        return self._run(lambda: self._client.lag(partition))

    @in_commit
    def commit(
        self,
        offsets: OffsetsToCommit | ConsumerRecord | None = None,
        timeout_ms: int | None = None,
    ) -> None:
        """Commits the positions, or these offsets (of the next record to read), and waits.

        A record in place of offsets means that all up to it are handled. Raises `CommitFailed` when
        the group has gone on without this consumer.
        """
        self._wait(self._client.commit(offsets, timeout_ms))

    def commit_async(
        self,
        offsets: OffsetsToCommit | ConsumerRecord | None = None,
        on_commit: OnCommit | None = None,
    ) -> None:
        """Commits once, in the background; `on_commit(offsets, error)` gets the outcome."""
        self._run(lambda: self._client.commit_async(offsets, on_commit))

    def committed(
        self, partitions: GivenPartitions, timeout_ms: int | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Returns the committed offset of each partition; None if there is none."""
        return self._wait(self._client.committed(partitions, timeout_ms))

    def beginning_offsets(self, partitions: GivenPartitions) -> dict[TopicPartition, Offset]:
        """Returns the log start offset of each partition."""
        return self._wait(self._client.beginning_offsets(partitions))

    def end_offsets(self, partitions: GivenPartitions) -> dict[TopicPartition, Offset]:
        """Returns the high watermarks, or with read_committed the last stable offsets."""
        return self._wait(self._client.end_offsets(partitions))

    def offsets_for_times(
        self, timestamps_ms: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, ListedOffset | None]:
        """Returns the first offset of each partition whose record is not older than a time.

        It is None if there is no such record.
        """
        return self._wait(self._client.offsets_for_times(timestamps_ms))

    def partitions_for(self, topic: str) -> list[int]:
        """Returns the partitions of a topic; raises `UnknownTopic` if there is none."""
        return self._wait(self._client.partitions_for(topic))

    def get(
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
        return self._wait(
            self._client.get(topic, key, partition=partition, all_partitions=all_partitions)
        )

    def get_many(self, topic: str, keys: Iterable[bytes | str]) -> list[ConsumerRecord | None]:
        """Returns the newest record of each key, with one request to each leader."""
        return self._wait(self._client.get_many(topic, keys))


class _Elsewhere:
    """A listener whose methods run in another thread, so that they may call the client."""

    def __init__(self, listener: object) -> None:
        self._listener = listener

    def __getattr__(self, name: str) -> Callable[..., Coroutine[Any, Any, Any]]:
        callback = getattr(self._listener, name)
        return lambda *arguments: _call_elsewhere(callback, *arguments)


async def _call_elsewhere(callback: Callable[..., Any], *arguments: object) -> Any:
    """Calls a function in another thread and waits for its end, also if poll() is interrupted.

    A thread cannot be ended, and a poll() must not return records while the listener still
    prepares for their partitions.
    """
    running = asyncio.ensure_future(asyncio.to_thread(callback, *arguments))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait([running])
        raise
