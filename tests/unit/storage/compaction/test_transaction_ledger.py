"""Which transactional batches count as aborted, for a pass that begins anywhere in the log."""

from odradek.protocol.records import BatchBuilder, BatchHeader, read_header
from odradek.protocol.types import Offset, ProducerId
from odradek.storage.compaction.cleaned_transactions import CleanedTransactions

PRODUCER = ProducerId(2)
# Records at 23 and 24, the marker at 25.
ABORTED = (PRODUCER, Offset(23), Offset(25), Offset(26))


def data_at(offset: int) -> BatchHeader:
    builder = BatchBuilder()
    builder.append(b"key", b"value", (), 1_000_000)
    return read_header(builder.build(offset, PRODUCER, 0, 0, is_transactional=True))


def test_what_comes_before_the_marker_is_aborted() -> None:
    ledger = CleanedTransactions([ABORTED])
    assert not ledger.data(data_at(22))
    assert ledger.data(data_at(23))
    assert ledger.data(data_at(24))


def test_a_transaction_that_ended_before_the_pass_begins_aborts_nothing_behind_it() -> None:
    """Only what was written since the last pass is read for its keys."""
    ledger = CleanedTransactions([ABORTED])
    assert not ledger.data(data_at(29))
    assert not ledger.data(data_at(31))


def test_the_next_aborted_transaction_of_the_same_producer_counts() -> None:
    ledger = CleanedTransactions([ABORTED, (PRODUCER, Offset(31), Offset(32), Offset(33))])
    assert not ledger.data(data_at(29))
    assert ledger.data(data_at(31))
