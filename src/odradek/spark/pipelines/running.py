"""Runs a pipeline's queries: starts them, restarts them after failures, and stops them cleanly.

A query that fails is started again from its checkpoint, after a delay that doubles. To end, the
pipeline asks its sources for no more records (`halt.py`), waits until the batch that runs is done
and its queries are idle, and stops them then: no batch is interrupted, so none has to be replayed.

Place: everything runs in the main thread. Signal handlers only set a flag.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from odradek.spark.failures import cause, is_permanent
from odradek.spark.java_process import output
from odradek.spark.pipelines import progress_lines
from odradek.spark.pipelines.backoff import Backoff
from odradek.spark.pipelines.loading import Pipeline
from odradek.spark.pipelines.state import (
    FAILED,
    FINISHED,
    RUNNING,
    STOPPED,
    STOPPING,
    WAITING,
    PipelineDirectory,
    PipelineState,
    QueryState,
)
from odradek.world.clock import Clock

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

_LOOK_AGAIN_S: Final = 0.2
_GRACE_S: Final = 60.0
# Between two triggers a query looks idle for a moment, so it must be idle twice in a row.
_IDLE_LOOKS: Final = 2
Say = Callable[[str], None]


@dataclass(slots=True)
class _Running:
    """One query: how to start it, and its current state."""

    name: str
    writer: "DataStreamWriter"
    backoff: Backoff
    state: QueryState
    query: "StreamingQuery | None" = None
    shown_batch: int = -1
    last_timestamp: str = ""
    restart_at_s: float | None = None
    is_over: bool = False
    has_failed: bool = False


class Runner:
    """Runs one pipeline to its end, or until `stop` is set."""

    def __init__(
        self,
        pipeline: Pipeline,
        directory: PipelineDirectory,
        state: PipelineState,
        *,
        clock: Clock,
        say: Say,
        max_restarts: int | None = None,
        available_now: bool = False,
    ) -> None:
        self._pipeline = pipeline
        self._directory = directory
        self._state = state
        self._clock = clock
        self._say = say
        self._max_restarts = max_restarts
        self._available_now = available_now
        self._queries: list[_Running] = []
        self.stop = threading.Event()

    def run(self, session: "SparkSession") -> bool:
        """Returns True if all queries ended well or were stopped, False if one was given up."""
        for name, writer in self._pipeline.build(session).items():
            if self._available_now:
                writer = writer.trigger(availableNow=True)  # noqa: PLW2901 - the same, set up
            state = self._state.queries.setdefault(name, QueryState())
            # Spark puts a query's checkpoint below this directory, under its name, unless it sets
            # its own.
            backoff = Backoff(max_failures=self._max_restarts)
            self._queries.append(_Running(name, writer.queryName(name), backoff, state))
        session.conf.set("spark.sql.streaming.checkpointLocation", self._directory.checkpoint)
        self._set_status(RUNNING)
        for query in self._queries:
            self._warn_of_lost_checkpoint(query)
            self._start(query)
        while not self.stop.wait(_LOOK_AGAIN_S):
            for query in self._queries:
                self._look(query)
            if all(query.is_over for query in self._queries):
                return self._end()
        return self._halt()

    def _start(self, running: _Running) -> None:
        running.restart_at_s = None
        running.shown_batch, running.last_timestamp = -1, ""
        try:
            running.query = running.writer.start()
        except (PySparkException, Py4JJavaError) as error:
            self._failed(running, error)

    def _warn_of_lost_checkpoint(self, running: _Running) -> None:
        """Warns if the query has run before, but its checkpoint is gone: it starts from nothing,
        and may write again what it has written, or skip records."""
        if running.state.has_checkpoint and not self._directory.has_checkpoint(running.name):
            self._say(
                f"{running.name}  warning: it has run up to batch {running.state.batch_id}, but its"
                f" checkpoint in {self._directory.checkpoint} is gone; it starts again at its"
                " startingOffsets"
            )

    def _look(self, running: _Running) -> None:
        """Prints the progress of a query, and handles its end."""
        if running.is_over:
            return
        if running.query is None:
            assert running.restart_at_s is not None
            if self._clock.monotonic_s() >= running.restart_at_s:
                running.state.restarts += 1
                self._set_status(RUNNING)
                self._start(running)
            return
        self._show(running, running.query)
        if running.query.isActive:
            return
        error = running.query.exception()
        self._show(running, running.query)
        if error is None:
            running.is_over = True
            return
        self._failed(running, error)

    def _failed(self, running: _Running, error: object) -> None:
        why = cause(error)
        running.query = None
        self._state.error = why if len(self._queries) == 1 else f"{running.name}: {why}"
        delay_s = None if is_permanent(error) else running.backoff.next_delay_s()
        if delay_s is None:
            running.is_over = running.has_failed = True
            self._say(f"{running.name}  failed for good: {why}")
            self._write()
            return
        running.restart_at_s = self._clock.monotonic_s() + delay_s
        self._say(f"{running.name}  failed: {why}; starting again in {delay_s:.0f} s")
        self._set_status(WAITING)

    def _show(self, running: _Running, query: "StreamingQuery") -> None:
        """Prints a line for each batch with records since the last call."""
        last = query.lastProgress
        if last is None or last["timestamp"] == running.last_timestamp:
            # `recentProgress` transfers all recent batches from Java as JSON: too costly five times
            # a second.
            return
        running.last_timestamp = last["timestamp"]
        fresh = [
            progress
            for progress in query.recentProgress
            if progress["batchId"] > running.shown_batch
        ]
        changed = False
        for progress in fresh:
            done = progress_lines.batch_done(progress)
            if not _has_run(progress):
                continue
            running.shown_batch = done.batch_id
            running.backoff.succeeded()
            state = running.state
            state.batch_id, state.lag = done.batch_id, done.lag
            state.records += done.records
            state.batches += 1
            state.batch_duration_s = done.duration_s
            state.last_batch_ms = self._clock.now_ms()
            state.has_checkpoint = self._directory.has_checkpoint(running.name)
            changed = True
            if done.records:
                self._say(progress_lines.line(running.name, done))
        if changed:
            self._write()

    # Stopping

    def _halt(self) -> bool:
        """Waits until the running batches are done, then stops the queries."""
        self._say("stopping: the batch that runs is finished first")
        self._directory.ask_to_halt()
        self._set_status(STOPPING)
        # The Python processes of the sources complain when their query is stopped.
        output.mute()
        end_s = self._clock.monotonic_s() + _GRACE_S
        for query in self._queries:
            if query.query is None:
                continue
            idle_looks = 0
            while query.query.isActive and idle_looks < _IDLE_LOOKS:
                if self._clock.monotonic_s() > end_s:
                    self._say(
                        f"{query.name}  did not come to rest in {_GRACE_S:.0f} s: stopped as is"
                    )
                    break
                idle = not query.query.status["isTriggerActive"]
                idle_looks = idle_looks + 1 if idle else 0
                threading.Event().wait(_LOOK_AGAIN_S)
            self._show(query, query.query)
            query.query.stop()
        self._set_status(STOPPED)
        return True

    def _end(self) -> bool:
        well = not any(query.has_failed for query in self._queries)
        self._set_status(FINISHED if well else FAILED)
        return well

    def _set_status(self, status: str) -> None:
        self._state.status = status
        self._write()

    def _write(self) -> None:
        self._directory.write(self._state)
        figures = {
            name: {
                "records_total": float(query.records),
                "batches_total": float(query.batches),
                "restarts_total": float(query.restarts),
                "lag_records": float(query.lag),
                "batch_duration_seconds": query.batch_duration_s,
                "last_batch_timestamp_seconds": query.last_batch_ms / 1000,
            }
            for name, query in self._state.queries.items()
        }
        self._directory.write_metrics(progress_lines.prometheus(self._state.name, figures))


def _has_run(progress: Any) -> bool:
    """Returns whether a trigger ran a batch. Spark also reports triggers that found no data."""
    return "addBatch" in progress["durationMs"]
