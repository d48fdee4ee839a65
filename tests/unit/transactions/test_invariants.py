"""Violations that are planted in transactions, and caught where the state moves next."""

import pytest

from odradek.invariants import InvariantViolation
from odradek.protocol.types import ProducerEpoch
from odradek.transactions.transaction import Status, Transaction
from tests.unit.transactions.driver import A, Coordinator


def ongoing() -> tuple[Coordinator, tuple[int, int]]:
    coordinator = Coordinator()
    _, producer_id, epoch = coordinator.init()
    coordinator.add((producer_id, epoch), A)
    return coordinator, (producer_id, epoch)


def test_partitions_that_outlive_their_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    coordinator, identity = ongoing()
    coordinator.end(identity)
    completed = Transaction.completed
    monkeypatch.setattr(
        Transaction,
        "completed",
        lambda self, now_ms: completed(self, now_ms)._replace(partitions=self.partitions),
    )
    with pytest.raises(InvariantViolation, match="has partitions while it is CompleteCommit"):
        coordinator.write_markers()


def test_an_epoch_that_falls(monkeypatch: pytest.MonkeyPatch) -> None:
    coordinator, identity = ongoing()
    bumped = Transaction.bumped
    monkeypatch.setattr(
        Transaction,
        "bumped",
        lambda self, fresh_id: bumped(self, fresh_id)._replace(producer_epoch=ProducerEpoch(-1)),
    )
    with pytest.raises(InvariantViolation, match="its epoch fell from 0 to -1") as caught:
        coordinator.end(identity)
    assert caught.value.history[-2:] == (
        "Ongoing(101/0)@1000000",
        "PrepareCommit(101/-1)@1000000",
    )


def test_a_step_that_the_table_does_not_have(monkeypatch: pytest.MonkeyPatch) -> None:
    coordinator, identity = ongoing()
    monkeypatch.setattr(
        Transaction, "become", lambda self, status, now_ms: self._replace(status=status)
    )
    monkeypatch.setattr(
        Transaction,
        "prepared",
        lambda self, *, committed, now_ms: self.become(Status.COMPLETE_COMMIT, now_ms)._replace(
            partitions=frozenset()
        ),
    )
    with pytest.raises(InvariantViolation, match="Ongoing became CompleteCommit"):
        coordinator.end(identity)


def test_a_prepared_transaction_that_the_machine_forgot() -> None:
    coordinator, identity = ongoing()
    coordinator.end(identity)
    coordinator.machine.prepared.clear()
    with pytest.raises(InvariantViolation, match=r"the prepared transactions are \['tx'\]"):
        coordinator.ask_for("another")
