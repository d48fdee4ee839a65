"""How transactions end, in versions 1 and 2, and what happens when epochs run out."""

import pytest

from odradek.protocol.errors import ErrorCode
from odradek.protocol.types import ProducerEpoch, ProducerId
from odradek.transactions.commands import (
    Added,
    EndTransaction,
    ProducerIdResult,
)
from odradek.transactions.transaction import (
    LAST_EPOCH,
    VERSION_2,
    Status,
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
    ID,
    A,
    B,
    Coordinator,
)

# Ending, version 1


@pytest.mark.parametrize("committed", [True, False])
def test_version_1_keeps_the_epoch(committed: bool) -> None:
    coordinator, identity = ongoing(version=0)
    assert coordinator.end(identity, committed=committed, version=0) == (OK, *identity)
    assert coordinator.status() in (Status.PREPARE_COMMIT, Status.PREPARE_ABORT)
    assert not coordinator.now.has_bumped_epoch
    assert coordinator.end(identity, committed=committed, version=0) == ASK_AGAIN
    assert coordinator.end(identity, committed=not committed, version=0) == INVALID
    coordinator.write_markers()
    assert coordinator.end(identity, committed=committed, version=0) == (OK, *identity)
    assert coordinator.end(identity, committed=not committed, version=0) == INVALID
    assert coordinator.now.producer_epoch == 0


def test_version_1_ends_nothing_that_did_not_begin() -> None:
    coordinator, identity = started()
    assert coordinator.end(identity, version=0) == INVALID
    assert coordinator.end(identity, committed=False, version=0) == INVALID
    assert coordinator.end((101, 5), version=0) == FENCED
    assert coordinator.end((5, 0), version=0) == UNKNOWN


# Ending, version 2


@pytest.mark.parametrize("committed", [True, False])
def test_version_2_raises_the_epoch_with_the_decision(committed: bool) -> None:
    coordinator, identity = ongoing()
    assert coordinator.end(identity, committed=committed) == (OK, 101, 1)
    assert coordinator.now.producer_epoch == 1, "which the markers carry"
    assert coordinator.now.has_bumped_epoch
    assert coordinator.prepared == [ID]
    assert coordinator.end(identity, committed=committed) == ASK_AGAIN
    assert coordinator.end(identity, committed=not committed) == INVALID
    assert coordinator.write_markers() is OK
    assert coordinator.end(identity, committed=committed) == (OK, 101, 1), "told again"
    assert coordinator.end(identity, committed=not committed) == INVALID


def test_a_delayed_end_never_ends_a_later_transaction() -> None:
    coordinator, identity = ongoing()
    coordinator.end(identity)
    coordinator.write_markers()
    coordinator.add((101, 1), B)
    for committed in (True, False):
        assert coordinator.end(identity, committed=committed) == FENCED
    assert coordinator.status() is Status.ONGOING
    coordinator.reload()
    assert coordinator.end(identity) == FENCED
    assert coordinator.end((101, 1)) == (OK, 101, 2)


def test_an_empty_transaction_can_be_aborted_for_its_epoch() -> None:
    coordinator, identity = started()
    assert coordinator.end(identity) == INVALID, "there is nothing to commit"
    assert coordinator.end(identity, committed=False) == (OK, 101, 1)
    assert coordinator.now.partitions == frozenset()
    coordinator.write_markers()
    assert coordinator.end(identity, committed=False) == (OK, 101, 1), "told again"
    assert coordinator.end((101, 1), committed=False) == (OK, 101, 2)
    coordinator.write_markers()
    assert coordinator.status() is Status.COMPLETE_ABORT


def test_an_empty_abort_right_behind_a_commit_waits() -> None:
    coordinator, identity = ongoing()
    coordinator.end(identity)
    assert coordinator.end((101, 1), committed=False) == ASK_AGAIN
    coordinator.write_markers()
    assert coordinator.end((101, 1), committed=False) == (OK, 101, 2)
    coordinator.write_markers()
    assert coordinator.end((101, 2)) == INVALID


def test_version_2_ends_for_the_holder_alone() -> None:
    coordinator, _ = ongoing()
    assert coordinator.end((101, 1)) == FENCED
    assert coordinator.end((5, 0)) == UNKNOWN
    assert coordinator.end((101, -1)) == FENCED
    assert Coordinator().end((5, 0)) == UNKNOWN


# Epochs that run out


def near_the_last_epoch(epoch: ProducerEpoch) -> Coordinator:
    """`epoch` is the one that the producer holds, in a transaction."""
    coordinator = Coordinator()
    coordinator.init()
    transaction = coordinator.now._replace(producer_epoch=epoch)
    coordinator.machine.transactions[ID] = transaction
    assert coordinator.add((101, epoch), A) == Added(OK)
    return coordinator


def test_a_producer_without_epochs_gets_another_id() -> None:
    last = ProducerEpoch(LAST_EPOCH - 1)
    coordinator = near_the_last_epoch(last)
    fresh = coordinator.fresh_id + 1
    assert coordinator.end((101, last)) == (OK, fresh, 0)
    assert coordinator.now.producer_id == 101, "the markers are for the old one"
    assert coordinator.now.producer_epoch == LAST_EPOCH
    assert coordinator.end((101, last)) == ASK_AGAIN
    coordinator.reload()
    coordinator.write_markers()
    assert (coordinator.now.producer_id, coordinator.now.producer_epoch) == (fresh, 0)
    assert coordinator.end((101, last)) == (OK, fresh, 0), "told again"
    assert coordinator.init((101, last)) == (OK, fresh, 0), "told again in the other way"
    coordinator.add((fresh, 0), A)
    assert coordinator.end((101, last)) == FENCED, "it is delayed"


def test_without_a_fresh_id_the_last_epoch_is_not_given_away() -> None:
    last = ProducerEpoch(LAST_EPOCH - 1)
    coordinator = near_the_last_epoch(last)
    answer = coordinator.ask(
        EndTransaction(
            ID, ProducerId(101), ProducerEpoch(last), True, client_transaction_version=VERSION_2
        )
    )
    assert answer == ProducerIdResult(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert coordinator.status() is Status.ONGOING


def test_the_last_epoch_fences_and_is_given_to_nobody() -> None:
    last = ProducerEpoch(LAST_EPOCH - 1)
    coordinator = near_the_last_epoch(last)
    coordinator.pass_time(60_000)
    assert coordinator.now.producer_epoch == LAST_EPOCH
    coordinator.write_markers()
    assert coordinator.end((101, last), committed=False) == FENCED
    renewed = coordinator.init((101, last))
    assert renewed == (OK, coordinator.fresh_id, 0)
    first_id = coordinator.fresh_id
    assert coordinator.init((101, last)) == (OK, first_id, 0), "the answer was lost"


def test_starting_again_with_the_last_epoch_gets_another_id() -> None:
    last = ProducerEpoch(LAST_EPOCH - 1)
    coordinator = near_the_last_epoch(last)
    assert coordinator.init() == ASK_AGAIN
    coordinator.write_markers()
    assert coordinator.init() == (OK, coordinator.fresh_id, 0)
    assert coordinator.init((101, last)) == FENCED
