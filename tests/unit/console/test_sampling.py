"""Samples do not hold up pages."""

import asyncio
import threading

from odradek.console.sampling import SamplingThread


async def test_pages_have_turns_while_a_sample_computes() -> None:
    thread, has_answered = SamplingThread(), threading.Event()

    async def sample() -> bool:
        # It computes, and gives no other task a turn, until a page has been answered.
        return has_answered.wait(20)

    sampling = asyncio.create_task(thread.run(sample()))
    for _ in range(10):
        await asyncio.sleep(0)
    has_answered.set()
    assert await sampling
    await thread.close()
    await thread.close()
