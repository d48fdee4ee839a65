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
import traceback
from dataclasses import asdict

from odradek.connect.engine.context import is_source
from odradek.connect.engine.engine import TaskId, TaskListener
from odradek.connect.engine.figures import FailureFigures, TaskFigures
from odradek.connect.engine.process_engine import ProcessEngine
from odradek.connect.lanes.handing_over import HandedOver
from odradek.spark.turns import hosting
from odradek.spark.turns.hosting import Hub
from odradek.spark.turns.messages import Message, encoded, received
from odradek.spark.turns.turns import GivenTurns
from odradek.world.unix_sockets import listening_socket


def host(directory: str, key: str) -> None:
    """Runs in the new process until the task ends, and ends the process."""
    hosting.run(directory, key, _converse)


async def _converse(path: str, given: Message, hub: Hub) -> None:
    with contextlib.suppress(ConnectionError):
        await _Host(path, HandedOver.of(given["task"]), hub).run()


class _Host(TaskListener):
    def __init__(
        self,
        path: str,
        given: HandedOver,
        hub: Hub,
    ) -> None:
        self._path = path
        (self._task,) = given.tasks
        self._context = given.context
        self._hub = hub
        self._say = hub.say
        self._turns = GivenTurns()
        self._engine = ProcessEngine(given.context, self, self._turns)
        self._is_running = False
        self._has_ended = asyncio.Event()
        self._reading: list[asyncio.Task[None]] = []

    async def run(self) -> None:
        with listening_socket(self._path) as listener:
            server = await asyncio.start_unix_server(self._give_turns, sock=listener)
            beating = asyncio.create_task(self._hub.beat())
            ended = asyncio.create_task(self._has_ended.wait())
            # The worker says one thing only: to stop. If it has ended, that is the same.
            ordered = asyncio.create_task(self._hub.heard())
            await self._start()
            await asyncio.wait({ended, ordered}, return_when=asyncio.FIRST_COMPLETED)
            server.close()
            await self._engine.close()
            beating.cancel()

    async def _start(self) -> None:
        try:
            if is_source(self._task.properties):
                readers = (self._context.offsets.run(), self._context.plans.run())
                self._reading = [asyncio.create_task(reader) for reader in readers]
            await self._engine.start(self._task)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the task's status
            self.failed(self._task.id, str(error), traceback.format_exc())

    # What the engine tells

    def running(self, task: TaskId) -> None:
        self._is_running = True
        self._say({"running": True})
        for reading in self._reading:
            # The task has its offsets now, and alone changes them from here on.
            reading.cancel()

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
