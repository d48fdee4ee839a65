"""Spans and traceparents, compared with OpenTelemetry's own classes."""

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from odradek.telemetry.tracing.otlp import encode
from odradek.telemetry.tracing.spans import Span, SpanKind
from odradek.telemetry.tracing.traceparent import TraceParent, parse

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


def test_a_span_is_what_the_library_decodes() -> None:
    span = Span(
        "Produce",
        SpanKind.SERVER,
        bytes.fromhex(TRACE),
        bytes.fromhex(SPAN),
        1_700_000_000_000_000_001,
        1_700_000_000_250_000_000,
        b"\x01" * 8,
        {"text": "ä", "number": -5, "big": 2**40, "share": 0.25, "yes": True, "empty": ""},
        (TraceParent("a" * 32, "b" * 16),),
        "NOT_LEADER",
    )
    body = encode([span, span], {"service.name": "odradek"}, "scope")
    message = ExportTraceServiceRequest.FromString(body)
    (resource,) = message.resource_spans
    assert resource.resource.attributes[0].value.string_value == "odradek"
    (scope,) = resource.scope_spans
    assert scope.scope.name == "scope"
    decoded = scope.spans[0]
    assert scope.spans[1] == decoded
    assert (decoded.name, decoded.kind) == ("Produce", 2)
    assert (decoded.trace_id.hex(), decoded.span_id.hex()) == (TRACE, SPAN)
    assert decoded.parent_span_id == b"\x01" * 8
    assert decoded.start_time_unix_nano == 1_700_000_000_000_000_001
    assert decoded.end_time_unix_nano == 1_700_000_000_250_000_000
    values = {
        one.key: getattr(one.value, one.value.WhichOneof("value")) for one in decoded.attributes
    }
    assert values == span.attributes
    assert decoded.links[0].trace_id.hex() == "a" * 32
    assert (decoded.status.code, decoded.status.message) == (2, "NOT_LEADER")
    assert decoded.flags == 1
    # Nothing that the library does not know was written.
    assert ExportTraceServiceRequest.FromString(message.SerializeToString()) == message
    assert len(message.SerializeToString()) == len(body)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (f"00-{TRACE}-{SPAN}-01", TraceParent(TRACE, SPAN, True)),
        (f"00-{TRACE}-{SPAN}-00".encode(), TraceParent(TRACE, SPAN, False)),
        (f"cc-{TRACE}-{SPAN}-03-more", TraceParent(TRACE, SPAN, True)),
        (f"00-{TRACE}-{SPAN}-01-more", None),
        (f"ff-{TRACE}-{SPAN}-01", None),
        (f"00-{'0' * 32}-{SPAN}-01", None),
        (f"00-{TRACE}-{'0' * 16}-01", None),
        (f"00-{TRACE.upper()}-{SPAN}-01", None),
        ("", None),
        (None, None),
        (b"\xff", None),
    ],
)
def test_traceparents(text: str | bytes | None, found: TraceParent | None) -> None:
    assert parse(text) == found


def test_a_traceparent_is_written_as_it_is_read() -> None:
    for sampled in (True, False):
        parent = TraceParent(TRACE, SPAN, sampled)
        assert parse(str(parent)) == parent
