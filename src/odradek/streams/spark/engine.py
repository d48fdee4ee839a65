"""Runs queries by a streaming query of Spark. This part runs in the program that owns the queries.

Each query lives in a process of its own (`query_host`), with its state, its consumer and its
producer. One streaming query of Spark gives all of them their turns (`odradek.spark.turns`): a
micro-batch is a turn of every query, and outside of it a query does no work. So queries come and go
without a new query of Spark, and one that hangs, fails or grows leaves the others their turns.

What the engine promises, and what it rests on:

- *Exactly once, whichever process is killed.* Results, changes of state and offsets are one
  transaction, under the transactional id of the query. A process that takes its place fences it
  first, reads the state from its changelog, and goes on at the committed offsets. Spark's own
  offsets have no effect.
- *The state is true.* The process of a query reports its state after each turn. A query whose
  process has sent nothing for some seconds is in error until it sends something; after a minute the
  process is killed, and another one goes on. If Spark ends, all queries are in error until it gives
  them turns again.
- *Nothing runs before the first query*: no Java and no other process.
"""

import asyncio
import contextlib
import logging
import pickle
import signal
from collections.abc import Mapping
from math import inf
from typing import Any, Final

from odradek.protocol.types import TopicPartition
from odradek.spark.prerequisites import SparkMissing, require_spark
from odradek.spark.turns.backoff import Backoff
from odradek.spark.turns.hosting import HEARTBEAT_S
from odradek.spark.turns.messages import Message
from odradek.spark.turns.shared_lane import SharedLane
from odradek.spark.turns.task_processes import Host, HostListener
from odradek.streams.plan.nodes import Plan
from odradek.streams.process.runner import Figures, State
from odradek.streams.spark.given import GivenQuery
from odradek.world.clock import SystemClock

_log = logging.getLogger("odradek.streams")
_MODULES: Final = (
    "odradek.streams.spark.query_host",
    "odradek.client.admin.admin",
    "odradek.client.consumer.consumer",
    "odradek.client.producer.producer",
)
_STOP_S: Final = 5.0
_LOOK_S: Final = 0.25
_SILENT_S: Final = 10 * HEARTBEAT_S
_FIRST_MESSAGE_S: Final = 30.0
_HANG_S: Final = 60.0
FENCED: Final = "another instance of it runs now"


class SparkEngine(HostListener):
    """The queries of a program, and the lane that they share."""

    def __init__(self, spark: Mapping[str, str] | None = None, *preloaded: str) -> None:
        """Starts nothing. `spark` has settings of Spark; `preloaded` are modules that the processes
        of the queries use, which they share."""
        self._lane = SharedLane(
            "odradek-streams",
            self,
            (*_MODULES, *preloaded),
            require=require_spark,
            spark_ended=self._spark_ended,
            spark=spark or {},
        )
        self._runners: dict[str, SparkRunner] = {}

    async def close(self) -> None:
        """Ends Spark, and every process."""
        await self._lane.close()

    # For `SparkRunner`

    async def start(self, runner: "SparkRunner", given: Mapping[str, object]) -> Host:
        """Raises `SparkMissing` if Spark cannot run here."""
        processes = await self._lane.open()
        host = await processes.start(given)
        self._runners[host.key] = runner
        return host

    def stop(self, host: Host) -> None:
        self._lane.processes.stop(host)

    def kill(self, host: Host) -> None:
        self._lane.processes.kill(host)

    def send(self, host: Host, message: Mapping[str, object]) -> None:
        self._lane.processes.send(host, message)

    def _spark_ended(self, reason: str) -> None:
        for runner in [*self._runners.values()]:
            runner.note_error(f"Spark has ended, and starts again: {reason}")

    # Called by the processes of the queries, and by Spark's query

    def on_message(self, host: Host, message: Message) -> None:
        runner = self._runners.get(host.key)
        if runner is None:
            return
        if runner.on_message(message):
            self._lane.note_taker()

    def on_exit(self, host: Host, status: int) -> None:
        runner = self._runners.pop(host.key, None)
        if runner is not None:
            runner.exited(status)

    async def tasks_for_batch(self) -> Message:
        """Returns the queries that take turns. If there are none, waits for a while."""
        return {"tasks": await self._lane.takers(self._takers), "offsets": {}}

    def _takers(self) -> dict[str, str]:
        found = self._runners.items()
        return {runner.application_id: key for key, runner in found if runner.has_reported}


