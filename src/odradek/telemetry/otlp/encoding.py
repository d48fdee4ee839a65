"""From points to MetricsData, as our own client pushes them (`decoding` shows the messages)."""

from collections.abc import Iterable, Mapping
from typing import Final

from odradek.telemetry.otlp.decoding import CUMULATIVE, DELTA, Point
from odradek.telemetry.otlp.wire import (
    write_bytes,
    write_double,
    write_fixed64,
    write_number,
    write_text,
)

_NANOSECONDS: Final = 1_000_000


def encode(
    points: Iterable[Point], resource: Mapping[str, str], since_ms: int, now_ms: int
) -> bytes:
    """Returns MetricsData with these points, of the time from `since_ms` to `now_ms`."""
    window = write_fixed64(2, since_ms * _NANOSECONDS) + write_fixed64(3, now_ms * _NANOSECONDS)
    metrics = b"".join(write_bytes(2, _metric(point, window)) for point in points)
    return write_bytes(
        1, write_bytes(1, encode_attributes(resource, field=1)) + write_bytes(2, metrics)
    )


def encode_attributes(attributes: Mapping[str, str], *, field: int) -> bytes:
    """Returns attributes as fields of the message that has them under this number."""
    return b"".join(
        write_bytes(field, write_text(1, name) + write_bytes(2, write_text(1, value)))
        for name, value in attributes.items()
    )


def _metric(point: Point, window: bytes) -> bytes:
    data_point = (
        encode_attributes(dict(point.attributes), field=7) + window + write_double(4, point.value)
    )
    head = write_text(1, point.name) + write_text(2, point.help)
    if not point.is_sum:
        return head + write_bytes(5, write_bytes(1, data_point))
    temporality = DELTA if point.is_delta else CUMULATIVE
    kind = write_number(2, temporality) + write_number(3, int(point.is_monotonic))
    return head + write_bytes(7, write_bytes(1, data_point) + kind)
