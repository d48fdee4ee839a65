"""The action of `odradek pipeline run`: runs Spark in this process until the queries end or a
signal comes."""

import argparse
import logging
import os
import signal
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from types import FrameType
from typing import TYPE_CHECKING, Final

from odradek.spark.failures import cause
from odradek.spark.halt import HALT_FILE
from odradek.spark.pipelines.state import (
    FAILED,
    STOPPED,
    AlreadyRunning,
    PipelineDirectory,
    PipelineState,
)
from odradek.spark.preflight import check_directory
from odradek.spark.prerequisites import require_spark
from odradek.spark.spark_settings import check_common_spelling, check_master
from odradek.tools.failures import CommandFailed
from odradek.tools.terminal import print_json
from odradek.world import SystemClock
from odradek.world.disk import OsDisk

if TYPE_CHECKING:
    from odradek.spark.pipelines.loading import Pipeline

_INTERRUPTED: Final = 130


def run_pipeline(arguments: argparse.Namespace) -> int:
    require_spark()
    from odradek.spark.pipelines.loading import load
    from odradek.spark.pipelines.spec import BadPipeline

    clock = SystemClock()
    check_directory("--data", arguments.data, must_exist=False)
    check_master(arguments.master)
    check_common_spelling(dict(arguments.spark_property))
    try:
        pipeline = load(arguments.subject, arguments.name)
        directory = PipelineDirectory(OsDisk(), arguments.data, pipeline.name)
        lock = directory.claim()
    except (BadPipeline, AlreadyRunning) as error:
        raise CommandFailed(str(error)) from None
    state = PipelineState(pipeline.name, pipeline.file, os.getpid(), clock.now_ms())
    # Counters belong to the checkpoint, so they continue from the earlier run.
    before = directory.read()
    if before is not None:
        state.queries = before.queries
    # A pipeline that is refused before its first run leaves no state: `list` does not show it.
    has_run = before is not None
    try:
        pipeline.check(directory.has_checkpoint(pipeline.name))
        directory.write(state)
        has_run = True
        return _run(arguments, pipeline, directory, state)
    except BadPipeline as error:
        reason = f"{arguments.subject}: {error}"
        if has_run:
            _note_failure(directory, state, reason)
        raise CommandFailed(reason) from error
    except KeyboardInterrupt:
        from odradek.spark.java_process import output

        output.mute()
        state.status = STOPPED
        if has_run:
            directory.write(state)
        _announce(arguments)(f"{pipeline.name}  stopped before it had begun")
        return _INTERRUPTED
    except Exception as error:
        if has_run:
            _note_failure(directory, state, cause(error))
        raise
    finally:
        directory.take_back_halt()
        lock.release()


def _note_failure(directory: PipelineDirectory, state: PipelineState, reason: str) -> None:
    """Notes for `status` why the pipeline has failed."""
    state.status, state.error = FAILED, reason
    directory.write(state)


def _run(
    arguments: argparse.Namespace,
    pipeline: "Pipeline",
    directory: PipelineDirectory,
    state: PipelineState,
) -> int:
    from py4j.protocol import Py4JNetworkError

    from odradek.spark.pipelines.running import Runner
    from odradek.spark.spark_session import session, stop

    # Set before Java starts, because Java's child processes inherit the environment.
    os.environ[HALT_FILE] = directory.halt_path
    # Lets the workers import modules from the pipeline file's directory.
    beside = [os.path.dirname(pipeline.file), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(entry for entry in beside if entry)
    say = _announce(arguments)
    say(f"{pipeline.name}  starting; checkpoint in {directory.checkpoint}")
    runner = Runner(
        pipeline,
        directory,
        state,
        clock=SystemClock(),
        say=say,
        max_restarts=max_restarts(arguments),
        available_now=arguments.once,
    )

    def interrupt(_: int, __: FrameType | None) -> None:
        runner.stop.set()

    early: list[int] = []

    def interrupt_early(number: int, _: FrameType | None) -> None:
        early.append(number)
        # py4j logs the call that is interrupted, with a traceback.
        logging.disable()
        raise KeyboardInterrupt

    # Until queries run, there is nothing to finish.
    signal.signal(signal.SIGTERM, interrupt_early)
    try:
        spark = session(
            pipeline.name,
            master=arguments.master,
            config={**pipeline.spark, **dict(arguments.spark_property)},
        )
    except Exception:
        if early:
            # py4j makes an error of its own of the interruption.
            raise KeyboardInterrupt from None
        raise
    finally:
        if early:
            logging.disable(logging.NOTSET)
    spark.sparkContext.setLogLevel("OFF")
    # Replaces Spark's own handler for Ctrl-C, which would cancel the batch.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, interrupt)
    try:
        well = runner.run(spark)
        stop(spark)
    except (Py4JNetworkError, ConnectionError):
        raise CommandFailed(
            "Spark's Java process has ended (its memory is spark.driver.memory); run the pipeline"
            " again, and it goes on from its checkpoint"
        ) from None
    say(f"{pipeline.name}  {state.status}")
    return 0 if well else 1


def max_restarts(arguments: argparse.Namespace) -> int | None:
    """A run that ends by itself gives up at the first failure: whoever started it does so again."""
    if arguments.max_restarts is None and arguments.once:
        return 0
    return arguments.max_restarts  # type: ignore[no-any-return]


def _announce(arguments: argparse.Namespace) -> Callable[[str], None]:
    return _say_json if arguments.json else _say


def _say(line: str) -> None:
    print(f"{datetime.now(UTC):%H:%M:%S}  {line}", flush=True)


def _say_json(line: str) -> None:
    print_json({"time": datetime.now(UTC).isoformat(), "line": line})
    sys.stdout.flush()
