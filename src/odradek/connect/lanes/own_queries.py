"""The query of a connector with a lane of its own, in the process that has its Spark."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from odradek.connect.lanes.handing_over import OPTION, HandedOver

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import DataStreamWriter

LANE: Final = __name__
"""The name of this lane, which `spark.turns.driver` imports."""


def writer(spark: "SparkSession", order: Mapping[str, Any]) -> "DataStreamWriter":
    """Returns the query of a connector. `driver` calls it."""
    from odradek.connect.lanes import own_sink, own_source  # noqa: PLC0415 - they need pyspark

    given = HandedOver.of(order["given"])
    if order["is_source"]:
        spark.dataSource.register(own_source.OwnSource)
        rows, sink = own_source.rows(spark, given), own_source.OwnSource.name()
    else:
        spark.dataSource.register(own_sink.OwnSink)
        rows, sink = own_sink.rows(spark, given), own_sink.OwnSink.name()
    return rows.writeStream.format(sink).option(OPTION, order["given"])
