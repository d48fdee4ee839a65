"""Misspelt settings of Spark are found before Java starts, if they are nearly common ones."""

import pytest

from odradek.spark.option_names import BadOption
from odradek.spark.spark_settings import COMMON, check_common_spelling


def test_names_that_exist_or_are_open_are_taken() -> None:
    check_common_spelling([*COMMON, "spark.hadoop.fs.s3a.access.key", "spark.some.new.setting"])
    check_common_spelling(["spark.driver.memoryOverhead", "spark.executor.memoryOverheadFactor"])


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("spark.sql.shufle.partitions", "spark.sql.shuffle.partitions"),
        ("spark.sql.shuffle.partition", "spark.sql.shuffle.partitions"),
        ("spark.driver.memry", "spark.driver.memory"),
        ("driver.memory", "spark.driver.memory"),
    ],
)
def test_a_misspelt_name_is_refused(name: str, meant: str) -> None:
    with pytest.raises(BadOption, match=f"no setting {name} of Spark; did you mean {meant}?"):
        check_common_spelling([name])
