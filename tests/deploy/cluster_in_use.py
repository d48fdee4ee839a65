"""A cluster in use while Prometheus scrapes it, so that every series has something to show."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from odradek.client import Consumer, Producer


@asynccontextmanager
async def in_use(bootstrap: str) -> AsyncIterator[asyncio.Task[None]]:
    """Writes, reads and commits until the end of the block. Yields the task that does it."""
    using = asyncio.create_task(_use(bootstrap))
    try:
        yield using
    finally:
        using.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await using


async def _use(bootstrap: str) -> None:
    async with (
        Producer(bootstrap_servers=bootstrap) as producer,
        Consumer(
            "orders",
            bootstrap_servers=bootstrap,
            group_id="workers",
            auto_offset_reset="earliest",
            max_poll_records=1,
        ) as consumer,
    ):
        while True:
            for _ in range(20):
                await producer.send_and_wait("orders", b"a book")
            await consumer.poll(timeout_ms=1000)
            await consumer.commit()
