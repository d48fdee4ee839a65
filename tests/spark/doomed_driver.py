"""The driver of a query that copies a topic through a sink that fails; started to be killed.

    python -m tests.spark.doomed_driver BOOTSTRAP SOURCE SINK DIRECTORY BATCH_OFFSETS

Two executors in processes of their own, speculation on: the same task runs twice at a time. It ends
with 0 when everything that was in the source at its start is written.
"""

import os
import sys
from pathlib import Path

from odradek import spark as odradek_spark
from tests.spark.failing_sink import FailingDataSource


def main() -> None:
    bootstrap, source, sink, directory, batch_offsets = sys.argv[1:]
    os.environ["PYTHONPATH"] = str(Path(__file__).parents[2])
    session = odradek_spark.session(
        "doomed",
        master="local-cluster[2,1,1024]",
        config={
            "spark.local.dir": f"{directory}/local",
            "spark.sql.warehouse.dir": f"{directory}/warehouse",
            "spark.executor.memory": "1g",
            "spark.executorEnv.PYTHONPATH": os.environ["PYTHONPATH"],
            "spark.speculation": "true",
            "spark.speculation.interval": "100ms",
            "spark.speculation.multiplier": "1.1",
            "spark.speculation.quantile": "0.5",
            "spark.speculation.minTaskRuntime": "500ms",
            "spark.task.maxFailures": "20",
            "spark.worker.cleanup.enabled": "true",
        },
    )
    session.sparkContext.setLogLevel("OFF")
    session.dataSource.register(FailingDataSource)
    java = session.sparkContext._jvm
    assert java is not None
    pid = java.java.lang.ProcessHandle.current().pid()
    stream = (
        session.readStream.format("odradek")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", batch_offsets)
        .option("minPartitions", "4")
        .load()
    )
    query = (
        stream.selectExpr("key", "concat('done ', cast(value as string)) as value")
        .writeStream.format("odradek-failing")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", sink)
        .option("checkpointLocation", f"{directory}/checkpoint")
        .option("failpoints", f"{directory}/hit")
        .option("hard", "true")
        .option("straggles", "true")
        .option("javapid", str(pid))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    session.stop()


if __name__ == "__main__":
    main()
