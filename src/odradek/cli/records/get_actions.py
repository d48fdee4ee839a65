"""The action of `odradek get`, after its flags are parsed."""

import argparse
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from odradek.cli.records.record_formatter import Formatter
from odradek.client.admin.topics import TopicCalls
from odradek.client.cluster import Cluster
from odradek.client.consumer.fetched_batches import ConsumerRecord
from odradek.client.consumer.key_lookup import look_up, newest, partition_of
from odradek.client.errors import UnsupportedVersion
from odradek.client.settings import ConsumerSettings
from odradek.protocol.types import TopicPartition
from odradek.tools.admin_session import (
    leaderless_partitions,
    open_admin_beside,
    topics_named,
    without_leader,
)
from odradek.tools.failures import CommandFailed
from odradek.tools.hints import hint
from odradek.tools.terminal import flush_out, write_out
from odradek.wording import counted
from odradek.world import SystemClock

if TYPE_CHECKING:
    from odradek.client.consumer.consumer import Consumer

# Short, because a poll that only passes a transaction marker returns no record: the loop then
# checks the consumer's position.
_POLL_MS = 100


class Answer(NamedTuple):
    record: ConsumerRecord | None
    # The cost of the look-up, for the user.
    cost: str


async def print_newest(
    arguments: argparse.Namespace, key: bytes, formatter: Formatter, properties: dict[str, str]
) -> int:
    settings = ConsumerSettings.from_properties(properties)
    async with open_admin_beside(TopicCalls, properties) as admin:
        topic = (await topics_named(admin, [arguments.topic]))[arguments.topic]
    partitions = _partitions_to_search(arguments, key, topic.all_partitions)
    searched = {partition.partition for partition in partitions}
    if away := [index for index in leaderless_partitions(topic) if index in searched]:
        raise CommandFailed(
            f"topic {arguments.topic!r}: {without_leader(away)}, so no key can be found there"
        )
    if arguments.scan:
        answer = await _scan(settings, partitions, key)
    else:
        answer = await _ask(settings, partitions, key, arguments.repeat)
    if arguments.stats:
        print(answer.cost, file=sys.stderr)
    record = answer.record
    if record is None:
        others = len(topic.all_partitions) - len(partitions)
        raise CommandFailed(_not_found_message(arguments, partitions, others))
    if record.value is None:
        raise CommandFailed(
            f"key {arguments.key!r} was deleted at offset {record.offset} of"
            f" {record.topic}-{record.partition}"
        )
    try:
        shown = formatter.format(record)
    except ValueError as problem:
        raise CommandFailed(f"offset {record.offset}: {problem}") from None
    write_out(shown)
    flush_out()
    return 0


def _partitions_to_search(
    arguments: argparse.Namespace, key: bytes, indexes: Sequence[int]
) -> list[TopicPartition]:
    if arguments.all_partitions or (arguments.partition is None and not arguments.scan):
        return [TopicPartition(arguments.topic, index) for index in indexes]
    if arguments.partition is None:
        return [TopicPartition(arguments.topic, partition_of(key, indexes))]
    if arguments.partition not in indexes:
        raise CommandFailed(
            f"topic {arguments.topic!r} has no partition {arguments.partition};"
            f" it has 0 to {len(indexes) - 1}"
        )
    return [TopicPartition(arguments.topic, arguments.partition)]


def _not_found_message(
    arguments: argparse.Namespace, partitions: Sequence[TopicPartition], others: int
) -> str:
    line = f"no record has the key {arguments.key!r} in topic {arguments.topic}"
    if not others:
        return line
    return (
        f"{line}, partition {partitions[0].partition};"
        f" --all-partitions looks in the other {others} too"
    )


async def _ask(
    settings: ConsumerSettings, partitions: Sequence[TopicPartition], key: bytes, times: int
) -> Answer:
    clock = SystemClock()
    cluster = Cluster(settings)
    keys_by_partition = {partition: [key] for partition in partitions}
    committed = settings.isolation_level == "read_committed"
    timeout_ms = settings.default_api_timeout_ms
    try:
        # Metadata and connections to the leaders are not part of the measured time.
        await cluster.topic(partitions[0].topic, timeout_ms)
        for leader in {cluster.view.leader(partition) for partition in partitions}:
            if leader >= 0:
                await cluster.connection(leader)
        took_ms: list[float] = []
        for _ in range(times):
            begun_s = clock.monotonic_s()
            answers = await look_up(
                cluster, keys_by_partition, read_committed=committed, timeout_ms=timeout_ms
            )
            took_ms.append(1000 * (clock.monotonic_s() - begun_s))
    except UnsupportedVersion as error:
        raise CommandFailed(f"{error}: --scan does so") from None
    finally:
        await cluster.close()
    records = [record for answer in answers.values() for record in answer.records]
    places = sorted({record.partition for record in records if record is not None})
    if len(places) > 1:
        hint(
            f"partitions {', '.join(map(str, places))} have this key: its producers place keys"
            " differently; printed is the record with the latest timestamp"
        )
    read = sum(answer.bytes_read for answer in answers.values())
    unindexed = sum(answer.unindexed_bytes for answer in answers.values())
    return Answer(newest(records), _summary(read, unindexed, took_ms))


def _summary(bytes_read: int, unindexed_bytes: int, took_ms: list[float]) -> str:
    """Describes in one line what the last look-up read and how long the look-ups took."""
    line = f"{bytes_read} bytes read"
    if unindexed_bytes:
        line += f" ({unindexed_bytes} bytes are not indexed yet)"
    if len(took_ms) == 1:
        return f"{line} in {took_ms[0]:.2f} ms"
    ordered = sorted(took_ms)
    share = {name: ordered[int(part * (len(ordered) - 1))] for name, part in _SHARES.items()}
    text = ", ".join(f"{name} {value:.2f} ms" for name, value in share.items())
    return f"{line} by the last of {len(took_ms)} look-ups: {text}"


_SHARES = {"p50": 0.5, "p99": 0.99, "longest": 1.0}


async def _scan(
    settings: ConsumerSettings, partitions: Sequence[TopicPartition], key: bytes
) -> Answer:
    """Reads from the beginning to the current end."""
    clock = SystemClock()
    begun_s, count = clock.monotonic_s(), 0
    matches: dict[int, ConsumerRecord] = {}
    from odradek.client.consumer.consumer import Consumer

    async with Consumer(settings) as consumer:
        consumer.assign(partitions)
        consumer.seek_to_beginning()
        ends = await consumer.end_offsets(partitions)
        while await _is_before(consumer, ends):
            for records in (await consumer.poll(_POLL_MS)).values():
                count += len(records)
                for record in records:
                    if record.key == key and record.offset < ends[_partition_of(record)]:
                        matches[record.partition] = record
    took_ms = 1000 * (clock.monotonic_s() - begun_s)
    return Answer(newest(matches.values()), f"{counted(count, 'record')} read in {took_ms:.2f} ms")


async def _is_before(consumer: "Consumer", ends: Mapping[TopicPartition, int]) -> bool:
    for partition, end in ends.items():
        if await consumer.position(partition) < end:
            return True
    return False


def _partition_of(record: ConsumerRecord) -> TopicPartition:
    return TopicPartition(record.topic, record.partition)
