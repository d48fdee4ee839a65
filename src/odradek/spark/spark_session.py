"""A session with nothing to set by hand.

It finds Java and says which; its workers run the Python that runs this; it listens on loopback
unless it is told to use a cluster.
"""

import logging
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from pyspark.sql import SparkSession

from odradek.spark.prerequisites import find_java
from odradek.spark.source import OdradekDataSource

_log = logging.getLogger("odradek.spark")

# Holds a `sitecustomize` that spares Python processes half a second each.
STARTUP: Final = os.path.join(os.path.dirname(__file__), "startup")
_FILTERS: Final = "spark.sql.python.filterPushdown.enabled"
_ADAPTIVE_STREAMS: Final = "spark.sql.adaptive.streaming.stateless.enabled"
# Who writes the files of a checkpoint. Spark's choice has Hadoop start `chmod` and `readlink` as
# processes, about seventeen for each micro-batch, where its native library is missing; this one
# starts four (decision 21). On a local disk both replace files by rename(2).
CHECKPOINT_FILES: Final = "spark.sql.streaming.checkpointFileManagerClass"
FILES_OF_SPARK: Final = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileContextBasedCheckpointFileManager"
)
FILES_OF_ODRADEK: Final = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)
# What Java may listen on without being asked is loopback and nothing else.
_LOCAL: Final = {
    CHECKPOINT_FILES: FILES_OF_ODRADEK,
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
_EVERYWHERE: Final = {
    _FILTERS: "true",
    _ADAPTIVE_STREAMS: "false",
    "spark.sql.session.timeZone": "UTC",
    # A worker that has compiled and connected is worth keeping.
    "spark.python.worker.reuse": "true",
    # Workers that need not import anything: see `worker_daemon`.
    "spark.python.daemon.module": "odradek.spark.worker_daemon",
}


def session(
    name: str = "odradek",
    *,
    master: str | None = None,
    config: Mapping[str, str] | None = None,
) -> SparkSession:
    """A session with the data source `odradek`; `local[*]` unless something names a master.

    `config` wins over what is set here. `SPARK_HOME`, `spark-submit` and a `spark.master` of the
    environment are respected.
    """
    java, version = find_java()
    _log.info("Spark runs on Java %s (%s)", version, java)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    wanted = dict(config or {})
    chosen = master or wanted.get("spark.master") or os.environ.get("MASTER")
    builder = SparkSession.builder.appName(name)
    if chosen is None:
        chosen = "local[*]"
    if chosen.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        wanted = _LOCAL | wanted
    for key, value in (_EVERYWHERE | wanted).items():
        builder = builder.config(key, value)
    with _python_path(STARTUP):
        made = builder.master(chosen).getOrCreate()
    # Spark finds the data source itself, in `pyspark_odradek`; `register` would only make it warn.
    _set_what_it_needs(made)
    return made


@contextmanager
def _python_path(entry: str) -> Iterator[None]:
    """Has Java start with one more directory on the path that it gives to its Pythons."""
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = f"{before}{os.pathsep}{entry}" if before else entry
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before


def register(spark: SparkSession) -> SparkSession:
    """Makes `format("odradek")` known to a session, and turns off what would harm its sink."""
    _set_what_it_needs(spark)
    spark.dataSource.register(OdradekDataSource)
    return spark


def _set_what_it_needs(spark: SparkSession) -> None:
    if spark.conf.get(_ADAPTIVE_STREAMS, None) is None:
        # A replayed batch must be split as it was: see `sink`.
        spark.conf.set(_ADAPTIVE_STREAMS, "false")
    if spark.conf.get(_FILTERS, None) is None:
        # For option("pushFilters", "true"); sources that do not ask for filters do not notice.
        spark.conf.set(_FILTERS, "true")
