"""Every transition of a transaction, and who is let into which."""

import pytest

from odradek.invariants import InvariantViolation
from odradek.protocol.errors import ErrorCode
from odradek.protocol.types import ProducerEpoch, ProducerId
from odradek.transactions.commands import (
    Added,
    DescribeTransaction,
    MarkersWritten,
    ProducerIdResult,
)
from odradek.transactions.records import record_of
from odradek.transactions.transaction import (
    LAST_EPOCH,
    VERSION_2,
    Status,
    Transaction,
)
from tests.unit.transactions.coordinated import (
    ASK_AGAIN,
    FENCED,
    INVALID,
    OK,
    UNKNOWN,
    ongoing,
    started,
)
from tests.unit.transactions.driver import (
    EXPIRATION_MS,
    ID,
    MAX_TIMEOUT_MS,
    SWEEP_MS,
    A,
    B,
    Coordinator,
    typed,
)


def ongoing_at(epoch: ProducerEpoch) -> tuple[Coordinator, tuple[int, int]]:
    """A producer that has come as far as this epoch, in a transaction."""
    coordinator = Coordinator()
    open_since = Transaction(
        ID, ProducerId(101), epoch, 60_000, Status.ONGOING, frozenset({A}), 1, 1
    )
    coordinator.log.append(record_of(open_since._replace(client_transaction_version=VERSION_2)))
    coordinator.now_ms, coordinator.fresh_id = 2, 500
    coordinator.reload()
    return coordinator, (101, epoch)


# Starting


def test_a_new_id_starts_with_a_fresh_producer() -> None:
    coordinator = Coordinator()
    assert coordinator.init() == (OK, 101, 0)
    assert coordinator.status() is Status.EMPTY
    assert coordinator.init() == (OK, 101, 1)
    assert coordinator.init() == (OK, 101, 2)


@pytest.mark.parametrize("timeout_ms", [0, -1, MAX_TIMEOUT_MS + 1])
def test_a_timeout_must_be_within_bounds(timeout_ms: int) -> None:
    coordinator = Coordinator()
    error = ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert coordinator.init(timeout_ms=timeout_ms) == ProducerIdResult(error)
    assert not coordinator.log
    assert coordinator.init(timeout_ms=MAX_TIMEOUT_MS).error is OK


def test_starting_again_fences_and_aborts_who_was_in_a_transaction() -> None:
    coordinator, identity = ongoing()
    assert coordinator.init() == ASK_AGAIN
    assert coordinator.status() is Status.PREPARE_ABORT
    assert coordinator.now.producer_epoch == 2, "the markers fence too"
    assert coordinator.now.has_bumped_epoch
    assert coordinator.init() == ASK_AGAIN
    coordinator.write_markers()
    assert coordinator.init() == (OK, 101, 3)
    assert coordinator.add(identity, A).error is ErrorCode.PRODUCER_FENCED
    assert coordinator.end(identity) == FENCED
    assert coordinator.end((101, 2), committed=False) == FENCED


@pytest.mark.parametrize("epoch", [5, LAST_EPOCH - 2, LAST_EPOCH - 1])
def test_a_producer_that_a_stranger_fenced_does_not_get_an_identity_by_aborting(
    epoch: ProducerEpoch,
) -> None:
    coordinator, identity = ongoing_at(epoch)
    assert coordinator.init() == ASK_AGAIN, "a stranger starts"
    for committed in (False, True):
        assert coordinator.end(identity, committed=committed) == FENCED, "while it is aborted"
    coordinator.write_markers()
    for committed in (False, True):
        assert coordinator.end(identity, committed=committed) == FENCED, "and after"
    answer = coordinator.init()
    assert answer.error is OK
    stranger = (answer.producer_id, answer.producer_epoch)
    assert coordinator.end(identity, committed=False) in (FENCED, UNKNOWN)
    coordinator.add(stranger, A)
    assert coordinator.end(identity, committed=False) in (FENCED, UNKNOWN)
    assert coordinator.end(stranger).error is OK


