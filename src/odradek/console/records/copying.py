"""Copies the records of one topic to another, for a clone."""

import asyncio
from collections.abc import Iterable
from typing import Final

from odradek.client import RecordMetadata
from odradek.client.consumer.consumer import Consumer
from odradek.protocol.types import TopicPartition
from odradek.services.client_pool import CallerClients

_POLL_MS: Final = 500
_AT_ONCE: Final = 100
_MAX_WAITING: Final = 5000


async def copy_records(
    clients: CallerClients, source: str, target: str, indexes: Iterable[int]
) -> int:
    """Copies the committed records that some partitions have now, to partitions with the same
    numbers, with key, headers and time. Returns how many, when all of them are in the target;
    raises what the brokers answered if one is not. Records of aborted transactions are left out,
    and so is what comes after the beginning of an open one."""
    properties = clients.properties("consumer")
    properties.pop("group.id", None)
    committed = {"isolation.level": "read_committed", "auto.offset.reset": "earliest"}
    waiting: list[asyncio.Future[RecordMetadata]] = []
    copied = 0
    async with Consumer({**properties, **committed}) as reader:
        partitions = [TopicPartition(source, index) for index in indexes]
        firsts = await reader.beginning_offsets(partitions)
        # For a reader of committed records an end is the last stable offset.
        ends = {
            partition: end
            for partition, end in (await reader.end_offsets(partitions)).items()
            if end > firsts[partition]
        }
        reader.assign(list(ends))
        reader.seek_to_beginning()
        while ends:
            for partition, records in (await reader.poll(_POLL_MS, _AT_ONCE)).items():
                for record in records:
                    if record.offset >= ends.get(partition, 0):
                        continue
                    waiting.append(
                        await clients.producer.send(
                            target, record.value, record.key, partition=record.partition,
                            headers=record.headers, timestamp_ms=max(0, record.timestamp_ms),
                        )
                    )  # fmt: skip
                    copied += 1
            if len(waiting) > _MAX_WAITING:
                await asyncio.gather(*waiting)
                waiting.clear()
            for partition in list(ends):
                if await reader.position(partition) >= ends[partition]:
                    del ends[partition]
                    reader.pause(partition)
    await asyncio.gather(*waiting)
    return copied
