"""The actions of `get-offsets`, `delete-records` and `log-dirs`, after their flags are parsed."""

import argparse
import sys
from collections.abc import Mapping

from odradek.cli.topics.get_offsets import Filter
from odradek.client.admin.broker_types import LogDirectory
from odradek.client.admin.brokers import BrokerCalls
from odradek.client.admin.records import RecordCalls
from odradek.client.admin.topics import TopicCalls
from odradek.client.cluster_view import Topic
from odradek.client.leader_requests import EARLIEST, LATEST
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.types import TopicPartition
from odradek.tools.admin_session import (
    named_partitions,
    open_admin,
    require_brokers,
    topics_named,
)
from odradek.tools.failures import CommandFailed
from odradek.tools.hints import hint
from odradek.tools.terminal import print_json
from odradek.tools.topic_names import is_internal, no_such_topic


def selected_partitions(
    arguments: argparse.Namespace, known: Mapping[str, Topic], is_selected: Filter
) -> list[TopicPartition]:
    """Returns the partitions that the flags of `get-offsets` ask for; raises if there are none."""
    partitions = [
        TopicPartition(name, index)
        for name, topic in known.items()
        if not (arguments.exclude_internal_topics and is_internal(name))
        for index in topic.partitions
        if is_selected(name, index)
    ]
    missing = _without_partition(arguments, known)
    if not partitions:
        for topic in _topics_typed(arguments):
            if topic not in known:
                raise no_such_topic(topic, list(known))
        if missing:
            raise CommandFailed("; ".join(missing))
        raise CommandFailed("no partition matches; odradek topics --describe shows what is")
    for line in missing:
        hint(line)
    return partitions


def _without_partition(arguments: argparse.Namespace, known: Mapping[str, Topic]) -> list[str]:
    """Returns a line for each partition that the flags name by its number and that its topic does
    not have. Kafka's tool passes over them in silence."""
    named = [
        (topic, number)
        for text in (arguments.topic_partitions or "").split(",")
        for topic, _, number in [text.partition(":")]
    ]
    numbers = (arguments.partitions or "").split(",")
    named += [(arguments.topic, number) for number in numbers]
    return [
        f"topic {topic!r} has no partition {number}; it has 0 to {len(known[topic].partitions) - 1}"
        for topic, number in named
        if topic in known and number.isdecimal() and int(number) not in known[topic].partitions
    ]


def _topics_typed(arguments: argparse.Namespace) -> list[str]:
    """Returns the names of the flags of `get-offsets`, which may also be regular expressions."""
    if arguments.topic is not None:
        return [arguments.topic]
    patterns = (arguments.topic_partitions or "").split(",")
    return [pattern.partition(":")[0] for pattern in patterns if pattern]


class _OffsetAdmin(TopicCalls, RecordCalls):
    """The admin calls of `get-offsets` and `delete-records`."""


async def print_offsets(arguments: argparse.Namespace, is_selected: Filter) -> int:
    async with open_admin(_OffsetAdmin, arguments) as admin:
        known = await admin.list_topics(include_internal=True)
        partitions = selected_partitions(arguments, known, is_selected)
        answers = await admin.list_offsets(dict.fromkeys(partitions, arguments.time))
    offsets = []
    for partition in partitions:
        answer = answers[partition]
        if isinstance(answer, KafkaError):
            print(f"{partition} is left out: {answer.message}", file=sys.stderr)
        elif answer.offset >= 0:
            offsets.append((partition, answer))
    if arguments.json:
        print_json(
            [
                {
                    "topic": partition.topic,
                    "partition": partition.partition,
                    "offset": answer.offset,
                    "timestamp": answer.timestamp_ms,
                }
                for partition, answer in offsets
            ]
        )
    else:
        for partition, answer in offsets:
            print(f"{partition.topic}:{partition.partition}:{answer.offset}")
    return 1 if all(isinstance(answer, KafkaError) for answer in answers.values()) else 0


async def delete_records(arguments: argparse.Namespace, offsets: dict[tuple[str, int], int]) -> int:
    before = {TopicPartition(*place): offset for place, offset in offsets.items()}
    async with open_admin(_OffsetAdmin, arguments) as admin:
        await named_partitions(admin, [f"{topic}:{index}" for topic, index in before])
        if not arguments.json:
            print("Executing records delete operation")
        answers = await admin.delete_records(before)
        ends = await _ends_of_refused(admin, answers)
    if arguments.json:
        print_json(
            [
                {
                    "topic": partition.topic,
                    "partition": partition.partition,
                    **(
                        {"error": answer.message}
                        if isinstance(answer, KafkaError)
                        else {"lowWatermark": answer}
                    ),
                }
                for partition, answer in answers.items()
            ]
        )
    else:
        print("Records delete operation completed:")
        for partition, answer in answers.items():
            outcome = (
                f"error: {answer.message}{ends.get(partition, '')}"
                if isinstance(answer, KafkaError)
                else f"low_watermark: {answer}"
            )
            print(f"partition: {partition}\t{outcome}")
    return 1 if any(isinstance(answer, KafkaError) for answer in answers.values()) else 0


async def _ends_of_refused(
    admin: _OffsetAdmin, answers: Mapping[TopicPartition, object]
) -> dict[TopicPartition, str]:
    """Returns what to say of partitions that do not have the offset: up to where they go."""
    beyond = [
        partition
        for partition, answer in answers.items()
        if isinstance(answer, KafkaError) and answer.code == ErrorCode.OFFSET_OUT_OF_RANGE
    ]
    if not beyond:
        return {}
    first = await admin.list_offsets(dict.fromkeys(beyond, EARLIEST))
    ends = await admin.list_offsets(dict.fromkeys(beyond, LATEST))
    said = {}
    for partition in beyond:
        begin, end = first[partition], ends[partition]
        if not isinstance(begin, KafkaError) and not isinstance(end, KafkaError):
            said[partition] = f" Offsets are {begin.offset} to {end.offset}; -1 deletes all."
    return said


class _DirectoryAdmin(BrokerCalls, TopicCalls):
    """The admin calls of `log-dirs`."""


async def print_log_directories(
    arguments: argparse.Namespace, brokers: list[int], topics: list[str]
) -> int:
    async with open_admin(_DirectoryAdmin, arguments) as admin:
        known = await require_brokers(admin, brokers)
        await topics_named(admin, topics)
        broker_ids = sorted(brokers or known)
        shown = ",".join(map(str, broker_ids))
        if not arguments.json:
            print("Querying brokers for log directories information")
        answers = await admin.describe_log_dirs(broker_ids)
    if not arguments.json:
        print(f"Received log directory information from brokers {shown}")
    print_json(
        {
            "brokers": [
                {
                    "broker": broker,
                    "logDirs": [_directory(directory, topics) for directory in directories],
                }
                for broker, directories in answers.items()
            ],
            "version": 1,
        }
    )
    return 0


def _directory(directory: LogDirectory, topics: list[str]) -> dict[str, object]:
    code = directory.error_code
    return {
        "partitions": [
            {
                "partition": str(partition),
                "size": replica.size_bytes,
                "offsetLag": replica.offset_lag,
                "isFuture": replica.is_future,
            }
            for partition, replica in sorted(directory.replicas.items())
            if not topics or partition.topic in topics
        ],
        "error": ErrorCode(code).name if code else None,
        "logDir": directory.path,
        "totalBytes": directory.total_bytes,
        "usableBytes": directory.usable_bytes,
    }
