"""A Spark session that needs no configuration.

It finds Java and logs which one. Its workers run the same Python as this process. It listens only
on loopback unless a cluster is configured.
"""

import logging
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Final

from pyspark import SparkConf, SparkContext
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from odradek.spark.java_process import output, start_java
from odradek.spark.option_names import BadOption
from odradek.spark.prerequisites import find_java
from odradek.spark.source import OdradekDataSource
from odradek.spark.spark_settings import check_common_spelling, check_master, check_spelling
from odradek.spark.uncaught import explain_uncaught, interrupt_plainly
from odradek.spark.worker_daemon import ANNOUNCES

_log = logging.getLogger("odradek.spark")

# Contains a `sitecustomize` that makes each Python process start half a second faster.
STARTUP: Final = os.path.join(os.path.dirname(__file__), "startup")
_FILTERS: Final = "spark.sql.python.filterPushdown.enabled"
_ARROW_FUNCTIONS: Final = "spark.sql.execution.pythonUDF.arrow.enabled"
_REPEATS: Final = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")
_ADAPTIVE_STREAMS: Final = "spark.sql.adaptive.streaming.stateless.enabled"
# The class that writes checkpoint files. Where Hadoop's native library is missing, Spark's default
# starts about seventeen `chmod` and `readlink` processes for each micro-batch; this one starts four
# (decision 21). On a local disk both replace files by rename(2).
CHECKPOINT_MANAGER_SETTING: Final = "spark.sql.streaming.checkpointFileManagerClass"
SPARK_CHECKPOINT_MANAGER: Final = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileContextBasedCheckpointFileManager"
)
LOCAL_CHECKPOINT_MANAGER: Final = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)
# By default Java listens on loopback only.
_LOCAL: Final = {
    CHECKPOINT_MANAGER_SETTING: LOCAL_CHECKPOINT_MANAGER,
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
_EVERYWHERE: Final = {
    _FILTERS: "true",
    _ADAPTIVE_STREAMS: "false",
    "spark.sql.session.timeZone": "UTC",
    # A worker that has loaded the compiled loops and has connections is worth keeping.
    "spark.python.worker.reuse": "true",
    # Workers are forked with all modules loaded: see `worker_daemon`.
    "spark.python.daemon.module": "odradek.spark.worker_daemon",
}


def session(
    name: str = "odradek",
    *,
    master: str | None = None,
    config: Mapping[str, str] | None = None,
) -> SparkSession:
    """Returns a session with the data source `odradek`; its master is `local[*]` unless one is
    given.

    `config` overrides the settings made here; a misspelt one is refused. `SPARK_HOME`,
    `spark-submit` and a `spark.master` of the environment are respected.
    """
    check_common_spelling(config or {})
    java, version = find_java()
    _log.info("Spark runs on Java %s (%s)", version, java)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if sys.stderr.isatty():
        os.environ.setdefault(ANNOUNCES, "1")
    settings = dict(config or {})
    url = master or settings.get("spark.master") or os.environ.get("MASTER")
    builder = SparkSession.builder.appName(name)
    if url is None:
        url = "local[*]"
    check_master(url)
    if url.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        settings = _LOCAL | settings
    if find_spec("pandas") is None:
        # Spark would try Arrow for each Python function, and warn that it needs pandas.
        settings = {_ARROW_FUNCTIONS: "false"} | settings
    settings = _EVERYWHERE | settings
    for key, value in settings.items():
        builder = builder.config(key, value)
    explain_uncaught(output)
    with _python_path(STARTUP):
        start_java({**settings, "spark.master": url, "spark.app.name": name})
        is_new = SparkContext._active_spark_context is None
        if is_new and "SPARK_REMOTE" not in os.environ:
            # Before the session, for which Java is called for another second.
            conf = SparkConf().setAll([*settings.items(), ("spark.app.name", name)])
            SparkContext.getOrCreate(conf.setMaster(url))
            interrupt_plainly()
        spark = builder.master(url).getOrCreate()
    _silence_repeats()
    try:
        check_spelling(spark, config or {})
    except BadOption:
        if is_new:
            stop(spark)
        raise
    # Spark finds the data source in `pyspark_odradek` by itself; registering it again would only
    # cause a warning.
    _set_required_settings(spark)
    return spark


def stop(spark: SparkSession) -> None:
    """Stops a session for good. What Java reports while it ends is not shown."""
    output.mute()
    spark.stop()


def _silence_repeats() -> None:
    """Turns off loggers of pyspark that print an exception, with Java's stack as JSON, before the
    program gets it."""
    if not os.environ.get("ODRADEK_DEBUG"):
        for name in _REPEATS:
            PySparkLogger.getLogger(name).setLevel(logging.CRITICAL + 1)


@contextmanager
def _python_path(entry: str) -> Iterator[None]:
    """Adds a directory to the PYTHONPATH that Java passes on to its Python processes."""
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
    """Registers `format("odradek")` with a session, and sets what its sink needs. Errors that are
    not handled are shown as by `session`."""
    explain_uncaught(output)
    _set_required_settings(spark)
    spark.dataSource.register(OdradekDataSource)
    return spark


def _set_required_settings(spark: SparkSession) -> None:
    if spark.conf.get(_ADAPTIVE_STREAMS, None) is None:
        # A replayed batch must be split into the same tasks: see `exactly_once`.
        spark.conf.set(_ADAPTIVE_STREAMS, "false")
    if spark.conf.get(_FILTERS, None) is None:
        # For option("pushFilters", "true"); sources that do not ask for filters do not notice.
        spark.conf.set(_FILTERS, "true")
