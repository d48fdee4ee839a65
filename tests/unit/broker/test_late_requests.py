"""Transactional requests that a slow connection delivers after their producer has gone on."""

import pytest

from odradek.broker.late_requests import LateRequests
from odradek.client.errors import ConnectionClosed
from odradek.protocol.errors import ErrorCode, MalformedMessage
from odradek.protocol.types import ProducerEpoch, ProducerId
from tests.unit.broker.harness import on_broker
from tests.unit.broker.test_transactions import Connect
from tests.unit.broker.transactional import Producer, fetch, insist, settled, values_of

_ID, _EPOCH = ProducerId(7), ProducerEpoch(3)


@on_broker()
async def test_a_late_end_does_not_end_the_next_transaction(connect: Connect) -> None:
    """A commit arrives again over the connection that its producer has left, while the producer is
    in its next transaction, which it aborts."""
    left, used = await connect(), await connect()
    await left.create_topic("t")
    producer = Producer(left, version=1)
    assert await producer.start() == ErrorCode.NONE
    assert await insist(producer.add) == ErrorCode.NONE
    assert await producer.send(b"first") == ErrorCode.NONE
    # The producer gives up the connection, repeats its commit over another one, and goes on.
    producer.client = used
    assert await producer.end(committed=True) == ErrorCode.NONE
    assert await insist(producer.add) == ErrorCode.NONE
    assert await producer.send(b"second") == ErrorCode.NONE
    producer.client = left
    with pytest.raises(ConnectionClosed):
        await producer.end(committed=True)
    producer.client = used
    assert await producer.end(committed=False) == ErrorCode.NONE
    assert await settled(used) == "CompleteAbort"
    assert values_of(await fetch(used)) == [b"first"]


def test_a_producer_may_change_its_connection_as_often_as_it_likes() -> None:
    late = LateRequests()
    for port in range(20):
        for _ in range(2):
            late.check(f"client:{port}", "tx", _ID, _EPOCH)
    for port in (18, 17, 16):
        with pytest.raises(MalformedMessage, match="came late"):
            late.check(f"client:{port}", "tx", _ID, _EPOCH)
    late.check("client:19", "tx", _ID, _EPOCH)


def test_another_epoch_or_producer_is_judged_by_its_own_connections() -> None:
    """A fenced producer must be told so, and not be cut off."""
    late = LateRequests()
    late.check("old:1", "tx", _ID, _EPOCH)
    late.check("new:1", "tx", _ID, ProducerEpoch(4))
    late.check("old:1", "tx", _ID, _EPOCH)
    late.check("old:1", "other", _ID, _EPOCH)


def test_the_memory_is_bounded() -> None:
    late = LateRequests()
    for number in range(20_000):
        late.check("client:1", f"tx-{number}", _ID, _EPOCH)
    assert len(late._heard) == 10_000
