"""A sink whose tasks fail at their worst moments: each task of each batch at one of them, once."""

# ruff: noqa: N802 - Spark names these
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamWriter
from pyspark.sql.types import StructType

from odradek.spark.options import SinkOptions
from odradek.spark.sink import BATCH_ID_PROPERTY, StreamSink, TaskResult
from odradek.spark.source import OdradekDataSource
from simulation.sink_steps import Step
from tests.spark.marks import Marks
from tests.spark.steps import observed

if TYPE_CHECKING:
    import pyarrow as pa


class Died(RuntimeError):
    """The task was told to die here."""


class FailingSink(StreamSink):
    def __init__(self, options: SinkOptions, schema: StructType, where: str) -> None:
        super().__init__(options, schema)
        self._where = where

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> TaskResult:
        with observed(self._reached()):
            return super().write(iterator)

    def _reached(self) -> Callable[[Step], None]:
        context = TaskContext.get()
        assert context is not None
        batch_id, partition = (
            int(context.getLocalProperty(BATCH_ID_PROPERTY) or -1),
            context.partitionId(),
        )
        steps, marks = list(Step), Marks(self._where)

        def reached(step: Step) -> None:
            # One moment for each task of each batch, another one in the next batch.
            if steps[(batch_id + partition) % len(steps)] is not step:
                return
            if marks.first(f"{step.value}-{batch_id}-{partition}"):
                raise Died(f"batch {batch_id}, task {partition}: {step.value}")

        return reached


class FailingDataSource(OdradekDataSource):
    @classmethod
    def name(cls) -> str:
        return "odradek-failing"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        options = SinkOptions.read(self.options, is_streaming=True)
        return FailingSink(options, schema, self.options["failpoints"])
