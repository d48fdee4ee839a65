"""The action of `odradek replica-verification`: reads every replica and reports differences."""

import argparse
import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, cast

from odradek.client.admin.config_types import ConfigResource, ConfigType
from odradek.client.admin.configs import ConfigCalls
from odradek.client.admin.records import RecordCalls
from odradek.client.admin.topics import TopicCalls
from odradek.client.cluster_view import Topic
from odradek.client.errors import ClientError
from odradek.protocol.errors import KafkaError, error_for
from odradek.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from odradek.protocol.records import decode_records, split_batches
from odradek.protocol.types import BrokerId, Buffer, Offset, TopicPartition
from odradek.tools.admin_session import open_admin
from odradek.tools.failures import CommandFailed
from odradek.tools.terminal import Progress, print_json
from odradek.tools.topic_names import no_such_topic, topic_pattern
from odradek.wording import counted

_WAIT_MS = 500
# The replica id of Kafka's debugging consumer: followers answer it too.
_DEBUGGING_READER = BrokerId(-2)


class _VerificationAdmin(TopicCalls, ConfigCalls, RecordCalls):
    """The admin calls of this tool."""


class Entry(NamedTuple):
    """The offset and checksum of a batch, or of a record in compacted topics."""

    offset: int
    next_offset: int
    content: object


@dataclass(slots=True)
class Verdict:
    """The result for one partition."""

    partition: TopicPartition
    brokers: tuple[BrokerId, ...]
    from_offset: int
    to_offset: int = 0
    problems: list[str] = field(default_factory=list)


async def verify(arguments: argparse.Namespace) -> int:
    async with open_admin(_VerificationAdmin, arguments) as admin:
        pattern = topic_pattern(arguments.topics_include, "--topics-include")
        known = await admin.list_topics(include_internal=True)
        topics = {name: topic for name, topic in known.items() if pattern.fullmatch(name)}
        if not topics:
            raise no_such_topic(arguments.topics_include, list(known))
        compacted = await _compacted(admin, list(topics))
        partitions = [
            TopicPartition(name, index)
            for name, topic in topics.items()
            for index in topic.partitions
        ]
        starts = await admin.list_offsets(dict.fromkeys(partitions, arguments.time))
        progress = Progress("partitions compared", len(partitions))
        verdicts = []
        for done, partition in enumerate(partitions, start=1):
            start = starts[partition]
            offset = None if isinstance(start, KafkaError | ClientError) else start.offset
            reader = _Reader(admin, topics[partition.topic], partition, arguments.fetch_size)
            verdicts.append(await _compare(reader, offset, partition.topic in compacted))
            progress.update(done, asyncio.get_running_loop().time())
        progress.clear()
    return _report(arguments, verdicts)


async def _compacted(admin: _VerificationAdmin, names: list[str]) -> set[str]:
    resources = [ConfigResource(ConfigType.TOPIC, name) for name in names]
    answers = await admin.describe_configs(resources, ["cleanup.policy"])
    topics = set()
    for resource, entries in answers.items():
        entry = None if isinstance(entries, KafkaError) else entries.get("cleanup.policy")
        if entry is not None and "compact" in (entry.value or ""):
            topics.add(resource.name)
    return topics


class _Reader:
    """Reads one partition from any broker that holds it."""

    def __init__(
        self, admin: _VerificationAdmin, topic: Topic, partition: TopicPartition, fetch_bytes: int
    ) -> None:
        self._admin = admin
        self._topic = topic
        self._fetch_bytes = fetch_bytes
        self.partition = partition
        self.brokers = topic.partitions[partition.partition].replicas

    async def read(self, broker: BrokerId, offset: int) -> tuple[Buffer, int]:
        """Returns the batches from an offset on, and the high watermark that this broker knows."""
        response = await self._admin.request(
            FetchRequest(
                replica_id=_DEBUGGING_READER,
                max_wait_ms=_WAIT_MS,
                min_bytes=0,
                max_bytes=self._fetch_bytes,
                topics=[
                    FetchTopic(
                        topic=self.partition.topic,
                        topic_id=self._topic.id,
                        partitions=[
                            FetchPartition(
                                partition=self.partition.partition,
                                fetch_offset=Offset(offset),
                                partition_max_bytes=self._fetch_bytes,
                            )
                        ],
                    )
                ],
            ),
            FetchResponse,
            broker_id=broker,
        )
        if response.error_code:
            raise error_for(response.error_code)
        answer = response.responses[0].partitions[0]
        if answer.error_code:
            raise error_for(answer.error_code)
        records = cast("memoryview | None", answer.records)
        return b"" if records is None else bytes(records), answer.high_watermark


