"""Runs tasks by a streaming query of Spark: the shared lane.

Each task lives in a process of its own (`task_host`). One query gives all of them their turns: a
micro-batch is a turn of every task, and outside of it a task does no work. So tasks come and go
without a restart of the query, and one that hangs, fails or floods leaves the others their turns.

What the engine promises, and what it rests on:

- Records of sources are written exactly once, whichever process is killed: a task writes each
  range with its offset in one transaction, under the transactional id that Kafka Connect would use,
  and a process that takes its place fences it first. Sinks commit the offsets of records that are
  safely written, under the group that Kafka Connect would use.
- The state is true. A host sends a heartbeat twice a second, and a message if a call takes long.
  Then the task is shown as failed within 5 seconds, and as running again if the call returns; if it
  has not after `hang_timeout_s`, the process is killed. If heartbeats are missing, the task has
  failed, and the process is killed.
- If Spark ends, all tasks are shown as failed until it gives them turns again.
"""

import asyncio
import contextlib
import logging
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from odradek.config.redaction import redact
from odradek.connect import plugins
from odradek.connect.engine.connector_log import LOGGING_FOR
from odradek.connect.engine.context import EngineContext
from odradek.connect.engine.engine import Engine, TaskId, TaskListener, TaskSpec
from odradek.connect.engine.figures import FailureFigures, TaskFigures
from odradek.connect.lanes.handing_over import HandedOver
from odradek.connect.lanes.own_lanes import OwnLanes, has_own_lane
from odradek.connect.lanes.requirements import require
from odradek.spark.turns.hosting import HEARTBEAT_S
from odradek.spark.turns.messages import Message
from odradek.spark.turns.shared_lane import SharedLane
from odradek.spark.turns.task_processes import Host, HostListener, TaskProcesses

_log = logging.getLogger("odradek.connect")

_LOOK_S: Final = 0.25
_SILENT_S: Final = 7 * HEARTBEAT_S
_FIRST_MESSAGE_S: Final = 60.0
# A process ends its task within the context's `stop_timeout_s`, and then itself.
_GRACE_S: Final = 2.0
_MODULES: Final = (
    "odradek.connect.lanes.task_host",
    "odradek.client",
    "odradek.client.admin.admin",
    "odradek.connect.validation",
)


class _Phase(Enum):
    STARTING = "it has not had its first turn yet"
    RUNNING = "it works"
    STALLED = "it is shown as failed, but its process is there, and takes turns"
    STOPPING = "it has been asked to end"
    ENDED = "its process is gone or about to be, and the listener knows"


@dataclass(slots=True)
class _Hosted:
    spec: TaskSpec
    host: Host
    last_message_s: float
    phase: _Phase = _Phase.STARTING
    has_connected: bool = False
    figures: TaskFigures = field(default_factory=TaskFigures)
    failures: FailureFigures = field(default_factory=FailureFigures)

    def is_silent(self) -> bool:
        """Whether it has sent nothing for longer than a healthy process ever does."""
        limit_s = _SILENT_S if self.has_connected else _FIRST_MESSAGE_S
        return _now_s() - self.last_message_s >= limit_s


