"""Record batches against the builders and parsers of two independent Python clients."""

import warnings
from collections.abc import Callable
from typing import Any

import pytest
from aiokafka.record import default_records as aiokafka_records
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.protocol.compression import Codec
from odradek.protocol.records import (
    BatchBuilder,
    ControlType,
    EndTransactionMarker,
    crc_is_valid,
    decode_records,
    encode_end_transaction_marker,
    read_header,
)
from tests.unit.protocol.record_strategies import Content, record_contents

with warnings.catch_warnings():
    # kafka-python reads its schemas through a function that Python 3.11 discourages.
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka.codec
    from kafka.record import default_records as kafka_records

# Neither the one's native code nor the other's Python shares a line with ours.
CLIENTS: dict[str, Any] = {
    "kafka-python": kafka_records,
    "aiokafka": aiokafka_records,
}
HAS_CODEC: dict[Codec, Callable[[], bool]] = {
    Codec.NONE: lambda: True,
    Codec.GZIP: kafka.codec.has_gzip,
    Codec.SNAPPY: kafka.codec.has_snappy,
    Codec.LZ4: kafka.codec.has_lz4,
    Codec.ZSTD: kafka.codec.has_zstd,
}
PAIRS = [
    pytest.param(client, codec, id=f"{client}-{codec.name.lower()}")
    for client in CLIENTS
    for codec in Codec
]
# Clients send a batch uncompressed if compression gained nothing: this makes it gain.
PADDING: Content = (b"padding", b"repeated " * 500, [], 1000)


def require_codec(client: str, codec: Codec) -> Any:
    if client == "kafka-python" and not HAS_CODEC[codec]():
        pytest.skip(f"kafka-python lacks its package for {codec.name.lower()}")
    return CLIENTS[client]


def contents() -> st.SearchStrategy[list[Content]]:
    # No first timestamp of -1: aiokafka takes it for none, and the second record's in its place.
    return (
        st.lists(record_contents(), min_size=1, max_size=10)
        .filter(lambda made: made[0][3] >= 0)
        .map(lambda made: [*made, PADDING])
    )


@pytest.mark.parametrize(("client", "codec"), PAIRS)
@settings(max_examples=25, deadline=None)
@given(made=contents())
def test_we_read_what_clients_write(client: str, codec: Codec, made: list[Content]) -> None:
    builder = require_codec(client, codec).DefaultRecordBatchBuilder(
        magic=2,
        compression_type=int(codec),
        is_transactional=True,
        producer_id=77,
        producer_epoch=3,
        base_sequence=9,
        batch_size=1 << 24,
    )
    for index, (key, value, headers, timestamp_ms) in enumerate(made):
        assert builder.append(index, timestamp_ms, key, value, headers)
    batch = bytes(builder.build())
    header = read_header(batch)
    assert crc_is_valid(batch, 0, header)
    assert header.codec == codec
    assert header.is_transactional
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (77, 3, 9)
    assert [tuple(record) for record in decode_records(batch)] == [
        (index, timestamp_ms, key, value, headers)
        for index, (key, value, headers, timestamp_ms) in enumerate(made)
    ]


@pytest.mark.parametrize(("client", "codec"), PAIRS)
@settings(max_examples=25, deadline=None)
@given(made=contents())
def test_clients_read_what_we_write(client: str, codec: Codec, made: list[Content]) -> None:
    ours = BatchBuilder(codec)
    for key, value, headers, timestamp_ms in made:
        ours.append(key, value, headers, timestamp_ms)
    batch = require_codec(client, codec).DefaultRecordBatch(ours.build(40, 77, 3, 9))
    assert batch.validate_crc()
    assert batch.producer_id == 77
    assert batch.max_timestamp == max(content[3] for content in made)
    assert [
        (record.offset, record.timestamp, record.key, record.value, list(record.headers))
        for record in batch
    ] == [
        (40 + index, timestamp_ms, key, value, headers)
        for index, (key, value, headers, timestamp_ms) in enumerate(made)
    ]


@settings(deadline=None)
@given(made=contents())
def test_uncompressed_batches_are_the_same_bytes(made: list[Content]) -> None:
    theirs = aiokafka_records.DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=False,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=1 << 24,
    )
    ours = BatchBuilder()
    for index, (key, value, headers, timestamp_ms) in enumerate(made):
        theirs.append(index, timestamp_ms, key, value, headers)
        ours.append(key, value, headers, timestamp_ms)
    assert ours.build() == bytes(theirs.build())


def test_kafka_python_knows_our_transaction_markers() -> None:
    batch = kafka_records.DefaultRecordBatch(
        encode_end_transaction_marker(
            EndTransactionMarker(ControlType.ABORT, 4),
            producer_id=1,
            producer_epoch=0,
            timestamp_ms=5,
        )
    )
    assert batch.is_control_batch
    (record,) = list(batch)
    assert record.abort
    assert not record.commit
