"""Exactly once: what is read, changed and written has its effect once, whatever dies.

    python examples/exactly_once.py localhost:9092 orders invoices

The records that are written and the offsets that were read are one transaction: both become
visible, or neither. Whoever reads the result must set isolation_level="read_committed".
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable

from odradek.client import Consumer, ConsumerRecord, Producer


async def transform(
    servers: str,
    source: str,
    target: str,
    change: Callable[[ConsumerRecord], Awaitable[bytes]],
) -> None:
    async with (
        # The id names this worker: give each worker its own, and the same after a restart.
        Producer(bootstrap_servers=servers, transactional_id=f"{source}-to-{target}-1") as producer,
        Consumer(
            source,
            bootstrap_servers=servers,
            group_id=f"{source}-to-{target}",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            isolation_level="read_committed",
        ) as consumer,
    ):
        await producer.init_transactions()
        while True:
            for partition, records in (await consumer.poll(timeout_ms=1_000)).items():
                async with producer.transaction():
                    for record in records:
                        await producer.send(target, await change(record), key=record.key)
                    await producer.send_offsets_to_transaction(
                        {partition: records[-1].offset + 1}, consumer.group_metadata()
                    )


async def shout(record: ConsumerRecord) -> bytes:
    value: bytes = record.value
    return value.upper()


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)  # which shows how to call it
    asyncio.run(transform(sys.argv[1], sys.argv[2], sys.argv[3], shout))
