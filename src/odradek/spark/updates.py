"""Streams in update mode into a topic, exactly once.

Spark refuses update mode for data sources that are written in Python. So a stream in update mode
uses `foreachBatch`: each micro-batch becomes a batch write that knows its stream:

    frame.writeStream.outputMode("update").foreachBatch(spark.into_topic(topic="t", **servers))

The argument of `exactly_once` holds here too: the rows of a task come from the stream's state,
which is partitioned as the checkpoint says, and reach the sink without another shuffle. So a replay
gives a task the same rows.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from odradek.spark.option_names import check_names
from odradek.spark.options import SinkOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def into_topic(**options: str) -> "Callable[[DataFrame, int], None]":
    """Returns a function for `foreachBatch`. The options are those of the sink.

    A batch may go to several topics, one call each. A second write of a batch to the same topic is
    refused, because it looks the same as a repetition of the first: unite the rows before.
    """
    # Here a mistake is found before the stream starts, and not in its first batch.
    check_names(options, is_reading=False)
    SinkOptions.read(options, is_streaming=True)

    def write(rows: "DataFrame", _: int) -> None:
        sink = {"deliveryGuarantee": "exactly-once", **options}
        rows.write.format("odradek").options(**sink).mode("append").save()

    return write
