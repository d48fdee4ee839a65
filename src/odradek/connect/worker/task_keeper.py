"""Keeps one task as it should be: it runs with these properties, or it does not run.

    idle --start--> starting --running--> running --failed--> failed --after a pause--> starting
      ^                |                     |                   |
      +---- stop ------+---------------------+-------------------+

A task that fails is started again by itself, after a pause that grows with each failure. What
should be may change at any time, also while the engine still starts or stops the task: the keeper
does one thing after the other, and the last word counts.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Final

from odradek.config.redaction import redact
from odradek.connect.engine.connector_log import LOGGING_FOR
from odradek.connect.engine.engine import Engine, TaskId, TaskSpec
from odradek.connect.worker.status_state import State
from odradek.spark.turns.backoff import Backoff

_log = logging.getLogger("odradek.connect")

Properties = Mapping[str, str]
Report = Callable[[TaskId, State, str | None], None]
"""Is told the state of a task, and the trace of a failure."""
Resolve = Callable[[Properties], Properties]
"""Returns properties with their secrets."""

_NEVER: Final = float("inf")


class TaskKeeper:
    def __init__(
        self,
        task: TaskId,
        engine: Engine,
        resolve: Resolve,
        report: Report,
        *,
        restarts: bool,
    ) -> None:
        """`restarts` says whether a failed task starts again by itself."""
        self.task = task
        self._engine = engine
        self._resolve = resolve
        self._report = report
        self._restarts = restarts
        self._wanted: Properties | None = None
        self._resting = State.UNASSIGNED
        self._started: Properties | None = None
        self._must_restart = False
        self._restart_at_s = _NEVER
        self._running_since_s: float | None = None
        self._backoff = Backoff()
        self._wake = asyncio.Event()
        self._is_over = False
        self.state: State | None = None
        """What was reported last."""

    def run_with(self, properties: Properties) -> None:
        """Says that the task should run."""
        if self._wanted == properties and not self._is_over:
            return
        self._wanted, self._is_over = dict(properties), False
        self._restart_at_s = _NEVER
        self._backoff = Backoff()
        self._wake.set()

    def rest(self, state: State) -> None:
        """Says that the task should not run; `state` is what it is shown as."""
        if self._wanted is None and self._resting is state and self.state is state:
            return
        self._wanted, self._resting, self._is_over = None, state, False
        self._wake.set()

    def end(self) -> None:
        """Says that the task should not run here any more, and is not this keeper's to report."""
        self._wanted, self._is_over = None, True
        self._wake.set()

    def restart(self) -> None:
        if self._wanted is None:
            return
        self._tell(State.RESTARTING)
        self._must_restart = True
        self._backoff = Backoff()
        self._wake.set()

    async def run(self) -> None:
        """Does what is to be done, until the task is over here."""
        LOGGING_FOR.set(self.task.connector)
        while True:
            await self._woken()
            wanted = self._wanted
            is_late = asyncio.get_running_loop().time() >= self._restart_at_s
            if self._started is not None and (
                self._started != wanted or self._must_restart or is_late
            ):
                if wanted is not None:
                    self._tell(State.RESTARTING)
                self._started = None
                await self._engine.stop(self.task)
                self._wake.set()
            elif self._is_over:
                return
            elif wanted is None:
                if self.state is not self._resting:
                    self._tell(self._resting)
            elif self._started is None:
                await self._start(wanted)

    async def _woken(self) -> None:
        loop = asyncio.get_running_loop()
        delay_s = None if self._restart_at_s == _NEVER else self._restart_at_s - loop.time()
        try:
            async with asyncio.timeout(delay_s):
                await self._wake.wait()
        except TimeoutError:
            return
        self._wake.clear()

    async def _start(self, wanted: Properties) -> None:
        self._must_restart, self._restart_at_s = False, _NEVER
        self._running_since_s = None
        if self.state is None or self.state is self._resting:
            self._tell(State.UNASSIGNED)
        self._started = wanted
        try:
            await self._engine.start(TaskSpec(self.task, self._resolve(wanted), wanted))
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the task's status
            reason = redact(f"{error}")
            _log.error("%s does not start: %s", self.task, reason)
            self.note_failed(reason)

    # What the engine says

    def note_running(self) -> None:
        self._running_since_s = asyncio.get_running_loop().time()
        self._restart_at_s = _NEVER
        if self._wanted is not None:
            self._tell(State.RUNNING)

    def note_stalled(self, trace: str) -> None:
        """The engine says whether it goes on or has failed; until then it is left alone."""
        if self._wanted is not None:
            self._tell(State.FAILED, trace)

    def note_failed(self, trace: str) -> None:
        loop = asyncio.get_running_loop()
        since_s, self._running_since_s = self._running_since_s, None
        if self._wanted is None:
            return
        self._tell(State.FAILED, trace)
        if self._restarts:
            pause_s = self._backoff.next_s(0.0 if since_s is None else loop.time() - since_s)
            self._restart_at_s = loop.time() + pause_s
            # The engine may tell it from a task that carries the name of another connector.
            token = LOGGING_FOR.set(self.task.connector)
            _log.info("%s is started again in %.0f s", self.task, pause_s)
            LOGGING_FOR.reset(token)
            self._wake.set()

    def _tell(self, state: State, trace: str | None = None) -> None:
        self.state = state
        self._report(self.task, state, trace)
