"""The action of `odradek get-offsets --replicas`: where the log of every replica begins and ends.

Each broker is asked about its own replicas, in the way of Kafka's debugging consumer (replica id
-2), which followers answer too. So it works for partitions without a leader: it shows which copy
has most data before an unclean election.
"""

import argparse
import asyncio
from typing import Final, NamedTuple

from odradek.cli.topics.get_offsets import Filter
from odradek.cli.topics.partition_actions import selected_partitions
from odradek.client.admin.brokers import BrokerCalls
from odradek.client.admin.topics import TopicCalls
from odradek.client.cluster_view import Partition, Topic
from odradek.client.errors import ClientError
from odradek.client.leader_requests import EARLIEST, LATEST
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from odradek.protocol.types import BrokerId, TopicPartition
from odradek.tools.admin_session import open_admin
from odradek.tools.terminal import print_json, table

_DEBUGGING_READER: Final = BrokerId(-2)

Ends = dict[TopicPartition, int | str]


class _ReplicaAdmin(TopicCalls, BrokerCalls):
    """The admin calls of this tool."""


class Replica(NamedTuple):
    """What one broker says about one of its replicas."""

    partition: TopicPartition
    broker: BrokerId
    role: str
    start: int | str
    end: int | str
    """An offset, or the reason why there is none."""


async def print_replica_offsets(arguments: argparse.Namespace, is_selected: Filter) -> int:
    async with open_admin(_ReplicaAdmin, arguments) as admin:
        known = await admin.list_topics(include_internal=True)
        partitions = selected_partitions(arguments, known, is_selected)
        replicas = await _replicas(admin, known, partitions)
    if arguments.json:
        print_json([_as_json(replica) for replica in replicas])
        return 0
    longest: dict[TopicPartition, int] = {}
    for replica in replicas:
        if isinstance(replica.end, int):
            longest[replica.partition] = max(longest.get(replica.partition, 0), replica.end)
    rows = [
        [
            replica.partition.topic,
            str(replica.partition.partition),
            str(replica.broker),
            replica.role,
            str(replica.start) if isinstance(replica.end, int) else "-",
            str(replica.end),
            str(longest[replica.partition] - replica.end) if isinstance(replica.end, int) else "-",
        ]
        for replica in replicas
    ]
    headers = [
        "TOPIC",
        "PARTITION",
        "BROKER",
        "ROLE",
        "LOG-START-OFFSET",
        "LOG-END-OFFSET",
        "BEHIND",
    ]
    print(table(headers, rows))
    return 0


async def _replicas(
    admin: _ReplicaAdmin, known: dict[str, Topic], partitions: list[TopicPartition]
) -> list[Replica]:
    live = {broker.id for broker in (await admin.describe_cluster()).brokers}
    by_broker: dict[BrokerId, list[TopicPartition]] = {}
    for partition in partitions:
        for broker in known[partition.topic].partitions[partition.partition].replicas:
            by_broker.setdefault(broker, []).append(partition)
    answers = await asyncio.gather(
        *(
            _both_ends(admin, broker, partitions_held, live)
            for broker, partitions_held in by_broker.items()
        )
    )
    by_place = dict(zip(by_broker, answers, strict=True))
    replicas = []
    for partition in partitions:
        state = known[partition.topic].partitions[partition.partition]
        for broker in state.replicas:
            starts, ends = by_place[broker]
            role = _role(state, broker)
            replicas.append(Replica(partition, broker, role, starts[partition], ends[partition]))
    return replicas


def _role(state: Partition, broker: BrokerId) -> str:
    if broker == state.leader:
        return "leader"
    return "in sync" if broker in state.in_sync else "out of sync"


async def _both_ends(
    admin: _ReplicaAdmin, broker: BrokerId, partitions: list[TopicPartition], live: set[BrokerId]
) -> tuple[Ends, Ends]:
    if broker not in live:
        away: Ends = dict.fromkeys(partitions, "broker is down")
        return away, away
    return await _ends(admin, broker, partitions, EARLIEST), await _ends(
        admin, broker, partitions, LATEST
    )


async def _ends(
    admin: _ReplicaAdmin, broker: BrokerId, partitions: list[TopicPartition], timestamp: int
) -> Ends:
    by_topic: dict[str, list[ListOffsetsPartition]] = {}
    for partition in partitions:
        by_topic.setdefault(partition.topic, []).append(
            ListOffsetsPartition(partition_index=partition.partition, timestamp=timestamp)
        )
    request = ListOffsetsRequest(
        replica_id=_DEBUGGING_READER,
        topics=[
            ListOffsetsTopic(name=name, partitions=requests) for name, requests in by_topic.items()
        ],
    )
    try:
        response = await admin.request(request, ListOffsetsResponse, broker_id=broker)
    except (KafkaError, ClientError, OSError) as error:
        return dict.fromkeys(partitions, str(error))
    return {
        TopicPartition(topic.name, partition.partition_index): (
            ErrorCode(partition.error_code).name if partition.error_code else partition.offset
        )
        for topic in response.topics
        for partition in topic.partitions
    }


def _as_json(replica: Replica) -> dict[str, object]:
    has_offsets = isinstance(replica.end, int)
    return {
        "topic": replica.partition.topic,
        "partition": replica.partition.partition,
        "broker": replica.broker,
        "role": replica.role,
        "logStartOffset": replica.start if has_offsets else None,
        "logEndOffset": replica.end if has_offsets else None,
        "error": None if has_offsets else replica.end,
    }
