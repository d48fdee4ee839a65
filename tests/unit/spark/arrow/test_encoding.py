"""Arrow columns as record batches: what is decoded again is what went in, where it should go."""

from collections import defaultdict

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.client.producer.murmur2 import murmur2
from odradek.protocol.compression import Codec
from odradek.protocol.records import HEADER_SIZE, Record, decode_records
from odradek.spark.arrow import kernels
from odradek.spark.arrow.accepted import BadColumn
from odradek.spark.arrow.encoding import ArrowEncoder, RecordColumns, record_columns

NOW_MS = 1_700_000_000_123
_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))

_bytes = st.none() | st.binary(max_size=40)
_row = st.fixed_dictionaries(
    {
        "key": _bytes,
        "value": _bytes,
        "topic": st.sampled_from(["a", "b"]),
        "partition": st.none() | st.integers(0, 2),
        "timestamp": st.none() | st.integers(0, 1 << 41),
        "headers": st.none()
        | st.lists(
            st.fixed_dictionaries({"key": st.text(max_size=4), "value": _bytes}), max_size=3
        ),
    }
)


def batch_of(rows: list[dict[str, object]]) -> pa.RecordBatch:
    def column(name: str, kind: pa.DataType) -> pa.Array:
        return pa.array([row[name] for row in rows], kind)

    stamps = column("timestamp", pa.int64())
    return pa.record_batch(
        [
            column("key", pa.binary()),
            column("value", pa.binary()),
            column("topic", pa.string()),
            column("partition", pa.int32()),
            stamps.cast(pa.timestamp("ms")).cast(pa.timestamp("us", tz="UTC")),
            column("headers", _HEADERS),
        ],
        names=["key", "value", "topic", "partition", "timestamp", "headers"],
    )


def packed(
    columns: RecordColumns, topic: str | None = None, *, batch_bytes: int = 900_000
) -> dict[tuple[str, int], list[Record]]:
    encoder = ArrowEncoder(topic, lambda _: 3, batch_bytes=batch_bytes)
    found: dict[tuple[str, int], list[Record]] = defaultdict(list)
    for one in encoder.encode(columns):
        records = decode_records(one.batch.build())
        assert one.batch.record_count == len(records)
        assert [record.offset for record in records] == list(range(len(records)))
        found[one.topic, one.partition] += records
    return found


@given(st.lists(_row, min_size=1, max_size=30), st.integers(120, 2000), st.integers(0, 3))
def test_rows_come_out_as_they_went_in(
    rows: list[dict[str, object]], batch_bytes: int, skipped: int
) -> None:
    # A slice, because Spark's batches may be slices of larger ones.
    batch = batch_of([*rows[:1] * skipped, *rows]).slice(skipped)
    found = packed(record_columns(batch, NOW_MS), batch_bytes=batch_bytes)
    wanted: dict[tuple[str, int], list[dict[str, object]]] = defaultdict(list)
    for row in rows:
        place = row["partition"]
        if place is None:
            key = row["key"]
            # Without a key, the first Arrow batch goes to partition 0.
            place = 0 if key is None else (murmur2(key) & 0x7FFFFFFF) % 3  # type: ignore[arg-type]
        wanted[row["topic"], place].append(row)  # type: ignore[index]
    assert found.keys() == wanted.keys()
    for place, records in found.items():
        assert [(one.key, one.value, one.timestamp_ms, one.headers) for one in records] == [
            (
                row["key"],
                row["value"],
                NOW_MS if row["timestamp"] is None else row["timestamp"],
                [(one["key"], one["value"]) for one in row["headers"] or ()],  # type: ignore[attr-defined]
            )
            for row in wanted[place]
        ]


def test_strings_and_a_topic_for_all() -> None:
    batch = pa.record_batch([pa.array(["ä", None]), pa.array(["1", "2"])], names=["key", "value"])
    found = packed(record_columns(batch, NOW_MS), "t")
    records = [one for many in found.values() for one in many]
    assert {(one.key, one.value) for one in records} == {("ä".encode(), b"1"), (None, b"2")}


def test_rows_without_a_key_take_turns_by_batch() -> None:
    columns = record_columns(pa.record_batch([pa.array([b"v"] * 5)], names=["value"]), NOW_MS)
    encoder = ArrowEncoder("t", lambda _: 3)
    places = [[one.partition for one in encoder.encode(columns)] for _ in range(4)]
    assert places == [[0], [1], [2], [0]]


def test_rows_without_a_key_start_at_the_first_partition() -> None:
    columns = record_columns(pa.record_batch([pa.array([b"v"])], names=["value"]), NOW_MS)
    encoder = ArrowEncoder("t", lambda _: 3, first_partition=5)
    assert [[batch.partition for batch in encoder.encode(columns)] for _ in range(2)] == [[2], [0]]


def test_a_record_larger_than_a_batch_goes_alone() -> None:
    values = pa.array([b"a" * 10, b"b" * 5000, b"c" * 10])
    columns = record_columns(pa.record_batch([values], names=["value"]), NOW_MS)
    encoder = ArrowEncoder("t", lambda _: 1, batch_bytes=100)
    counts = [one.batch.record_count for one in encoder.encode(columns)]
    assert sum(counts) == 3


def test_batches_after_a_large_record_are_as_small_as_before() -> None:
    values = pa.array([b"a" * 5000, *[b"b" * 10] * 40])
    columns = record_columns(pa.record_batch([values], names=["value"]), NOW_MS)
    encoder = ArrowEncoder("t", lambda _: 1, batch_bytes=100)
    first, *others = encoder.encode(columns)
    assert first.batch.record_count == 1
    assert max(one.batch.size_bytes for one in others) <= 100 + HEADER_SIZE


