"""Topics as DataFrames: the data source `odradek` of Spark, batch and streaming, both ways.

    from odradek import spark

    session = spark.session("my-app")
    clicks = session.read.format("odradek").option("kafka.bootstrap.servers", "localhost:9092") \\
        .option("subscribe", "clicks").load()

The options and the schema are those of Spark's own Kafka source. `register(session)` brings the
data source to a session made elsewhere. Only this package imports pyspark.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from odradek.spark.prerequisites import require_packages

if TYPE_CHECKING:
    from odradek.spark.failures import cause
    from odradek.spark.progress import lag, total_lag
    from odradek.spark.source import OdradekDataSource
    from odradek.spark.spark_session import register, session
    from odradek.spark.updates import into_topic

__all__ = ["OdradekDataSource", "cause", "into_topic", "lag", "register", "session", "total_lag"]

_MODULES = {
    "OdradekDataSource": "odradek.spark.source",
    "cause": "odradek.spark.failures",
    "into_topic": "odradek.spark.updates",
    "lag": "odradek.spark.progress",
    "register": "odradek.spark.spark_session",
    "session": "odradek.spark.spark_session",
    "total_lag": "odradek.spark.progress",
}

if not TYPE_CHECKING:  # with it, type checkers would take any name for right

    def __getattr__(name: str) -> object:
        home = _MODULES.get(name)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        require_packages()
        return getattr(import_module(home), name)
