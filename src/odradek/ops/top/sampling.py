"""One sample of a cluster, with Kafka's own requests: brokers, leaders, end offsets, sizes of logs,
and what groups have committed.

Only the metadata must be answered. What else is refused or does not come (a broker without the
permission, a leader that is being elected) is left out of the sample and noted in it.
"""

import asyncio
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from odradek.client.admin.broker_types import LogDirectory
from odradek.client.admin.brokers import BrokerCalls
from odradek.client.admin.topics import TopicCalls
from odradek.client.cluster_view import Broker, Topic, topic_from
from odradek.client.errors import ClientError
from odradek.client.leader_requests import LATEST
from odradek.ops.lag.history import Sample
from odradek.ops.lag.sampling import LagAdmin, take_sample
from odradek.protocol.errors import KafkaError
from odradek.protocol.messages.metadata import MetadataResponse
from odradek.protocol.types import BrokerId, TopicPartition
from odradek.world.clock import Clock

if TYPE_CHECKING:
    from odradek.ops.lag.queries import Queries


T = TypeVar("T")
_MANY_TOPICS: Final = 2000
"""With more topics the brokers are asked one thing after the other: each answer is large, and all
of them at once would double the memory that is needed."""

_ASKED_AT_ONCE: Final = 6000
"""So many end offsets are asked for in one request."""


class TopAdmin(LagAdmin, BrokerCalls, TopicCalls):
    """The admin calls of one sample."""


@dataclass(frozen=True, slots=True)
class ClusterSample:
    """What the brokers said at one moment. `at_s` is by the clock that never goes back, for
    rates."""

    at_ms: int
    at_s: float
    cluster_id: str
    controller: int
    brokers: Mapping[int, Broker]
    topics: Mapping[str, Topic]
    ends: Mapping[TopicPartition, int] = field(default_factory=dict)
    directories: Mapping[int, list[LogDirectory]] = field(default_factory=dict)
    groups: Sample | None = None
    notes: tuple[str, ...] = ()

    def with_shared_keys(self) -> "ClusterSample":
        """Returns the sample with one object for each partition, and not one in each table."""
        own = {partition: partition for partition in self.ends}
        directories = {
            broker: [
                replace(
                    directory,
                    replicas={own.get(key, key): one for key, one in directory.replicas.items()},
                )
                for directory in found
            ]
            for broker, found in self.directories.items()
        }
        return replace(self, directories=directories)

    def leader_sizes(self) -> dict[TopicPartition, int]:
        """Returns the size of each partition's log on its leader."""
        sizes: dict[TopicPartition, int] = {}
        for broker, directories in self.directories.items():
            for directory in directories:
                for partition, replica in directory.replicas.items():
                    topic = self.topics.get(partition.topic)
                    known = None if topic is None else topic.partitions.get(partition.partition)
                    if known is not None and known.leader == broker and not replica.is_future:
                        sizes[partition] = replica.size_bytes
        return sizes


async def take_cluster_sample(
    admin: TopAdmin, clock: Clock, queries: "Queries | None" = None
) -> ClusterSample:
    """Asks the brokers; raises if the metadata cannot be had."""
    known = await _described(admin)
    at_ms, at_s = clock.now_ms(), clock.monotonic_s()
    notes: list[str] = []
    gate = asyncio.Semaphore(1 if len(known.topics) > _MANY_TOPICS else 3)

    async def ask(question: Coroutine[Any, Any, T]) -> T:
        async with gate:
            return await question

    ends, directories, groups = await asyncio.gather(
        ask(_ends(admin, known.topics, notes)),
        ask(_directories(admin, known.brokers, notes)),
        ask(_groups(admin, clock, notes, queries)),
    )
    return ClusterSample(
        at_ms,
        at_s,
        known.cluster_id,
        known.controller,
        known.brokers,
        known.topics,
        ends,
        directories,
        groups,
        tuple(dict.fromkeys(notes)),
    ).with_shared_keys()


class _Known(NamedTuple):
    """What the metadata says. The answer of the brokers itself, which is several times as large,
    is not kept."""

    cluster_id: str
    controller: int
    brokers: Mapping[int, Broker]
    topics: Mapping[str, Topic]


async def _described(admin: TopAdmin) -> _Known:
    metadata = await admin.describe_metadata(None)
    return _Known(
        metadata.cluster_id or "", metadata.controller_id, _brokers(metadata), _topics(metadata)
    )


def _brokers(metadata: MetadataResponse) -> dict[int, Broker]:
    return {
        broker.node_id: Broker(BrokerId(broker.node_id), broker.host, broker.port, broker.rack)
        for broker in sorted(metadata.brokers, key=lambda one: one.node_id)
    }


def _topics(metadata: MetadataResponse) -> dict[str, Topic]:
    topics = [topic_from(topic, None) for topic in metadata.topics if not topic.error_code]
    return {topic.name: topic for topic in sorted(topics, key=_place)}


def _place(topic: Topic) -> tuple[bool, str]:
    """Kafka's own topics come last: rows with equal figures keep this order."""
    return topic.is_internal, topic.name


async def _ends(
    admin: TopAdmin, topics: Mapping[str, Topic], notes: list[str]
) -> dict[TopicPartition, int]:
    led = [
        TopicPartition(name, index)
        for name, topic in topics.items()
        for index, partition in topic.partitions.items()
        if partition.leader >= 0
    ]
    ends: dict[TopicPartition, int] = {}
    try:
        for first in range(0, len(led), _ASKED_AT_ONCE):
            asked = led[first : first + _ASKED_AT_ONCE]
            answers = await admin.list_offsets(dict.fromkeys(asked, LATEST))
            # By the keys of the question: those of the answer are copies.
            for partition in asked:
                answer = answers.get(partition)
                if answer is not None and not isinstance(answer, KafkaError):
                    ends[partition] = int(answer.offset)
    except (KafkaError, ClientError, OSError) as error:
        notes.append(f"end offsets: {error}")
        return {}
    return ends


async def _directories(
    admin: TopAdmin, brokers: Mapping[int, Broker], notes: list[str]
) -> dict[int, list[LogDirectory]]:
    async def ask(broker: int) -> list[LogDirectory] | None:
        try:
            return (await admin.describe_log_dirs([broker]))[BrokerId(broker)]
        except (KafkaError, ClientError, OSError) as error:
            notes.append(f"log directories of broker {broker}: {error}")
            return None

    answers = await asyncio.gather(*(ask(broker) for broker in brokers))
    return {
        broker: answer
        for broker, answer in zip(brokers, answers, strict=True)
        if answer is not None
    }


async def _groups(
    admin: TopAdmin, clock: Clock, notes: list[str], queries: "Queries | None"
) -> Sample | None:
    try:
        sample = await take_sample(admin, clock, queries=queries)
    except (KafkaError, ClientError, OSError) as error:
        notes.append(f"groups: {error}")
        return None
    notes.extend(f"{name}: {reason}" for name, reason in sample.unreadable.items())
    return sample