class SparkEngine(Engine, HostListener):
    def __init__(self, context: EngineContext, listener: TaskListener) -> None:
        """Starts nothing."""
        self._context = context
        self._listener = listener
        self._tasks: dict[TaskId, _Hosted] = {}
        self._by_host: dict[str, _Hosted] = {}
        self._lane = SharedLane(
            "odradek-connect",
            self,
            _MODULES,
            require=require,
            spark_ended=self._spark_ended,
            spark=context.spark,
        )
        self._own_lanes: OwnLanes | None = None
        self._watching: asyncio.Task[None] | None = None

    async def start(self, task: TaskSpec) -> None:
        await self._lane.prepare()
        await self._end_former(task.id)
        if has_own_lane(task):
            self._own().start(task)
            return
        processes = await self._opened()
        given = HandedOver([task], self._context).to_text()
        host = await processes.start({"task": given}, _module_of(task))
        hosted = _Hosted(task, host, last_message_s=_now_s())
        self._tasks[task.id] = self._by_host[host.key] = hosted

    async def stop(self, task: TaskId) -> None:
        if await self._end_former(task):
            self._listener.stopped(task)

    async def _end_former(self, task: TaskId) -> bool:
        """Ends a task if it is here; returns whether it was still there."""
        was_in_own_lane = self._own_lanes is not None and await self._own_lanes.stop(task)
        hosted = self._tasks.get(task)
        if hosted is None:
            return was_in_own_lane
        was_there = hosted.phase is not _Phase.ENDED
        await self._end(hosted)
        return was_there

    async def close(self) -> None:
        await asyncio.gather(*(self.stop(task) for task in self.figures()))
        if self._watching is not None:
            self._watching.cancel()
            self._watching = None
        await self._lane.close()

    def figures(self) -> Mapping[TaskId, tuple[TaskFigures, FailureFigures | None]]:
        """Returns what each task has counted since it started here."""
        own = {} if self._own_lanes is None else self._own_lanes.figures()
        return {
            **{task: (figures, None) for task, figures in own.items()},
            **{task: (hosted.figures, hosted.failures) for task, hosted in self._tasks.items()},
        }

    def _own(self) -> OwnLanes:
        if self._own_lanes is None:
            self._own_lanes = OwnLanes(self._context, self._listener, self._lane.directory)
        return self._own_lanes

    async def _opened(self) -> TaskProcesses:
        """Starts what all tasks share, with the first of them."""
        processes = await self._lane.open()
        if self._watching is None:
            _log.info("Java and Spark start; the first tasks work in ten seconds or so")
            self._watching = asyncio.create_task(self._watch(), name="connect-watch")
        return processes

    async def _end(self, hosted: _Hosted) -> None:
        """Returns when the task's process has ended."""
        processes = self._lane.processes
        if hosted.phase is not _Phase.ENDED:
            hosted.phase = _Phase.STOPPING
        processes.stop(hosted.host)
        if not await self._has_exited(hosted):
            _log.warning("%s does not end; its process is killed", hosted.spec.id)
            processes.kill(hosted.host)
            await hosted.host.exited.wait()
        if self._tasks.get(hosted.spec.id) is hosted:
            del self._tasks[hosted.spec.id]

    async def _has_exited(self, hosted: _Hosted) -> bool:
        """Waits for the end of a process; returns False if it says nothing, or takes too long."""
        deadline_s = _now_s() + self._context.stop_timeout_s + _GRACE_S
        while _now_s() < deadline_s and not hosted.is_silent():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_S):
                    await hosted.host.exited.wait()
                    return True
        return hosted.host.exited.is_set()

    # Called by the lane's query

    async def tasks_for_batch(self) -> Message:
        """Returns the tasks that take turns. If there are none, waits for a while."""
        tasks = await self._lane.takers(self._takers)
        connectors = {hosted.spec.id.connector for hosted in self._working()}
        offsets = {
            name: [[*found] for found in self._context.offsets.all_of(name)]
            for name in sorted(connectors)
        }
        return {"tasks": tasks, "offsets": offsets}

    def _takers(self) -> dict[str, str]:
        return {str(hosted.spec.id): hosted.host.key for hosted in self._working()}

    def _working(self) -> list[_Hosted]:
        working = {_Phase.STARTING, _Phase.RUNNING, _Phase.STALLED}
        return [
            hosted
            for hosted in self._tasks.values()
            if hosted.has_connected and hosted.phase in working
        ]

    # Called for the hosts

    def on_message(self, host: Host, message: Message) -> None:
        hosted = self._by_host.get(host.key)
        if hosted is None:
            return
        hosted.last_message_s = _now_s()
        if not hosted.has_connected:
            hosted.has_connected = True
            self._lane.note_taker()
        task = hosted.spec.id
        if "turned" in message:
            self._note_turn(hosted, *message["turned"])
        elif "stalled" in message:
            self._stall(hosted, *message["stalled"])
        elif "running" in message and hosted.phase is _Phase.STALLED:
            # It is shown so with its next turn.
            hosted.phase = _Phase.STARTING
        elif "topic" in message:
            self._listener.used_topic(task, message["topic"])
        elif "log" in message:
            level, name, text = message["log"]
            _log_of(task, level, text, name)
        elif "failed" in message:
            self._fail(hosted, *message["failed"])

    def on_exit(self, host: Host, status: int) -> None:
        hosted = self._by_host.pop(host.key, None)
        if hosted is None or hosted.phase is _Phase.STOPPING:
            return
        name = signal.Signals(-status).name if status < 0 else f"status {status}"
        self._fail(hosted, f"its process was ended by {name}", "")

    def _note_turn(
        self, hosted: _Hosted, figures: Mapping[str, int], failures: Mapping[str, int]
    ) -> None:
        hosted.figures = TaskFigures(**figures)
        hosted.failures = FailureFigures(**failures)
        if hosted.phase is _Phase.STARTING:
            hosted.phase = _Phase.RUNNING
            self._listener.running(hosted.spec.id)

    def _stall(self, hosted: _Hosted, reason: str, trace: str) -> None:
        if hosted.phase in {_Phase.STARTING, _Phase.RUNNING}:
            hosted.phase = _Phase.STALLED
            _log_of(hosted.spec.id, logging.WARNING, f"{hosted.spec.id} does no work: {reason}")
            self._listener.stalled(hosted.spec.id, redact(reason), redact(trace))

    def _fail(self, hosted: _Hosted, reason: str, trace: str) -> None:
        """Tells the listener, unless it knows that the task has ended, or has asked for it."""
        if hosted.phase in {_Phase.ENDED, _Phase.STOPPING}:
            return
        hosted.phase = _Phase.ENDED
        self._listener.failed(hosted.spec.id, redact(reason), redact(trace))

    def _spark_ended(self, reason: str) -> None:
        for hosted in [*self._tasks.values()]:
            if hosted.phase in {_Phase.STARTING, _Phase.RUNNING}:
                self._stall(hosted, f"Spark has ended, and starts again: {reason}", "")
                # It is shown as running with its next turn.
                hosted.phase = _Phase.STARTING

    async def _watch(self) -> None:
        """Notices hosts that send nothing: they hang in C with the interpreter's lock."""
        while True:
            await asyncio.sleep(_LOOK_S)
            for hosted in [*self._tasks.values()]:
                if hosted.is_silent() and hosted.phase not in {_Phase.STOPPING, _Phase.ENDED}:
                    await self._note_silence(hosted)

    async def _note_silence(self, hosted: _Hosted) -> None:
        processes = self._lane.processes
        stack = await processes.stack_of(hosted.host)
        # A message may have arrived meanwhile: this process may be the one that was slow.
        if hosted.is_silent():
            silent_s = _now_s() - hosted.last_message_s
            reason = f"its process has not answered for {silent_s:.1f} s: it hangs, or is stopped"
            self._fail(hosted, reason, stack)
            processes.kill(hosted.host)


def _module_of(task: TaskSpec) -> str:
    return plugins.find_connector(task.properties.get("connector.class", "")).module


def _log_of(task: TaskId, level: int, text: str, name: str = "odradek.connect") -> None:
    """Logs a line of a task, among those of its connector."""
    token = LOGGING_FOR.set(task.connector)
    try:
        logging.getLogger(name).log(level, "%s", redact(text))
    finally:
        LOGGING_FOR.reset(token)


def _now_s() -> float:
    return asyncio.get_running_loop().time()
