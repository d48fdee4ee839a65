"""One Spark and one broker for all tests here: starting Spark is what costs.

Without Java the tests are skipped, and say what to install; in CI they fail.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from benchmarks.broker_process import ToolMissing
from tests.needs import need

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from odradek.testing import Cluster


# Each Spark here, those of commands too, lives for seconds: what Java's second compiler would gain
# comes too late, and costs a third of all CPU.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1")


def java() -> str:
    from odradek.spark.prerequisites import JavaMissing, find_java

    try:
        return find_java()[0]
    except JavaMissing as missing:
        raise ToolMissing(str(missing)) from None


@pytest.fixture(scope="session")
def brokers() -> "Iterator[Cluster]":
    from odradek.testing import Cluster

    # Records of 1970 are old: nothing may delete them.
    with Cluster(settings={"log.retention.ms": "-1"}) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[SparkSession]":
    from odradek import spark as odradek_spark

    need(java)
    # Workers import the tests' own classes.
    known = os.environ.get("PYTHONPATH")
    here = str(Path(__file__).parents[2])
    os.environ["PYTHONPATH"] = f"{known}{os.pathsep}{here}" if known else here
    where = str(tmp_path_factory.mktemp("spark"))
    session = odradek_spark.session(
        "tests",
        # A task may fail twice: kills are part of the tests.
        master="local[2,3]",
        config={
            "spark.local.dir": where,
            "spark.sql.warehouse.dir": f"{where}/warehouse",
            "spark.driver.memory": "1g",
            "spark.sql.shuffle.partitions": "2",
        },
    )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


Read = Callable[..., "DataFrame"]


@pytest.fixture
def read(spark: "SparkSession", brokers: "Cluster") -> Read:
    """A batch query: `read(topic, startingOffsets="earliest")`."""

    def made(topic: str, **options: str) -> "DataFrame":
        given = {"kafka.bootstrap.servers": brokers.bootstrap, "subscribe": topic, **options}
        return spark.read.format("odradek").options(**given).load()

    return made
