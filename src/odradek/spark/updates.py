"""Streams in update mode into a topic, exactly once.

Spark has no update mode for data sources written in Python: it refuses before anything runs. So an
update stream writes by `foreachBatch`, each micro-batch as a batch write that knows the stream it
belongs to:

    frame.writeStream.outputMode("update").foreachBatch(spark.into_topic(topic="t", **servers))

The argument of `exactly_once` holds as it is: what a replayed batch hands to a task comes from the
stream's state, partitioned as the checkpoint says, and reaches the sink without another shuffle.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def into_topic(**options: str) -> "Callable[[DataFrame, int], None]":
    """A function for `foreachBatch`; options are the sink's.

    A batch may go to several topics, one call each. A second write of a batch to the same topic is
    refused, because it cannot be told from a repetition of the first: unite the rows before.
    """

    def write(rows: "DataFrame", _: int) -> None:
        given = {"deliveryGuarantee": "exactly-once", **options}
        rows.write.format("odradek").options(**given).mode("append").save()

    return write
