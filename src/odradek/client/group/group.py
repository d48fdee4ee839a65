"""The group of a consumer: its subscription, its membership and its committed offsets.

The consumer calls `serve` in every poll. A consumer with a `group.id` and without a subscription
may still commit offsets and start from committed offsets.
"""

import asyncio
import logging
import re
from collections.abc import Callable, Iterable, Mapping
from math import inf
from typing import Protocol

from odradek.client.cluster import FATAL_FOR_TOPIC, Cluster
from odradek.client.consumer.poll_gate import PollGate
from odradek.client.consumer.positions import Positions
from odradek.client.coordinator import Coordinator
from odradek.client.coordinator_lookup import KeyType
from odradek.client.errors import ClientError, CommitFailed
from odradek.client.group.assignment import Ownership
from odradek.client.group.classic_membership import ClassicMembership
from odradek.client.group.consumer_membership import ConsumerMembership
from odradek.client.group.offsets import (
    GroupMetadata,
    GroupOffsets,
    OffsetAndMetadata,
    Offsets,
    OnCommit,
    StartingOffsets,
    may_retry,
)
from odradek.client.group.subscription import Subscription
from odradek.client.group.unclosed import run_until_cancelled
from odradek.client.settings import ConsumerSettings
from odradek.protocol.errors import ErrorCode, KafkaError, UnknownTopic, error_for
from odradek.protocol.types import TopicPartition
from odradek.wording import counted

_log = logging.getLogger("odradek.client")

# When to look again for a topic that does not exist: soon, so that the warning about it comes while
# the first poll() waits, and later every second.
_MISSING_TOPIC_LOOKS_S = (0.1, 0.3, 1.0)
_MAX_COMMITS_TO_UNKNOWN_TOPIC = 4
# How long close() tries to leave: a group that is not told finds out after session.timeout.ms.
_LEAVE_TIMEOUT_S = 3.0
_DROPPED = (
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.FENCED_MEMBER_EPOCH,
)


_Subscribing = tuple[Iterable[str] | None, re.Pattern[str] | str | None, object | None]


class Membership(Protocol):
    """The membership of a consumer, with the classic protocol or the new one."""

    async def run(self) -> None:
        """Keeps the consumer in its group until it is cancelled."""
        ...

    def who(self) -> GroupMetadata:
        """Returns the identity of the member; the generation is -1 while it is not a member."""
        ...

    def last_known_as(self) -> GroupMetadata:
        """Returns the identity when the consumer was last a member; empty if it never was."""
        ...

    def offsets_reader(self) -> GroupMetadata | None:
        """Returns the identity with which committed offsets are read, if one is needed."""
        ...

    def subscription_changed(self) -> None: ...

    def metadata_changed(self) -> None: ...

    def handle_error(self, code: ErrorCode, generation: int) -> None:
        """Handles the error of a commit in this generation."""
        ...

    def take_fault(self) -> BaseException | None:
        """Returns the error that poll() must raise, if there is one."""
        ...

    async def leave(self, reason: str) -> None: ...


