"""A sink whose tasks die at their worst moments: each task of each batch at one of them, once.

What has been hit stands in a directory as files, made exclusively, so that whatever is tried again
goes on. `hard` deaths are without a word, as of a machine that loses power. A driver dies between
its tasks and its commit log if it gave the id of its Java process.
"""

# ruff: noqa: N802, N803 - Spark names these
import os
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from pyspark.sql.datasource import DataSourceStreamWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from odradek.spark.exactly_once import Step
from odradek.spark.options import SinkOptions
from odradek.spark.sink import StreamSink
from odradek.spark.source import OdradekDataSource

_STRAGGLE_S = 4.0
_DRIVER_DIES_IN_BATCH = 1


class Died(RuntimeError):
    """The task was told to die here."""


class Marks:
    """What has been hit, across processes."""

    def __init__(self, where: str) -> None:
        self._where = Path(where)
        self._where.mkdir(parents=True, exist_ok=True)

    def first(self, name: str) -> bool:
        """Whether this is the first time; from now on it is not."""
        try:
            (self._where / name).touch(exist_ok=False)
        except FileExistsError:
            return False
        return True

    def kinds(self) -> set[str]:
        return {path.name.partition("-")[0] for path in self._where.iterdir()}


class FailingSink(StreamSink):
    def __init__(
        self, options: SinkOptions, schema: StructType, failures: Mapping[str, str]
    ) -> None:
        super().__init__(options, schema)
        self._where = failures["failpoints"]
        self._hard = failures.get("hard") == "true"
        self._straggles = failures.get("straggles") == "true"
        self._java_pid = int(failures.get("javapid", 0))

    def _reached(self, batch_id: int, partition: int) -> Callable[[Step], None]:
        steps, marks = list(Step), Marks(self._where)

        def reached(step: Step) -> None:
            if step is Step.WRITTEN and partition == 0 and self._straggles:
                if marks.first(f"straggled-{batch_id}-{partition}"):
                    # Long enough for Spark to start another attempt beside this one.
                    time.sleep(_STRAGGLE_S)
                return
            # One moment for each task of each batch, another one in the next batch.
            if steps[(batch_id + partition) % len(steps)] is not step:
                return
            if not marks.first(f"{step.value}-{batch_id}-{partition}"):
                return
            if self._hard:
                os._exit(9)
            raise Died(f"batch {batch_id}, task {partition}: {step.value}")

        return reached

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Runs at the driver when all tasks are done, before the commit log says so."""
        if (
            self._java_pid
            and batchId == _DRIVER_DIES_IN_BATCH
            and Marks(self._where).first(f"uncommitted-{batchId}")
        ):
            os.kill(self._java_pid, signal.SIGKILL)


class FailingDataSource(OdradekDataSource):
    @classmethod
    def name(cls) -> str:
        return "odradek-failing"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        names = ("failpoints", "hard", "straggles", "javapid")
        failures = {name: self.options[name] for name in names if name in self.options}
        options = SinkOptions.read(self.options, is_streaming=True)
        return FailingSink(options, schema, failures)
