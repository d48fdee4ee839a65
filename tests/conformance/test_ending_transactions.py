"""What a coordinator answers when a transaction is not what its producer thinks it is:
it took too long, or it never began. EndTxn and InitProducerId are asked.

These are requests, not clients: clients make them only when an answer was lost or a broker stood
still. Apache Kafka's answers are the expected ones, for both versions of transactions.
"""

import asyncio
import uuid
from collections.abc import Awaitable, Callable

import pytest

from benchmarks.broker_process import BrokerProcess
from odradek.client.connection import Connection
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from odradek.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from odradek.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from odradek.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from odradek.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from odradek.protocol.types import ProducerEpoch, ProducerId
from tests.conformance.patience import PATIENCE_S
from tests.conformance.topics import create_topic

V1, V2 = 4, 5
"""The last version of EndTxn that keeps the epoch, and the first that bumps it."""

_TRANSACTION = 1
_SOON = {
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
}

Answer = tuple[ErrorCode, int]
"""The error, and the epoch that the producer goes on with (-1: it is not told)."""


class WireProducer:
    """A transactional producer by its requests."""

    def __init__(self, connection: Connection, topic: str, end_version: int) -> None:
        self._connection = connection
        self._topic = topic
        self._end_version = end_version
        self._id = f"tx-{uuid.uuid4().hex[:12]}"
        self.producer_id = -1

    async def find_coordinator(self) -> None:
        """There is one broker; it makes the topic of the coordinators when it is first asked."""

        async def ask() -> Answer:
            request = FindCoordinatorRequest(key_type=_TRANSACTION, coordinator_keys=[self._id])
            found = await self._connection.request(request, FindCoordinatorResponse)
            return ErrorCode(found.coordinators[0].error_code), -1

        assert await _patiently(ask) == (ErrorCode.NONE, -1)

    async def init(self, epoch: int = -1) -> Answer:
        async def ask() -> Answer:
            answer = await self._connection.request(
                InitProducerIdRequest(
                    transactional_id=self._id,
                    transaction_timeout_ms=1_000,
                    producer_id=ProducerId(-1 if epoch < 0 else self.producer_id),
                    producer_epoch=ProducerEpoch(epoch),
                ),
                InitProducerIdResponse,
            )
            if answer.error_code == ErrorCode.NONE:
                self.producer_id = answer.producer_id
            return ErrorCode(answer.error_code), answer.producer_epoch

        return await _patiently(ask)

    async def add(self, epoch: int) -> ErrorCode:
        async def ask() -> Answer:
            answer = await self._connection.request(
                AddPartitionsToTxnRequest(
                    v3_and_below_transactional_id=self._id,
                    v3_and_below_producer_id=ProducerId(self.producer_id),
                    v3_and_below_producer_epoch=ProducerEpoch(epoch),
                    v3_and_below_topics=[AddPartitionsToTxnTopic(name=self._topic, partitions=[0])],
                ),
                AddPartitionsToTxnResponse,
                max_version=3,
            )
            result = answer.results_by_topic_v3_and_below[0].results_by_partition[0]
            return ErrorCode(result.partition_error_code), -1

        return (await _patiently(ask))[0]

    async def end(self, epoch: int, *, committed: bool) -> Answer:
        async def ask() -> Answer:
            answer = await self._connection.request(
                EndTxnRequest(
                    transactional_id=self._id,
                    producer_id=ProducerId(self.producer_id),
                    producer_epoch=ProducerEpoch(epoch),
                    committed=committed,
                ),
                EndTxnResponse,
                max_version=self._end_version,
            )
            return ErrorCode(answer.error_code), answer.producer_epoch

        return await _patiently(ask)

    async def until(self, state: str) -> None:
        """Apache Kafka looks for transactions that took too long every ten seconds."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                answer = await self._connection.request(
                    DescribeTransactionsRequest(transactional_ids=[self._id]),
                    DescribeTransactionsResponse,
                )
                if answer.transaction_states[0].transaction_state == state:
                    return
                await asyncio.sleep(0.02)


async def _patiently(ask: Callable[[], Awaitable[Answer]]) -> Answer:
    """As clients do: what is asked to come again comes again."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            answer = await ask()
            if answer[0] not in _SOON:
                return answer
            await asyncio.sleep(0.02)


