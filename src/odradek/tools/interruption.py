"""Work that a person or a supervisor may end: Ctrl-C and SIGTERM cancel it, nothing is torn."""

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


async def until_interrupted(work: Coroutine[Any, Any, None]) -> int:
    """Runs to the end or to a signal. Returns 0, or 128 and the signal's number as shells do."""
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
