"""Runs work that Ctrl-C and SIGTERM cancel, so that it can clean up."""

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


async def until_interrupted(work: Coroutine[Any, Any, None]) -> int:
    """Runs the work until it ends or a signal comes. Returns 0, or 128 plus the signal's number, as
    shells do."""
    task = asyncio.create_task(work)
    loop = asyncio.get_running_loop()
    received: list[int] = []

    def interrupt(number: int) -> None:
        received.append(number)
        task.cancel()

    for number in _SIGNALS:
        loop.add_signal_handler(number, interrupt, number)
    try:
        await task
    except asyncio.CancelledError:
        if not received:
            raise
    finally:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)
    return 128 + received[0] if received else 0
