"""Retries with delays, and dead letters: one bad record does not hold up the others.

    python examples/retries_and_dead_letters.py localhost:9092 orders

A record whose handler raises waits in `orders.retry.1s`, then in `orders.retry.5s`, and is set
aside in `orders.dead` when it still fails. docs/recipes/retries.md has the details.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable

from odradek.client import Admin, Consumer, ConsumerRecord, Producer
from odradek.client.consumer.dead_letters import Reject, Retrying


async def work(
    servers: str,
    topic: str,
    handle: Callable[[ConsumerRecord], Awaitable[None]],
    delays: tuple[str, ...] = ("1s", "5s"),
) -> None:
    async with (
        Admin(bootstrap_servers=servers) as admin,
        Producer(bootstrap_servers=servers) as producer,
        Consumer(
            bootstrap_servers=servers,
            group_id=f"{topic}-workers",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        ) as consumer,
    ):
        worker = Retrying(consumer, producer, handle, [topic], delays=delays)
        await worker.create_topics(admin)
        await worker.run()


async def handle(record: ConsumerRecord) -> None:
    if not record.value.isdigit():
        raise Reject("this will never be a number")  # straight to the dead letters
    if int(record.value) % 2:
        raise ValueError("odd numbers fail for now")  # tried again later
    print("handled", record.value.decode())


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)  # which shows how to call it
    asyncio.run(work(sys.argv[1], sys.argv[2], handle))