class SparkRunner:
    """Runs one query on Spark until it is stopped, as `streams.process.runner.Runner` does in the
    program's own process: `run` is the task; the rest may be called at any time."""

    def __init__(self, engine: SparkEngine, plan: Plan, query: GivenQuery) -> None:
        self.plan = plan
        self.application_id = query.application_id
        self.state = State.STARTING
        self.error: str | None = None
        self.failed_ms = 0
        self.figures = Figures()
        self._engine = engine
        self._query = query
        self._is_paused = False
        self._host: Host | None = None
        self._last_message_s: float | None = None
        self._has_ended = False
        self._earlier = (0, 0, 0, 0)
        """The counts of earlier processes of the query."""

    @property
    def changelog_topic(self) -> str:
        return f"{self.application_id}-changelog"

    @property
    def process_id(self) -> int | None:
        return None if self._host is None else self._host.pid

    @property
    def has_reported(self) -> bool:
        """Whether its process has sent a message, so that it can be given turns."""
        return self._last_message_s is not None

    def pause(self) -> None:
        self._set_paused(True)

    def resume(self) -> None:
        self._set_paused(False)

    def _set_paused(self, is_paused: bool) -> None:
        self._is_paused = is_paused
        if self._host is not None:
            self._engine.send(self._host, {"pause": is_paused})

    async def run(self) -> None:
        """Runs until it is cancelled, or another instance takes over. If the process ends, another
        one goes on from what is committed. A plan that has functions which cannot be pickled, or
        that holds an open file or a lock, is in error at once."""
        backoff = Backoff()
        loop = asyncio.get_running_loop()
        try:
            given = {"query": self._query.to_text()}
        except (pickle.PicklingError, TypeError, AttributeError) as error:
            self.note_error(f"its plan cannot be given to another process: {error}")
            return
        try:
            while not self._has_ended:
                began_s, before = loop.time(), self.figures.transactions
                try:
                    await self._run_once({**given, "is_paused": self._is_paused})
                except (SparkMissing, OSError) as error:
                    self.note_error(str(error))
                if not self._has_ended:
                    self.figures.restarts += 1
                    # One that has written results may be started again at once.
                    has_worked = self.figures.transactions > before
                    await asyncio.sleep(
                        backoff.next_s(inf if has_worked else loop.time() - began_s)
                    )
        finally:
            self.state = State.STOPPED

    async def _run_once(self, given: Mapping[str, object]) -> None:
        """Returns when the process has ended."""
        self._last_message_s = None
        figures = self.figures
        self._earlier = (
            figures.records, figures.results, figures.transactions, figures.bad_records,
        )  # fmt: skip
        host = self._host = await self._engine.start(self, given)
        try:
            await self._watch(host)
        finally:
            self._host = None
            if not host.exited.is_set():
                self._engine.stop(host)
                if not await _exits(host, _STOP_S):
                    self._engine.kill(host)
                    await host.exited.wait()

    async def _watch(self, host: Host) -> None:
        """Returns when the process has ended. If it sends nothing, a call takes long or hangs: the
        query is shown as in error until there is a message, and the process is killed after
        `_HANG_S`."""
        loop = asyncio.get_running_loop()
        began_s, is_noted = loop.time(), False
        while not await _exits(host, _LOOK_S):
            last_s = began_s if self._last_message_s is None else self._last_message_s
            silent_s, limit_s = loop.time() - last_s, _SILENT_S
            if self._last_message_s is None:
                limit_s = _FIRST_MESSAGE_S
            if silent_s <= limit_s:
                is_noted = False
            elif not is_noted:
                self.note_error(
                    f"its process has sent nothing for {silent_s:.0f} s: it is busy, or hangs; it"
                    f" is started again after {_HANG_S:.0f} s"
                )
                is_noted = True
            if silent_s > _HANG_S:
                self._engine.kill(host)
                await host.exited.wait()

    # Called by the engine

    def note_error(self, reason: str) -> None:
        self.state, self.error = State.ERROR, " ".join(reason.split())
        self.failed_ms = SystemClock().now_ms()
        _log.warning("%s: %s", self.application_id, self.error)

    def exited(self, status: int) -> None:
        self._last_message_s = None
        if self._host is not None and self.error is None:
            how = signal.Signals(-status).name if status < 0 else f"status {status}"
            self.note_error(f"its process was ended by {how}; another one is started")

    def on_message(self, message: Message) -> bool:
        """Handles a message of the process; returns whether it is the first one."""
        is_first = self._last_message_s is None
        if is_first:
            # Before, a call of `pause` or `resume` did not reach the process.
            self._set_paused(self._is_paused)
        self._last_message_s = asyncio.get_running_loop().time()
        if "state" in message:
            self._note_turn(message)
        elif "log" in message:
            level, name, text = message["log"]
            logging.getLogger(name).log(level, "%s", text)
        elif "failed" in message:
            self.note_error(message["failed"])
        elif "ended" in message:
            self._has_ended = True
            self.error = message["ended"]
        return is_first

    def _note_turn(self, message: Mapping[str, Any]) -> None:
        self.state, self.error = State(message["state"]), message["error"]
        self.failed_ms = message["failed_ms"]
        figures = self.figures
        counted = zip(self._earlier, message["figures"], strict=True)
        figures.records, figures.results, figures.transactions, figures.bad_records = (
            before + now for before, now in counted
        )
        for topic, partition, offset in message["offsets"]:
            figures.offsets[TopicPartition(topic, partition)] = offset


async def _exits(host: Host, within_s: float) -> bool:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(within_s):
            await host.exited.wait()
    return host.exited.is_set()
