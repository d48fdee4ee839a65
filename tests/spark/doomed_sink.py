"""A sink with a fate: who dies when is decided by a seed, and everything that happens is marked.

Four batches of four tasks, over three runs of a driver:

    batch 0   three tasks die without a word: one when it is initialised, one before its commit,
              one after it. The fourth waits before its commit until a second attempt has begun
              beside it (Spark's speculation), and commits then: it must be fenced
    batch 1   the driver dies when all tasks are done and the commit log does not say so
    batch 2   the driver dies while a task stands at one of the three steps; the task goes on
    batch 3   a broker dies while a task is about to commit; the task commits then

`tests.scenarios.spark_exactly_once` does the killing of drivers and brokers, and reads the marks.
"""

# ruff: noqa: N802, N803 - Spark names these
import os
import random
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from odradek.client.errors import ClientError
from odradek.protocol.errors import KafkaError
from odradek.spark.options import SinkOptions
from odradek.spark.sink import BATCH_ID_PROPERTY, StreamSink, TaskResult
from odradek.spark.source import OdradekDataSource
from simulation.sink_steps import Step
from tests.spark.marks import Marks
from tests.spark.steps import observed

if TYPE_CHECKING:
    import pyarrow as pa

TASKS = 4
BATCHES = 4
# The slow attempt could not commit, because another one had begun.
BEATEN = "beaten"
_PATIENCE_S = 120.0


class Fate(NamedTuple):
    """By task number, but for `driver_dies_at` and `broker`."""

    dies_at: dict[int, Step]
    is_slow: int
    driver_dies_in: int
    driver_dies_at: Step
    broker_dies_in: int
    broker: int

    @classmethod
    def of(cls, seed: int) -> "Fate":
        chance = random.Random(seed)
        slow, *others = chance.sample(range(TASKS), TASKS)
        return cls(
            dies_at=dict(zip(others, Step, strict=True)),
            is_slow=slow,
            driver_dies_in=chance.randrange(TASKS),
            driver_dies_at=chance.choice(list(Step)),
            broker_dies_in=chance.randrange(TASKS),
            broker=chance.randint(1, 3),
        )


class DoomedSink(StreamSink):
    def __init__(
        self, options: SinkOptions, schema: StructType, where: str, seed: int, life: int
    ) -> None:
        super().__init__(options, schema)
        self._where = where
        self._fate = Fate.of(seed)
        self._life = life
        self._task = ""
        self._is_raced = False

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> TaskResult:
        marks = Marks(self._where)
        try:
            with observed(self._reached()):
                written = super().write(iterator)
        except (ClientError, KafkaError) as error:
            if self._is_raced:
                marks.first(f"beaten-{type(error).__name__}")
                marks.first(BEATEN)
            raise
        if self._task.startswith(f"2-{self._fate.driver_dies_in}-"):
            # A second attempt must not end the batch before the driver has died in it.
            marks.wait("driver", _PATIENCE_S)
        marks.first(f"{'skipped' if written.was_done_before else 'wrote'}-{self._task}")
        return written

    def _reached(self) -> Callable[[Step], None]:
        context = TaskContext.get()
        assert context is not None
        batch_id, partition = (
            int(context.getLocalProperty(BATCH_ID_PROPERTY) or -1),
            context.partitionId(),
        )
        marks, fate = Marks(self._where), self._fate
        self._task = task = f"{batch_id}-{partition}-{self._life}-{context.attemptNumber()}"
        marks.first(f"began-{task}")

        def reached(step: Step) -> None:
            if batch_id == 0:
                self._die_or_race(partition, step, marks)
            elif (batch_id, partition, step) == (2, fate.driver_dies_in, fate.driver_dies_at):
                if marks.first("midway"):
                    marks.wait("driver", _PATIENCE_S)
            elif (
                (batch_id, partition, step) == (3, fate.broker_dies_in, Step.WRITTEN)
            ) and marks.first("endangered"):
                marks.wait("broker", _PATIENCE_S)

        return reached

    def _die_or_race(self, partition: int, step: Step, marks: Marks) -> None:
        if self._fate.dies_at.get(partition) is step and marks.first(step.value):
            os._exit(9)
        if partition == self._fate.is_slow:
            self._race(step, marks)

    def _race(self, step: Step, marks: Marks) -> None:
        """Two attempts at a time, in the order that is the worst for the first."""
        if step is Step.INITIALISED and marks.has("slow"):
            marks.first("rival")
        elif step is Step.WRITTEN and marks.first("slow"):
            self._is_raced = True
            marks.wait("rival", _PATIENCE_S)
        elif step is Step.WRITTEN and marks.first("rival-wrote"):
            marks.wait(BEATEN, _PATIENCE_S)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Runs at the driver when all tasks are done, before the commit log says so."""
        super().commit(messages, batchId)
        marks = Marks(self._where)
        if batchId == 1 and marks.first("uncommitted"):
            # Until the driver is killed, and this process with it.
            marks.wait("never", _PATIENCE_S)


class DoomedDataSource(OdradekDataSource):
    @classmethod
    def name(cls) -> str:
        return "odradek-doomed"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        options = SinkOptions.read(self.options, is_streaming=True)
        fate = self.options["marks"], int(self.options["seed"]), int(self.options["life"])
        return DoomedSink(options, schema, *fate)
