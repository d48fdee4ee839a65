"""Runs the tasks of connectors by streaming queries of Spark. See README.md."""
