"""A program on a Spark cluster: a topic read in a batch, and copied by a stream, exactly once.

    python -m tests.spark.standalone_driver MASTER BOOTSTRAP SOURCE SINK DIRECTORY

Says as JSON what the batch read: each value, and which worker's process read it.
"""

import json
import os
import sys

from pyspark.sql import functions as f
from pyspark.sql.types import StringType

from odradek import spark as odradek_spark
from tests.spark.standalone import SETTINGS


def _process() -> str:
    """Each executor has a directory of its own."""
    return os.getcwd()


def main() -> None:
    master, bootstrap, source, sink, directory = sys.argv[1:]
    settings = {**SETTINGS, "spark.sql.warehouse.dir": f"{directory}/warehouse"}
    spark = odradek_spark.session("standalone", master=master, config=settings)
    spark.sparkContext.setLogLevel("ERROR")
    process = f.udf(_process, StringType())
    servers = {"kafka.bootstrap.servers": bootstrap}
    rows = (
        spark.read.format("odradek")
        .options(**servers, subscribe=source, minPartitions="4")
        .load()
        .select(f.col("value").cast("string"), process().alias("process"))
        .collect()
    )
    (
        spark.readStream.format("odradek")
        .options(**servers, subscribe=source, startingOffsets="earliest", minPartitions="4")
        .load()
        .select("key", f.upper(f.col("value").cast("string")).alias("value"))
        .writeStream.format("odradek")
        .options(**servers, topic=sink, checkpointLocation=f"{directory}/checkpoint")
        .trigger(availableNow=True)
        .start()
        .awaitTermination()
    )
    spark.stop()
    print(json.dumps([[row["value"], row["process"]] for row in rows]))


if __name__ == "__main__":
    main()