async def _compare(reader: _Reader, start: int | None, by_record: bool) -> Verdict:
    verdict = Verdict(reader.partition, reader.brokers, start or 0)
    if start is None:
        verdict.problems.append("its first offset is unknown: it has no leader")
        return verdict
    offset = max(start, 0)
    while True:
        answers = []
        for broker in reader.brokers:
            try:
                answers.append(await reader.read(broker, offset))
            except (KafkaError, ClientError) as error:
                verdict.problems.append(f"broker {broker} cannot be read: {error}")
                return verdict
        end = min(watermark for _, watermark in answers)
        copies = [_entries(data, offset, end, by_record) for data, _ in answers]
        reached = min((copy[-1].next_offset if copy else offset) for copy in copies)
        if by_record and any(copy for copy in copies):
            # A compacted replica may have no records here, but more at higher offsets.
            reached = max(reached, min(copy[-1].next_offset for copy in copies if copy))
        verdict.problems += _differences(reader.brokers, copies, reached, by_record)
        if reached <= offset or verdict.problems:
            verdict.to_offset = max(offset, min(reached, end))
            break
        offset = reached
    return verdict


def _entries(data: Buffer, start: int, end: int, by_record: bool) -> list[Entry]:
    """Returns the content of a replica from `start` to `end`, the offset that all replicas have
    committed."""
    entries = []
    view = memoryview(data)
    for position, header in split_batches(view[: _end_of_last_batch(view)]):
        if header.next_offset > end:
            break
        if not by_record:
            content: object = (header.crc, header.size_bytes, header.leader_epoch)
            entries.append(Entry(header.base_offset, header.next_offset, content))
            continue
        batch = view[position : position + header.size_bytes]
        for record in decode_records(batch):
            if record.offset >= start:
                content = (record.key, record.value, record.headers)
                entries.append(Entry(record.offset, record.offset + 1, content))
    return entries


def _end_of_last_batch(view: memoryview) -> int:
    """Returns where the last complete batch ends; brokers may cut off the last one."""
    position = 0
    while position + 12 <= len(view):
        size = int.from_bytes(view[position + 8 : position + 12], "big") + 12
        if position + size > len(view):
            break
        position += size
    return position


def _differences(
    brokers: Sequence[BrokerId], copies: Sequence[list[Entry]], end_offset: int, by_record: bool
) -> list[str]:
    """Describes how replicas differ from the first one, below the offset that all have reached."""
    problems = []
    first = {entry.offset: entry for entry in copies[0] if entry.next_offset <= end_offset}
    for broker, copy in zip(brokers[1:], copies[1:], strict=True):
        other = {entry.offset: entry for entry in copy if entry.next_offset <= end_offset}
        offsets = first.keys() & other.keys() if by_record else first.keys() | other.keys()
        for offset in sorted(offsets):
            if first.get(offset) != other.get(offset):
                problems.append(
                    f"the copies on brokers {brokers[0]} and {broker} differ at offset {offset}"
                )
                break
    return problems


def _report(arguments: argparse.Namespace, verdicts: list[Verdict]) -> int:
    bad = [verdict for verdict in verdicts if verdict.problems]
    if arguments.json:
        print_json(
            [
                {
                    "topic": verdict.partition.topic,
                    "partition": verdict.partition.partition,
                    "brokers": list(verdict.brokers),
                    "fromOffset": verdict.from_offset,
                    "toOffset": verdict.to_offset,
                    "problems": verdict.problems,
                }
                for verdict in verdicts
            ]
        )
        return 1 if bad else 0
    for verdict in bad:
        for problem in verdict.problems:
            print(f"{verdict.partition.topic}-{verdict.partition.partition}: {problem}")
    partitions = counted(len(verdicts), "partition")
    if bad:
        raise CommandFailed(f"{len(bad)} of {partitions}: the copies are not the same everywhere")
    print(f"The copies of {partitions} are the same on every broker that holds them.")
    return 0
