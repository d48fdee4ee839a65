"""Runs tasks in the worker's process, without Spark: each task's calls in a thread of its own.

What a task does on the event loop is bounded; what may block (its connector's code) runs in its
thread. So a task that hangs holds up no other. A thread cannot be ended by force:

- a source that hangs is reported as failed, and left alone. When the worker starts it again, it
  gets a new thread and a new producer, which fences the old one: what the old thread still returns
  is never committed.
- a sink that hangs is reported as failed, and starts again only when its call has returned: else
  the old call could write after the new one.
"""

import asyncio
import contextvars
import logging
import traceback
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from odradek.client import Producer
from odradek.config.redaction import redact
from odradek.connect.connector_settings import SinkSettings, SourceSettings
from odradek.connect.engine.connector_log import LOGGING_FOR
from odradek.connect.engine.context import EngineContext, connector_of, is_source
from odradek.connect.engine.dead_letters import DeadLetters
from odradek.connect.engine.engine import Engine, TaskId, TaskListener, TaskSpec
from odradek.connect.engine.figures import FailureFigures, TaskFigures
from odradek.connect.engine.record_path import FailedRecords, path_of
from odradek.connect.engine.retrying import Retries
from odradek.connect.engine.sink_runner import LONGEST_RETRY_S, SinkRunner
from odradek.connect.engine.source_runner import SourceRunner
from odradek.connect.engine.task_thread import TaskThread
from odradek.connect.engine.topics import TopicMaker
from odradek.spark.turns.turns import Turns

_log = logging.getLogger("odradek.connect")

_LOOK_S: Final = 0.5
# A call that takes so long is shown, so that nobody believes that the task works.
_STALL_S: Final = 3.5


@dataclass(slots=True)
class _Running:
    spec: TaskSpec
    thread: TaskThread
    is_source: bool = True
    task: "asyncio.Task[None] | None" = None
    figures: TaskFigures = field(default_factory=TaskFigures)
    failed: FailedRecords | None = None
    retries: Retries | None = None
    stalls: bool = False
    hangs: bool = False


