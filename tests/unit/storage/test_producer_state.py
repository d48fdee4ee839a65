"""Idempotence: what repeats, what continues, what is refused; and snapshots in Kafka's format."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.protocol.errors import ErrorCode
from odradek.protocol.records import (
    ControlType,
    EndTransactionMarker,
    encode_end_transaction_marker,
    read_header,
)
from odradek.protocol.types import LeaderEpoch, Offset, ProducerEpoch, ProducerId
from odradek.storage import AppendRejected, AppendResult
from odradek.storage.log import Log
from odradek.storage.producer_entry import MAX_SEQUENCE, ProducerEntry, RememberedBatch
from odradek.storage.producer_state import CorruptSnapshot, ProducerStates, Verification
from tests.unit.storage.storage_world import NOW_MS, make_batch, make_log


def send(log: Log, sequence: int, count: int = 1, *, epoch: int = 0) -> AppendResult:
    batch = make_batch([b"x"] * count, producer=(7, epoch, sequence))
    return log.append(batch, leader_epoch=LeaderEpoch(0))


def refused(log: Log, sequence: int, *, epoch: int = 0) -> ErrorCode:
    with pytest.raises(AppendRejected) as caught:
        send(log, sequence, epoch=epoch)
    return caught.value.code


def test_a_repeated_batch_is_answered_with_its_first_offset() -> None:
    log = make_log()
    for sequence in range(0, 12, 2):
        assert not send(log, sequence, 2).duplicate
    for sequence in range(2, 12, 2):
        again = send(log, sequence, 2)
        assert (again.base_offset, again.last_offset, again.duplicate) == (
            sequence,
            sequence + 1,
            True,
        )
    assert log.log_end_offset == 12
    assert refused(log, 0) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_gap_is_refused() -> None:
    log = make_log()
    send(log, 0, 3)
    for sequence in (2, 4, 100):
        assert refused(log, sequence) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    send(log, 3)


def test_an_unknown_producer_may_begin_anywhere() -> None:
    log = make_log()
    send(log, 55)
    assert refused(log, 57) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    send(log, 56)


def test_the_sequence_wraps() -> None:
    log = make_log()
    send(log, MAX_SEQUENCE - 1, 4)
    assert send(log, MAX_SEQUENCE - 1, 4).duplicate
    assert refused(log, 3) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(log, 2).base_offset == 4
    other = make_log()
    send(other, MAX_SEQUENCE)
    assert send(other, 0).base_offset == 1


def test_epochs_fence_and_begin_at_zero() -> None:
    log = make_log()
    send(log, 0, epoch=3)
    assert refused(log, 1, epoch=2) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert refused(log, 1, epoch=4) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert not send(log, 0, epoch=4).duplicate
    assert refused(log, 1, epoch=3) == ErrorCode.INVALID_PRODUCER_EPOCH


def test_followers_learn_what_the_leader_decided() -> None:
    leader, follower = make_log(), make_log()
    for sequence in range(5):
        send(leader, sequence)
    copied = leader.read(Offset(0), 1 << 20)
    assert copied is not None
    follower.append(copied.read(0, len(copied)), leader_epoch=LeaderEpoch(0), as_follower=True)
    copied.release()
    assert send(follower, 3).duplicate
    assert send(follower, 5).base_offset == 5


def test_silent_producers_are_forgotten_unless_a_transaction_is_open() -> None:
    log = make_log()
    send(log, 0)
    batch = make_batch(producer=(8, 0, 0), is_transactional=True)
    log.append(batch, leader_epoch=LeaderEpoch(0), verification=Verification(Offset(-1)))
    log.producers.expire(NOW_MS + 999, 1000)
    assert set(log.producers.entries) == {7, 8}
    log.producers.expire(NOW_MS + 1000, 1000)
    assert set(log.producers.entries) == {8}
    send(log, 40)


def test_transactions_are_tracked_from_first_record_to_marker() -> None:
    log = make_log()
    for producer_id in (1, 2):
        batch = make_batch(producer=(producer_id, 0, 0), is_transactional=True)
        log.append(batch, leader_epoch=LeaderEpoch(0), verification=Verification(Offset(-1)))
    assert log.producers.first_unstable_offset == 0
    with pytest.raises(AppendRejected) as caught:
        log.append(make_batch(producer=(1, 0, 1)), leader_epoch=LeaderEpoch(0))
    assert caught.value.code == ErrorCode.INVALID_TXN_STATE
    marker = encode_end_transaction_marker(
        EndTransactionMarker(ControlType.ABORT, 4),
        producer_id=1,
        producer_epoch=0,
        timestamp_ms=NOW_MS,
        base_offset=2,
    )
    log.append(marker, leader_epoch=LeaderEpoch(0), as_follower=True)
    assert log.producers.first_unstable_offset == 1
    assert log.producers.entries[ProducerId(1)].coordinator_epoch == 4


def test_clients_may_not_write_markers() -> None:
    marker = encode_end_transaction_marker(
        EndTransactionMarker(ControlType.COMMIT, 0),
        producer_id=1,
        producer_epoch=0,
        timestamp_ms=NOW_MS,
    )
    with pytest.raises(AppendRejected) as caught:
        make_log().append(marker, leader_epoch=LeaderEpoch(0))
    assert caught.value.code == ErrorCode.INVALID_RECORD


int64 = st.integers(min_value=0, max_value=(1 << 63) - 1)


@st.composite
def states(draw: st.DrawFn) -> ProducerStates:
    made = ProducerStates(Offset(draw(int64)))
    for producer_id in draw(st.sets(int64, max_size=5)):
        entry = made.entries[ProducerId(producer_id)] = ProducerEntry(
            ProducerEpoch(draw(st.integers(0, 32767)))
        )
        entry.last_timestamp = draw(int64)
        entry.coordinator_epoch = draw(st.integers(-1, MAX_SEQUENCE))
        if draw(st.booleans()):
            sequence, delta = draw(st.integers(0, MAX_SEQUENCE)), draw(st.integers(0, 1000))
            entry.batches.append(
                RememberedBatch(sequence, Offset(draw(int64)), delta, entry.last_timestamp)
            )
        if draw(st.booleans()):
            entry.transaction_first_offset = Offset(draw(int64))
    return made


@given(states())
def test_a_snapshot_holds_what_was_known(made: ProducerStates) -> None:
    found = ProducerStates.decode(made.encode(), made.end_offset)
    assert found.encode() == made.encode()
    for producer_id, entry in made.entries.items():
        other = found.entries[producer_id]
        assert other.batches == entry.batches
        assert other.transaction_first_offset == entry.transaction_first_offset


@given(states(), st.data())
def test_a_damaged_snapshot_is_noticed(made: ProducerStates, data: st.DataObject) -> None:
    content = bytearray(made.encode())
    position = data.draw(st.integers(0, len(content) - 1))
    content[position] ^= data.draw(st.integers(1, 255))
    with pytest.raises(CorruptSnapshot):
        ProducerStates.decode(bytes(content), Offset(0))
    with pytest.raises(CorruptSnapshot):
        ProducerStates.decode(
            made.encode()[: data.draw(st.integers(0, len(content) - 1))], Offset(0)
        )


def test_the_snapshot_bytes_are_kafkas() -> None:
    made = ProducerStates(Offset(9))
    entry = made.entries[ProducerId(1000)] = ProducerEntry(ProducerEpoch(2))
    entry.last_timestamp = 77
    entry.batches.append(RememberedBatch(5, Offset(8), 3, 77))
    content = made.encode()
    assert content[:2] == b"\x00\x01"
    assert content[6:10] == b"\x00\x00\x00\x01"
    assert content[10:] == (
        (1000).to_bytes(8, "big")
        + b"\x00\x02"
        + (5).to_bytes(4, "big")
        + (8).to_bytes(8, "big")
        + (3).to_bytes(4, "big")
        + (77).to_bytes(8, "big")
        + b"\xff" * 4
        + b"\xff" * 8
    )


def test_a_snapshot_of_many_producers_encodes_what_changed_and_says_the_same() -> None:
    random, states = Random(1), ProducerStates()
    for step in range(6):
        for _ in range(1200):
            producer_id = random.randrange(3000)
            known = states.entries.get(ProducerId(producer_id))
            sequence = 0 if known is None else known.last_sequence + 1
            batch = make_batch(producer=(producer_id, 0, sequence))
            states.update(read_header(batch), states.end_offset, NOW_MS + step)
            states.end_offset += 1
        if step == 4:
            states.expire(NOW_MS + 1000 + step, 1000)
        again = ProducerStates.decode(states.encode(), states.end_offset)
        assert sorted(again.encode()) == sorted(states.encode())
        assert {
            producer_id: (entry.last_sequence, entry.batches[-1].last_offset, entry.last_timestamp)
            for producer_id, entry in again.entries.items()
        } == {
            producer_id: (entry.last_sequence, entry.batches[-1].last_offset, entry.last_timestamp)
            for producer_id, entry in states.entries.items()
        }
    assert len(states.entries) > 900


def test_a_snapshot_of_many_producers_holds_the_transaction_that_has_just_begun() -> None:
    """The image of many producers is encoded by some change or other: also by the one that opens
    or ends a transaction."""
    for producer_id in (999, 1000, 1001, 2001, 2002):
        states = ProducerStates()
        for number in range(producer_id + 1):
            batch = make_batch(producer=(number, 0, 0), is_transactional=number == producer_id)
            states.update(read_header(batch), states.end_offset, NOW_MS)
            states.end_offset += 1
        again = ProducerStates.decode(states.encode(), states.end_offset)
        assert again.ongoing == states.ongoing == {producer_id: producer_id}
