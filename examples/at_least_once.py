"""At least once: after a crash a record may be handled twice, but none is missing.

    python examples/at_least_once.py localhost:9092 orders

The offset is committed after the record was handled. If the program dies between the two, the
record is read again, so handling it twice must do no harm: write by key, or remember what was
done.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable

from odradek.client import Consumer, ConsumerRecord


async def consume(
    servers: str, topic: str, handle: Callable[[ConsumerRecord], Awaitable[None]]
) -> None:
    async with Consumer(
        topic,
        bootstrap_servers=servers,
        group_id=f"{topic}-at-least-once",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    ) as consumer:
        while True:
            polled = await consumer.poll(timeout_ms=1_000)
            for partition, records in polled.items():
                for record in records:
                    await handle(record)
                # The committed offset is that of the next record to read.
                await consumer.commit({partition: records[-1].offset + 1})


async def show(record: ConsumerRecord) -> None:
    print(record.topic, record.partition, record.offset, record.value)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)  # which shows how to call it
    asyncio.run(consume(sys.argv[1], sys.argv[2], show))