class Group:
    def __init__(
        self,
        cluster: Cluster,
        settings: ConsumerSettings,
        positions: Positions,
        group_id: str,
        *,
        offsets_to_commit: Callable[[], dict[TopicPartition, OffsetAndMetadata]],
        on_change: Callable[[], None],
        committed: Callable[[Offsets], None],
    ) -> None:
        self.gate = PollGate(on_change, settings.max_poll_interval_ms)
        self.group_id = group_id
        self._cluster = cluster
        self._settings = settings
        self._positions = positions
        self._offsets_to_commit = offsets_to_commit
        self._on_committed = committed
        self._on_change = on_change
        self._loop = asyncio.get_running_loop()
        self._coordinator = Coordinator(cluster, KeyType.GROUP, group_id)
        self._offsets = GroupOffsets(self._coordinator, cluster.retry, group_id)
        self._starting = StartingOffsets(
            self._offsets,
            positions,
            cluster.retry,
            on_change=on_change,
            member=self._offsets_reader,
        )
        positions.start = self._starting.begin
        self._subscription = Subscription(cluster, settings, self._subscription_changed)
        self._ownership = Ownership(positions, self._commit_before_revoked)
        self.rebalances = self._ownership.rebalances
        self._membership: Membership | None = None
        self._running: asyncio.Task[None] | None = None
        self._leaving: asyncio.Task[None] | None = None
        self._after_leaving: _Subscribing | None = None
        self._failure: BaseException | None = None
        self._commits: set[asyncio.Task[None]] = set()
        self._now_s = self._loop.time
        # When the next automatic commit is due.
        self._next_commit_s = inf
        if settings.enable_auto_commit:
            self._next_commit_s = self._now_s() + settings.auto_commit_interval_ms / 1000
        self._look_again: asyncio.TimerHandle | None = None
        self._looks = 0
        # What brokers last said of a subscribed topic that cannot be read, however long one waits.
        self._topic_fault: KafkaError | None = None
        cluster.on_change(self._metadata_changed)

    # Subscribing

    @property
    def is_subscribed(self) -> bool:
        return self._membership is not None or self._after_leaving is not None

    @property
    def has_assignment(self) -> bool:
        """Whether the group has assigned partitions, perhaps none, since the subscription."""
        return self._ownership.is_decided

    @property
    def subscribed_topics(self) -> list[str]:
        if self._leaving is None:
            if self._subscription.broker_pattern is not None:
                return sorted({partition.topic for partition in self._ownership.owned})
            return list(self._subscription.topics)
        return [] if self._after_leaving is None else list(self._after_leaving[0] or ())

    def subscribe(
        self,
        topics: Iterable[str] | None,
        pattern: "re.Pattern[str] | str | None",
        listener: object | None,
    ) -> None:
        if self._leaving is not None:
            self._after_leaving = (topics, pattern, listener)
            return
        self._ownership.listener = listener
        is_new = self._membership is None
        if is_new:
            self._membership = self._make_membership()
        if pattern is None:
            self._subscription.to_topics(topics or ())
        elif isinstance(pattern, str) and self._settings.group_protocol == "consumer":
            self._subscription.to_broker_pattern(pattern)
        else:
            self._subscription.to_pattern(re.compile(pattern))
        if is_new and self._membership is not None:
            running = run_until_cancelled(
                self._membership, self.group_id, lambda: self._running is not None, _LEAVE_TIMEOUT_S
            )
            self._running = self._loop.create_task(running, name="odradek-group")
            self._running.add_done_callback(self._on_task_ended)

    def _make_membership(self) -> Membership:
        is_classic = self._settings.group_protocol == "classic"
        made = ClassicMembership if is_classic else ConsumerMembership
        return made(
            self._cluster,
            self._settings,
            self.group_id,
            coordinator=self._coordinator,
            subscription=self._subscription,
            ownership=self._ownership,
            gate=self.gate,
        )

    def _on_task_ended(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failure = error
            self._on_change()

    def _subscription_changed(self) -> None:
        self._positions.subscribed = frozenset(self._subscription.topics)
        if self._membership is not None:
            self._membership.subscription_changed()

    def _metadata_changed(self) -> None:
        if self._membership is None:
            return
        self._membership.metadata_changed()
        view, topics = self._cluster.view, self._subscription.topics
        missing = [topic for topic in topics if topic not in view.topics]
        faults = [fault for topic in missing if (fault := view.errors.get(topic)) is not None]
        fatal = [fault for fault in faults if fault.code in FATAL_FOR_TOPIC]
        self._topic_fault = fatal[0] if fatal else None
        if fatal:
            self._on_change()
        for topic in missing:
            if isinstance(view.errors.get(topic), UnknownTopic):
                self._positions.wait_for_topic(topic)
        if not missing:
            self._looks = 0
        elif self._look_again is None:
            # The topic may be about to be created.
            delay_s = _MISSING_TOPIC_LOOKS_S[min(self._looks, len(_MISSING_TOPIC_LOOKS_S) - 1)]
            self._look_again = self._loop.call_later(delay_s, self._look_for_topics)

    def _look_for_topics(self) -> None:
        self._look_again = None
        self._looks += 1
        self._cluster.refresh_soon()

    def unsubscribe(self) -> "asyncio.Future[None]":
        """Starts to give up all partitions and to leave the group.

        The future is done when that is done. A subscription that comes before begins then.
        """
        self._after_leaving = None
        if self._leaving is None:
            if self._membership is None:
                left = self._loop.create_future()
                left.set_result(None)
                return left
            leaving = self._leave(self._membership)
            self._leaving = self._loop.create_task(leaving, name="odradek-unsubscribe")
        return self._leaving

    async def _leave(self, membership: Membership) -> None:
        try:
            await self._stop_running()
            await self._give_up_all(membership)
        finally:
            self._leaving = None
            if self._after_leaving is not None:
                self.subscribe(*self._after_leaving)
                self._after_leaving = None

    async def _give_up_all(self, membership: Membership) -> None:
        try:
            if membership.who().generation_id >= 0:
                await self._ownership.revoke(self._ownership.owned)
            else:
                await self._ownership.lose(self._ownership.owned)
        finally:
            self._membership = None
            self._subscription.clear()
            self._topic_fault = None
            self._positions.subscribed = frozenset()
            self._ownership.forget()
            try:
                async with asyncio.timeout(_LEAVE_TIMEOUT_S):
                    await membership.leave("the consumer unsubscribed")
            except TimeoutError:
                _log.info("group %s: the member did not leave in time", self.group_id)

    async def _stop_running(self) -> None:
        running, self._running = self._running, None
        if running is not None:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    # Polling

    async def serve(self) -> None:
        """Does the work of the group in a poll, before records are returned."""
        self.raise_fault()
        if self.gate.has_work:
            await self.gate.serve()
            self.raise_fault()
        now_s = self._now_s()
        if now_s >= self._next_commit_s:
            self.commit_automatically(now_s)

    def note_record_taken(self) -> bool:
        """Called for every record that the iterator returns, so it must be fast.

        Returns whether a poll must serve the group first, as it does before it returns records.
        """
        now_s = self._now_s()
        if now_s >= self._next_commit_s:
            self.commit_automatically(now_s)
        return self.gate.note_poll(now_s)

    def raise_fault(self) -> None:
        if self._failure is not None:
            raise self._failure
        if self._membership is not None:
            fault = self._membership.take_fault()
            if fault is not None:
                raise fault
        if self._topic_fault is not None:
            # The next poll goes on, until brokers say it again: permissions change.
            topic_fault, self._topic_fault = self._topic_fault, None
            raise topic_fault

    def metadata(self) -> GroupMetadata:
        """Returns the identity with which a transaction commits offsets.

        A consumer that was removed from the group still has records until its next poll. It keeps
        its old identity, which the coordinator refuses: without an identity the coordinator would
        take it for a consumer without a subscription, which may commit any offset.
        """
        if self._membership is None:
            return GroupMetadata(self.group_id)
        return self._membership.last_known_as()

    def _offsets_reader(self) -> GroupMetadata | None:
        return None if self._membership is None else self._membership.offsets_reader()

    # Committing

    def commit_automatically(self, now_s: float) -> None:
        """Commits automatically: records that earlier polls returned are regarded as handled."""
        self._next_commit_s = now_s + self._settings.auto_commit_interval_ms / 1000
        offsets = self._offsets_to_commit()
        if offsets and (self._membership is None or self._membership.who().generation_id >= 0):
            self.commit_async(offsets, _log_failure)

    async def _commit_before_revoked(self) -> None:
        """Commits the positions before partitions are given up, so that no record is read twice."""
        await self._finish_commits()
        if not self._settings.enable_auto_commit:
            return
        offsets = self._offsets_to_commit()
        if offsets:
            timeout_ms = min(
                self._settings.default_api_timeout_ms, self._settings.max_poll_interval_ms
            )
            try:
                await self.commit(offsets, timeout_ms)
            except (ClientError, KafkaError) as error:
                _log_failure(offsets, error)

    async def commit(self, offsets: Offsets | None, timeout_ms: int) -> None:
        """Commits, again until it succeeds; raises an error that is not retriable."""
        await self._finish_commits()
        to_commit = self._offsets_to_commit() if offsets is None else offsets
        if not to_commit:
            return
        await self._cluster.retry.run_within(
            timeout_ms,
            f"group {self.group_id}: offsets were not committed",
            lambda: self._commit_once(to_commit),
            may_retry=_CommitRetries().may_retry,
            waits_for=self._coordinator.lookup_fault,
        )

    def commit_async(self, offsets: Offsets | None, on_commit: OnCommit | None) -> None:
        """Commits in the background, once; `on_commit(offsets, error)` gets the outcome."""
        to_commit = self._offsets_to_commit() if offsets is None else dict(offsets)
        task = self._loop.create_task(self._commit_in_background(to_commit, on_commit))
        self._commits.add(task)
        task.add_done_callback(self._commits.discard)

    async def _commit_in_background(self, offsets: Offsets, on_commit: OnCommit | None) -> None:
        fault: BaseException | None = None
        try:
            if offsets:
                await self._commit_once(offsets)
        except (ClientError, KafkaError) as error:
            fault = error
        if on_commit is None:
            if fault is not None:
                _log_failure(offsets, fault)
            return
        try:
            on_commit(offsets, fault)
        except Exception as error:  # noqa: BLE001 - a fault of the user's must not stop the group
            self._loop.call_exception_handler(
                {"message": "a commit callback raised", "exception": error}
            )

    async def _finish_commits(self) -> None:
        """Waits for commits in the background, so that commits keep their order."""
        if self._commits:
            await asyncio.gather(*self._commits, return_exceptions=True)

    async def _commit_once(self, offsets: Offsets) -> None:
        who = self._committer()
        try:
            await self._offsets.commit_once(offsets, who)
        except KafkaError as error:
            if self._membership is not None:
                self._membership.handle_error(error.code, who.generation_id)
            if error.code in _DROPPED:
                raise self._commit_failed() from error
            if error.code == ErrorCode.REBALANCE_IN_PROGRESS:
                raise error_for(
                    error.code, "The group is rebalancing: poll(), then commit again."
                ) from error
            raise
        self._on_committed(offsets)

    def _committer(self) -> GroupMetadata:
        membership = self._membership
        if membership is None:
            return GroupMetadata(self.group_id)
        who = membership.who()
        if who.generation_id < 0:
            raise self._commit_failed()
        return who

    def _commit_failed(self) -> CommitFailed:
        if not self.has_assignment:
            return CommitFailed(
                f"the consumer is not in group {self.group_id} yet: poll() joins it, and then"
                " commit() works. To set offsets without reading, use"
                " Admin.alter_group_offsets(group_id, offsets), or commit() without subscribe()"
            )
        return CommitFailed(
            f"the consumer is no longer in group {self.group_id}, which gives its partitions to"
            " others; poll() to join again. If processing takes long, raise max.poll.interval.ms"
            " or lower max.poll.records"
        )

    async def committed(
        self, partitions: Iterable[TopicPartition], timeout_ms: int
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        return await self._offsets.committed(partitions, timeout_ms, self._offsets_reader)

    def waits_for(self) -> BaseException | None:
        """Returns why the coordinator is not found, if the group waits for it."""
        return self._coordinator.lookup_fault()

    # The end

    async def close(self, timeout_ms: int) -> None:
        """Commits, tells the listener and leaves the group, within `timeout_ms`."""
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                if self._membership is not None or self._leaving is not None:
                    await self.unsubscribe()
                else:
                    await self._commit_before_revoked()
        except TimeoutError:
            _log.warning(
                "group %s: closed after %d ms without an answer of the group's broker, so offsets"
                " may not be committed: records since the last commit may be read again",
                self.group_id,
                timeout_ms,
            )
        finally:
            await self._stop_running()
            if self._look_again is not None:
                self._look_again.cancel()
            for task in list(self._commits):
                task.cancel()
            await asyncio.gather(*self._commits, return_exceptions=True)
            await self._subscription.close()
            await self._starting.close()
            await self._coordinator.close()


class _CommitRetries:
    """Whether a commit is sent again after an error.

    The coordinator may not know a topic that was created a moment ago. A topic that it still does
    not know after a few attempts was deleted, and a rebalance may wait for this commit.
    """

    def __init__(self) -> None:
        self._unknown_topics = 0

    def may_retry(self, error: BaseException) -> bool:
        if isinstance(error, UnknownTopic):
            self._unknown_topics += 1
            return self._unknown_topics < _MAX_COMMITS_TO_UNKNOWN_TOPIC
        return may_retry(error)


def _log_failure(offsets: Mapping[TopicPartition, object], error: BaseException | None) -> None:
    if error is not None:
        _log.warning(
            "offsets of %s were not committed: %s", counted(len(offsets), "partition"), error
        )
