"""Refuses settings of Spark that do not exist: Spark itself ignores a misspelt one.

Java knows the settings that exist, so most are checked when it runs; those that are set most often
are known here, and checked before. Java does not know all of them (`spark.hadoop.*` and the like
are open), so a name is refused only if it is one letter away from one that exists.
"""

import os
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from odradek.config.spelling import Speller
from odradek.spark.option_names import BadOption

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PREFIX: Final = "spark."
_MASTER: Final = re.compile(r"local(-cluster)?(\[.+\])?|yarn|(spark|k8s)://.+")
_KEY: Final = re.compile(r"ConfigEntry\(key=([^,]+),")
# Names below these are chosen by users.
_OPEN: Final = (
    "spark.hadoop.",
    "spark.executorEnv.",
    "spark.sql.catalog.",
    "spark.yarn.appMasterEnv.",
)
# Settings that people set most often. No setting of Spark is one letter away from another.
COMMON: Final = (
    "spark.app.name",
    "spark.cores.max",
    "spark.default.parallelism",
    "spark.driver.cores",
    "spark.driver.extraClassPath",
    "spark.driver.extraJavaOptions",
    "spark.driver.maxResultSize",
    "spark.driver.memory",
    "spark.dynamicAllocation.enabled",
    "spark.dynamicAllocation.maxExecutors",
    "spark.dynamicAllocation.minExecutors",
    "spark.eventLog.dir",
    "spark.eventLog.enabled",
    "spark.executor.cores",
    "spark.executor.extraClassPath",
    "spark.executor.extraJavaOptions",
    "spark.executor.instances",
    "spark.executor.memory",
    "spark.executor.memoryOverhead",
    "spark.jars",
    "spark.jars.packages",
    "spark.jars.repositories",
    "spark.local.dir",
    "spark.master",
    "spark.memory.fraction",
    "spark.network.timeout",
    "spark.python.worker.memory",
    "spark.python.worker.reuse",
    "spark.serializer",
    "spark.sql.adaptive.enabled",
    "spark.sql.ansi.enabled",
    "spark.sql.autoBroadcastJoinThreshold",
    "spark.sql.caseSensitive",
    "spark.sql.execution.arrow.maxRecordsPerBatch",
    "spark.sql.execution.arrow.pyspark.enabled",
    "spark.sql.extensions",
    "spark.sql.files.maxPartitionBytes",
    "spark.sql.session.timeZone",
    "spark.sql.shuffle.partitions",
    "spark.sql.streaming.checkpointLocation",
    "spark.sql.streaming.metricsEnabled",
    "spark.sql.streaming.minBatchesToRetain",
    "spark.sql.streaming.schemaInference",
    "spark.sql.streaming.stateStore.providerClass",
    "spark.sql.warehouse.dir",
    "spark.submit.deployMode",
    "spark.task.cpus",
    "spark.task.maxFailures",
    "spark.ui.enabled",
    "spark.ui.port",
    "spark.ui.showConsoleProgress",
)
_COMMON_SPELLER: Final = Speller(COMMON)


def check_master(url: str | None) -> None:
    """Refuses what cannot be the address of a cluster; called before Java starts, which would end
    with a stack trace."""
    if url is not None and not _MASTER.fullmatch(url):
        raise BadOption(
            f"master {url}: must be like local[*], spark://HOST:7077, yarn or k8s://HOST:443"
        )


def check_common_spelling(names: Iterable[str]) -> None:
    """Refuses names that cannot be settings of Spark, or are nearly those of common ones; called
    before Java starts."""
    for name in names:
        if not name.startswith(_PREFIX):
            raise BadOption(
                f"there is no setting {name} of Spark; did you mean {_PREFIX}{name}? All begin so"
            )
        if name in COMMON or name.startswith(_OPEN):
            continue
        if hint := _COMMON_SPELLER.hint(name):
            raise BadOption(f"there is no setting {name} of Spark{hint}")


def check_spelling(spark: "SparkSession", names: Iterable[str]) -> None:
    """Refuses names that are nearly those of settings; called when Java runs. With Spark Connect
    there is no Java to ask."""
    if "SPARK_REMOTE" in os.environ:
        return
    entries = spark.sparkContext._jvm.org.apache.spark.internal.config.ConfigEntry
    for name in names:
        if name.startswith(_OPEN) or entries.findEntry(name) is not None:
            continue
        # One call to Java; asking each of a thousand entries for its key would take a second.
        existing = _KEY.findall(entries.listAllEntries().toString())
        if hint := Speller(existing).hint(name):
            raise BadOption(f"there is no setting {name} of Spark{hint}")
