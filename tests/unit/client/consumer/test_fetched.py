import gc
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.client.consumer.deserializing import deserializer_of
from odradek.client.consumer.fetched_batches import (
    LOG_APPEND_TIME,
    ConsumerRecord,
    FetchedBatches,
    end_of_batches,
)
from odradek.client.errors import CorruptRecords, DeserializationFailed
from odradek.client.serialization import Bound
from odradek.protocol.compression import Codec
from odradek.protocol.messages.fetch import AbortedTransaction
from odradek.protocol.records import (
    HEADER_SIZE,
    BatchBuilder,
    ControlType,
    EndTransactionMarker,
    MalformedRecords,
    decode_records,
    encode_end_transaction_marker,
    set_log_append_time,
)
from odradek.protocol.types import Offset, ProducerId, TopicPartition
from tests.unit.protocol.record_strategies import Content, record_contents

T0 = TopicPartition("t", 0)


def batch(base_offset: int, *values: bytes, producer_id: int = -1) -> bytes:
    builder = BatchBuilder()
    for value in values:
        builder.append(b"k", value, (), 1000)
    is_transactional = producer_id >= 0
    return builder.build(
        base_offset,
        producer_id,
        0 if is_transactional else -1,
        0 if is_transactional else -1,
        leader_epoch=4,
        is_transactional=is_transactional,
    )


def marker(offset: int, producer_id: int, kind: ControlType) -> bytes:
    return encode_end_transaction_marker(
        EndTransactionMarker(kind, 0),
        producer_id=producer_id,
        producer_epoch=0,
        timestamp_ms=1000,
        base_offset=offset,
    )


def everything(fetched: FetchedBatches, limit: int = 1000) -> list[ConsumerRecord]:
    found: list[ConsumerRecord] = []
    while records := fetched.read(limit):
        found += records
    return found


def seen(fetched: FetchedBatches) -> list[bytes]:
    return [record.value for record in everything(fetched)]


def test_records_carry_where_and_when() -> None:
    (record,) = FetchedBatches(T0, batch(7, b"v"), Offset(7)).read(10)
    assert record == ConsumerRecord("t", 0, 7, 1000, 0, b"k", b"v", [], 4)  # type: ignore[arg-type]


def test_the_position_follows_what_is_taken() -> None:
    fetched = FetchedBatches(T0, batch(0, b"a", b"b", b"c") + batch(10, b"d"), Offset(0))
    assert [record.offset for record in fetched.read(2)] == [0, 1]
    assert fetched.next_offset == 2
    assert [record.offset for record in fetched.read(5)] == [2]
    assert fetched.next_offset == 3
    assert [record.offset for record in fetched.read(5)] == [10]
    assert fetched.read(5) == []
    assert fetched.next_offset == 11


def test_records_before_the_position_are_passed_over() -> None:
    fetched = FetchedBatches(T0, batch(0, b"a", b"b", b"c"), Offset(2))
    assert seen(fetched) == [b"c"]


def test_the_batch_that_was_cut_off_is_left_for_the_next_fetch() -> None:
    whole, cut = batch(0, b"a"), batch(1, b"b")[:-3]
    assert end_of_batches(whole + cut) == (1, len(whole))
    assert end_of_batches(cut) == (-1, 0)
    assert end_of_batches(b"") == (-1, 0)
    fetched = FetchedBatches(T0, whole + cut, Offset(0))
    assert seen(fetched) == [b"a"]
    assert fetched.next_offset == 1


def test_views_into_a_frame_do_as_well_as_bytes() -> None:
    frame = b"..." + batch(0, b"a") + b"..."
    assert seen(FetchedBatches(T0, memoryview(frame)[3:-3], Offset(0))) == [b"a"]


def test_broker_time_is_marked() -> None:
    stamped = set_log_append_time(batch(0, b"a"), 77)
    (record,) = FetchedBatches(T0, stamped, Offset(0)).read(1)
    assert (record.timestamp_ms, record.timestamp_type) == (77, LOG_APPEND_TIME)


