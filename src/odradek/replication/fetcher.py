"""Copies partitions from the broker that leads them. Each fetcher is one task with one connection.

    fetch records from the log end on -> append them as they are -> fetch again

The fetch offset confirms records: it tells the leader that this broker has every record below
(flushed, with `flush.messages=1`). The response has records and the leader's high watermark and log
start, or the offset at which the two logs diverge; then this log is truncated there.

A partition whose fetch fails is left out for a back-off, so that it does not hold up the others.
The back-off is short if the two brokers only have different images, as after an election.

Invariant: a response is used only if the partition still follows the leader in the epoch of the
request, and its log still ends at the offset of the request.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from typing import Final

from odradek.client.connection import Connection
from odradek.client.errors import ClientError
from odradek.config.live import LiveSettings
from odradek.metadata import MetadataCache
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from odradek.protocol.messages.fetch import (
    FetchRequest,
    FetchResponse,
    PartitionData,
    ReplicaState,
)
from odradek.protocol.types import BrokerId, Offset
from odradek.replication.fetch_session import FetchPosition, Key, ReplicaSession
from odradek.replication.partition import Partition
from odradek.replication.peers import Peers, PeerUnreachable
from odradek.replication.replica import NO_EPOCH, EndOfEpoch
from odradek.replication.throttle import Throttle, is_listed
from odradek.storage import AppendRejected, Log, StorageError
from odradek.storage.errors import ResourceShortage

logger = logging.getLogger("odradek.replication")

_FIRST_RETRY_S: Final = 0.02
# An image reaches all brokers within milliseconds, and producers wait for this follower meanwhile.
_MAX_IMAGE_LAG_S: Final = 0.1
# A leader that is not in a long poll answers within this time; a long poll is interrupted.
_GRACE_S: Final = 0.002
_IMAGES_DIFFER: Final = frozenset(
    {
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
"""The leader or this broker has not seen the latest image yet."""


_SESSION_IS_LOST: Final = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)


class Following:
    """A partition that a fetcher copies."""

    __slots__ = ("due_s", "failures", "leader_epoch", "partition")

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.leader_epoch = partition.leader_epoch
        self.failures = 0
        # When it is fetched again after a failure; 0 while it is being fetched.
        self.due_s = 0.0


class LeaderFetcher:
    """Copies the partitions that one other broker leads, or with `num.replica.fetchers` above 1 a
    share of them."""

    def __init__(
        self,
        broker_id: BrokerId,
        leader: BrokerId,
        peers: Peers,
        cache: MetadataCache,
        settings: LiveSettings,
        *,
        throttle: Throttle,
        checkpoint_log_start_offsets: Callable[[], Awaitable[None]],
        number: int = 0,
    ) -> None:
        """`checkpoint_log_start_offsets` makes log starts that have moved survive a crash. `number`
        tells the fetchers of one leader apart: each has a connection of its own."""
        self._broker_id = broker_id
        self._leader = leader
        self._purpose = f"replication-{number}"
        self._peers = peers
        self._cache = cache
        self._settings = settings
        self._throttle = throttle
        self._keep_log_starts = checkpoint_log_start_offsets
        # Partitions whose log start has moved and would not survive a crash yet.
        self._moved_starts: dict[Key, Following] = {}
        self._session = ReplicaSession()
        # Partitions of which an answer was dropped, because their replicas had no role then.
        self._missed: dict[Key, None] = {}
        self._following: dict[Key, Following] = {}
        self._delayed: dict[Key, None] = {}
        self._broker_epoch = -1
        self._woken = asyncio.Event()
        self._connection: Connection | None = None
        self._waiting: asyncio.Future[FetchResponse] | None = None
        self._interruption: asyncio.TimerHandle | None = None
        self._failures = 0

    def __len__(self) -> int:
        return len(self._following)

    def partitions(self) -> Iterator[Partition]:
        """Yields the partitions that this fetcher copies."""
        for following in self._following.values():
            yield following.partition

    # The partitions to fetch

    def follow(self, partition: Partition) -> None:
        """Starts to fetch the partition in its current leader epoch."""
        key = (partition.topic_id, partition.topic_partition.partition)
        known = self._following.get(key)
        if (
            known is not None
            and known.partition is partition
            and known.leader_epoch == partition.leader_epoch
        ):
            return
        self._following[key] = following = Following(partition)
        self._delayed.pop(key, None)
        self._update_position(key, following)
        self.wake()

    def leave(self, key: Key) -> None:
        if self._following.pop(key, None) is not None:
            self._delayed.pop(key, None)
            self._session.forget(key)

    def wake(self) -> None:
        """Ends a back-off or a long poll early, because the image or the partitions changed."""
        self._woken.set()
        if self._waiting is not None and self._interruption is None:
            loop = asyncio.get_running_loop()
            self._interruption = loop.call_later(_GRACE_S, self._interrupt, self._waiting)

    def _interrupt(self, waiting: "asyncio.Future[FetchResponse]") -> None:
        """Ends a long poll by sending another request: the leader then answers the poll at once."""
        self._interruption = None
        if self._waiting is waiting and self._connection is not None:
            try:
                self._connection.send(ApiVersionsRequest(), ApiVersionsResponse).cancel()
            except ClientError:
                return  # The connection is closed: the long poll is about to fail.

    def _update_position(self, key: Key, following: Following) -> None:
        log = following.partition.log
        end = log.log_end_offset
        self._session.set_position(
            key,
            FetchPosition(
                following.leader_epoch,
                end,
                log.leader_epochs.epoch_for(Offset(end - 1)) if end else NO_EPOCH,
                log.durable_start_offset,
                self._settings.broker.replica_fetch_max_bytes,
            ),
        )

    # Running

    async def run(self) -> None:
        """Fetches until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            self._woken.clear()
            self._resume_due(loop.time())
            self._ask_again()
            if not self._session.positions or not self._knows_broker_epoch():
                await self._pause(self._next_due_s(loop.time()))
                continue
            if self._moved_starts:
                await self._confirm_log_starts()
            response = await self._fetch(loop.time())
            if response is None:
                continue
            if self._session.handle_response(response):
                self._failures = 0
                await self._handle_response(response, loop.time())
            elif response.error_code not in _SESSION_IS_LOST:
                await self._back_off(ErrorCode(response.error_code).name)

    async def _confirm_log_starts(self) -> None:
        """Makes moved log starts durable, and only then tells the leader of them: it answers
        DeleteRecords after that, and this replica may be the next leader."""
        await self._keep_log_starts()
        for key, following in list(self._moved_starts.items()):
            log = following.partition.log
            if self._following.get(key) is not following or not log.is_usable:
                del self._moved_starts[key]
            elif log.durable_start_offset >= log.log_start_offset:
                del self._moved_starts[key]
                if key not in self._delayed:
                    self._update_position(key, following)

    def _knows_broker_epoch(self) -> bool:
        """Returns whether this broker knows its own broker epoch, which fetches carry: the leader
        must know which run of this broker fetches (KIP-903)."""
        known = self._cache.image.brokers.get(self._broker_id)
        if known is not None:
            self._broker_epoch = known.epoch
        return self._broker_epoch >= 0

    def _resume_due(self, now_s: float) -> None:
        """Fetches the partitions again whose back-off is over."""
        for key in [key for key in self._delayed if self._following[key].due_s <= now_s]:
            del self._delayed[key]
            self._update_position(key, self._following[key])

    def _ask_again(self) -> None:
        """Begins a new session if an answer was dropped and its replica has its role again: in the
        old one the leader does not repeat a high watermark that it has told."""
        for key in [*self._missed]:
            following, position = self._following.get(key), self._session.positions.get(key)
            if following is None or position is None:
                del self._missed[key]
            elif _is_current(following, position):
                del self._missed[key]
                self._session.reset()

    def _next_due_s(self, now_s: float) -> float | None:
        due = [self._following[key].due_s for key in self._delayed]
        return max(min(due) - now_s, 0.0) if due else None

    async def _pause(self, max_delay_s: float | None) -> None:
        if max_delay_s is None:
            await self._woken.wait()
            return
        loop = asyncio.get_running_loop()
        timer = loop.call_later(max_delay_s, self._woken.set)
        try:
            await self._woken.wait()
        finally:
            timer.cancel()

    async def _fetch(self, now_s: float) -> FetchResponse | None:
        """Sends one request and returns the response; None if it failed or was not sent."""
        settings = self._settings.broker
        try:
            connection = await self._peers.connection(self._leader, self._purpose)
        except PeerUnreachable as error:
            await self._back_off(str(error))
            return None
        if not self._session.positions:
            return None
        topics, forgotten = self._session.next_request()
        wait_ms = settings.replica_fetch_wait_max_ms
        next_due_s = self._next_due_s(now_s)
        if next_due_s is not None:
            wait_ms = min(wait_ms, int(next_due_s * 1000))
        request = FetchRequest(
            replica_state=ReplicaState(
                replica_id=self._broker_id, replica_epoch=self._broker_epoch
            ),
            max_wait_ms=wait_ms,
            min_bytes=settings.replica_fetch_min_bytes,
            max_bytes=settings.replica_fetch_response_max_bytes,
            session_id=self._session.session_id,
            session_epoch=self._session.epoch,
            topics=topics,
            forgotten_topics_data=forgotten,
        )
        self._connection = connection
        try:
            self._waiting = connection.send(
                request, FetchResponse, timeout_ms=wait_ms + settings.replica_socket_timeout_ms
            )
            return await self._waiting
        except ClientError as error:
            self._session.reset()
            if not self._woken.is_set():
                await self._back_off(str(error))
            return None
        finally:
            self._waiting = None
            if self._interruption is not None:
                self._interruption.cancel()
                self._interruption = None

    async def _back_off(self, reason: str) -> None:
        """Waits for a back-off after a failed fetch, or until the image changes."""
        self._session.reset()
        max_delay_s = self._settings.broker.replica_fetch_backoff_ms / 1000
        delay_s = min(_FIRST_RETRY_S * 2**self._failures, max_delay_s)
        if not self._failures:
            logger.info("cannot fetch from broker %d: %s", self._leader, reason)
        self._failures = min(self._failures + 1, 16)
        await self._pause(delay_s)

    # Responses

    async def _handle_response(self, response: FetchResponse, now_s: float) -> None:
        unflushed: list[Log] = []
        for topic in response.responses:
            for data in topic.partitions:
                key = (topic.topic_id, data.partition_index)
                following = self._following.get(key)
                position = self._session.positions.get(key)
                if following is None or position is None:
                    continue
                if not _is_current(following, position):
                    self._missed[key] = None
                    continue
                try:
                    self._handle_partition(key, following, data, now_s)
                except AppendRejected as error:
                    logger.error(
                        "%s: what broker %d sent cannot be appended: %s",
                        following.partition.topic_partition,
                        self._leader,
                        error,
                    )
                    self._delay(key, following, now_s, images_differ=False)
                except ResourceShortage as error:
                    logger.warning(
                        "%s: %s; fetching again soon", following.partition.topic_partition, error
                    )
                    self._delay(key, following, now_s, images_differ=False)
                except StorageError:
                    # Its log is offline, or its disk is full, and the log said so. It is assigned
                    # to a fetcher again when there is room, or after a restart.
                    self.leave(key)
                else:
                    log = following.partition.log
                    if data.records and log.flushes_before_acknowledging:
                        unflushed.append(log)
        for log in unflushed:
            try:
                await log.flush_to(log.log_end_offset)
            except StorageError:
                continue  # The log is offline now, and the next append fails.

    def _handle_partition(
        self, key: Key, following: Following, data: PartitionData, now_s: float
    ) -> None:
        partition = following.partition
        is_behind = data.log_start_offset > partition.log.log_end_offset
        if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE and is_behind:
            logger.warning(
                "%s: begins at %d on its leader, ended at %d here: starting over",
                partition.topic_partition,
                data.log_start_offset,
                partition.log.log_end_offset,
            )
            partition.truncate_fully_and_start_at(data.log_start_offset)
        elif data.error_code:
            images_differ = data.error_code in _IMAGES_DIFFER
            self._delay(key, following, now_s, images_differ=images_differ)
            return
        elif data.diverging_epoch is not None:
            self._reconcile(partition, data)
        else:
            if data.records:
                assert isinstance(data.records, bytes | bytearray | memoryview)
                partition.append_as_follower(data.records)
                self._throttle.passed_bytes += len(data.records)
                if self._is_throttled(partition):
                    rate = self._settings.broker.follower_replication_throttled_rate
                    self._throttle.spend(len(data.records), rate, now_s)
            partition.update_from_leader(data.high_watermark, data.log_start_offset)
            if partition.log.durable_start_offset < partition.log.log_start_offset:
                self._moved_starts[key] = following
        following.failures = 0
        if self._throttle.opens_s > now_s and self._is_throttled(partition):
            self._postpone(key, following, self._throttle.opens_s)
        else:
            self._update_position(key, following)

    def _is_throttled(self, partition: Partition) -> bool:
        """Returns whether the partition is catching up and an operator limits its rate."""
        name, index = partition.topic_partition
        listed = partition.log.settings.follower_replication_throttled_replicas
        if not is_listed(listed, index, self._broker_id):
            return False
        state = self._cache.image.partition(name, index)
        return state is not None and self._broker_id not in state.isr

    def _reconcile(self, partition: Partition, data: PartitionData) -> None:
        diverging = data.diverging_epoch
        assert diverging is not None
        before = partition.log.log_end_offset
        outcome = partition.truncate_to_leader(EndOfEpoch(diverging.epoch, diverging.end_offset))
        logger.info(
            "%s: truncated from %d to %d; broker %d parts from it in epoch %d at %d",
            partition.topic_partition,
            before,
            outcome,
            self._leader,
            diverging.epoch,
            diverging.end_offset,
        )

    def _delay(self, key: Key, following: Following, now_s: float, *, images_differ: bool) -> None:
        max_delay_s = self._settings.broker.replica_fetch_backoff_ms / 1000
        if images_differ:
            delay_s = min(_FIRST_RETRY_S * 2**following.failures, _MAX_IMAGE_LAG_S, max_delay_s)
            following.failures = min(following.failures + 1, 16)
        else:
            delay_s = max_delay_s
        self._postpone(key, following, now_s + delay_s)

    def _postpone(self, key: Key, following: Following, due_s: float) -> None:
        following.due_s = due_s
        self._session.forget(key)
        self._delayed[key] = None


def _is_current(following: Following, position: FetchPosition) -> bool:
    partition = following.partition
    return (
        partition.leader_epoch == position.leader_epoch == following.leader_epoch
        and not partition.is_leader
        and partition.log.log_end_offset == position.fetch_offset
    )
