"""An audit that reconciles what was produced with what was consumed.

Interceptors count, so the programs that are audited need no change: one in the producer counts the
records that brokers have acknowledged, one in each consumer counts the records that it got. Both
count by minute of the record's own timestamp, and write their counts to the topic `audit` from time
to time. The auditor adds them up: for each minute, a group must have consumed what was produced.
Missing records are lost or still waiting, surplus records were consumed twice.

Of the recipe's three groups, `billing` works, `reports` has a bug and jumps over records of minute
3, and `search` dies before it has committed, so it consumes records of minute 5 again.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final

from odradek.client import Consumer, ConsumerRecord, Producer, ProducerRecord, TopicPartition
from odradek.client.producer.deliveries import RecordMetadata
from odradek.testing import Cluster

_TOPIC: Final = "payments"
_AUDIT: Final = "audit"
_MINUTES: Final = 8
_PER_MINUTE: Final = 250
# Long ago, so that the recipe is the same whenever it runs; retention is off therefore.
_BEGIN_MS: Final = 1_700_000_000_000
_PRODUCED: Final = "produced"
_LOST: Final = 40
_DOUBLED: Final = 60

Minute = int
Counts = Counter[Minute]


class CountSends:
    """Counts the records that were acknowledged. One that failed is not there to be consumed."""

    def __init__(self) -> None:
        self.counts: Counts = Counter()

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        return record

    def on_acknowledgement(
        self, metadata: RecordMetadata | None, error: BaseException | None
    ) -> None:
        if metadata is not None and error is None and metadata.topic != _AUDIT:
            self.counts[_minute(metadata.timestamp_ms)] += 1


class CountReads:
    """Counts the records that a consumer has handed to its program."""

    def __init__(self) -> None:
        self.counts: Counts = Counter()

    def on_consume(
        self, records: dict[TopicPartition, list[ConsumerRecord]]
    ) -> dict[TopicPartition, list[ConsumerRecord]]:
        for batch in records.values():
            self.counts.update(_minute(record.timestamp_ms) for record in batch)
        return records


async def run(print_line: Callable[[str], None]) -> None:
    async with Cluster() as brokers:
        servers = brokers.bootstrap
        for topic in (_TOPIC, _AUDIT):
            await brokers.create_topic_async(topic, config={"retention.ms": "-1"})
        await _pay(servers)
        await _consume(servers, "billing")
        await _consume(servers, "reports", jump=(3 * _PER_MINUTE, _LOST))
        await _consume(servers, "search", jump=(5 * _PER_MINUTE + _DOUBLED, -_DOUBLED))
        counts = await read_audit(servers)
    problems = _show(counts, print_line)
    assert problems == [("reports", 3, -_LOST), ("search", 5, _DOUBLED)], problems


async def _pay(servers: str) -> None:
    """A program that is audited: it only has one more setting, its interceptor."""
    counting = CountSends()
    async with Producer(bootstrap_servers=servers, interceptors=[counting]) as producer:
        for number in range(_MINUTES * _PER_MINUTE):
            at_ms = _BEGIN_MS + number * 60_000 // _PER_MINUTE
            await producer.send(_TOPIC, b"%d" % number, timestamp_ms=at_ms)
        await producer.flush()
        assert counting.counts.total() == _MINUTES * _PER_MINUTE, "every payment is acknowledged"
        await _report(producer, _PRODUCED, counting.counts)


async def _consume(servers: str, group: str, jump: tuple[int, int] | None = None) -> None:
    """A program that is audited. `jump` is its bug: where its position changes, and by how much."""
    counting = CountReads()
    partition = TopicPartition(_TOPIC, 0)
    async with (
        Consumer(
            bootstrap_servers=servers,
            group_id=group,
            auto_offset_reset="earliest",
            max_poll_records=10,
            interceptors=[counting],
        ) as consumer,
        Producer(bootstrap_servers=servers) as producer,
    ):
        consumer.assign([partition])
        while (position := await consumer.position(partition)) < _MINUTES * _PER_MINUTE:
            if jump is not None and position == jump[0]:
                consumer.seek(partition, position + jump[1])
                jump = None
            await consumer.poll(timeout_ms=1000)
        await _report(producer, group, counting.counts)


async def _report(producer: Producer, who: str, counts: Counts) -> None:
    """Writes counts to the topic `audit`. A program that runs for long does so every few seconds,
    and begins to count from zero again."""
    for minute, count in counts.items():
        report = {"who": who, "topic": _TOPIC, "minute": minute, "count": count}
        await producer.send(_AUDIT, json.dumps(report).encode())
    await producer.flush()


async def read_audit(servers: str) -> dict[str, Counts]:
    """The auditor: adds up all reports that there are."""
    counts: dict[str, Counts] = {}
    partition = TopicPartition(_AUDIT, 0)
    async with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([partition])
        end = (await consumer.end_offsets([partition]))[partition]
        while await consumer.position(partition) < end:
            for records in (await consumer.poll(timeout_ms=1000)).values():
                for record in records:
                    report = json.loads(record.value)
                    counts.setdefault(report["who"], Counter())[report["minute"]] += report["count"]
    return counts


def _show(
    counts: Mapping[str, Counts], print_line: Callable[[str], None]
) -> list[tuple[str, Minute, int]]:
    """Prints a line for each minute, and returns what does not agree: group, minute, difference."""
    groups = [who for who in counts if who != _PRODUCED]
    print_line("minute  produced  " + "  ".join(f"{group:>8}" for group in groups))
    problems = []
    for minute, produced in sorted(counts[_PRODUCED].items()):
        line, remarks = f"{minute:>6}  {produced:>8}", ""
        for group in groups:
            difference = counts[group][minute] - produced
            line += f"  {counts[group][minute]:>8}"
            if difference:
                problems.append((group, minute, difference))
                word = "missing" if difference < 0 else "twice"
                remarks += f"  {group}: {abs(difference)} {word}"
        print_line(line + remarks)
    return problems


def _minute(timestamp_ms: int) -> Minute:
    return (timestamp_ms - _BEGIN_MS) // 60_000


def main() -> None:
    asyncio.run(run(print))


if __name__ == "__main__":
    main()
