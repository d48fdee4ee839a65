"""Reads and writes by Spark, and logs in at the brokers by Kerberos.

    python -m tests.spark.kerberos_driver KEYTAB CACHE KINIT SOURCE SINK DIRECTORY SECONDS

The first three are JSON: options of the source and the sink with a keytab and with a ticket cache,
and the command that fills the cache. Says as JSON the values that a batch has read by the keytab,
and those that another one has read by the cache so many seconds after the cache was filled.
"""

import json
import subprocess
import sys
import time
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from odradek import spark as odradek_spark


def values(spark: SparkSession, options: dict[str, str], topic: str) -> list[str]:
    frame = spark.read.format("odradek").options(**options, subscribe=topic).load()
    rows: list[Any] = frame.select(f.col("value").cast("string")).collect()
    return sorted(row["value"] for row in rows)


def main() -> None:
    by_keytab, by_cache, kinit = map(json.loads, sys.argv[1:4])
    source, sink, directory, seconds = sys.argv[4:]
    config = {"spark.sql.warehouse.dir": f"{directory}/warehouse", "spark.ui.enabled": "false"}
    spark = odradek_spark.session("kerberos", master="local[2]", config=config)
    spark.sparkContext.setLogLevel("ERROR")
    first = values(spark, by_keytab, source)
    subprocess.run(kinit, check=True)
    begun_s = time.monotonic()
    (
        spark.readStream.format("odradek")
        .options(**by_cache, subscribe=source, startingOffsets="earliest")
        .load()
        .select("key", f.upper(f.col("value").cast("string")).alias("value"))
        .writeStream.format("odradek")
        .options(**by_cache, topic=sink, checkpointLocation=f"{directory}/checkpoint")
        .trigger(availableNow=True)
        .start()
        .awaitTermination()
    )
    time.sleep(max(0.0, begun_s + float(seconds) - time.monotonic()))
    again = values(spark, by_cache, sink)
    spark.stop()
    print(json.dumps([first, again]))


if __name__ == "__main__":
    main()
