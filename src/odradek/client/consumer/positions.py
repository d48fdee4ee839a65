"""The positions of a consumer in its partitions: where it starts, and when a position is reset.

Positions are looked up by `auto.offset.reset` (`Positions.reset`), reset when the broker does not
have the offset (`handle_out_of_range`), and compared with a new leader's log (`_compare`).

A partition's state:

    assigned -> needs reset -> has a position <--> needs validation (the leader epoch rose)
                     ^               |                    |
                     +-- out of range + ------ truncated -+

If a look-up fails, the next poll() raises its error, and the same look-up is made again after that,
whatever `auto.offset.reset` says.

`seek` gives a position at any time. Only a partition with a position that needs no validation
is fetched. `seek_count` rises whenever the position jumps, so that responses to earlier requests
are recognised and dropped.

Invariant: `position <= fetch_offset`, and the records between are in `buffered`.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable

from odradek.client.cluster import Cluster
from odradek.client.cluster_view import NO_BROKER
from odradek.client.connection import Connection
from odradek.client.consumer.awaited_topics import AwaitedTopics
from odradek.client.consumer.fetched_batches import FetchedBatches
from odradek.client.errors import (
    ClientError,
    LogTruncated,
    NoOffset,
    OffsetError,
    OffsetOutOfRange,
    is_retriable,
)
from odradek.client.leader_requests import (
    EARLIEST,
    LATEST,
    Answers,
    ask_leaders,
    list_offsets,
)
from odradek.client.settings import ConsumerSettings
from odradek.client.settings.consumer import BY_DURATION
from odradek.config.values import parse_iso_duration_ms
from odradek.invariants import InvariantViolation
from odradek.protocol.batch_header import NO_LEADER_EPOCH
from odradek.protocol.errors import KafkaError, UnknownTopic, error_for
from odradek.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from odradek.protocol.types import (
    FIRST_OFFSET,
    NO_TOPIC_ID,
    BrokerId,
    LeaderEpoch,
    Offset,
    TopicPartition,
)
from odradek.world import Clock

_log = logging.getLogger("odradek.client")

_CONSUMER_REPLICA_ID = BrokerId(-1)
# How many partitions a message names.
_FEW = 5


class PartitionState:
    __slots__ = (
        "buffered",
        "failures",
        "fault",
        "fetch_offset",
        "high_watermark",
        "is_paused",
        "last_stable_offset",
        "leader_epoch",
        "log_start_offset",
        "needs_validation",
        "not_before_s",
        "partition",
        "position",
        "position_epoch",
        "preferred_replica",
        "preferred_until_s",
        "reset_to",
        "seek_count",
        "topic_id",
    )

    def __init__(self, partition: TopicPartition) -> None:
        self.partition = partition
        self.position: Offset | None = None
        # The leader epoch of the last record before the position, if it is known.
        self.position_epoch = NO_LEADER_EPOCH
        self.fetch_offset = FIRST_OFFSET
        self.buffered: deque[FetchedBatches] = deque()
        # The number of seeks and resets.
        self.seek_count = 0
        self.is_paused = False
        # The timestamp by which the position is looked up, if it has to be.
        self.reset_to: int | None = None
        self.needs_validation = False
        self.leader_epoch = NO_LEADER_EPOCH
        # The topic that `leader_epoch` belongs to: one that was created again has another id.
        self.topic_id = NO_TOPIC_ID
        self.high_watermark: Offset | None = None
        self.last_stable_offset: Offset | None = None
        self.log_start_offset: Offset | None = None
        self.preferred_replica = NO_BROKER
        self.preferred_until_s = 0.0
        # How often fetches of this partition failed since one succeeded.
        self.failures = 0
        self.not_before_s = 0.0
        self.fault: BaseException | None = None

    def seek(self, offset: Offset, leader_epoch: LeaderEpoch = NO_LEADER_EPOCH) -> None:
        self._jump()
        self.position = self.fetch_offset = offset
        self.position_epoch = leader_epoch

    def request_reset(self, timestamp: int) -> None:
        self._jump()
        self.position = None
        self.position_epoch = NO_LEADER_EPOCH
        self.reset_to = timestamp

    def _jump(self) -> None:
        self.seek_count += 1
        self.buffered.clear()
        self.reset_to = None
        self.needs_validation = False
        self.preferred_replica = NO_BROKER
        self.not_before_s = 0.0
        self.fault = None

    def check(self) -> None:
        """Raises `InvariantViolation` if the position is beyond what was fetched."""
        if self.position is not None and self.position > self.fetch_offset:
            raise InvariantViolation(
                f"position in {self.partition}",
                f"position {self.position} is beyond fetch offset {self.fetch_offset}",
            )

    @property
    def is_fetchable(self) -> bool:
        return (
            self.position is not None
            and not self.is_paused
            and not self.needs_validation
            and self.fault is None
        )


class Positions:
    """The assigned partitions, and the background work that gives each a valid position."""

    def __init__(
        self,
        cluster: Cluster,
        settings: ConsumerSettings,
        clock: Clock,
        *,
        on_change: Callable[[], None],
        on_failure: Callable[[BaseException], None],
    ) -> None:
        self.assigned: dict[TopicPartition, PartitionState] = {}
        # Topics whose metadata is kept even while none of their partitions is assigned.
        self.subscribed: frozenset[str] = frozenset()
        # Called for a new partition; a group replaces it and starts from the committed offset.
        self.start: Callable[[PartitionState], None] = self.reset
        self._cluster = cluster
        self._settings = settings
        self._clock = clock
        self._on_change = on_change
        self._on_failure = on_failure
        self._lookups: asyncio.Task[None] | None = None
        self._view_version = -1
        # The partitions that had no leader when the view changed last.
        self._leaderless: set[TopicPartition] = set()
        self._awaited_topics = AwaitedTopics()

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Makes these the assigned partitions; those that stay keep their positions."""
        unique_partitions = list(dict.fromkeys(partitions))
        before = self.assigned
        # This raises for what cannot be a topic, before anything is changed.
        self.assigned = {
            partition: before.get(partition) or self._new_state(partition)
            for partition in unique_partitions
        }
        topics = {partition.topic for partition in unique_partitions}
        for topic in {partition.topic: None for partition in before}:
            if topic not in topics and topic not in self.subscribed:
                self._cluster.untrack(topic)
        for partition, state in self.assigned.items():
            if partition not in before:
                self.start(state)
        self._view_version = -1  # So that the leaders of the new partitions are looked at.
        self._on_change()

    def _new_state(self, partition: TopicPartition) -> PartitionState:
        state = PartitionState(partition)
        self._cluster.track(partition.topic)
        return state

    def wait_for_topic(self, topic: str) -> None:
        """Notes that a subscribed topic does not exist, or does not any more."""
        self._awaited_topics.note_missing(topic, self._clock.now_ms())

    def reset(self, state: PartitionState) -> None:
        """Requests a look-up by `auto.offset.reset`, or makes poll() raise if that is none."""
        since_ms = self._awaited_topics.begin(state.partition)
        if since_ms is not None and self._settings.auto_offset_reset == "latest":
            state.request_reset(since_ms)
            return
        self._reset_or_fail(
            state,
            NoOffset(
                f"{state.partition} has no position and auto.offset.reset=none: call seek()",
                [state.partition],
            ),
        )

    def handle_out_of_range(self, state: PartitionState) -> None:
        """Decides what follows when the leader's log does not have the offset to be fetched:
        another fetch, a reset by `auto.offset.reset`, or an error for poll() to raise."""
        if state.buffered:
            # Buffered records are returned first. The next fetch gets the same error, which is
            # handled then.
            self.delay_fetch(state)
            return
        policy, offset = self._settings.auto_offset_reset, state.fetch_offset
        if policy != "none":
            place = {"earliest": "its beginning", "latest": "its end"}.get(policy, "a later time")
            _log.warning(
                "%s has no offset %d; reading goes on at %s, as auto.offset.reset=%s says",
                state.partition,
                offset,
                place,
                policy,
            )
        self._reset_or_fail(
            state,
            OffsetOutOfRange(
                f"{state.partition} has no offset {offset} and auto.offset.reset=none:"
                " call seek() with a valid offset",
                [state.partition],
            ),
        )

    def delay_fetch(self, state: PartitionState) -> None:
        """Delays the next fetch by `retry.backoff.ms` without counting a failure."""
        delay_s = self._cluster.retry.request_backoff.delay_s(1)
        state.not_before_s = asyncio.get_running_loop().time() + delay_s

    def _reset_or_fail(
        self, state: PartitionState, fault: OffsetError, end: EpochEndOffset | None = None
    ) -> None:
        """Moves the position to `end` if that is known, or else as `auto.offset.reset` says. If the
        policy is none, the position stays and poll() raises `fault`."""
        policy = self._settings.auto_offset_reset
        if policy == "none":
            state.fault = fault
        elif end is not None:
            state.seek(end.end_offset, end.leader_epoch)
        elif policy.startswith(BY_DURATION):
            ago_ms = parse_iso_duration_ms(policy.removeprefix(BY_DURATION))
            state.request_reset(max(0, self._clock.now_ms() - ago_ms))
        else:
            state.request_reset(EARLIEST if policy == "earliest" else LATEST)

    def leader_or_replica(self, state: PartitionState, now_s: float) -> BrokerId:
        """Returns the broker to fetch from: the replica that the leader prefers, or the leader."""
        if state.preferred_replica != NO_BROKER:
            if now_s < state.preferred_until_s:
                return state.preferred_replica
            state.preferred_replica = NO_BROKER
        return self._cluster.view.leader(state.partition)

    # Looking up and validating

    def start_lookups(self) -> None:
        """Starts the look-ups that are needed, unless they are under way."""
        self._note_leaders()
        if self._lookups is None and any(map(_needs_lookup, self.assigned.values())):
            loop = asyncio.get_running_loop()
            self._lookups = loop.create_task(self._run_lookups(), name="odradek-positions")
            self._lookups.add_done_callback(self._on_lookups_ended)

    def _on_lookups_ended(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._on_failure(error)

    async def close(self) -> None:
        if self._lookups is not None:
            self._lookups.cancel()
            await asyncio.gather(self._lookups, return_exceptions=True)

    def _note_leaders(self) -> None:
        """Marks the positions of partitions with a new leader for validation: its log may lack
        records that the old leader had."""
        if self._view_version == self._cluster.view.version:
            return
        self._view_version = self._cluster.view.version
        self._note_leaderless()
        for state in self.assigned.values():
            topic = self._cluster.view.topics.get(state.partition.topic)
            partition = self._cluster.view.partition(state.partition)
            if topic is None or partition is None:
                continue
            # Epochs only rise, until the topic is deleted and created again.
            is_same_topic = topic.id == state.topic_id
            state.topic_id = topic.id
            if partition.leader_epoch == state.leader_epoch or (
                is_same_topic and partition.leader_epoch < state.leader_epoch
            ):
                continue
            is_first = state.leader_epoch < 0
            state.leader_epoch = partition.leader_epoch
            if not is_first and state.position is not None and state.position_epoch >= 0:
                state.needs_validation = True

    def _note_leaderless(self) -> None:
        """Warns about partitions that have no leader any more: nothing is read there, and nothing
        else would say so."""
        leaderless = {
            partition
            for partition in self.assigned
            if (known := self._cluster.view.partition(partition)) is not None
            and known.leader == NO_BROKER
        }
        if new := sorted(leaderless - self._leaderless):
            shown = ", ".join(map(str, new[:_FEW])) + (" ..." if new[_FEW:] else "")
            _log.warning(
                "%s no leader now; nothing is read there until a broker that holds a copy is back",
                f"{shown} has" if len(new) == 1 else f"{shown} have",
            )
        self._leaderless = leaderless

    async def _run_lookups(self) -> None:
        failures = self._cluster.retry.failures()
        try:
            while True:
                resets = {
                    state.partition: state
                    for state in self.assigned.values()
                    if state.reset_to is not None and state.fault is None
                }
                unvalidated = {
                    state.partition: state
                    for state in self.assigned.values()
                    if state.needs_validation and state.fault is None
                }
                if not resets and not unvalidated:
                    return
                try:
                    is_done = await self._look_up(resets) if resets else True
                    if unvalidated:
                        is_done = await self._validate(unvalidated) and is_done
                    if is_done:
                        failures.reset()
                    else:
                        # The others are read meanwhile, and new partitions are looked up.
                        await failures.wait()
                except (ClientError, KafkaError) as error:
                    if not is_retriable(error) and not isinstance(error, TimeoutError):
                        self._set_error((resets | unvalidated).values(), error)
                        return
                    _log.warning("positions could not be looked up, trying again: %s", error)
                    await failures.wait()
        finally:
            self._lookups = None
            self._on_change()

    def _set_error(self, states: Iterable[PartitionState], error: BaseException) -> None:
        """Makes poll() raise the error. The look-up stays requested: a consumer that asked for the
        beginning of a topic that does not exist yet still means its beginning."""
        for state in states:
            state.fault = error
            state.needs_validation = False

    async def _look_up(self, states: dict[TopicPartition, PartitionState]) -> bool:
        """Looks up positions. Returns False if partitions are left that have no leader."""
        timestamps = {partition: state.reset_to or 0 for partition, state in states.items()}
        seek_counts = {partition: state.seek_count for partition, state in states.items()}
        answers = await list_offsets(
            self._cluster,
            timestamps,
            read_committed=self._settings.isolation_level == "read_committed",
            timeout_ms=self._settings.default_api_timeout_ms,
            waits_for_leaders=False,
        )
        for partition, answer in answers.items():
            state = states[partition]
            if state.seek_count != seek_counts[partition]:
                continue
            if isinstance(answer, KafkaError):
                if isinstance(answer, UnknownTopic) and state.reset_to == LATEST:
                    # What is written from now on is newer than this request for the end.
                    state.reset_to = self._clock.now_ms()
                self._set_error([state], answer)
            elif answer.offset < 0:
                # No record is that new: the position is the end of the log, looked up next.
                state.reset_to = LATEST
            else:
                state.seek(answer.offset)
        self._on_change()
        return len(answers) == len(states)

    async def _validate(self, states: dict[TopicPartition, PartitionState]) -> bool:
        """Asks where the epochs of the positions end. A position that moves meanwhile, because
        poll() returns buffered records, is validated again: the answer is about its old epoch.
        Returns False if partitions are left that have no leader."""
        before = {
            partition: (state.seek_count, state.position, state.position_epoch)
            for partition, state in states.items()
        }

        async def ask(
            connection: Connection, partitions: list[TopicPartition]
        ) -> Answers[EpochEndOffset]:
            topics: dict[str, OffsetForLeaderTopic] = {}
            for partition in partitions:
                topic = topics.setdefault(
                    partition.topic, OffsetForLeaderTopic(topic=partition.topic)
                )
                topic.partitions.append(
                    OffsetForLeaderPartition(
                        partition=partition.partition,
                        current_leader_epoch=states[partition].leader_epoch,
                        leader_epoch=before[partition][2],
                    )
                )
            response = await connection.request(
                OffsetForLeaderEpochRequest(
                    replica_id=_CONSUMER_REPLICA_ID, topics=list(topics.values())
                ),
                OffsetForLeaderEpochResponse,
            )
            return {
                TopicPartition(answered.topic, answer.partition): error_for(answer.error_code)
                if answer.error_code
                else answer
                for answered in response.topics
                for answer in answered.partitions
            }

        timeout_ms = self._settings.default_api_timeout_ms
        answers = await ask_leaders(self._cluster, states, ask, timeout_ms, waits_for_leaders=False)
        for partition, answer in answers.items():
            state = states[partition]
            if (state.seek_count, state.position, state.position_epoch) != before[partition]:
                continue
            if isinstance(answer, KafkaError):
                self._set_error([state], answer)
            else:
                self._compare(state, answer)
        self._on_change()
        return len(answers) == len(states)

    def _compare(self, state: PartitionState, end: EpochEndOffset) -> None:
        """Compares the position with the end of its leader epoch in the leader's log: a position
        after that end means that the log was truncated."""
        state.needs_validation = False
        position = state.position
        if position is None:
            return
        if end.leader_epoch >= 0 and end.end_offset >= position:
            return
        known = end.leader_epoch >= 0 and end.end_offset >= 0
        extent = f"from offset {end.end_offset} on" if known else "somewhere before"
        _log.warning("%s was truncated %s; it was read up to %d", state.partition, extent, position)
        self._reset_or_fail(
            state,
            LogTruncated(
                f"{state.partition} was truncated {extent} and auto.offset.reset=none:"
                " call seek() with a valid offset",
                [state.partition],
            ),
            end if known else None,
        )


def _needs_lookup(state: PartitionState) -> bool:
    return state.fault is None and (state.reset_to is not None or state.needs_validation)
