"""Sends requests about partitions to their leaders, until there is an answer for each partition.

ListOffsets, DeleteRecords, OffsetForLeaderEpoch and look-ups of keys work like this: partitions are
grouped by leader, and the requests to all leaders are sent at the same time. If partitions have no
answer, because the leader moved or a connection failed, the client refreshes metadata and sends
requests about them again. `list_offsets` is here too, because admin client and consumer both need
it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import NamedTuple, TypeVar

from odradek.client.cluster import Cluster
from odradek.client.cluster_view import NO_BROKER
from odradek.client.connection import Connection
from odradek.client.errors import ClientError, is_retriable
from odradek.client.retry import deadline, needs_metadata
from odradek.protocol.batch_header import NO_LEADER_EPOCH
from odradek.protocol.errors import ErrorCode, KafkaError, error_for
from odradek.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from odradek.protocol.types import BrokerId, LeaderEpoch, Offset, TopicPartition

T = TypeVar("T")

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6
# The first version that knows each of the special timestamps.
_FIRST_VERSIONS = {
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
# Possibly not every broker knows a topic that was created a moment ago, so the topic is reported as
# unknown only after this many rounds.
_MAX_ROUNDS_FOR_UNKNOWN_TOPIC = 4
_ENDLESS = 1 << 31

Answers = dict[TopicPartition, T | KafkaError]


class ListedOffset(NamedTuple):
    """An offset of a partition.

    `offset` is -1 if no record has the requested timestamp or a later one. `timestamp_ms` is the
    timestamp of the record at the offset if the offset was looked up by timestamp, else -1.
    """

    offset: Offset
    timestamp_ms: int
    leader_epoch: LeaderEpoch


async def ask_leaders(
    cluster: Cluster,
    partitions: Iterable[TopicPartition],
    ask: Callable[[Connection, list[TopicPartition]], Awaitable[Answers[T]]],
    timeout_ms: int,
    *,
    waits_for_leaders: bool = True,
) -> Answers[T]:
    """Returns the answer for each partition, or the error that its leader answered with.

    A retriable error is not an answer, except UNKNOWN_TOPIC_OR_PARTITION after a few rounds. Raises
    an error of a whole request that is not retriable, and after `timeout_ms` what `deadline`
    raises. It creates no topic.

    A client with few `retries`, as the tools have, does not wait that long: a partition that has no
    answer after these and a few more rounds, because an election takes a moment, gets its error as
    the answer, or the error of the connection to its leader is raised.

    If `waits_for_leaders` is False, it returns as soon as only partitions without a leader are
    left, and leaves these out: it may take long until they have one, and the caller can use the
    other answers.
    """
    requested = dict.fromkeys(partitions)
    answers: Answers[T] = {}
    failures = cluster.retry.failures()
    last_error: BaseException | None = None
    refresh_error: BaseException | None = None
    max_rounds = getattr(cluster.settings, "retries", _ENDLESS) + _MAX_ROUNDS_FOR_UNKNOWN_TOPIC

    def timeout_message() -> tuple[str, BaseException | None]:
        missing = ", ".join(str(partition) for partition in requested if partition not in answers)
        cause = refresh_error or last_error
        return f"no answer about {missing} within {timeout_ms} ms: {cause or 'no leader'}", cause

    for topic in {partition.topic: None for partition in requested}:
        cluster.track(topic, is_needed=False)
    async with deadline(timeout_ms, timeout_message):
        rounds = 0
        while missing := [partition for partition in requested if partition not in answers]:
            if rounds > 1:
                await failures.wait()
            if rounds and (last_error is None or needs_metadata(last_error)):
                refresh_error = await _refresh(cluster)
            rounds += 1
            last_error = await _round(cluster, missing, ask, answers, rounds)
            if (
                not waits_for_leaders
                and rounds > 1
                and all(
                    _is_leaderless(cluster, partition)
                    for partition in set(missing) - answers.keys()
                )
            ):
                break
            if rounds >= max_rounds:
                _give_up(cluster, requested, answers, refresh_error or last_error)
    return answers


def _give_up(
    cluster: Cluster,
    requested: Iterable[TopicPartition],
    answers: Answers[T],
    last_error: BaseException | None,
) -> None:
    """Answers for all partitions that have no answer, or raises the error of a connection."""
    for partition in requested:
        if partition in answers:
            continue
        if _is_leaderless(cluster, partition):
            answers[partition] = error_for(
                ErrorCode.LEADER_NOT_AVAILABLE,
                "It has no leader now: no broker that is up has a copy in sync.",
            )
        elif last_error is None or isinstance(last_error, KafkaError):
            answers[partition] = last_error or error_for(ErrorCode.LEADER_NOT_AVAILABLE)
        else:
            raise last_error


async def _round(
    cluster: Cluster,
    partitions: list[TopicPartition],
    ask: Callable[[Connection, list[TopicPartition]], Awaitable[Answers[T]]],
    answers: Answers[T],
    rounds: int,
) -> BaseException | None:
    """Asks each leader once, adds to `answers`, and returns the last error of the round."""
    view = cluster.view
    by_leader: dict[BrokerId, list[TopicPartition]] = {}
    for partition in partitions:
        by_leader.setdefault(view.leader(partition), []).append(partition)
    without_leader = by_leader.pop(NO_BROKER, [])
    results = await asyncio.gather(
        *(
            _ask_one(cluster, leader, led_partitions, ask)
            for leader, led_partitions in by_leader.items()
        )
    )
    error: BaseException | None = None
    for result in results:
        if isinstance(result, BaseException):
            error = result
            continue
        for partition, answer in result.items():
            if isinstance(answer, KafkaError) and is_retriable(answer):
                error = answer
                if not _is_unknown_topic(answer) or rounds < _MAX_ROUNDS_FOR_UNKNOWN_TOPIC:
                    continue
            answers[partition] = answer
    for partition in without_leader:
        fault = view.errors.get(partition.topic)
        if fault is None and partition.topic in view.topics and view.partition(partition) is None:
            fault = error_for(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"Topic {partition.topic} has no partition {partition.partition};"
                f" it has 0 to {len(view.topics[partition.topic].partitions) - 1}.",
            )
        if fault is None:
            continue
        error = fault
        if not is_retriable(fault) or (
            _is_unknown_topic(fault) and rounds >= _MAX_ROUNDS_FOR_UNKNOWN_TOPIC
        ):
            answers[partition] = fault
    return error


def _is_leaderless(cluster: Cluster, partition: TopicPartition) -> bool:
    """Returns whether brokers have said that the partition has no leader."""
    known = cluster.view.partition(partition)
    return known is not None and known.leader == NO_BROKER


def _is_unknown_topic(error: KafkaError) -> bool:
    return error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def _refresh(cluster: Cluster) -> BaseException | None:
    """Refreshes metadata. A retriable error is returned, because the next round refreshes again."""
    try:
        await cluster.refresh()
    except (ClientError, KafkaError) as error:
        if not is_retriable(error):
            raise
        return error
    return None


async def _ask_one(
    cluster: Cluster,
    leader: BrokerId,
    partitions: list[TopicPartition],
    ask: Callable[[Connection, list[TopicPartition]], Awaitable[Answers[T]]],
) -> Answers[T] | BaseException:
    try:
        connection = await cluster.connection(leader)
        return await ask(connection, partitions)
    except (ClientError, KafkaError) as error:
        if not is_retriable(error):
            raise
        return error


async def list_offsets(
    cluster: Cluster,
    timestamps: Mapping[TopicPartition, int],
    *,
    read_committed: bool = False,
    timeout_ms: int,
    waits_for_leaders: bool = True,
) -> Answers[ListedOffset]:
    """Returns the offset of each partition at a timestamp, or at `EARLIEST`, `LATEST`, ..."""
    min_version = max(
        (_FIRST_VERSIONS.get(timestamp, 0) for timestamp in timestamps.values()), default=0
    )

    async def ask(
        connection: Connection, partitions: list[TopicPartition]
    ) -> Answers[ListedOffset]:
        if min_version and not connection.supports(ListOffsetsRequest, min_version):
            refused = error_for(ErrorCode.UNSUPPORTED_VERSION)
            return dict.fromkeys(partitions, refused)
        topics: dict[str, ListOffsetsTopic] = {}
        for partition in partitions:
            topic = topics.setdefault(partition.topic, ListOffsetsTopic(name=partition.topic))
            known = cluster.view.partition(partition)
            topic.partitions.append(
                ListOffsetsPartition(
                    partition_index=partition.partition,
                    current_leader_epoch=NO_LEADER_EPOCH if known is None else known.leader_epoch,
                    timestamp=timestamps[partition],
                )
            )
        response = await connection.request(
            ListOffsetsRequest(
                replica_id=NO_BROKER,
                isolation_level=int(read_committed),
                topics=list(topics.values()),
                timeout_ms=cluster.settings.request_timeout_ms,
            ),
            ListOffsetsResponse,
        )
        return {
            TopicPartition(answered.name, answer.partition_index): error_for(answer.error_code)
            if answer.error_code
            else ListedOffset(
                Offset(answer.offset), answer.timestamp, LeaderEpoch(answer.leader_epoch)
            )
            for answered in response.topics
            for answer in answered.partitions
        }

    return await ask_leaders(
        cluster, timestamps, ask, timeout_ms, waits_for_leaders=waits_for_leaders
    )
