"""Transactions in a log: what begins one, what ends it, who was aborted, what is decided."""

import asyncio

import pytest

from odradek.protocol.errors import ErrorCode
from odradek.protocol.records import (
    ControlType,
    EndTransactionMarker,
    encode_end_transaction_marker,
)
from odradek.protocol.types import LeaderEpoch, Offset, ProducerEpoch, ProducerId
from odradek.storage import AppendRejected, Log
from odradek.storage.producer_state import UNVERIFIED, TransactionNotOpen, Verification
from odradek.storage.transaction_index import AbortedTransaction
from tests.unit.storage.storage_world import (
    NOW_MS,
    PARTITION,
    TOPIC_ID,
    make_batch,
    make_log,
    make_manager,
    make_world,
    topic,
)

VERIFIED = Verification(Offset(-1))


def send(
    log: Log, producer_id: int, sequence: int, verification: Verification | None, *, epoch: int = 0
) -> int:
    batch = make_batch(producer=(producer_id, epoch, sequence), is_transactional=True)
    return log.append(batch, leader_epoch=LeaderEpoch(0), verification=verification).base_offset


def end(log: Log, producer_id: int, kind: ControlType, *, epoch: int = 0) -> int:
    marker = encode_end_transaction_marker(
        EndTransactionMarker(kind, 0),
        producer_id=producer_id,
        producer_epoch=epoch,
        timestamp_ms=NOW_MS,
    )
    return log.append(marker, leader_epoch=LeaderEpoch(0), by_coordinator=True).base_offset


def test_a_transactional_batch_needs_a_transactional_id() -> None:
    log = make_log()
    with pytest.raises(AppendRejected) as caught:
        send(log, 1, 0, None)
    assert caught.value.code is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    batch = make_batch(is_transactional=True)
    with pytest.raises(AppendRejected) as caught:
        log.append(batch, leader_epoch=LeaderEpoch(0), verification=VERIFIED)
    assert caught.value.code is ErrorCode.INVALID_RECORD


def test_the_coordinator_is_asked_for_the_first_batch_alone() -> None:
    log = make_log()
    with pytest.raises(TransactionNotOpen):
        send(log, 1, 0, UNVERIFIED)
    assert send(log, 1, 0, VERIFIED) == 0
    assert send(log, 1, 1, UNVERIFIED) == 1
    end(log, 1, ControlType.COMMIT)
    with pytest.raises(TransactionNotOpen):
        send(log, 1, 2, UNVERIFIED)
    assert send(log, 1, 2, Verification(Offset(2))) == 3


def test_an_answer_of_before_the_marker_opens_nothing() -> None:
    log = make_log()
    send(log, 1, 0, VERIFIED)
    end(log, 1, ControlType.ABORT)
    with pytest.raises(AppendRejected) as caught:
        send(log, 1, 1, VERIFIED)
    assert caught.value.code is ErrorCode.INVALID_TXN_STATE
    assert not isinstance(caught.value, TransactionNotOpen)
    assert not log.producers.ongoing


def test_a_batch_may_not_overtake_one_that_waits_for_the_coordinator() -> None:
    log = make_log()
    for sequence in (0, 1):
        with pytest.raises(TransactionNotOpen):
            send(log, 1, sequence, UNVERIFIED)
    with pytest.raises(AppendRejected) as caught:
        send(log, 1, 1, VERIFIED)
    assert caught.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(log, 1, 0, VERIFIED) == 0
    assert send(log, 1, 1, UNVERIFIED) == 1


def test_a_repeated_batch_of_an_ended_transaction_opens_nothing() -> None:
    log = make_log()
    send(log, 1, 0, VERIFIED)
    end(log, 1, ControlType.COMMIT)
    assert send(log, 1, 0, UNVERIFIED) == 0
    assert not log.producers.ongoing


def test_a_marker_with_the_next_epoch_fences_the_records_before_it() -> None:
    log = make_log()
    send(log, 1, 0, VERIFIED)
    end(log, 1, ControlType.COMMIT, epoch=1)
    with pytest.raises(AppendRejected) as caught:
        send(log, 1, 1, UNVERIFIED)
    assert caught.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
    assert send(log, 1, 0, Verification(Offset(1)), epoch=1) == 2


def test_the_last_stable_offset_waits_for_the_oldest_transaction_and_its_marker() -> None:
    log = make_log()
    producers = log.producers
    log.append(make_batch(), leader_epoch=LeaderEpoch(0))
    send(log, 1, 0, VERIFIED)
    send(log, 2, 0, VERIFIED)
    assert producers.last_stable_offset(Offset(3)) == 1
    assert producers.last_stable_offset(Offset(1)) == 1
    end(log, 1, ControlType.COMMIT)
    assert producers.last_stable_offset(Offset(3)) == 1, "the marker at 3 is not replicated"
    assert producers.last_stable_offset(Offset(4)) == 2
    end(log, 2, ControlType.ABORT)
    assert producers.last_stable_offset(Offset(5)) == 5
    assert not producers.has_unstable


def make_three_aborts(log: Log) -> None:
    """1 from 0 to 3, 2 from 1 to 4, 3 from 5 to 6; the committed one of 4 from 2 to 7."""
    for producer_id in (1, 2, 4):
        send(log, producer_id, 0, VERIFIED)
    end(log, 1, ControlType.ABORT)
    end(log, 2, ControlType.ABORT)
    send(log, 3, 0, VERIFIED)
    end(log, 3, ControlType.ABORT)
    end(log, 4, ControlType.COMMIT)