def test_a_fenced_producer_does_not_repeat_the_end_of_a_stranger_of_version_1() -> None:
    coordinator, identity = started()
    assert coordinator.init() == (OK, 101, 1), "a stranger starts"
    coordinator.add((101, 1), A, version=0)
    assert coordinator.end((101, 1), version=0).error is OK
    assert coordinator.end(identity) == FENCED
    coordinator.write_markers()
    assert coordinator.end(identity) == FENCED


def test_a_new_producer_id_is_asked_to_wait_until_the_markers_are_written() -> None:
    coordinator, identity = ongoing_at(ProducerEpoch(LAST_EPOCH - 1))
    ended = coordinator.end(identity)
    assert ended == (OK, coordinator.fresh_id, 0)
    told = (ended.producer_id, 0)
    for _ in range(2):
        assert coordinator.add(told, A).error is ErrorCode.CONCURRENT_TRANSACTIONS
        assert coordinator.end(told, committed=False) == ASK_AGAIN
        assert coordinator.init(told) == ASK_AGAIN
        assert coordinator.end(identity) == ASK_AGAIN, "repeated"
        assert coordinator.add(identity, A).error is ErrorCode.PRODUCER_FENCED
        coordinator.reload()
    coordinator.write_markers()
    assert coordinator.end(identity) == ended, "repeated"
    assert coordinator.add(told, A).error is OK


def test_a_producer_that_names_its_identity_goes_on_from_it() -> None:
    coordinator, identity = started()
    assert coordinator.init(identity) == (OK, 101, 1)
    assert coordinator.init(identity) == (OK, 101, 1), "the answer was lost"
    coordinator.reload()
    assert coordinator.init(identity) == (OK, 101, 1), "after the coordinator moved too"
    assert coordinator.init((101, 1)) == (OK, 101, 2)
    assert coordinator.init(identity) == FENCED


def test_a_producer_that_lost_its_identity_to_another_cannot_go_on() -> None:
    coordinator, identity = started()
    assert coordinator.init() == (OK, 101, 1), "another one starts"
    assert coordinator.init(identity) == FENCED
    assert coordinator.init((99, 0)) == FENCED
    assert coordinator.init((101, 7)) == FENCED
    assert coordinator.now.producer_epoch == 1


def test_a_fenced_producer_does_not_abort_the_transaction_of_another() -> None:
    coordinator, identity = started()
    newer = coordinator.init()[1:]
    coordinator.add(newer, A)
    assert coordinator.init(identity) == FENCED
    assert coordinator.status() is Status.ONGOING


def test_a_producer_starts_again_out_of_its_own_transaction() -> None:
    coordinator, identity = ongoing()
    assert coordinator.init(identity) == ASK_AGAIN
    coordinator.write_markers()
    assert coordinator.init(identity) == (OK, 101, 1)


def test_who_used_an_epoch_does_not_ask_for_it_again() -> None:
    coordinator, identity = started()
    assert coordinator.init(identity) == (OK, 101, 1)
    coordinator.add((101, 1), A, version=0)
    coordinator.end((101, 1), version=0)
    coordinator.write_markers()
    assert coordinator.init(identity) == FENCED


# Adding


def test_partitions_are_added_once() -> None:
    coordinator, identity = ongoing()
    coordinator.now_ms += 5
    written = len(coordinator.log)
    assert coordinator.add(identity, A) == Added(OK)
    assert len(coordinator.log) == written, "it is there already"
    assert coordinator.add(identity, A, B) == Added(OK)
    assert coordinator.now.partitions == {A, B}
    assert coordinator.now.started_ms == coordinator.now_ms - 5


