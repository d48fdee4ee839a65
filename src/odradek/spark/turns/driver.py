"""The process that has Spark: it starts Java and runs the query of a lane.

It is not the process of the tasks' owner, so that a crash of Java ends only this process; the owner
starts another one (`driver_process`). Its order is one line on standard input, and it ends when
that input ends. It reports to the owner in lines on standard output.
"""

import json
import logging
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from odradek.spark.failures import cause
from odradek.spark.turns.messages import encoded

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery

SHARED: Final = "odradek.spark.turns.lane_source"
"""The module of the shared lane, whose query gives turns. Every lane is named by a module with a
function `writer(spark, order)`. Lanes other than this one get a Spark with all processors."""
_LOOK_AGAIN_S: Final = 0.2
# Turns need hardly any processor time, so two partitions run at once. A failed one is retried.
_MASTER: Final = "local[2,4]"
_SETTINGS: Final = {
    "spark.sql.streaming.minBatchesToRetain": "2",
    # A query without data says that it runs within a second.
    "spark.sql.streaming.noDataProgressEventInterval": "1000",
    "spark.sql.streaming.numRecentProgressUpdates": "2",
}
_OF_SHARED_LANE: Final = {
    # The heap is small because no records are in it. Java's second compiler and a parallel
    # collector cost memory and processor time that this query never earns back.
    "spark.driver.memory": "512m",
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xms96m -Xss512k",
    "spark.sql.shuffle.partitions": "1",
    "spark.python.daemon.module": "odradek.spark.turns.spark_daemon",
    "spark.cleaner.periodicGC.interval": "5min",
}


class _Channel:
    """The original standard output. After `__init__`, `print` writes to standard error."""

    def __init__(self) -> None:
        self._file: BinaryIO = os.fdopen(os.dup(1), "wb")
        os.dup2(2, 1)

    def send(self, message: Mapping[str, object]) -> None:
        try:
            self._file.write(encoded(message))
            self._file.flush()
        except OSError:
            return  # The parent has ended, and this process is about to.


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Its parent handles Ctrl-C.
    parent = os.getppid()
    channel = _Channel()
    order: dict[str, Any] = json.loads(sys.stdin.buffer.readline())
    over = _End()
    threading.Thread(target=over.wait_for, daemon=True).start()
    try:
        _run(order, channel, over)
    except Exception as error:  # noqa: BLE001 - the owner gets it
        channel.send({"failed": _reason(error)})
    if os.getppid() != parent:
        # The owner was killed, so it cannot do this.
        shutil.rmtree(order["directory"], ignore_errors=True)
    # This does not wait for the thread that reads.
    os._exit(0)


def _reason(error: Exception) -> str:
    from py4j.protocol import Py4JError, Py4JJavaError  # noqa: PLC0415 - pyspark brings it

    # An error in Java's own code is a Py4JJavaError, and does not mean that Java has ended.
    is_lost = isinstance(error, Py4JError) and not isinstance(error, Py4JJavaError)
    if is_lost or isinstance(error, ConnectionError):
        return "its Java process has ended"
    return cause(error)


class _End(threading.Event):
    """Is set when standard input has ended, so that this process must end."""

    def __init__(self) -> None:
        super().__init__()
        self.is_query_running = False

    def wait_for(self) -> None:
        while sys.stdin.buffer.readline():
            pass
        self.set()
        if not self.is_query_running:
            # The start of Java may take long, and nothing can interrupt it. Java ends with us.
            os._exit(0)


def _run(order: Mapping[str, Any], channel: _Channel, over: _End) -> None:
    from odradek.spark.spark_session import session, stop  # noqa: PLC0415 - it needs pyspark

    # When Java ends, py4j logs all calls that were under way, by the root logger.
    logging.getLogger().setLevel(logging.CRITICAL + 1)
    logging.getLogger("odradek").setLevel(logging.INFO)
    # The checkpoint is new at each start: the offsets that count are in Kafka.
    checkpoint = f"file://{order['directory']}/checkpoint/{os.getpid()}"
    local = {"spark.local.dir": order["directory"], **_SETTINGS}
    if order["lane"] == SHARED:
        given = {**local, **_OF_SHARED_LANE, **order["spark"]}
        spark = session(order["name"], master=_MASTER, config=given)
    else:
        spark = session(order["name"], config={**local, **order["spark"]})
    spark.sparkContext.setLogLevel("ERROR")
    query = (
        import_module(order["lane"])
        .writer(spark, order)
        .queryName(order["name"])
        .option("checkpointLocation", checkpoint)
        .trigger(processingTime="0 seconds")
        .start()
    )
    over.is_query_running = True
    channel.send({"running": str(query.id)})
    _follow(query, channel, over, order.get("longest_batch_s"))
    query.stop()
    stop(spark)


def _follow(
    query: "StreamingQuery",
    channel: _Channel,
    over: _End,
    longest_batch_s: float | None,
) -> None:
    """Reports each batch of the query, until this process must end. Raises the query's error."""
    reported, reported_s = -1, time.monotonic()
    while not over.wait(_LOOK_AGAIN_S):
        if not query.isActive:
            error = query.exception()
            if error is not None:
                raise error
            return
        last = query.lastProgress
        if last is not None and last["batchId"] != reported:
            reported, reported_s = last["batchId"], time.monotonic()
            channel.send({"batch": reported, "records": last["numInputRows"]})
        elif not query.status["isTriggerActive"]:
            reported_s = time.monotonic()
        elif longest_batch_s is not None and time.monotonic() > reported_s + longest_batch_s:
            raise TimeoutError(f"a batch has not ended for {longest_batch_s:.0f} s")


if __name__ == "__main__":
    main()
