"""OpenTelemetry's metrics as bytes: what is written can be read, and nothing else breaks it."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.telemetry.otlp.decoding import Point, Unsupported, decode
from odradek.telemetry.otlp.encoding import encode
from odradek.telemetry.otlp.labels import with_attributes
from odradek.telemetry.otlp.wire import MalformedTelemetry, write_bytes, write_text

COUNTER = Point("a.total", "how many", (("topic", "é"),), 3.5, True, True, True)
GAUGE = Point("b", "", (), -1.0)


def test_points_are_read_as_they_were_written() -> None:
    data = encode([COUNTER, GAUGE], {"group_id": "g"}, 1, 2)
    group = ("group_id", "g")
    assert list(decode(memoryview(data))) == [
        COUNTER._replace(attributes=(group, *COUNTER.attributes)),
        GAUGE._replace(attributes=(group,)),
    ]


def test_attributes_are_added_to_each_resource() -> None:
    data = encode([GAUGE], {"a": "1"}, 1, 2) + encode([COUNTER], {}, 1, 2)
    labelled = with_attributes(memoryview(data), {"client_id": "c"})
    attributes = [
        point.attributes for point in decode(memoryview(labelled)) if isinstance(point, Point)
    ]
    assert attributes == [(("a", "1"), ("client_id", "c")), (("client_id", "c"), ("topic", "é"))]


def test_distributions_are_named_and_left_out() -> None:
    metric = write_text(1, "h") + write_bytes(9, b"")
    data = write_bytes(1, write_bytes(2, write_bytes(2, metric)))
    assert list(decode(memoryview(data))) == [Unsupported("h")]


@pytest.mark.parametrize(
    "data",
    [
        b"\x0a\x05\x01",  # longer than the message
        b"\x0a",  # a length is missing
        b"\x0b",  # there is no such wire type
        b"\xff" * 11,  # a number without an end
        b"\x08\x01",  # a number in place of a message
        write_bytes(1, write_bytes(2, write_bytes(2, b""))),  # no name
    ],
)
def test_what_is_no_telemetry_is_refused(data: bytes) -> None:
    with pytest.raises(MalformedTelemetry):
        list(decode(memoryview(data)))


@given(st.binary(max_size=200))
def test_no_bytes_raise_anything_else(data: bytes) -> None:
    whole = encode([COUNTER], {}, 1, 2)
    for tried in (data, whole[: len(data)] + data, write_bytes(1, write_bytes(2, data))):
        with contextlib.suppress(MalformedTelemetry):
            list(decode(memoryview(tried)))