def test_verifying_adds_nothing() -> None:
    coordinator, identity = ongoing(version=0)
    assert coordinator.add(identity, A, B, verify_only=True) == Added(OK, frozenset({B}))
    assert coordinator.now.partitions == {A}
    coordinator.end(identity, version=0)
    busy = Added(ErrorCode.CONCURRENT_TRANSACTIONS)
    assert coordinator.add(identity, A, verify_only=True) == busy
    coordinator.write_markers()
    assert coordinator.add(identity, A, verify_only=True) == Added(OK, frozenset({A}))


def test_partitions_are_added_by_the_holder_alone() -> None:
    coordinator = Coordinator()
    assert coordinator.add((101, 0), A).error is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    coordinator, _ = started(epoch=1)
    assert coordinator.add((100, 1), A).error is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert coordinator.add((101, 0), A).error is ErrorCode.PRODUCER_FENCED
    assert coordinator.add((101, 2), A).error is ErrorCode.PRODUCER_FENCED


def test_the_next_transaction_waits_for_the_markers_of_the_last() -> None:
    coordinator, identity = ongoing()
    raised = coordinator.end(identity)[1:]
    assert coordinator.add(raised, A).error is ErrorCode.CONCURRENT_TRANSACTIONS
    coordinator.write_markers()
    assert coordinator.add(raised, B).error is OK
    assert coordinator.now.partitions == {B}


# Time


def test_a_transaction_that_takes_too_long_is_aborted() -> None:
    coordinator, identity = ongoing()
    coordinator.pass_time(59_999)
    assert coordinator.status() is Status.ONGOING
    coordinator.add(identity, B)
    coordinator.pass_time(1)
    assert coordinator.status() is Status.PREPARE_ABORT
    assert coordinator.now.producer_epoch == 1
    assert coordinator.prepared == [ID]
    assert coordinator.end(identity) == INVALID
    coordinator.write_markers()
    assert coordinator.end(identity) == INVALID
    assert coordinator.end(identity, committed=False) == (OK, 101, 1), "and goes on"


def test_a_version_1_producer_that_took_too_long_is_fenced() -> None:
    coordinator, identity = ongoing(version=0)
    coordinator.pass_time(60_000)
    coordinator.write_markers()
    assert coordinator.end(identity, version=0) == FENCED
    assert coordinator.end(identity, committed=False, version=0) == FENCED
    assert coordinator.init(identity) == (OK, 101, 1)


def test_a_producer_that_gives_up_by_the_same_timeout_still_aborts_itself() -> None:
    """librdkafka does so to the millisecond; fenced instead, it is of no use any more."""
    coordinator = Coordinator(grace_ms=5_000)
    answer = coordinator.init(timeout_ms=20_000)
    identity = (answer.producer_id, answer.producer_epoch)
    coordinator.add(identity, A, version=0)
    coordinator.pass_time(21_999)
    assert coordinator.end(identity, committed=False, version=0).error is OK
    coordinator.write_markers()
    coordinator.add(identity, A, version=0)
    coordinator.pass_time(22_000)
    assert coordinator.end(identity, committed=False, version=0) == FENCED


def test_a_clock_that_is_stepped_does_not_end_a_transaction_that_goes_on() -> None:
    """Its deadline was set when it began, and runs by a timer, which is not stepped."""
    coordinator, identity = ongoing()
    due_ms = coordinator.deadlines[ID]
    coordinator.now_ms += 3_600_000
    assert coordinator.add(identity, B).error is OK
    assert coordinator.deadlines[ID] == due_ms


def test_a_new_coordinator_keeps_the_deadline() -> None:
    coordinator, _ = ongoing()
    coordinator.pass_time(30_000)
    coordinator.reload()
    coordinator.pass_time(29_999)
    assert coordinator.status() is Status.ONGOING
    coordinator.pass_time(1)
    assert coordinator.status() is Status.PREPARE_ABORT


