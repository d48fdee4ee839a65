"""Continuous computation over topics: streams, tables, windows and joins.

    from odradek.streams import StreamsBuilder, TimeWindows

    plan     the logical plan that SQL and Python compile to; types of columns
    formats  keys and values as bytes
    running  the reference executor: what every operator means, record by record
    process  runs a plan on topics in this process, exactly once
    spark    runs plans by the turns of a query of Spark, each in a process of its own
    dsl      streams and tables in Python, after Kafka Streams
    testing  runs a topology in virtual time, without a broker

docs/streams.md is the guide, docs/decisions/0097-sql-and-streams.md says why it is built so.
"""

from typing import TYPE_CHECKING

from odradek.lazy_names import lazy_names

if TYPE_CHECKING:
    from odradek.streams.dsl.builder import StreamsBuilder
    from odradek.streams.dsl.streams import Stream
    from odradek.streams.dsl.tables import Table
    from odradek.streams.engines import run
    from odradek.streams.formats.primitives import BYTES, DOUBLE, INTEGER, JSON, LONG, STRING
    from odradek.streams.plan.records import Window, Windowed
    from odradek.streams.plan.windows import JoinWindows, SessionWindows, TimeWindows
    from odradek.streams.running.processors import Processor, ProcessorContext, Punctuation

_HOMES = {
    "BYTES": "odradek.streams.formats.primitives",
    "DOUBLE": "odradek.streams.formats.primitives",
    "INTEGER": "odradek.streams.formats.primitives",
    "JSON": "odradek.streams.formats.primitives",
    "LONG": "odradek.streams.formats.primitives",
    "STRING": "odradek.streams.formats.primitives",
    "JoinWindows": "odradek.streams.plan.windows",
    "Processor": "odradek.streams.running.processors",
    "ProcessorContext": "odradek.streams.running.processors",
    "Punctuation": "odradek.streams.running.processors",
    "SessionWindows": "odradek.streams.plan.windows",
    "Stream": "odradek.streams.dsl.streams",
    "StreamsBuilder": "odradek.streams.dsl.builder",
    "Table": "odradek.streams.dsl.tables",
    "TimeWindows": "odradek.streams.plan.windows",
    "Window": "odradek.streams.plan.records",
    "Windowed": "odradek.streams.plan.records",
    "run": "odradek.streams.engines",
}

__all__ = [
    "BYTES",
    "DOUBLE",
    "INTEGER",
    "JSON",
    "LONG",
    "STRING",
    "JoinWindows",
    "Processor",
    "ProcessorContext",
    "Punctuation",
    "SessionWindows",
    "Stream",
    "StreamsBuilder",
    "Table",
    "TimeWindows",
    "Window",
    "Windowed",
    "run",
]

if not TYPE_CHECKING:
    __getattr__ = lazy_names(__name__, _HOMES)