def _play(
    broker: BrokerProcess, end_version: int, story: Callable[[WireProducer], Awaitable[None]]
) -> None:
    topic = create_topic(broker)

    async def run() -> None:
        host, _, port = broker.bootstrap.rpartition(":")
        connection = await Connection.open(
            host, int(port), connect_timeout_ms=10_000, request_timeout_ms=30_000
        )
        try:
            producer = WireProducer(connection, topic, end_version)
            await producer.find_coordinator()
            assert await producer.init() == (ErrorCode.NONE, 0)
            await story(producer)
        finally:
            connection.close()

    asyncio.run(run())


@pytest.mark.parametrize("end_version", [V1, V2])
def test_whose_transaction_took_too_long(any_broker: BrokerProcess, end_version: int) -> None:
    """The epoch is bumped once. A producer of version 2 may still abort, and goes on with the next
    epoch as if it had aborted in time. One of version 1 is fenced; it may start again."""
    fenced = (ErrorCode.PRODUCER_FENCED, -1)

    async def story(producer: WireProducer) -> None:
        assert await producer.add(0) is ErrorCode.NONE
        await producer.until("CompleteAbort")
        refused = (ErrorCode.INVALID_TXN_STATE, -1)
        told_again = (ErrorCode.NONE, 1)
        assert await producer.add(0) in (
            ErrorCode.PRODUCER_FENCED,
            ErrorCode.INVALID_PRODUCER_EPOCH,
        )
        is_v1 = end_version == V1
        assert await producer.end(0, committed=True) == (fenced if is_v1 else refused)
        assert await producer.end(0, committed=False) == (fenced if is_v1 else told_again)
        assert await producer.init(0) == (ErrorCode.NONE, 1)
        assert await producer.end(0, committed=False) == fenced

    _play(any_broker, end_version, story)


def test_an_abort_of_what_never_began_in_version_1(any_broker: BrokerProcess) -> None:
    """An AddPartitionsToTxn that no coordinator heard of, and an abort that one did.

    The coordinator cannot tell it from an abort of the transaction before: if that was committed it
    must not say that it was aborted. librdkafka takes the refusal for a fatal error.
    """
    refused = (ErrorCode.INVALID_TXN_STATE, -1)

    async def story(producer: WireProducer) -> None:
        assert await producer.end(0, committed=False) == refused
        assert await producer.add(0) is ErrorCode.NONE
        assert await producer.end(0, committed=True) == (ErrorCode.NONE, -1)
        assert await producer.end(0, committed=True) == (ErrorCode.NONE, -1)
        assert await producer.end(0, committed=False) == refused
        assert await producer.add(0) is ErrorCode.NONE
        assert await producer.end(0, committed=False) == (ErrorCode.NONE, -1)
        assert await producer.end(0, committed=False) == (ErrorCode.NONE, -1)
        assert await producer.end(0, committed=True) == refused

    _play(any_broker, V1, story)


@pytest.mark.parametrize("committed", [True, False])
def test_a_late_end_of_version_1(any_broker: BrokerProcess, *, committed: bool) -> None:
    """An EndTxn that had no answer is repeated; then it comes a second time, while the next
    transaction is open. All have one epoch, so it ends that one, and whatever else the producer
    wants of it is refused. librdkafka takes the refusal for a fatal error."""
    ended, refused = (ErrorCode.NONE, -1), (ErrorCode.INVALID_TXN_STATE, -1)

    async def story(producer: WireProducer) -> None:
        assert await producer.add(0) is ErrorCode.NONE
        assert await producer.end(0, committed=committed) == ended
        assert await producer.add(0) is ErrorCode.NONE
        assert await producer.end(0, committed=committed) == ended
        assert await producer.end(0, committed=not committed) == refused

    _play(any_broker, V1, story)


def test_an_abort_of_what_never_began_in_version_2(any_broker: BrokerProcess) -> None:
    """It is known by its epoch: it is accepted, and bumps the epoch."""

    async def story(producer: WireProducer) -> None:
        assert await producer.end(0, committed=False) == (ErrorCode.NONE, 1)
        assert await producer.add(1) is ErrorCode.NONE
        assert await producer.end(1, committed=True) == (ErrorCode.NONE, 2)
        assert await producer.end(1, committed=False) == (ErrorCode.INVALID_TXN_STATE, -1)
        assert await producer.end(2, committed=False) == (ErrorCode.NONE, 3)

    _play(any_broker, V2, story)