def test_a_partition_that_is_not_there_is_refused() -> None:
    batch = pa.record_batch([pa.array([b"v"]), pa.array([7])], names=["value", "partition"])
    with pytest.raises(ValueError, match="partition 7, but topic t has 3"):
        packed(record_columns(batch, NOW_MS), "t")


@pytest.mark.parametrize(
    ("column", "given", "kind"),
    [
        ("key", 7, pa.int64()),
        ("value", 7, pa.int64()),
        ("topic", 7, pa.int64()),
        ("partition", "1", pa.string()),
        ("partition", 1.0, pa.float64()),
        ("timestamp", 1_763_000_000_000, pa.int64()),
        ("timestamp", 1_763_000_000_000, pa.timestamp("us")),
        ("timestamp", 20_000, pa.date32()),
        ("headers", [("n", b"c")], pa.map_(pa.string(), pa.binary())),
        (
            "headers",
            [{"name": "n", "content": b"c"}],
            pa.list_(pa.struct([("name", pa.string()), ("content", pa.binary())])),
        ),
        (
            "headers",
            [{"key": "n", "value": b"c", "more": 1}],
            pa.list_(
                pa.struct([("key", pa.string()), ("value", pa.binary()), ("more", pa.int8())])
            ),
        ),
        ("headers", ["n"], pa.list_(pa.string())),
    ],
)
def test_a_column_of_another_type_is_refused_by_name(
    column: str, given: object, kind: pa.DataType
) -> None:
    columns = {"value": pa.array([b"v"]), column: pa.array([given], kind)}
    with pytest.raises(BadColumn, match=f"column {column} is .*, but must be "):
        record_columns(pa.record_batch(columns), NOW_MS)


def test_headers_are_taken_by_name_and_not_by_position() -> None:
    kind = pa.list_(pa.struct([("Value", pa.binary()), ("Key", pa.string())]))
    headers = pa.array([[{"Value": b"secret", "Key": "name"}], None], kind)
    columns = record_columns(pa.record_batch({"VALUE": ["v", "w"], "Headers": headers}), NOW_MS)
    (records,) = packed(columns, "t").values()
    assert [list(one.headers) for one in records] == [[("name", b"secret")], []]


@pytest.mark.parametrize("entry", [{"key": None, "value": b"x"}, None])
def test_a_header_without_a_key_is_refused(entry: object) -> None:
    headers = pa.array([[{"key": "k", "value": b"x"}], [entry]], _HEADERS)
    batch = pa.record_batch({"value": ["v", "w"], "headers": headers})
    with pytest.raises(BadColumn, match="the key of a header is null"):
        record_columns(batch, NOW_MS)
    # Of a batch that is a slice of a larger one only its own rows count.
    assert record_columns(batch.slice(0, 1), NOW_MS).row_count == 1


def test_a_negative_partition_is_refused_and_null_is_none() -> None:
    batch = pa.record_batch({"value": ["v", "w"], "partition": pa.array([None, 2])})
    assert record_columns(batch, NOW_MS).partitions.tolist() == [-1, 2]
    batch = pa.record_batch({"value": ["v", "w"], "partition": pa.array([None, -2])})
    with pytest.raises(BadColumn, match="a row names partition -2"):
        record_columns(batch, NOW_MS)


def test_two_columns_of_one_name_are_refused() -> None:
    batch = pa.record_batch([pa.array(["v"]), pa.array(["w"])], names=["value", "Value"])
    with pytest.raises(BadColumn, match="two columns value"):
        record_columns(batch, NOW_MS)


def test_a_missing_topic_is_refused() -> None:
    batch = pa.record_batch([pa.array([b"v"])], names=["value"])
    with pytest.raises(ValueError, match="set option"):
        packed(record_columns(batch, NOW_MS))


@pytest.mark.parametrize("codec", list(Codec))
def test_batches_are_compressed(codec: Codec) -> None:
    columns = record_columns(pa.record_batch([pa.array([b"v" * 99] * 99)], names=["value"]), NOW_MS)
    (one,) = ArrowEncoder("t", lambda _: 1, codec=codec).encode(columns)
    batch = one.batch.build(0, 5, 6, 7, is_transactional=True)
    assert [record.value for record in decode_records(batch)] == [b"v" * 99] * 99
    assert len(batch) == one.batch.size_bytes


@given(st.binary(max_size=64))
def test_the_hash_is_kafkas(key: bytes) -> None:
    import numpy as np

    assert kernels.murmur2(np.frombuffer(key, np.uint8), 0, len(key)) == murmur2(key)


@given(st.lists(_row, min_size=1, max_size=20), st.randoms())
def test_the_fingerprint_knows_rows_but_not_their_order(
    rows: list[dict[str, object]], chance: "object"
) -> None:
    before = record_columns(batch_of(rows), NOW_MS).fingerprint()
    shuffled = list(rows)
    chance.shuffle(shuffled)  # type: ignore[attr-defined]
    assert record_columns(batch_of(shuffled), NOW_MS + 1).fingerprint() == before
    changed = [{**rows[0], "value": b"something else"}, *rows[1:]]
    if rows[0]["value"] != b"something else":
        assert record_columns(batch_of(changed), NOW_MS).fingerprint() != before