class ProcessEngine(Engine):
    def __init__(
        self, context: EngineContext, listener: TaskListener, turns: Turns | None = None
    ) -> None:
        self._turns = turns or Turns()
        self._context = context
        self._listener = listener
        self._running: dict[TaskId, _Running] = {}
        # Threads of sinks that were stopped and whose last call has not returned.
        self._lingering: dict[TaskId, TaskThread] = {}
        self._watching: asyncio.Task[None] | None = None

    async def start(self, task: TaskSpec) -> None:
        await self.stop(task.id)
        if task.properties.get("odradek.lane") == "own":
            _log.warning("%s: odradek.lane=own needs odradek.engine=spark", task.id)
        running = _Running(task, TaskThread(str(task.id)))
        self._running[task.id] = running
        if self._watching is None:
            self._watching = asyncio.create_task(self._watch(), name="connect-watch")
        # The task's log lines, and those of its thread, are the connector's.
        context = contextvars.copy_context()
        context.run(LOGGING_FOR.set, task.id.connector)
        running.task = asyncio.create_task(
            self._run(running), name=f"connect-{task.id}", context=context
        )

    async def stop(self, task: TaskId) -> None:
        running = self._running.pop(task, None)
        if running is None:
            return
        was_running = await self._end(running)
        if was_running:
            self._listener.stopped(task)

    async def close(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
            self._watching = None
        await asyncio.gather(*(self.stop(task) for task in list(self._running)))

    def figures(self) -> Mapping[TaskId, tuple[TaskFigures, FailureFigures | None]]:
        """Returns what each task has counted since it started here."""
        return {task: (one.figures, one.failed) for task, one in self._running.items()}

    async def _end(self, running: _Running) -> bool:
        """Ends a task; returns whether it was still running."""
        task = running.task
        was_running = task is not None and not task.done()
        if task is not None:
            task.cancel()
            _, late = await asyncio.wait({task}, timeout=self._context.stop_timeout_s)
            if late:
                _log.warning("%s does not end; it is left alone", running.spec.id)
        running.thread.close()
        if not running.is_source and running.thread.busy_s:
            self._lingering[running.spec.id] = running.thread
        return was_running

    async def _run(self, running: _Running) -> None:
        task = running.spec.id
        try:
            await self._wait_for_former(task)
            async with self._runner(running) as runner:
                await runner.run(lambda: self._listener.running(task))
        except Exception as error:  # noqa: BLE001 - whatever ends a task is its status
            self._fail(running, error)
        finally:
            running.thread.close()

    def _fail(self, running: _Running, error: Exception) -> None:
        if self._running.get(running.spec.id) is not running:
            return
        trace = redact("".join(traceback.format_exception(error)))
        reason = redact(str(error) or type(error).__name__)
        self._listener.failed(running.spec.id, reason, trace)

    async def _wait_for_former(self, task: TaskId) -> None:
        """Returns when no call of the task's former run is under way."""
        thread = self._lingering.get(task)
        if thread is None:
            return
        if not await thread.ended(0.2):
            self._listener.failed(
                task, "a call of its former run has not returned yet", thread.where()
            )
            while not await thread.ended(60):
                pass
        self._lingering.pop(task, None)

    @asynccontextmanager
    async def _runner(self, running: _Running) -> AsyncIterator[SourceRunner | SinkRunner]:
        async with AsyncExitStack() as stack:
            properties = dict(running.spec.properties)
            running.is_source = is_source(properties)
            make = self._source if running.is_source else self._sink
            yield await make(running, properties, stack)

    async def _source(
        self, running: _Running, properties: dict[str, str], stack: AsyncExitStack
    ) -> SourceRunner:
        task, context = running.spec.id, self._context
        settings = SourceSettings.read(properties)
        running.failed = FailedRecords(settings, task.connector)
        running.retries = Retries(settings)
        path = path_of(properties, context.worker)
        topics = TopicMaker(properties, context.clients.admin(properties), context.creates_topics)
        made = await running.thread.call(lambda: connector_of(properties).task())
        return SourceRunner(
            task.connector,
            task.number,
            made,
            path=path,
            failed=running.failed,
            offsets=context.offsets,
            producer_properties=context.clients.producer(properties),
            group_id=context.group_id,
            wrote_to=self._using(task),
            retries=running.retries,
            thread=running.thread,
            figures=running.figures,
            prepare_topic=topics.prepare,
            turns=self._turns,
            check_plan=partial(context.plans.check, running.spec),
        )

    async def _sink(
        self, running: _Running, properties: dict[str, str], stack: AsyncExitStack
    ) -> SinkRunner:
        task, context = running.spec.id, self._context
        settings = SinkSettings.read(properties)
        running.retries = Retries(settings, LONGEST_RETRY_S)
        path = path_of(properties, context.worker)
        letters = await self._letters(task, settings, properties, stack)
        divert = None if letters is None else letters.write
        running.failed = FailedRecords(settings, task.connector, divert)
        made = await running.thread.call(lambda: connector_of(properties).task())
        return SinkRunner(
            task.connector,
            task.number,
            made,
            settings=settings,
            path=path,
            failed=running.failed,
            consumer_properties=context.clients.consumer(properties),
            read_from=self._using(task),
            retries=running.retries,
            thread=running.thread,
            figures=running.figures,
            class_name=properties["connector.class"],
            turns=self._turns,
        )

    async def _letters(
        self,
        task: TaskId,
        settings: SinkSettings,
        properties: Mapping[str, str],
        stack: AsyncExitStack,
    ) -> DeadLetters | None:
        topic = settings.errors_deadletterqueue_topic_name
        if not topic:
            return None
        clients = self._context.clients
        maker = TopicMaker(properties, clients.admin(properties), True)
        await maker.create(topic, 1, settings.errors_deadletterqueue_topic_replication_factor)
        producer = await stack.enter_async_context(Producer(clients.producer(properties)))
        return DeadLetters(
            producer,
            topic,
            connector=task.connector,
            task=task.number,
            has_context=settings.errors_deadletterqueue_context_headers_enable,
        )

    def _using(self, task: TaskId) -> Callable[[str], None]:
        return lambda topic: self._listener.used_topic(task, topic)

    @asynccontextmanager
    async def runner_of(self, task: TaskSpec) -> AsyncIterator[SourceRunner | SinkRunner]:
        """Yields what would run the task, for somebody who brings the records."""
        running = _Running(task, TaskThread(str(task.id)))
        try:
            async with self._runner(running) as runner:
                try:
                    yield runner
                finally:
                    runner.close()
        finally:
            running.thread.close()
            await running.thread.ended(self._context.stop_timeout_s)

    # Tasks that hang

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(min(_LOOK_S, self._context.hang_timeout_s / 4))
            for running in list(self._running.values()):
                self._look(running)

    def _look(self, running: _Running) -> None:
        busy_s = running.thread.busy_s
        hangs = busy_s > self._context.hang_timeout_s
        stalls = hangs or busy_s > _STALL_S
        if hangs and not running.hangs:
            self._note_hanging(running)
        elif stalls and not running.stalls:
            reason = f"a call has not returned for {busy_s:.1f} s; see where in the trace"
            self._listener.stalled(running.spec.id, reason, redact(running.thread.where()))
        elif running.stalls and not stalls and running.task and not running.task.done():
            self._listener.running(running.spec.id)
        running.hangs, running.stalls = hangs, stalls

    def _note_hanging(self, running: _Running) -> None:
        task = running.spec.id
        seconds = self._context.hang_timeout_s
        reason = f"a call has not returned for {seconds:g} s; see where in the trace"
        if running.is_source and running.task is not None:
            running.task.cancel()
        self._listener.failed(task, reason, redact(running.thread.where()))
