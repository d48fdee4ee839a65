"""Spark's classes, loaded and checked once and kept: its processes then start at half the price.

    python -m tests.spark.class_archive FILE

A scenario starts nine of them in each run. Java ignores an archive that does not fit.
"""

import os
import subprocess
import sys
from pathlib import Path

import pyspark

from benchmarks.apache_kafka import CACHE_DIRECTORY
from odradek import spark as odradek_spark
from odradek.spark.prerequisites import find_java
from tests.spark.standalone import QUICK_JAVA

_ROOT = Path(__file__).parents[2]


def use_class_archive() -> None:
    """From now on, for all that is started from here; made if it is not there."""
    _, java = find_java()
    kept = CACHE_DIRECTORY / f"spark-{pyspark.__version__}-java-{java}.jsa"
    if not kept.exists():
        CACHE_DIRECTORY.mkdir(exist_ok=True)
        made = kept.with_suffix(f".{os.getpid()}")
        command = [sys.executable, "-m", "tests.spark.class_archive", str(made)]
        subprocess.run(command, cwd=_ROOT, check=True, capture_output=True, timeout=300)
        made.rename(kept)
    os.environ["JDK_JAVA_OPTIONS"] = f"-XX:SharedArchiveFile={kept} -Xlog:disable"


def main() -> None:
    options = f"{QUICK_JAVA} -XX:ArchiveClassesAtExit={sys.argv[1]}"
    config = {"spark.driver.extraJavaOptions": options}
    spark = odradek_spark.session("classes", master="local[2]", config=config)
    spark.range(0, 1000, 1, 2).selectExpr("sum(id)").collect()
    spark.stop()


if __name__ == "__main__":
    main()
