"""Transactions in a state from which tests go on."""

from odradek.protocol.errors import ErrorCode
from odradek.transactions.commands import (
    Added,
    ProducerIdResult,
)
from tests.unit.transactions.driver import (
    A,
    Coordinator,
)

OK = ErrorCode.NONE

FENCED = ProducerIdResult(ErrorCode.PRODUCER_FENCED)

ASK_AGAIN = ProducerIdResult(ErrorCode.CONCURRENT_TRANSACTIONS)

INVALID = ProducerIdResult(ErrorCode.INVALID_TXN_STATE)

UNKNOWN = ProducerIdResult(ErrorCode.INVALID_PRODUCER_ID_MAPPING)


def started(epoch: int = 0) -> tuple[Coordinator, tuple[int, int]]:
    coordinator = Coordinator()
    for _ in range(epoch + 1):
        identity = coordinator.init()
    assert identity == (OK, 101, epoch)
    return coordinator, (101, epoch)


def ongoing(version: int = 2) -> tuple[Coordinator, tuple[int, int]]:
    coordinator, identity = started()
    assert coordinator.add(identity, A, version=version) == Added(OK)
    return coordinator, identity
