"""The data source of a lane's query: its input is the list of tasks, and a batch is their turn.

Spark calls this module in its own Python processes. `LaneReader` plans a batch: it asks the owner
of the tasks which tasks there are, and divides them into partitions. The reader of a partition
gives each of its tasks a turn, over the socket of the task's process, and yields a row for each
task with the number of records. All turns of a batch run at the same time, so a batch takes as long
as one turn, however many tasks there are.

A task that does not answer delays a batch by at most `_GRACE_S`.

The offset of a batch is a JSON object: a number that rises, the tasks, and for each connector the
offsets that were stored when the batch was planned. Nothing depends on the last: a task goes on at
the offset in the topic of offsets, so a batch that Spark repeats writes nothing twice.
"""

# ruff: noqa: N802 - Spark names these methods
import os
import selectors
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming import DataStreamWriter
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit
from pyspark.sql.types import StructType

from odradek.spark.turns.messages import OWNER_SOCKET, connected, encoded, request
from odradek.spark.turns.turn_rows import Row, answered, silent

_GRACE_S: Final = 0.15
# How many tasks a partition has at most. Its reader only waits, so it can serve many. A partition
# for each task would mean a process for each, which costs memory.
_MOST_TASKS: Final = 64
_ANSWER_S: Final = 30.0
_CONNECT_S: Final = 0.05

Offset = dict[str, Any]


def writer(spark: SparkSession, order: Mapping[str, Any]) -> DataStreamWriter:
    """Returns the query that gives turns. `driver` calls it."""
    spark.dataSource.register(LaneDataSource)
    reader = spark.readStream.format(LaneDataSource.name())
    reader = reader.option("directory", order["directory"])
    rows = reader.option("turnms", str(order["turn_ms"])).load()
    return rows.writeStream.format("noop")


class LaneDataSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "odradek-turns"

    def schema(self) -> str:
        return "task string, state string, records bigint"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return LaneReader(self.options)


class LaneReader(DataSourceStreamReader):
    def __init__(self, options: Mapping[str, str]) -> None:
        self._directory = options["directory"]
        self._turn_s = int(options["turnms"]) / 1000

    def initialOffset(self) -> Offset:
        return {"batch": 0, "tasks": {}, "offsets": {}}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadAllAvailable()

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        """Waits for a while if there are no tasks. Returns `start` if there are still none."""
        owner = os.path.join(self._directory, OWNER_SOCKET)
        found = request(owner, {"tasks": True}, _ANSWER_S)
        if not found["tasks"]:
            return start
        return {"batch": start["batch"] + 1, **found}

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        tasks = sorted(end["tasks"].items())
        count = -(-len(tasks) // _MOST_TASKS)
        return [InputPartition(tasks[index::count]) for index in range(count)]

    def read(self, partition: InputPartition) -> Iterator[Row]:
        yield from turn(self._directory, dict(partition.value), self._turn_s)

    def commit(self, end: Offset) -> None:
        """Does nothing: a task commits its offsets itself, with its records."""

    def stop(self) -> None:
        """Does nothing."""


def turn(directory: str, tasks: Mapping[str, str], turn_s: float) -> Iterator[Row]:
    """Gives all tasks a turn at the same time, and yields what each has done. `tasks` has the name
    of the socket of each task."""
    deadline_s = time.monotonic() + turn_s + _GRACE_S
    with selectors.DefaultSelector() as selector:
        waiting = {}
        for task, key in tasks.items():
            connection = _begun(os.path.join(directory, key), turn_s)
            if connection is None:
                yield silent(task)
                continue
            waiting[task] = connection
            selector.register(connection, selectors.EVENT_READ, task)
        while waiting and (left_s := deadline_s - time.monotonic()) > 0:
            for found, _ in selector.select(left_s):
                connection = waiting.pop(found.data)
                selector.unregister(connection)
                yield answered(found.data, connection)
        for task, connection in waiting.items():
            connection.close()
            yield silent(task)


def _begun(path: str, turn_s: float) -> socket.socket | None:
    """Returns a connection to a task that has been given a turn; None if it takes none."""
    try:
        connection = connected(path, _CONNECT_S)
    except OSError:
        return None
    try:
        connection.sendall(encoded({"turn_ms": int(turn_s * 1000)}))
    except OSError:
        connection.close()
        return None
    return connection