def test_a_wrong_checksum_raises_after_what_came_before() -> None:
    bad = bytearray(batch(1, b"b"))
    bad[-1] ^= 1
    fetched = FetchedBatches(T0, batch(0, b"a") + bad, Offset(0))
    assert len(fetched.read(10)) == 1
    with pytest.raises(CorruptRecords, match="t-0: the batch at offset 1 fails its checksum"):
        fetched.read(10)
    assert fetched.next_offset == 1
    assert seen(FetchedBatches(T0, batch(0, b"a"), Offset(0), check_crcs=False)) == [b"a"]


def test_a_batch_that_cannot_be_decoded_raises() -> None:
    bad = bytearray(batch(0, b"a"))
    bad[61] = 0x7F
    with pytest.raises(CorruptRecords, match="t-0: the batch after offset -1: a record"):
        FetchedBatches(T0, bytes(bad), Offset(0), check_crcs=False).read(1)
    old = bytearray(batch(0, b"a"))
    old[16] = 1
    with pytest.raises(CorruptRecords, match="record format 1 is not supported"):
        FetchedBatches(T0, bytes(old), Offset(0)).read(1)
    strange = bytearray(marker(0, 5, ControlType.ABORT))
    strange[61:] = bytes(len(strange) - 61)
    aborted = [AbortedTransaction(producer_id=ProducerId(5), first_offset=Offset(0))]
    fetched = FetchedBatches(
        T0, bytes(strange), Offset(0), check_crcs=False, read_committed=True, aborted=aborted
    )
    with pytest.raises(CorruptRecords):
        fetched.read(1)


def test_a_batch_that_becomes_too_large_is_not_opened() -> None:
    builder = BatchBuilder(Codec.ZSTD)
    builder.append(b"k", bytes(2_000_000), (), 1000)
    bomb = builder.build(1)
    assert len(bomb) < 2000
    buffer = batch(0, b"a") + bomb
    assert len(everything(FetchedBatches(T0, buffer, Offset(0)))) == 2
    fetched = FetchedBatches(T0, buffer, Offset(0), max_batch_bytes=1_000_000)
    assert [record.value for record in fetched.read(10)] == [b"a"]
    with pytest.raises(CorruptRecords, match=r"more than 1000000 bytes; seek\(\) to 2"):
        fetched.read(10)


def test_control_batches_are_passed_over_and_counted() -> None:
    log = batch(0, b"a", producer_id=5) + marker(1, 5, ControlType.COMMIT)
    fetched = FetchedBatches(T0, log, Offset(0))
    assert seen(fetched) == [b"a"]
    assert fetched.next_offset == 2


def test_the_epoch_is_that_of_the_last_batch_passed_even_if_it_is_not_shown() -> None:
    """Else the position would seem to lie beyond the end of its epoch: cut off, to be reset."""
    data = bytearray(batch(0, b"a", b"b", producer_id=7))
    end = bytearray(marker(2, 7, ControlType.COMMIT))
    end[12:16] = (5).to_bytes(4, "big")
    fetched = FetchedBatches(T0, bytes(data + end), Offset(0))
    assert fetched.leader_epoch == -1
    fetched.read(1)
    assert (fetched.next_offset, fetched.leader_epoch) == (1, 4)
    assert [record.value for record in fetched.read(10)] == [b"b"]
    assert fetched.read(10) == []
    assert (fetched.next_offset, fetched.leader_epoch) == (3, 5)


def test_read_committed_hides_aborted_transactions_only() -> None:
    log = (
        batch(0, b"aborted-1", producer_id=5)
        + batch(1, b"committed-1", producer_id=6)
        + batch(2, b"plain")
        + marker(3, 5, ControlType.ABORT)
        + batch(4, b"committed-2", producer_id=5)
        + marker(5, 5, ControlType.COMMIT)
        + marker(6, 6, ControlType.COMMIT)
        + batch(7, b"aborted-2", producer_id=6)
        + batch(8, b"aborted-3", producer_id=6)
        + marker(9, 6, ControlType.ABORT)
    )
    aborted = [
        AbortedTransaction(producer_id=ProducerId(6), first_offset=Offset(7)),
        AbortedTransaction(producer_id=ProducerId(5), first_offset=Offset(0)),
    ]
    fetched = FetchedBatches(T0, log, Offset(0), aborted=aborted, read_committed=True)
    assert seen(fetched) == [b"committed-1", b"plain", b"committed-2"]
    assert fetched.next_offset == 10
    assert len(everything(FetchedBatches(T0, log, Offset(0), aborted=aborted))) == 6


