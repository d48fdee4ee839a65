"""A span: one piece of work, when it began and ended, and which trace it belongs to."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from odradek.telemetry.tracing.traceparent import TraceParent

Attribute = str | int | float | bool


class SpanKind(IntEnum):
    """With the numbers of OTLP."""

    INTERNAL = 1
    SERVER = 2
    CLIENT = 3
    PRODUCER = 4
    CONSUMER = 5


@dataclass(frozen=True, slots=True)
class Span:
    """Ids are bytes: 16 of the trace, 8 of a span. Without a parent the span begins its trace."""

    name: str
    kind: SpanKind
    trace_id: bytes
    span_id: bytes
    begin_ns: int
    end_ns: int
    parent_id: bytes = b""
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    links: tuple[TraceParent, ...] = ()
    error: str = ""
    """What went wrong; empty for a span that succeeded."""
