"""How Spark finds the data source `odradek` by itself: it looks for packages named pyspark_*."""

from odradek.spark.source import OdradekDataSource as DefaultSource

__all__ = ["DefaultSource"]
