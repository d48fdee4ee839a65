"""Spans in OTLP: the protobuf message ExportTraceServiceRequest, as collectors take it over HTTP.

The message is small and will not change, so it is written here field by field. A protobuf library
would be a dependency of the broker, for this alone. `tests/unit/telemetry/test_otlp.py` decodes it
with OpenTelemetry's own classes.
"""

import struct
from collections.abc import Iterable, Mapping
from typing import Final

from odradek.telemetry.tracing.spans import Attribute, Span

CONTENT_TYPE: Final = "application/x-protobuf"
_FIXED64: Final = struct.Struct("<Q")
_DOUBLE: Final = struct.Struct("<d")
_ERROR: Final = 2
# The last byte of a traceparent: the trace is recorded.
_SAMPLED: Final = 1

# Wire types of protobuf.
_VARINT, _EIGHT_BYTES, _BYTES, _FOUR_BYTES = 0, 1, 2, 5


def encode(spans: Iterable[Span], resource: Mapping[str, Attribute], scope: str) -> bytes:
    """Returns the message with all spans of one program."""
    attributes = b"".join(_bytes(1, _key_value(*item)) for item in resource.items())
    scope_spans = _bytes(1, _text(1, scope)) + b"".join(_bytes(2, _span(span)) for span in spans)
    return _bytes(1, _bytes(1, attributes) + _bytes(2, scope_spans))


def _span(span: Span) -> bytes:
    parts = [
        _bytes(1, span.trace_id),
        _bytes(2, span.span_id),
        _bytes(4, span.parent_id) if span.parent_id else b"",
        _text(5, span.name),
        _number(6, span.kind),
        _fixed64(7, span.begin_ns),
        _fixed64(8, span.end_ns),
    ]
    parts += [_bytes(9, _key_value(*item)) for item in span.attributes.items()]
    for link in span.links:
        ids = _bytes(1, bytes.fromhex(link.trace_id)) + _bytes(2, bytes.fromhex(link.span_id))
        parts.append(_bytes(13, ids))
    if span.error:
        parts.append(_bytes(15, _text(2, span.error) + _number(3, _ERROR)))
    return b"".join(parts) + _tag(16, _FOUR_BYTES) + struct.pack("<I", _SAMPLED)


def _key_value(name: str, value: Attribute) -> bytes:
    return _text(1, name) + _bytes(2, _any_value(value))


def _any_value(value: Attribute) -> bytes:
    if isinstance(value, bool):
        return _number(2, value)
    if isinstance(value, int):
        return _number(3, value)
    if isinstance(value, float):
        return _tag(4, _EIGHT_BYTES) + _DOUBLE.pack(value)
    return _text(1, value)


def _varint(number: int) -> bytes:
    number &= (1 << 64) - 1  # Negative numbers are written as 64 bits.
    pieces = bytearray()
    while number > 0x7F:
        pieces.append(number & 0x7F | 0x80)
        number >>= 7
    pieces.append(number)
    return bytes(pieces)


def _tag(field: int, wire_type: int) -> bytes:
    return _varint(field << 3 | wire_type)


def _number(field: int, number: int) -> bytes:
    return _tag(field, _VARINT) + _varint(number)


def _fixed64(field: int, number: int) -> bytes:
    return _tag(field, _EIGHT_BYTES) + _FIXED64.pack(number)


def _bytes(field: int, content: bytes) -> bytes:
    return _tag(field, _BYTES) + _varint(len(content)) + content


def _text(field: int, text: str) -> bytes:
    return _bytes(field, text.encode("utf-8", "replace"))
