"""Refuses settings of Spark that do not exist: Spark itself ignores a misspelt one.

Java knows the settings that exist, so most are checked when it runs. It does not know all of them
(`spark.hadoop.*` and the like are open), so a name is refused only if it is one letter away from
one that exists.
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


def check_master(url: str | None) -> None:
    """Refuses what cannot be the address of a cluster; called before Java starts, which would end
    with a stack trace."""
    if url is not None and not _MASTER.fullmatch(url):
        raise BadOption(
            f"master {url}: must be like local[*], spark://HOST:7077, yarn or k8s://HOST:443"
        )


def check_prefix(names: Iterable[str]) -> None:
    """Refuses names that cannot be settings of Spark; called before Java starts."""
    for name in names:
        if not name.startswith(_PREFIX):
            raise BadOption(
                f"there is no setting {name} of Spark; did you mean {_PREFIX}{name}? All begin so"
            )


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
