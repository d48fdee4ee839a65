"""Repartitioning by republishing: a topic with another key and more partitions, while it is used.

Partitions can be added to a topic, but then keys move to other partitions, and the key of a record
cannot be changed at all. So the records are published again, to a new topic:

1. create the new topic;
2. a republisher reads the old topic in a group, and writes each record with its new key. Reading
   and writing are one transaction: it can be killed at any time, and nothing is lost or doubled;
3. when it has caught up, stop the producers, let it finish the rest, and start them with the new
   topic;
4. move the consumers: they read the new topic from its beginning, or from a time.

Each partition of the old topic is read in order, and records with the same new key go to one new
partition. So two records that were in order and have the same new key still are. Records of
different old partitions had no order before, and have none now.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

from odradek.client import Consumer, ConsumerRecord, Producer, TopicPartition
from odradek.testing import Cluster
from odradek.wording import counted

_OLD: Final = "orders"
_NEW: Final = "orders-by-shop"
_OLD_PARTITIONS: Final = 2
_NEW_PARTITIONS: Final = 6
_GROUP: Final = "republisher"
_ORDERS: Final = 3_000


class Killed(Exception):
    """Stands for kill -9: the transaction that is open is never committed."""


async def run(print_line: Callable[[str], None]) -> None:
    async with Cluster() as brokers:
        servers = brokers.bootstrap
        await brokers.create_topic_async(_OLD, partitions=_OLD_PARTITIONS)
        await _order(servers, _OLD, range(_ORDERS))
        partitions = counted(_OLD_PARTITIONS, "partition")
        print_line(f"{_ORDERS:,} orders are in {_OLD}, {partitions}, by customer")
        await brokers.create_topic_async(_NEW, partitions=_NEW_PARTITIONS)
        try:
            await republish(servers, killed_after=_ORDERS // 2)
        except Killed:
            print_line("the republisher is killed half-way; customers go on ordering")
        await _order(servers, _OLD, range(_ORDERS, 2 * _ORDERS))
        await republish(servers)
        print_line("it was started again and has caught up; now the shops write to the new topic")
        await _order(servers, _NEW, range(2 * _ORDERS, 3 * _ORDERS))
        orders = await _check(servers)
        partitions = counted(_NEW_PARTITIONS, "partition")
        print_line(f"{orders:,} orders are in {_NEW}, {partitions}, by shop:")
        print_line("each is there once, and those of a customer are in order in each shop")


async def republish(servers: str, killed_after: int | None = None) -> None:
    """Copies what is in the old topic, with the shop as the key, and ends when it has caught up."""
    async with (
        Consumer(
            _OLD,
            bootstrap_servers=servers,
            group_id=_GROUP,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            isolation_level="read_committed",
            max_poll_records=200,
        ) as consumer,
        Producer(bootstrap_servers=servers, transactional_id=_GROUP) as producer,
    ):
        await producer.init_transactions()
        done = 0
        while not await _has_caught_up(consumer):
            polled = await consumer.poll(timeout_ms=1000)
            if not polled:
                continue
            async with producer.transaction():
                for records in polled.values():
                    await _copy(producer, records)
                    done += len(records)
                if killed_after is not None and done > killed_after:
                    await producer.flush()
                    raise Killed
                offsets = {
                    partition: records[-1].offset + 1 for partition, records in polled.items()
                }
                await producer.send_offsets_to_transaction(offsets, consumer.group_metadata())


async def _copy(producer: Producer, records: Sequence[ConsumerRecord]) -> None:
    for record in records:
        shop = json.loads(record.value)["shop"]
        await producer.send(
            _NEW,
            record.value,
            key=shop.encode(),
            headers=record.headers,
            timestamp_ms=record.timestamp_ms,
        )


async def _has_caught_up(consumer: Consumer) -> bool:
    """Whether the group has committed the end of each partition of the old topic."""
    ends = await consumer.end_offsets(_partitions(_OLD, _OLD_PARTITIONS))
    committed = await consumer.committed(list(ends))
    offsets = {partition: found.offset for partition, found in committed.items() if found}
    return all(offsets.get(partition, 0) >= end for partition, end in ends.items())


async def _order(servers: str, topic: str, numbers: range) -> None:
    """Customers order in shops. The key is the customer in the old topic, else the shop."""
    async with Producer(bootstrap_servers=servers) as producer:
        for number in numbers:
            order = {"number": number, "customer": f"c{number % 40}", "shop": f"s{number % 9}"}
            key = order["customer"] if topic == _OLD else order["shop"]
            await producer.send(topic, json.dumps(order).encode(), key=str(key).encode())


async def _check(servers: str) -> int:
    """Checks that each order is in the new topic once, that a shop has one partition, and that the
    orders of one customer in one shop are in order. Returns the number of orders."""
    seen: Counter[int] = Counter()
    last: dict[tuple[str, str], int] = {}
    partitions_of: dict[str, set[int]] = {}
    async with Consumer(
        bootstrap_servers=servers, auto_offset_reset="earliest", isolation_level="read_committed"
    ) as consumer:
        ends = await consumer.end_offsets(_partitions(_NEW, _NEW_PARTITIONS))
        consumer.assign(ends)
        while any([await consumer.position(partition) < end for partition, end in ends.items()]):
            for records in (await consumer.poll(timeout_ms=1000)).values():
                for record in records:
                    order = json.loads(record.value)
                    seen[order["number"]] += 1
                    who = (order["customer"], order["shop"])
                    assert last.get(who, -1) < order["number"], "the order of a customer's orders"
                    last[who] = order["number"]
                    partitions_of.setdefault(order["shop"], set()).add(record.partition)
    assert seen == Counter(range(3 * _ORDERS)), "each order once"
    assert all(len(partitions) == 1 for partitions in partitions_of.values()), "a shop, a partition"
    return len(seen)


def _partitions(topic: str, count: int) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for number in range(count)]


def main() -> None:
    asyncio.run(run(print))


if __name__ == "__main__":
    main()
