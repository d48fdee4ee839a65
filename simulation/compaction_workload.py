"""Runs in which brokers compact all the time, and a keyed topic that shows what they keep.

One writer changes a few keys again and again, and deletes some. A consumer that reads the topic
from its start, and the files of every replica, must end with the newest value of each key:

    stale        the newest record of a key is older than one that was acknowledged
    gone         no record of a key is there, though nothing deleted it
    phantom      a record that was never sent, or was sent under another key
    backwards    offsets that do not rise

A write without an answer may have happened or not; but a writer's sends to one partition keep
their order, so it is older than whatever was acknowledged after it. A tombstone may be gone when
its time is over (`delete.retention.ms`), and the key with it.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from random import Random
from typing import NamedTuple

from odradek.client import Consumer, ConsumerSettings, Producer, ProducerSettings, RecordMetadata
from odradek.client.errors import ClientError
from odradek.protocol.errors import KafkaError
from odradek.protocol.types import TopicPartition
from odradek.world import World
from simulation.checkers import Violation
from simulation.workload import Options
from simulation.world import Simulation

STATES = "states"

_COMPACTING_DAYS = 0.35
_KEYS = 6
_FOR_EVER_MS = 86_400_000


class Found(NamedTuple):
    """A record of the keyed topic as it is read at the end."""

    offset: int
    key: bytes | None
    value: bytes | None


@dataclass(slots=True, eq=False)
class Write:
    partition: TopicPartition
    key: bytes
    value: bytes | None
    is_acknowledged: bool = False
    # None if no answer said it.
    offset: int | None = None


class CompactionWorkload:
    """What the seed draws for such a run, from a random source of its own."""

    def __init__(self, random: Random) -> None:
        self.partitions = [TopicPartition(STATES, n) for n in range(random.randint(1, 2))]
        self.writes: list[Write] = []
        self.left = 0
        self.count = random.randint(60, 200)
        self.delete_retention_ms = random.choice((2000, _FOR_EVER_MS))
        segment_bytes = str(random.choice((500, 1500)))
        self.properties = {
            "offsets.topic.segment.bytes": segment_bytes,
            "transaction.state.log.segment.bytes": segment_bytes,
            "log.cleaner.backoff.ms": random.choice(("20", "200", "1000")),
            "log.cleaner.min.cleanable.ratio": random.choice(("0", "0.3")),
            "log.segment.delete.delay.ms": random.choice(("0", "1000")),
        }
        self.configs = {
            "cleanup.policy": "compact",
            "segment.bytes": segment_bytes,
            "delete.retention.ms": str(self.delete_retention_ms),
        }

    def violations(self, partition: TopicPartition, found: Sequence[Found]) -> list[Violation]:
        """Violations in a partition that was read from its start to its end."""
        keeps_tombstones = self.delete_retention_ms == _FOR_EVER_MS
        writes = [write for write in self.writes if write.partition == partition]
        return keyed_violations(partition, writes, found, keeps_tombstones=keeps_tombstones)

    def summary(self) -> str:
        acknowledged = sum(write.is_acknowledged for write in self.writes)
        return (
            f"compacting, {acknowledged} of {len(self.writes)} changes of keys acknowledged,"
            f" {self.left} left"
        )


def compaction_of(simulation: Simulation) -> CompactionWorkload | None:
    """Returns None in most runs."""
    random = simulation.random("compaction")
    return CompactionWorkload(random) if random.random() < _COMPACTING_DAYS else None


class KeyedWriter:
    """Changes and deletes keys; each key has a partition and this one writer."""

    def __init__(self, name: str, workload: CompactionWorkload, options: Options) -> None:
        self.name = name
        self._workload = workload
        self._options: Options = {**options, "acks": "all", "enable_idempotence": True}

    async def run(self, world: World) -> None:
        settings = ProducerSettings.from_options(self._options)
        async with Producer(settings, world=world) as producer:
            for number in range(self._workload.count):
                if world.randomness.fraction() < 0.1:
                    await asyncio.sleep(world.randomness.fraction())
                await self._change(producer, world, number)
            await producer.flush()

    async def _change(self, producer: Producer, world: World, number: int) -> None:
        name = world.randomness.integer_below(_KEYS)
        partition = self._workload.partitions[name % len(self._workload.partitions)]
        value: bytes | None = None
        if world.randomness.fraction() >= 0.15:
            value = b"%d" % number + b"." * world.randomness.integer_below(60)
        write = Write(partition, b"key-%d" % name, value)
        self._workload.writes.append(write)
        try:
            await producer.send(
                partition.topic,
                value,
                write.key,
                partition=partition.partition,
                on_delivery=_noting(write),
            )
        except (ClientError, KafkaError):
            # No metadata or no room in time: it was never sent.
            await asyncio.sleep(0.5)


def _noting(write: Write) -> Callable[[RecordMetadata | None, BaseException | None], None]:
    def delivered(metadata: RecordMetadata | None, _: BaseException | None) -> None:
        if metadata is not None:
            write.is_acknowledged = True
            write.offset = metadata.offset if metadata.offset >= 0 else None

    return delivered


async def read_keyed(
    world: World, partitions: Iterable[TopicPartition], options: Options
) -> dict[TopicPartition, list[Found]]:
    """Everything that a fresh consumer sees."""
    found: dict[TopicPartition, list[Found]] = {
        topic_partition: [] for topic_partition in partitions
    }
    async with Consumer(ConsumerSettings.from_options(options), world=world) as consumer:
        consumer.assign(found)
        consumer.seek_to_beginning()
        ends = await consumer.end_offsets(found)
        for partition, end in ends.items():
            while await consumer.position(partition) < end:
                for topic_partition, records in (await consumer.poll(1000)).items():
                    found[topic_partition] += [Found(r.offset, r.key, r.value) for r in records]
    return found


def keyed_violations(
    partition: TopicPartition,
    writes: Sequence[Write],
    found: Sequence[Found],
    *,
    keeps_tombstones: bool,
) -> list[Violation]:
    """`writes` in the order they were sent, `found` in the order of the log."""
    wrong: list[Violation] = []
    for before, after in pairwise(found):
        if after.offset <= before.offset:
            wrong.append(Violation("backwards", partition, f"{after} after {before}"))
    known = {(write.key, write.value) for write in writes}
    wrong += [
        Violation("phantom", partition, f"{record}")
        for record in found
        if (record.key, record.value) not in known
    ]
    newest = {record.key: record for record in found}
    for key in sorted({write.key for write in writes}):
        of_key = [write for write in writes if write.key == key]
        last = max((n for n, one in enumerate(of_key) if one.is_acknowledged), default=None)
        if last is None:
            continue  # Nothing of it was promised.
        wrong += _judge_key(partition, of_key[last:], newest.get(key), keeps_tombstones)
    return wrong


def _judge_key(
    partition: TopicPartition, candidates: list[Write], newest: Found | None, keeps_tombstones: bool
) -> list[Violation]:
    """The newest acknowledged write comes first, then what was sent later and is undecided."""
    acknowledged = candidates[0]
    if newest is None:
        if not keeps_tombstones and any(candidate.value is None for candidate in candidates):
            return []
        return [Violation("gone", partition, f"nothing of {acknowledged}")]
    if acknowledged.offset is not None and newest.offset < acknowledged.offset:
        return [Violation("stale", partition, f"{newest}, not {acknowledged}")]
    if not any(candidate.value == newest.value for candidate in candidates):
        return [Violation("stale", partition, f"{newest}, not {acknowledged} or a later one")]
    return []
