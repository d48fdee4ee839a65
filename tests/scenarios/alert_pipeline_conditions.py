"""A pipeline of Spark that causes alerts. As with the other conditions, the beginning of a context
manager brings it into the condition, and its end takes it out again."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from odradek.spark.prerequisites import require_spark
from tests.deploy.prometheus import scrape_job, textfile_collector
from tests.scenarios.alert_cluster import AlertCluster, until
from tests.scenarios.alert_load import append
from tests.scenarios.up_process import COMMAND

_ORDERS: Final = """
import time
from pathlib import Path

DIRECTORY = Path("{directory}")

def pipeline(spark):
    orders = spark.readStream.format("odradek").options(
        **{{"kafka.bootstrap.servers": "{servers}", "subscribe": "orders"}},
        startingOffsets="earliest", maxOffsetsPerTrigger="1",
    )
    return orders.load().writeStream.foreachBatch(take)

def take(rows, number):
    rows.collect()
    has_failed = DIRECTORY / f"failed-{{number}}"
    if number % 2 and number < 13 and not has_failed.exists():
        has_failed.touch()
        raise RuntimeError("the shop does not answer")
    while number == 13 and not (DIRECTORY / "mended").exists():
        time.sleep(0.1)
"""
"""Six times a batch fails, and goes well when it is tried again, so that the query is always
started again after a second. Then one hangs. The batch before that one did not fail, because Spark
does not say how many records wait after a batch that was tried again."""


@asynccontextmanager
async def a_pipeline_that_fails_and_hangs(cluster: AlertCluster) -> AsyncIterator[None]:
    require_spark()
    await cluster.create("orders")
    append(cluster, "orders", 100)
    file, data = cluster.directory / "orders.py", cluster.directory / "pipelines"
    file.write_text(_ORDERS.format(servers=cluster.bootstrap, directory=cluster.directory))
    figures = data / "orders" / "metrics.prom"
    words = ["pipeline", "run", str(file), "--data", str(data), "--master", "local[1]"]
    with (cluster.directory / "pipeline.log").open("wb") as log:
        pipeline = await asyncio.create_subprocess_exec(
            *COMMAND, *words, stdout=log, stderr=log, start_new_session=True
        )
    try:
        with textfile_collector(lambda: figures.read_text() if figures.exists() else "") as target:
            brokers = scrape_job("odradek", cluster.targets)
            await cluster.prometheus.scrape([brokers, scrape_job("node", [target])])
            yield
            (cluster.directory / "mended").touch()
            # Without its figures no alert fires: they are served until it is well.
            await until(lambda: _is_well(cluster), "the pipeline does not get well")
    finally:
        os.killpg(pipeline.pid, signal.SIGKILL)
        await pipeline.wait()


async def _is_well(cluster: AlertCluster) -> bool:
    return not any(name.startswith("OdradekPipeline") for name in await cluster.prometheus.firing())
