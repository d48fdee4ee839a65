"""MetricsData with more attributes of the client, for a collector.

Only the outermost messages are taken apart: the points are copied as they are. A collector takes an
ExportMetricsServiceRequest, which has the same field as MetricsData, so several of them one after
the other are one request.
"""

from collections.abc import Mapping
from typing import Final

from odradek.telemetry.otlp.encoding import encode_attributes
from odradek.telemetry.otlp.wire import WireType, as_bytes, fields, write_bytes

_RESOURCE_METRICS: Final = 1
_RESOURCE: Final = 1


def with_attributes(data: memoryview, attributes: Mapping[str, str]) -> bytes:
    """Returns the data with these attributes at each resource; raises `MalformedTelemetry`."""
    added = encode_attributes(attributes, field=1)
    pieces: list[bytes] = []
    for number, _, value in fields(data):
        if number != _RESOURCE_METRICS:
            continue
        resource, rest = b"", b""
        for inner, wire_type, content in fields(as_bytes(value)):
            if wire_type != WireType.BYTES:
                continue
            if inner == _RESOURCE:
                resource += bytes(as_bytes(content))
            else:
                rest += write_bytes(inner, bytes(as_bytes(content)))
        pieces.append(
            write_bytes(_RESOURCE_METRICS, write_bytes(_RESOURCE, resource + added) + rest)
        )
    return b"".join(pieces)
