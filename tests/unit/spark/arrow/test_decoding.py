"""Fetched batches as Arrow columns: the same records that the consumer would show."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.client.consumer.fetched_batches import FetchedBatches
from odradek.client.errors import CorruptRecords
from odradek.protocol.compression import Codec
from odradek.protocol.messages.fetch import AbortedTransaction
from odradek.protocol.records import (
    HEADER_SIZE,
    BatchBuilder,
    ControlType,
    EndTransactionMarker,
    Headers,
    MalformedRecords,
    decode_records,
    encode_end_transaction_marker,
    offset_prefix,
    read_header,
    set_log_append_time,
)
from odradek.protocol.types import LeaderEpoch, Offset, ProducerId, TopicPartition
from odradek.spark.arrow.decoding import SCHEMA, SCHEMA_WITH_HEADERS, ArrowDecoder
from odradek.spark.arrow.encoding import ArrowEncoder, record_columns
from odradek.spark.arrow.kernels import read_only

PLACE = TopicPartition("clicks", 3)
FAR = 1 << 60

_bytes = st.none() | st.binary(max_size=300)
_headers = st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=9)), max_size=3)
_record = st.tuples(_bytes, _bytes, _headers, st.integers(0, 1 << 41))


def batch_of(
    records: list[tuple[bytes | None, bytes | None, Headers, int]],
    base_offset: int = 0,
    codec: Codec = Codec.NONE,
) -> bytes:
    builder = BatchBuilder(codec)
    for key, value, headers, timestamp_ms in records:
        builder.append(key, value, headers, timestamp_ms)
    return builder.build(base_offset)


def plain(count: int, base_offset: int = 0) -> bytes:
    return batch_of([(None, b"v%d" % index, (), index) for index in range(count)], base_offset)


def decoded(decoder: ArrowDecoder, buffer: bytes, first: int = 0, end: int = FAR) -> pa.Table:
    batches = list(decoder.decode(buffer, first, end))
    return pa.Table.from_batches(batches, schema=decoder.schema)


@given(
    st.lists(st.lists(_record, min_size=1, max_size=12), min_size=1, max_size=4),
    st.sampled_from(list(Codec)),
)
def test_columns_hold_what_the_consumer_shows(
    batches: list[list[tuple[bytes | None, bytes | None, Headers, int]]], codec: Codec
) -> None:
    buffer, offset = b"", 0
    for records in batches:
        buffer += batch_of(records, offset, codec)
        offset += len(records)
    fetched = FetchedBatches(PLACE, buffer, Offset(0))
    shown = []
    while taken := fetched.read(1000):
        shown += taken
    table = decoded(ArrowDecoder(PLACE, with_headers=True), buffer)
    assert table.schema == SCHEMA_WITH_HEADERS
    rows = table.to_pydict()
    assert rows["key"] == [one.key for one in shown]
    assert rows["value"] == [one.value for one in shown]
    assert rows["offset"] == [one.offset for one in shown]
    times = np.asarray(table["timestamp"].cast(pa.int64()))
    assert times.tolist() == [one.timestamp_ms * 1000 for one in shown]
    assert rows["timestampType"] == [one.timestamp_type for one in shown]
    assert set(rows["topic"]) == {"clicks"}
    assert set(rows["partition"]) == {3}
    assert rows["headers"] == [
        [{"key": name, "value": content} for name, content in one.headers] or None for one in shown
    ]
    table.validate(full=True)


def test_only_the_range_is_decoded() -> None:
    buffer = plain(10) + plain(10, 10) + plain(10, 20)
    table = decoded(ArrowDecoder(PLACE), buffer, first=7, end=22)
    assert table.schema == SCHEMA
    assert table["offset"].to_pylist() == list(range(7, 22))
    assert table["value"].to_pylist()[:4] == [b"v7", b"v8", b"v9", b"v0"]


def test_an_incomplete_last_batch_is_left_for_the_next_answer() -> None:
    buffer = plain(3) + plain(3, 3)[:-1]
    assert decoded(ArrowDecoder(PLACE), buffer).num_rows == 3


def test_the_brokers_time_replaces_the_producers() -> None:
    buffer = set_log_append_time(plain(2), 77) + plain(2, 2)
    table = decoded(ArrowDecoder(PLACE), buffer)
    assert table["timestampType"].to_pylist() == [1, 1, 0, 0]
    assert np.asarray(table["timestamp"].cast(pa.int64())).tolist() == [77000, 77000, 0, 1000]


def test_large_answers_come_in_several_batches() -> None:
    one = plain(30_000)
    buffer = b"".join(
        offset_prefix(read_header(one), Offset(30_000 * index), LeaderEpoch(0)) + one[16:]
        for index in range(5)
    )
    sizes = [batch.num_rows for batch in ArrowDecoder(PLACE).decode(buffer, 0, FAR)]
    assert sizes == [120_000, 30_000]


def _transaction(producer_id: int, base_offset: int, value: bytes) -> bytes:
    builder = BatchBuilder()
    builder.append(None, value)
    return builder.build(base_offset, producer_id, 0, 0, is_transactional=True)


def _marker(kind: ControlType, producer_id: int, base_offset: int) -> bytes:
    return encode_end_transaction_marker(
        EndTransactionMarker(kind, 0),
        producer_id=producer_id,
        producer_epoch=0,
        timestamp_ms=0,
        base_offset=base_offset,
    )


def test_aborted_transactions_and_markers_are_passed_over() -> None:
    buffer = (
        _transaction(7, 0, b"aborted")
        + _transaction(8, 1, b"kept")
        + _marker(ControlType.ABORT, 7, 2)
        + _transaction(7, 3, b"kept too")
        + _marker(ControlType.COMMIT, 7, 4)
    )
    aborted = [AbortedTransaction(producer_id=ProducerId(7), first_offset=Offset(0))]
    committed = ArrowDecoder(PLACE, read_committed=True).decode(buffer, 0, FAR, aborted)
    assert [row for batch in committed for row in batch["value"].to_pylist()] == [
        b"kept",
        b"kept too",
    ]
    everything = decoded(ArrowDecoder(PLACE), buffer)
    assert everything["value"].to_pylist() == [b"aborted", b"kept", b"kept too"]


def test_a_flipped_bit_is_found_by_the_checksum() -> None:
    broken = bytearray(plain(3))
    broken[-2] ^= 1
    with pytest.raises(CorruptRecords, match="fails its checksum"):
        decoded(ArrowDecoder(PLACE), bytes(broken))


@given(st.data())
def test_damaged_records_never_reach_beyond_their_batch(data: st.DataObject) -> None:
    """The kernel returns records or an error, and agrees with `decode_records` if both accept."""
    whole = bytearray(batch_of([(b"key", b"value", [("h", b"c")], 5)] * 8))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(HEADER_SIZE, len(whole) - 1))
        whole[at] = data.draw(st.integers(0, 255))
    decoder = ArrowDecoder(PLACE, with_headers=True, check_crcs=False)
    try:
        table = decoded(decoder, bytes(whole))
    except CorruptRecords:
        return
    assert table.num_rows <= 8
    table.validate()
    try:
        records = decode_records(bytes(whole))
    except MalformedRecords:
        return
    rows = table.select(["offset", "key", "value"]).to_pydict()
    assert rows["offset"] == [record.offset for record in records]
    assert rows["key"] == [record.key for record in records]
    assert rows["value"] == [record.value for record in records]


def test_a_record_count_that_cannot_be_is_refused_before_memory_is_asked_for() -> None:
    lying = bytearray(plain(3))
    lying[57:61] = (0x7FFFFFFF).to_bytes(4, "big")
    with pytest.raises(CorruptRecords, match="2147483647 records in"):
        decoded(ArrowDecoder(PLACE, check_crcs=False), bytes(lying))


def test_a_header_without_a_name_is_read_as_null() -> None:
    """No producer of ours writes one, but one that does must not make a partition unreadable."""
    headers = pa.array(
        [[{"key": "gone", "value": b"x"}]], SCHEMA_WITH_HEADERS.field("headers").type
    )
    columns = record_columns(pa.record_batch({"value": ["v"], "headers": headers}), 0)
    assert columns.headers is not None
    no_name = columns.headers.names._replace(is_valid=read_only(np.zeros(1, np.uint8)))
    columns = columns._replace(headers=columns.headers._replace(names=no_name))
    (encoded,) = ArrowEncoder("t", lambda _: 1).encode(columns)
    buffer = memoryview(encoded.batch.build(0)).toreadonly()
    (batch,) = ArrowDecoder(PLACE, with_headers=True).decode(buffer, 0, 1)
    assert batch.column("headers").to_pylist() == [[{"key": None, "value": b"x"}]]


def test_header_names_that_are_not_utf8_are_shown_as_by_the_consumer() -> None:
    """A producer may write any bytes, and a column of strings that are not UTF-8 cannot be read."""
    names = [("plain", b"1"), ("bad?", b"2"), ("ünï", None)]
    buffer = batch_of([(None, b"v", names, 0), (None, b"w", (), 0)])
    at = buffer.index(b"bad?")
    buffer = buffer[: at + 3] + b"\xff" + buffer[at + 4 :]
    table = decoded(ArrowDecoder(PLACE, with_headers=True, check_crcs=False), buffer)
    table.validate(full=True)
    (shown, _) = decode_records(buffer)
    assert shown.headers[1] == ("bad\ufffd", b"2")
    expected = [{"key": name, "value": content} for name, content in shown.headers]
    assert table.column("headers").to_pylist() == [expected, None]