def test_a_fetch_may_begin_within_an_aborted_transaction() -> None:
    log = batch(8, b"aborted", producer_id=6) + marker(9, 6, ControlType.ABORT)
    aborted = [AbortedTransaction(producer_id=ProducerId(6), first_offset=Offset(2))]
    fetched = FetchedBatches(T0, log, Offset(8), aborted=aborted, read_committed=True)
    assert seen(fetched) == []
    assert fetched.next_offset == 10


def test_deserializers_give_what_comes_before_the_record_they_fail_on() -> None:
    deserialize = deserializer_of(Bound(bytes.decode, False, None), Bound(int, False, None))
    fetched = FetchedBatches(
        T0, batch(0, b"1", b"2", b"x", b"4"), Offset(0), deserialize=deserialize
    )
    assert [(record.key, record.value) for record in fetched.read(10)] == [("k", 1), ("k", 2)]
    with pytest.raises(DeserializationFailed, match="t-0 at offset 2: ValueError") as raised:
        fetched.read(10)
    assert (raised.value.partition, raised.value.offset) == (T0, 2)
    assert fetched.next_offset == 2
    assert deserializer_of(None, None) is None


@given(
    st.lists(record_contents(), min_size=1, max_size=12),
    st.integers(0, 100),
    st.lists(st.tuples(st.integers(0), st.integers(0, 255)), max_size=2),
    st.booleans(),
)
def test_a_consumer_reads_what_decode_records_reads(
    contents: list[Content], alike: int, damage: list[tuple[int, int]], has_append_time: bool
) -> None:
    """It has a walk of its own, and a short cut for records that look alike: both must refuse the
    same damage."""
    builder = BatchBuilder()
    for number in range(alike):
        builder.append(b"key", b"x" * 100, (), 1000 + number)
    for key, value, headers, timestamp_ms in contents:
        builder.append(key, value, headers, timestamp_ms)
    whole = builder.build(70)
    data = bytearray(set_log_append_time(whole, 5000) if has_append_time else whole)
    for place, byte in damage:
        data[HEADER_SIZE + place % (len(data) - HEADER_SIZE)] = byte
    fetched = FetchedBatches(T0, bytes(data), Offset(70), check_crcs=False)
    try:
        expected = decode_records(bytes(data))
    except MalformedRecords:
        with pytest.raises(CorruptRecords):
            everything(fetched)
        return
    found = everything(fetched)
    assert [(one.offset, one.timestamp_ms, one.key, one.value, one.headers) for one in found] == [
        tuple(one) for one in expected
    ]
    assert {one.timestamp_type for one in found} == {LOG_APPEND_TIME if has_append_time else 0}


def test_an_offset_beyond_the_batch_is_refused() -> None:
    data = bytearray(batch(0, b"a", b"b"))
    struct.pack_into(">i", data, 23, 0)  # the last offset delta
    with pytest.raises(CorruptRecords, match="greater than the last offset"):
        everything(FetchedBatches(T0, bytes(data), Offset(0), check_crcs=False))


def test_a_record_without_headers_is_one_object_for_the_garbage_collector() -> None:
    """With two, the collector runs in each poll of 500 records: its threshold is 700 objects."""
    fetched = FetchedBatches(T0, batch(0, *[b"value"] * 500), Offset(0))
    gc.disable()
    try:
        before = len(gc.get_objects())
        records = fetched.read(500)
        made = len(gc.get_objects()) - before
    finally:
        gc.enable()
    assert len(records) == 500
    assert made < 550
