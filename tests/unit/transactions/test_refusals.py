"""What the log says of requests that the coordinator refused."""

import pytest

from odradek.protocol.errors import ErrorCode
from odradek.protocol.types import ProducerEpoch, ProducerId
from odradek.transactions.commands import Added, AddPartitions, EndTransaction, ProducerIdResult
from odradek.transactions.transaction import Status
from tests.unit.transactions.driver import ID, A, Coordinator

OLD, NEW = "10.0.0.4:50001", "10.0.0.4:50002"
PRODUCER = (ProducerId(101), ProducerEpoch(0))


@pytest.fixture
def coordinator(caplog: pytest.LogCaptureFixture) -> Coordinator:
    caplog.set_level("INFO", "odradek.transactions")
    coordinator = Coordinator()
    assert coordinator.init() == (ErrorCode.NONE, *PRODUCER)
    return coordinator


def _add(coordinator: Coordinator, client_address: str) -> object:
    return coordinator.ask(
        AddPartitions(ID, *PRODUCER, frozenset({A}), client_address=client_address)
    )


def _end(coordinator: Coordinator, client_address: str, *, committed: bool) -> object:
    return coordinator.ask(EndTransaction(ID, *PRODUCER, committed, client_address=client_address))


def test_a_late_end_of_version_1_is_seen_by_its_connection(
    coordinator: Coordinator, caplog: pytest.LogCaptureFixture
) -> None:
    """A commit is repeated by a new connection, and comes by the old one when the next
    transaction is open. Version 1 ends that one; nothing that its producer does then succeeds."""
    _add(coordinator, OLD)
    assert _end(coordinator, NEW, committed=True) == (ErrorCode.NONE, *PRODUCER)
    coordinator.write_markers()
    assert _add(coordinator, NEW) == Added(ErrorCode.NONE)
    coordinator.now_ms += 7
    assert _end(coordinator, OLD, committed=True) == (ErrorCode.NONE, *PRODUCER)
    coordinator.write_markers()
    assert not caplog.messages

    assert coordinator.add(PRODUCER, A, version=0, verify_only=True).missing == {A}
    assert _end(coordinator, NEW, committed=False) == ProducerIdResult(ErrorCode.INVALID_TXN_STATE)

    story = (
        f"Ongoing(101/0)@1000000 by {NEW} > PrepareCommit(101/0)@1000007 by {OLD}"
        " > CompleteCommit(101/0)@1000007"
    )
    write, end = caplog.messages
    assert write.startswith(
        "transaction tx: refused a write of producer 101, epoch 0, by this broker:"
        " not in the transaction: t-0; its last steps: "
    )
    assert end.startswith(
        f"transaction tx: refused EndTxn (abort) of producer 101, epoch 0, by {NEW}:"
        " INVALID_TXN_STATE; its last steps: "
    )
    assert write.endswith(story)
    assert end.endswith(story)


def test_a_producer_of_an_id_that_nobody_knows_is_refused_without_steps(
    coordinator: Coordinator, caplog: pytest.LogCaptureFixture
) -> None:
    coordinator.ask(EndTransaction("another", *PRODUCER, committed=True))
    (line,) = caplog.messages
    assert line.startswith("transaction another: refused EndTxn (commit)")
    assert line.endswith("INVALID_PRODUCER_ID_MAPPING; its last steps: none")


def test_whoever_is_asked_to_come_again_is_not_refused(
    coordinator: Coordinator, caplog: pytest.LogCaptureFixture
) -> None:
    _add(coordinator, NEW)
    coordinator.is_committed = False
    early = EndTransaction(ID, *PRODUCER, committed=True)
    assert coordinator.ask(early) == ProducerIdResult(ErrorCode.CONCURRENT_TRANSACTIONS)
    coordinator.is_committed = True
    assert coordinator.status() is Status.ONGOING
    _end(coordinator, NEW, committed=True)
    assert _end(coordinator, NEW, committed=True) == ProducerIdResult(
        ErrorCode.CONCURRENT_TRANSACTIONS
    )
    assert _add(coordinator, NEW) == Added(ErrorCode.CONCURRENT_TRANSACTIONS)
    assert not caplog.messages


def test_a_step_that_nobody_asked_for_names_nobody(coordinator: Coordinator) -> None:
    """The time-out comes after a request, whose connection has nothing to do with it."""
    _add(coordinator, NEW)
    coordinator.pass_time(60_000)
    assert str(coordinator.now.history).endswith("PrepareAbort(101/1)@1060000")
