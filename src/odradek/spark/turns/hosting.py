"""What every process of a task does, whatever its task is.

`zygote` forks the process and calls the function `host(directory, key)` of the module that it was
told. That function calls `run`, which opens the connection to the hub and has the rest done. A
module for one kind of tasks gives `run` a function that takes what it was given from there on.
"""

import asyncio
import contextlib
import faulthandler
import logging
import os
import signal
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from odradek.spark.turns.messages import MAX_LINE_BYTES, Message, encoded, received
from odradek.world.unix_sockets import socket_address

BEAT_S: Final = 0.5
STACK_SIGNAL: Final = signal.SIGUSR1
Say = Callable[[Mapping[str, object]], None]


def stack_path(directory: str, key: str) -> str:
    """Where a process writes its stack when it gets `STACK_SIGNAL`, even if it hangs in C."""
    return os.path.join(directory, f"{key}.stack")


class Hub:
    """The connection of a task's process with whoever has the tasks."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def heard(self) -> Message | None:
        """Returns the next order; None if the other side has ended."""
        return await received(self._reader)

    def say(self, message: Mapping[str, object]) -> None:
        with contextlib.suppress(ConnectionError, RuntimeError):
            self._writer.write(encoded(message))

    async def beat(self) -> None:
        """Says that the process is alive, until it is cancelled."""
        while True:
            self.say({"alive": True})
            await asyncio.sleep(BEAT_S)

    async def drain(self) -> None:
        with contextlib.suppress(ConnectionError):
            await self._writer.drain()


Converse = Callable[[str, Message, Hub], Awaitable[None]]
"""Called with the path of the process's own socket, what it was given, and the hub."""


def run(directory: str, key: str, converse: Converse) -> None:
    """Runs in the new process until the task ends, and ends the process."""
    try:
        with open(stack_path(directory, key), "w") as stack:
            faulthandler.register(STACK_SIGNAL, file=stack, all_threads=True)
            asyncio.run(_run(directory, key, converse))
    finally:
        # Without waiting for threads: one may hang in the task's code.
        os._exit(0)


async def _run(directory: str, key: str, converse: Converse) -> None:
    with socket_address(os.path.join(directory, "hub")) as address:
        reader, writer = await asyncio.open_unix_connection(address, limit=MAX_LINE_BYTES)
    hub = Hub(reader, writer)
    hub.say({"hello": key})
    given = await hub.heard()
    if given is None:
        return
    send_logs(hub.say)
    await converse(os.path.join(directory, key), given, hub)
    await hub.drain()


class _Logs(logging.Handler):
    """Sends log records to whoever has the files."""

    def __init__(self, say: Say) -> None:
        super().__init__()
        self._loop = asyncio.get_running_loop()
        self._say = say

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if record.exc_info:
            text += "\n" + logging.Formatter().formatException(record.exc_info)
        with contextlib.suppress(RuntimeError):
            line: dict[str, Any] = {"log": [record.levelno, record.name, text]}
            self._loop.call_soon_threadsafe(self._say, line)


def send_logs(say: Say) -> None:
    root = logging.getLogger()
    for handler in [*root.handlers]:
        root.removeHandler(handler)
    root.addHandler(_Logs(say))
    root.setLevel(logging.INFO)
