"""At most once: after a crash a record may be missing, but none is handled twice.

    python examples/at_most_once.py localhost:9092 orders

The offset is committed before the record is handled. If the program dies between the two, the
record is not read again. That is right where a repetition is worse than a gap: text messages,
say, or a measurement that the next one replaces.
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
        group_id=f"{topic}-at-most-once",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    ) as consumer:
        while True:
            # One record at a time, so that a crash costs one record and not a whole poll.
            polled = await consumer.poll(timeout_ms=1_000, max_records=1)
            if polled:
                await consumer.commit()
            for records in polled.values():
                for record in records:
                    await handle(record)


async def show(record: ConsumerRecord) -> None:
    print(record.topic, record.partition, record.offset, record.value)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)  # which shows how to call it
    asyncio.run(consume(sys.argv[1], sys.argv[2], show))
