"""Runs work that Ctrl-C and SIGTERM cancel, so that it can clean up."""

import asyncio
import os
import signal
import stat
from collections.abc import Callable, Coroutine
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_STANDARD_OUTPUT = 1


async def until_interrupted(work: Coroutine[Any, Any, None]) -> int:
    """Runs the work until it ends or a signal comes. Returns 0, or 128 plus the signal's number, as
    shells do. Raises `BrokenPipeError` when the reader of standard output, a pipe, has ended: work
    that waits for records would see that only when it prints the next one."""
    task = asyncio.create_task(work)
    loop = asyncio.get_running_loop()
    received: list[int] = []
    has_reader = True

    def interrupt(number: int) -> None:
        received.append(number)
        task.cancel()

    def reader_ended() -> None:
        nonlocal has_reader
        has_reader = False
        task.cancel()

    for number in _SIGNALS:
        loop.add_signal_handler(number, interrupt, number)
    stop_watching = _watch_reader(loop, reader_ended)
    try:
        await task
    except asyncio.CancelledError:
        if not has_reader:
            raise BrokenPipeError from None
        if not received:
            raise
    finally:
        stop_watching()
        for number in _SIGNALS:
            loop.remove_signal_handler(number)
    return 128 + received[0] if received else 0


def _watch_reader(
    loop: asyncio.AbstractEventLoop, call: Callable[[], None]
) -> Callable[[], object]:
    """Calls `call` once when nobody can read standard output any more, if that is a pipe. The other
    end of a pipe never has something to read, so what wakes the loop is that it was closed.

    Returns what ends the watch."""

    def closed() -> None:
        loop.remove_reader(_STANDARD_OUTPUT)
        call()

    try:
        if stat.S_ISFIFO(os.fstat(_STANDARD_OUTPUT).st_mode):
            loop.add_reader(_STANDARD_OUTPUT, closed)
            return lambda: loop.remove_reader(_STANDARD_OUTPUT)
    except OSError:
        pass  # It is closed, or of a kind that cannot be watched.
    return lambda: None
