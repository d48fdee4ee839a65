"""The action of `odradek pipeline run`: runs Spark in this process until the queries end or a
signal comes."""

import argparse
import os
import signal
import sys
from datetime import UTC, datetime
from types import FrameType
from typing import TYPE_CHECKING

from odradek.spark.halt import HALT_FILE
from odradek.spark.pipelines.state import FAILED, AlreadyRunning, PipelineDirectory, PipelineState
from odradek.spark.prerequisites import require_spark
from odradek.tools.failures import CommandFailed
from odradek.tools.terminal import print_json
from odradek.world import SystemClock
from odradek.world.disk import OsDisk

if TYPE_CHECKING:
    from odradek.spark.pipelines.loading import Pipeline


def run_pipeline(arguments: argparse.Namespace) -> int:
    require_spark()
    from odradek.spark.pipelines.loading import load
    from odradek.spark.pipelines.spec import BadPipeline

    clock = SystemClock()
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
    directory.write(state)
    try:
        return _run(arguments, pipeline, directory, state)
    except BadPipeline as error:
        state.status, state.error = FAILED, str(error)
        directory.write(state)
        raise CommandFailed(str(error)) from None
    except BaseException as error:
        state.status, state.error = FAILED, str(error).strip().partition("\n")[0]
        directory.write(state)
        raise
    finally:
        directory.take_back_halt()
        lock.release()


def _run(
    arguments: argparse.Namespace,
    pipeline: "Pipeline",
    directory: PipelineDirectory,
    state: PipelineState,
) -> int:
    from py4j.protocol import Py4JNetworkError

    from odradek.spark.pipelines.running import Runner
    from odradek.spark.spark_session import session

    # Set before Java starts, because Java's child processes inherit the environment.
    os.environ[HALT_FILE] = directory.halt_path
    # Lets the workers import modules from the pipeline file's directory.
    beside = [os.path.dirname(pipeline.file), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(entry for entry in beside if entry)
    say = _say_json if arguments.json else _say
    say(f"{pipeline.name}  starting; checkpoint in {directory.checkpoint}")
    runner = Runner(
        pipeline,
        directory,
        state,
        clock=SystemClock(),
        say=say,
        max_restarts=arguments.max_restarts,
        available_now=arguments.once,
    )

    def interrupt(_: int, __: FrameType | None) -> None:
        runner.stop.set()

    spark = session(
        pipeline.name,
        master=arguments.master,
        config={**pipeline.spark, **dict(arguments.spark_property)},
    )
    spark.sparkContext.setLogLevel("OFF")
    # Replaces Spark's own handler for Ctrl-C, which would cancel the batch.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, interrupt)
    try:
        well = runner.run(spark)
        spark.stop()
    except (Py4JNetworkError, ConnectionError):
        raise CommandFailed(
            "Spark's Java process has ended (its memory is spark.driver.memory); run the pipeline"
            " again, and it goes on from its checkpoint"
        ) from None
    say(f"{pipeline.name}  {state.status}")
    return 0 if well else 1


def _say(line: str) -> None:
    print(f"{datetime.now(UTC):%H:%M:%S}  {line}", flush=True)


def _say_json(line: str) -> None:
    print_json({"time": datetime.now(UTC).isoformat(), "line": line})
    sys.stdout.flush()
