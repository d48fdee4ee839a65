"""What every process of a task does, independent of the kind of the task.

The owner of a task is the process that has started it: a Connect worker, or a program with queries.
`zygote` forks the task's process and calls the function `host(directory, key)` of the module for
its kind of tasks. That function calls `run`, which connects to the owner, gets the task from it,
and calls the module's own function of type `Serve`.
"""

import asyncio
import contextlib
import faulthandler
import logging
import os
import signal
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from odradek.spark.turns.messages import (
    MAX_LINE_BYTES,
    OWNER_SOCKET,
    Message,
    encoded,
    read_message,
)
from odradek.spark.turns.turns import GivenTurns
from odradek.world.unix_sockets import socket_address

HEARTBEAT_S: Final = 0.5
STACK_SIGNAL: Final = signal.SIGUSR1
Send = Callable[[Mapping[str, object]], None]


def stack_path(directory: str, key: str) -> str:
    """Returns the file into which a process writes its stack when it gets `STACK_SIGNAL`, even if
    it hangs in C."""
    return os.path.join(directory, f"{key}.stack")


class OwnerConnection:
    """The connection of a task's process with the owner."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def receive(self) -> Message | None:
        """Returns the next message of the owner; None if the owner has ended."""
        return await read_message(self._reader)

    def send(self, message: Mapping[str, object]) -> None:
        with contextlib.suppress(ConnectionError, RuntimeError):
            self._writer.write(encoded(message))

    async def send_heartbeats(self) -> None:
        """Reports twice a second that the process is alive, until it is cancelled."""
        while True:
            self.send({"alive": True})
            await asyncio.sleep(HEARTBEAT_S)

    async def drain(self) -> None:
        with contextlib.suppress(ConnectionError):
            await self._writer.drain()


Serve = Callable[[str, Message, OwnerConnection], Awaitable[None]]
"""Called with the path of the process's own socket, the first message of the owner, which has the
task, and the connection with the owner."""


class TurnTaker(ABC):
    """The task of this process, as Spark's query sees it."""

    def __init__(self, turns: GivenTurns) -> None:
        """The task works in these turns."""
        self._turns = turns

    @abstractmethod
    def record_count(self) -> int:
        """Returns how many records the task has read or written."""

    @abstractmethod
    def is_at_work(self) -> bool:
        """Returns whether the task works, or is paused: it is not in error."""

    @abstractmethod
    def report_turn(self) -> None:
        """Tells the owner how the task is after a turn."""

    async def take_turns(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serves a connection of Spark's query, which gives a turn and gets at the end of it the
        number of records in it."""
        # asyncio would log the cancellation at the end of the process.
        with contextlib.suppress(ConnectionError, asyncio.CancelledError):
            while (order := await read_message(reader)) is not None:
                before = self.record_count()
                await self._turns.give(order["turn_ms"] / 1000)
                records = self.record_count() - before
                writer.write(encoded({"running": self.is_at_work(), "records": records}))
                await writer.drain()
                self.report_turn()
        writer.close()


def run(directory: str, key: str, serve: Serve) -> None:
    """Runs in the new process until the task ends, and ends the process."""
    try:
        with open(stack_path(directory, key), "w") as stack:
            faulthandler.register(STACK_SIGNAL, file=stack, all_threads=True)
            asyncio.run(_run(directory, key, serve))
    finally:
        # This does not wait for threads, because one may hang in the task's code.
        os._exit(0)


async def _run(directory: str, key: str, serve: Serve) -> None:
    with socket_address(os.path.join(directory, OWNER_SOCKET)) as address:
        reader, writer = await asyncio.open_unix_connection(address, limit=MAX_LINE_BYTES)
    owner = OwnerConnection(reader, writer)
    owner.send({"hello": key})
    given = await owner.receive()
    if given is None:
        return
    send_logs(owner.send)
    await serve(os.path.join(directory, key), given, owner)
    await owner.drain()


class _Logs(logging.Handler):
    """Sends log records to the owner, which has the log files."""

    def __init__(self, send: Send) -> None:
        super().__init__()
        self._loop = asyncio.get_running_loop()
        self._send = send

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if record.exc_info:
            text += "\n" + logging.Formatter().formatException(record.exc_info)
        with contextlib.suppress(RuntimeError):
            line: dict[str, Any] = {"log": [record.levelno, record.name, text]}
            self._loop.call_soon_threadsafe(self._send, line)


def send_logs(send: Send) -> None:
    root = logging.getLogger()
    for handler in [*root.handlers]:
        root.removeHandler(handler)
    root.addHandler(_Logs(send))
    root.setLevel(logging.INFO)