THREE_ABORTS = [
    AbortedTransaction(ProducerId(1), Offset(0), Offset(3), Offset(1)),
    AbortedTransaction(ProducerId(2), Offset(1), Offset(4), Offset(2)),
    AbortedTransaction(ProducerId(3), Offset(5), Offset(6), Offset(2)),
]


def test_aborted_transactions_are_found_by_what_they_overlap() -> None:
    log = make_log()
    make_three_aborts(log)
    assert list(log.aborted) == THREE_ABORTS
    overlapping = log.aborted.overlapping
    assert overlapping(Offset(0), Offset(8)) == THREE_ABORTS
    assert overlapping(Offset(0), Offset(1)) == THREE_ABORTS[:1]
    assert overlapping(Offset(4), Offset(8)) == THREE_ABORTS[1:]
    assert overlapping(Offset(5), Offset(6)) == THREE_ABORTS[2:]
    assert overlapping(Offset(7), Offset(8)) == []


def test_a_reader_is_told_of_the_slice_it_reads_alone() -> None:
    log = make_log()
    make_three_aborts(log)
    size = len(make_batch(producer=(1, 0, 0), is_transactional=True))
    found = log.read(Offset(0), size)
    assert found is not None
    assert list(log.aborted_in(found, Offset(0), Offset(8))) == THREE_ABORTS[:1]
    found.release()
    found = log.read(Offset(0), 1 << 20)
    assert found is not None
    assert list(log.aborted_in(found, Offset(0), Offset(8))) == THREE_ABORTS
    found.release()


def test_truncation_forgets_aborts_and_brings_transactions_back() -> None:
    log = make_log()
    make_three_aborts(log)
    log.truncate_to(Offset(4))
    assert list(log.aborted) == THREE_ABORTS[:1]
    assert dict(log.producers.ongoing) == {2: 1, 4: 2}
    end(log, 2, ControlType.ABORT)
    assert list(log.aborted) == THREE_ABORTS[:2]


def test_aborts_go_with_their_segments() -> None:
    log = make_log(settings=topic(segment_bytes=160))
    make_three_aborts(log)
    assert len(log.segments) > 2
    log.advance_log_start(Offset(4))
    assert [entry.last_offset for entry in log.aborted] == [4, 6]
    log.truncate_fully_and_start_at(Offset(20))
    assert not list(log.aborted)


@pytest.mark.parametrize("cleanly", [True, False])
def test_a_restart_knows_aborted_and_open_transactions(cleanly: bool) -> None:
    async def main() -> None:
        world = make_world()
        manager = make_manager(world, "/data")
        await manager.load(lambda _: topic(segment_bytes=160))
        log = manager.create(PARTITION, TOPIC_ID, topic(segment_bytes=160))
        make_three_aborts(log)
        send(log, 5, 0, VERIFIED)
        if cleanly:
            await manager.close()
        else:
            manager.abandon()
        again = make_manager(world, "/data")
        await again.load(lambda _: topic(segment_bytes=160))
        loaded = again.logs[PARTITION]
        assert list(loaded.aborted) == THREE_ABORTS
        assert dict(loaded.producers.ongoing) == {5: 8}
        again.abandon()

    asyncio.run(main())


@pytest.mark.parametrize("damage", [b"", b"\x00\x09" + bytes(32), b"short"])
def test_damaged_indexes_are_made_again(damage: bytes) -> None:
    async def main() -> None:
        world = make_world()
        manager = make_manager(world, "/data")
        await manager.load(lambda _: topic())
        log = manager.create(PARTITION, TOPIC_ID, topic())
        make_three_aborts(log)
        await manager.close() if damage else manager.abandon()
        path = "/data/orders-0/00000000000000000000.txnindex"
        good = world.disk.read(path)
        assert len(good) == 3 * 34
        world.disk.replace(path, damage)
        again = make_manager(world, "/data")
        await again.load(lambda _: topic())
        assert list(again.logs[PARTITION].aborted) == THREE_ABORTS
        assert world.disk.read(path) == good
        again.abandon()

    asyncio.run(main())


def test_markers_of_old_epochs_and_coordinators_are_refused() -> None:
    log = make_log()
    check = log.producers.check_marker
    assert check(ProducerId(1), ProducerEpoch(0), 0, is_bumped=False), (
        "nothing is known, nothing is refused"
    )
    send(log, 1, 0, VERIFIED, epoch=3)
    with pytest.raises(AppendRejected) as caught:
        check(ProducerId(1), ProducerEpoch(2), 0, is_bumped=False)
    assert caught.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
    assert check(ProducerId(1), ProducerEpoch(3), 0, is_bumped=False)
    with pytest.raises(AppendRejected) as caught:
        check(ProducerId(1), ProducerEpoch(3), 0, is_bumped=True)
    assert caught.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
    assert check(ProducerId(1), ProducerEpoch(4), 0, is_bumped=True)
    marker = encode_end_transaction_marker(
        EndTransactionMarker(ControlType.COMMIT, 7),
        producer_id=1,
        producer_epoch=4,
        timestamp_ms=NOW_MS,
    )
    log.append(marker, leader_epoch=LeaderEpoch(0), by_coordinator=True)
    assert not check(ProducerId(1), ProducerEpoch(4), 7, is_bumped=True), "it was written already"
    with pytest.raises(AppendRejected) as caught:
        check(ProducerId(1), ProducerEpoch(4), 6, is_bumped=True)
    assert caught.value.code is ErrorCode.TRANSACTION_COORDINATOR_FENCED
