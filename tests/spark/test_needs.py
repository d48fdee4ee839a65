"""Where Spark's tests cannot run, this one says what to install."""

import shutil
from importlib.util import find_spec

import pytest


def test_spark_can_be_tested_here() -> None:
    if not (find_spec("pyspark") and find_spec("numba") and find_spec("pyarrow")):
        pytest.skip("Spark is not installed: scripts/setup spark")
    if not shutil.which("java"):
        pytest.skip("Java 17 is not installed: apt-get install openjdk-17-jre-headless")
