"""The actions of `odradek pipeline list|status|stop`: they read state files and send a signal, and
do not need Spark."""

import argparse
import os
import signal
from dataclasses import asdict
from time import sleep

from odradek.config.spelling import did_you_mean
from odradek.spark.pipelines.state import (
    DIED,
    FAILED,
    PipelineDirectory,
    PipelineState,
    pipelines_in,
)
from odradek.tools.failures import CommandFailed
from odradek.tools.terminal import print_json, table
from odradek.world import SystemClock
from odradek.world.disk import OsDisk

_STOP_TIMEOUT_S = 90.0
_LOOK_AGAIN_S = 0.05
_NOT_RUNNING = 3


def show_all(arguments: argparse.Namespace) -> int:
    pipelines = [
        (directory, state)
        for directory in pipelines_in(OsDisk(), arguments.data)
        if (state := directory.read()) is not None
    ]
    if arguments.json:
        print_json([asdict(state) for _, state in pipelines])
        return 0
    if not pipelines:
        print(f"No pipeline has run in {arguments.data}.")
        return 0
    rows = [_row(directory, state) for directory, state in pipelines]
    print(table(["PIPELINE", "STATE", "PROCESS", "RECORDS", "WAITING", "FILE"], rows))
    return 0


def _row(directory: PipelineDirectory, state: PipelineState) -> list[str]:
    queries = state.queries.values()
    return [
        state.name,
        state.status,
        str(state.pid) if directory.is_running() else "",
        f"{sum(query.records for query in queries):,}",
        f"{sum(query.lag for query in queries):,}",
        state.file,
    ]


def _require_pipeline(arguments: argparse.Namespace) -> tuple[PipelineDirectory, PipelineState]:
    directory = PipelineDirectory(OsDisk(), arguments.data, arguments.subject)
    state = directory.read()
    if state is None:
        names = [directory.name for directory in pipelines_in(OsDisk(), arguments.data)]
        near = did_you_mean(arguments.subject, names)
        raise CommandFailed(
            f"no pipeline {arguments.subject} has run in {arguments.data}"
            f"{near or '; odradek pipeline list shows all'}"
        )
    return directory, state


def status(arguments: argparse.Namespace) -> int:
    directory, state = _require_pipeline(arguments)
    running = directory.is_running()
    code = 0 if running or state.status == "finished" else _NOT_RUNNING
    if state.status in {FAILED, DIED}:
        code = 1
    if arguments.json:
        print_json({**asdict(state), "running": running, "checkpoint": directory.checkpoint})
        return code
    print(f"{state.name}: {state.status}" + (f" (process {state.pid})" if running else ""))
    if state.error:
        print(f"last failure: {state.error}")
    rows = [
        [
            name,
            str(query.batch_id),
            f"{query.records:,}",
            f"{query.lag:,}",
            f"{query.batch_duration_s:.2f} s",
            str(query.restarts),
        ]
        for name, query in state.queries.items()
    ]
    if rows:
        print(table(["QUERY", "BATCH", "RECORDS", "WAITING", "LAST BATCH", "RESTARTS"], rows))
    print(f"checkpoint: {directory.checkpoint}")
    return code


def stop(arguments: argparse.Namespace) -> int:
    directory, state = _require_pipeline(arguments)
    if not directory.is_running():
        raise CommandFailed(f"pipeline {state.name} does not run: it has {state.status}")
    # The lock is held, so the process that took it and wrote this pid is running.
    os.kill(state.pid, signal.SIGTERM)
    clock = SystemClock()
    end_s = clock.monotonic_s() + _STOP_TIMEOUT_S
    while directory.is_running():
        if clock.monotonic_s() > end_s:
            raise CommandFailed(
                f"process {state.pid} does not stop; end it with kill -9 {state.pid}:"
                " its checkpoint can bear it"
            )
        sleep(_LOOK_AGAIN_S)
    if arguments.json:
        print_json({"stopped": state.name})
    else:
        print(f"pipeline {state.name} has stopped; odradek pipeline run goes on where it was")
    return 0