def test_an_ended_transaction_has_no_deadline() -> None:
    coordinator, identity = ongoing()
    coordinator.end(identity)
    coordinator.write_markers()
    coordinator.add((101, 1), A)
    coordinator.pass_time(30_000)
    coordinator.end((101, 1))
    coordinator.write_markers()
    coordinator.pass_time(120_000)
    assert coordinator.status() is Status.COMPLETE_COMMIT


def test_idle_ids_are_forgotten_and_busy_ones_are_not() -> None:
    coordinator, identity = started()
    coordinator.pass_time(EXPIRATION_MS - 1)
    assert ID in coordinator.machine.transactions
    coordinator.pass_time(SWEEP_MS)
    assert ID not in coordinator.machine.transactions
    assert coordinator.log[-1].value is None
    assert coordinator.end(identity) == UNKNOWN
    coordinator.reload()
    assert not coordinator.machine.transactions

    coordinator, identity = ongoing()
    coordinator.end(identity)
    coordinator.pass_time(2 * EXPIRATION_MS)
    assert coordinator.status() is Status.PREPARE_COMMIT, "its markers are due"


# Going on elsewhere


def test_a_new_coordinator_takes_up_what_was_decided() -> None:
    coordinator, identity = ongoing()
    coordinator.end(identity)
    coordinator.reload()
    assert coordinator.prepared == [ID]
    coordinator.write_markers()
    coordinator.reload()
    assert coordinator.prepared == []
    assert coordinator.status() is Status.COMPLETE_COMMIT


def test_markers_complete_the_transaction_they_are_of() -> None:
    coordinator, identity = ongoing()
    assert coordinator.ask(MarkersWritten(ID, *typed(identity))) is ErrorCode.INVALID_TXN_STATE
    coordinator.end(identity)
    late = MarkersWritten(ID, *typed(identity))
    assert coordinator.ask(late) is ErrorCode.INVALID_TXN_STATE
    assert coordinator.write_markers() is OK
    coordinator.add((101, 1), A)
    coordinator.end((101, 1))
    assert (
        coordinator.ask(MarkersWritten(ID, ProducerId(101), ProducerEpoch(1)))
        is ErrorCode.INVALID_TXN_STATE
    )
    assert coordinator.status() is Status.PREPARE_COMMIT


def test_everything_is_in_the_log() -> None:
    coordinator, identity = ongoing()
    states: list[Transaction] = []
    for step in (
        lambda: coordinator.end(identity),
        coordinator.write_markers,
        lambda: coordinator.add((101, 1), A, B),
        lambda: coordinator.pass_time(60_000),
        coordinator.write_markers,
        lambda: coordinator.init((101, 2)),
    ):
        step()
        before = coordinator.now
        coordinator.reload()
        assert coordinator.now._replace(previous_steps=()) == before._replace(previous_steps=())
        states.append(before)
    assert [state.status for state in states] == [
        Status.PREPARE_COMMIT,
        Status.COMPLETE_COMMIT,
        Status.ONGOING,
        Status.PREPARE_ABORT,
        Status.COMPLETE_ABORT,
        Status.EMPTY,
    ]


def test_a_state_can_be_examined() -> None:
    coordinator, _ = started()
    assert coordinator.ask(DescribeTransaction(ID)) == coordinator.now
    assert coordinator.ask(DescribeTransaction("another")) is None


def test_what_the_table_forbids_raises_with_the_last_steps() -> None:
    coordinator, identity = ongoing()
    coordinator.end(identity)
    with pytest.raises(InvariantViolation) as caught:
        coordinator.now.become(Status.ONGOING, 0)
    assert "transactional id tx: PrepareCommit cannot become Ongoing" in str(caught.value)
    assert caught.value.history == (
        "Empty(101/0)@1000000",
        "Ongoing(101/0)@1000000",
        "PrepareCommit(101/1)@1000000",
    )


def test_a_history_is_short() -> None:
    coordinator = Coordinator()
    for _ in range(50):
        coordinator.init()
    assert len(coordinator.now.previous_steps) == 8
