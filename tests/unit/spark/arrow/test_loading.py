"""What is loaded beforehand is all that is ever needed: nothing is compiled in a task."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from odradek.protocol.compression import Codec
from odradek.protocol.types import TopicPartition
from odradek.spark.arrow import kernels
from odradek.spark.arrow.decoding import ArrowDecoder
from odradek.spark.arrow.encoding import ArrowEncoder, record_columns
from odradek.spark.arrow.loading import load_kernels

_PLACE = TopicPartition("t", 0)
_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
_NUMBERS = pa.array([0, 0], pa.int32())
_TIMES = pa.array([1, None], pa.timestamp("us", tz="UTC"))
_VALUES = pa.array([b"v", b"w"], pa.binary())


def _compiled() -> dict[str, int]:
    functions: dict[str, Any] = vars(kernels)
    return {
        name: len(function.signatures)
        for name, function in functions.items()
        if hasattr(function, "signatures")
    }


def _writable(values: pa.Array) -> pa.Array:
    """The same, in memory that can be written: as arrays that are made of NumPy's are."""
    buffers = [
        None if one is None else pa.py_buffer(bytearray(one.to_pybytes()))
        for one in values.buffers()
    ]
    return pa.Array.from_buffers(values.type, len(values), buffers)


@pytest.mark.parametrize(
    "columns",
    [
        {"value": _VALUES},
        {"value": _writable(_VALUES), "partition": _NUMBERS, "timestamp": _TIMES},
        {"key": _VALUES, "value": pa.array([None, None], pa.binary())},
        {"key": pa.array(["a", None]), "value": pa.array(["b", "c"]), "topic": pa.array(["t"] * 2)},
        {"value": _VALUES, "headers": pa.array([None, [("h", b"1"), ("i", None)]], _HEADERS)},
        {"value": _VALUES, "headers": pa.array([None, []], _HEADERS)},
    ],
)
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_whatever_rows_are_like(columns: dict[str, pa.Array], codec: Codec) -> None:
    load_kernels()
    before = _compiled()
    batch = record_columns(pa.record_batch(columns), 0)
    batch.fingerprint()
    topic = None if "topic" in columns else _PLACE.topic
    for encoded in ArrowEncoder(topic, lambda _: 1, codec=codec).encode(batch):
        sent = encoded.batch.build(0)
        for fetched in (memoryview(sent), memoryview(bytearray(sent))):
            for with_headers in (False, True):
                decoder = ArrowDecoder(_PLACE, with_headers=with_headers)
                (found,) = decoder.decode(fetched, 0, 2)
                assert np.asarray(found.column("offset")).tolist() == [0, 1]
    assert _compiled() == before
