"""The process of one task. `spark.turns.zygote` forks it, and it has two connections.

The first leads to the owner, which is the worker. The worker sends the task, and later the order to
stop. This process reports that the task works, has failed or has stopped, and sends a heartbeat
twice a second.

The second comes from Spark, over a socket of this process. A reader of the lane's query gives this
process a turn, and gets at the end of the turn the number of records that it has written. Outside
of its turns the task only keeps its connections.

The task runs in a `ProcessEngine`. The worker notices a task that hangs: if other threads of this
process can still run, the engine reports it; if not, the heartbeats are missing.
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
from odradek.spark.turns.hosting import OwnerConnection, TurnTaker
from odradek.spark.turns.messages import Message
from odradek.spark.turns.turns import GivenTurns
from odradek.world.unix_sockets import listening_socket


def host(directory: str, key: str) -> None:
    """Runs in the new process until the task ends, and ends the process."""
    hosting.run(directory, key, _serve)


async def _serve(path: str, given: Message, owner: OwnerConnection) -> None:
    with contextlib.suppress(ConnectionError):
        await _Host(path, HandedOver.of(given["task"]), owner).run()


class _Host(TaskListener, TurnTaker):
    def __init__(
        self,
        path: str,
        given: HandedOver,
        owner: OwnerConnection,
    ) -> None:
        super().__init__(GivenTurns())
        self._path = path
        (self._task,) = given.tasks
        self._context = given.context
        self._owner = owner
        self._send = owner.send
        self._engine = ProcessEngine(given.context, self, self._turns)
        self._is_running = False
        self._has_ended = asyncio.Event()
        self._reading: list[asyncio.Task[None]] = []

    async def run(self) -> None:
        with listening_socket(self._path) as listener:
            server = await asyncio.start_unix_server(self.take_turns, sock=listener)
            heartbeats = asyncio.create_task(self._owner.send_heartbeats())
            ended = asyncio.create_task(self._has_ended.wait())
            # The only order of the worker is to stop. The end of the worker has the same meaning.
            order = asyncio.create_task(self._owner.receive())
            await self._start()
            await asyncio.wait({ended, order}, return_when=asyncio.FIRST_COMPLETED)
            server.close()
            await self._engine.close()
            heartbeats.cancel()

    async def _start(self) -> None:
        try:
            if is_source(self._task.properties):
                readers = (self._context.offsets.run(), self._context.plans.run())
                self._reading = [asyncio.create_task(reader) for reader in readers]
            await self._engine.start(self._task)
        except Exception as error:  # noqa: BLE001 - any error is the task's status
            self.failed(self._task.id, str(error), traceback.format_exc())

    # The engine reports

    def running(self, task: TaskId) -> None:
        self._is_running = True
        self._send({"running": True})
        for reading in self._reading:
            # The task has its offsets now, and only the task changes them from here on.
            reading.cancel()

    def failed(self, task: TaskId, reason: str, trace: str) -> None:
        self._send({"failed": [" ".join(reason.split()), trace]})
        self._has_ended.set()

    def stalled(self, task: TaskId, reason: str, trace: str) -> None:
        self._send({"stalled": [reason, trace]})

    def stopped(self, task: TaskId) -> None:
        self._send({"stopped": True})

    def used_topic(self, task: TaskId, topic: str) -> None:
        self._send({"topic": topic})

    # Spark gives turns

    def record_count(self) -> int:
        return self._figures()[0].written

    def is_at_work(self) -> bool:
        return self._is_running

    def report_turn(self) -> None:
        if self._is_running:
            figures, failures = self._figures()
            self._send({"turned": [asdict(figures), asdict(failures)]})

    def _figures(self) -> tuple[TaskFigures, FailureFigures]:
        found, failures = self._engine.figures().get(self._task.id, (None, None))
        return found or TaskFigures(), failures or FailureFigures()
