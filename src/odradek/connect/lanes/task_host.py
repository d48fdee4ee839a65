"""The process of one task. It is forked by `zygote`, and talks with two others.

With the worker, over the socket `hub`: it gets its task, and later the order to stop; it tells that
the task works, has failed or has stopped, and twice a second that it is alive.

With Spark, over a socket of its own: a reader of the lane's query gives it a turn, and gets to know
at its end how much was done. Outside of its turns it does nothing but keep connections.

The task runs in a `ProcessEngine` here. A task that hangs harms nobody: if it hangs in a call that
lets other threads run, that engine says so, and if not, the worker hears nothing from this process.
"""

import asyncio
import contextlib
import faulthandler
import logging
import os
import signal
import traceback
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Final

from odradek.connect.engine.context import is_source
from odradek.connect.engine.engine import TaskId, TaskListener
from odradek.connect.engine.figures import FailureFigures, TaskFigures
from odradek.connect.engine.process_engine import ProcessEngine
from odradek.connect.engine.turns import GivenTurns
from odradek.connect.lanes.handing_over import HandedOver
from odradek.connect.lanes.messages import MAX_LINE_BYTES, encoded, received
from odradek.world.unix_sockets import listening_socket, socket_address

BEAT_S: Final = 0.5
STACK_SIGNAL: Final = signal.SIGUSR1
Say = Callable[[Mapping[str, object]], None]


def stack_path(directory: str, key: str) -> str:
    """Where a process writes its stack when it gets `STACK_SIGNAL`, even if it hangs in C."""
    return os.path.join(directory, f"{key}.stack")


def host(directory: str, key: str) -> None:
    """Runs in the new process until the task ends, and ends the process."""
    try:
        with open(stack_path(directory, key), "w") as stack:
            faulthandler.register(STACK_SIGNAL, file=stack, all_threads=True)
            asyncio.run(_converse(directory, key))
    finally:
        # Without waiting for threads: one may hang in the task's code.
        os._exit(0)


async def _converse(directory: str, key: str) -> None:
    with socket_address(os.path.join(directory, "hub")) as address:
        reader, writer = await asyncio.open_unix_connection(address, limit=MAX_LINE_BYTES)
    writer.write(encoded({"hello": key}))
    given = await received(reader)
    if given is None:
        return
    found = HandedOver.of(given["task"])
    with contextlib.suppress(ConnectionError):
        await _Host(os.path.join(directory, key), found, reader, writer).run()
        await writer.drain()


class _Host(TaskListener):
    def __init__(
        self,
        path: str,
        given: HandedOver,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self._path = path
        (self._task,) = given.tasks
        self._context = given.context
        self._reader = reader
        self._writer = writer
        self._turns = GivenTurns()
        self._engine = ProcessEngine(given.context, self, self._turns)
        self._is_running = False
        self._has_ended = asyncio.Event()
        self._offsets: asyncio.Task[None] | None = None
        _send_logs(self._say)

    async def run(self) -> None:
        with listening_socket(self._path) as listener:
            server = await asyncio.start_unix_server(self._give_turns, sock=listener)
            beating = asyncio.create_task(self._beat())
            ended = asyncio.create_task(self._has_ended.wait())
            # The worker says one thing only: to stop. If it has ended, that is the same.
            ordered = asyncio.create_task(received(self._reader))
            await self._start()
            await asyncio.wait({ended, ordered}, return_when=asyncio.FIRST_COMPLETED)
            server.close()
            await self._engine.close()
            beating.cancel()

    async def _start(self) -> None:
        try:
            if is_source(self._task.properties):
                self._offsets = asyncio.create_task(self._context.offsets.run())
            await self._engine.start(self._task)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the task's status
            self.failed(self._task.id, str(error), traceback.format_exc())

    # What the engine tells

    def running(self, task: TaskId) -> None:
        self._is_running = True
        self._say({"running": True})
        if self._offsets is not None:
            # The task has them now, and alone changes them from here on.
            self._offsets.cancel()

    def failed(self, task: TaskId, reason: str, trace: str) -> None:
        self._say({"failed": [" ".join(reason.split()), trace]})
        self._has_ended.set()

    def stalled(self, task: TaskId, reason: str, trace: str) -> None:
        self._say({"stalled": [reason, trace]})

    def stopped(self, task: TaskId) -> None:
        self._say({"stopped": True})

    def used_topic(self, task: TaskId, topic: str) -> None:
        self._say({"topic": topic})

    # What others are told

    async def _beat(self) -> None:
        while True:
            self._say({"alive": True})
            await asyncio.sleep(BEAT_S)

    async def _give_turns(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # It is cancelled when the process ends; asyncio would log that.
        with contextlib.suppress(ConnectionError, asyncio.CancelledError):
            while (order := await received(reader)) is not None:
                before = self._figures()[0].written
                await self._turns.give(order["turn_ms"] / 1000)
                figures, failures = self._figures()
                writer.write(
                    encoded({"running": self._is_running, "records": figures.written - before})
                )
                await writer.drain()
                if self._is_running:
                    self._say({"turned": [asdict(figures), asdict(failures)]})
        writer.close()

    def _figures(self) -> tuple[TaskFigures, FailureFigures]:
        found, failures = self._engine.figures().get(self._task.id, (None, None))
        return found or TaskFigures(), failures or FailureFigures()

    def _say(self, message: Mapping[str, object]) -> None:
        with contextlib.suppress(ConnectionError, RuntimeError):
            self._writer.write(encoded(message))


class _Logs(logging.Handler):
    """Sends log records to the worker, which has the files."""

    def __init__(self, say: Say) -> None:
        super().__init__()
        self._loop = asyncio.get_running_loop()
        self._say = say

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if record.exc_info:
            text += "\n" + logging.Formatter().formatException(record.exc_info)
        with contextlib.suppress(RuntimeError):
            line = {"log": [record.levelno, record.name, text]}
            self._loop.call_soon_threadsafe(self._say, line)


def _send_logs(say: Say) -> None:
    root = logging.getLogger()
    for handler in [*root.handlers]:
        root.removeHandler(handler)
    root.addHandler(_Logs(say))
    root.setLevel(logging.INFO)
