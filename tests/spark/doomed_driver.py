"""The driver of a query that copies a topic through a sink that fails; started to be killed.

    python -m tests.spark.doomed_driver MASTER BOOTSTRAP SOURCE SINK DIRECTORY OFFSETS SEED LIFE

Speculation is on: the same task runs twice at a time. It ends with 0 when everything that was in
the source at its start is written.
"""

import sys

from odradek import spark as odradek_spark
from tests.spark.doomed_sink import TASKS, DoomedDataSource
from tests.spark.standalone import SETTINGS


def main() -> None:
    master, bootstrap, source, sink, directory, batch_offsets, seed, life = sys.argv[1:]
    session = odradek_spark.session(
        "doomed",
        master=master,
        config={
            **SETTINGS,
            "spark.local.dir": f"{directory}/local",
            "spark.sql.warehouse.dir": f"{directory}/warehouse",
            "spark.speculation": "true",
            "spark.speculation.interval": "100ms",
            "spark.speculation.multiplier": "1.1",
            "spark.speculation.quantile": "0.5",
            "spark.speculation.minTaskRuntime": "500ms",
            "spark.speculation.efficiency.enabled": "false",
            "spark.task.maxFailures": "20",
        },
    )
    session.sparkContext.setLogLevel("ERROR")
    session.dataSource.register(DoomedDataSource)
    servers = {"kafka.bootstrap.servers": bootstrap}
    stream = (
        session.readStream.format("odradek")
        .options(**servers, subscribe=source, startingOffsets="earliest")
        .option("maxOffsetsPerTrigger", batch_offsets)
        .option("minPartitions", str(TASKS))
        .load()
    )
    query = (
        stream.selectExpr("key", "concat('done ', cast(value as string)) as value")
        .writeStream.format("odradek-doomed")
        .options(**servers, topic=sink)
        .options(marks=f"{directory}/marks", seed=seed, life=life)
        .option("checkpointLocation", f"{directory}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    session.stop()


if __name__ == "__main__":
    main()
