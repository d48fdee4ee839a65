"""A batch that waits does not land in a topic of the same name that was made meanwhile."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from odradek.protocol.messages.produce import ProduceRequest, ProduceResponse
from odradek.protocol.types import TopicId
from odradek.replication.partition import Partition
from odradek.transactions.verification import TransactionVerifier
from tests.unit.broker.harness import Client, batch, on_broker
from tests.unit.broker.test_produce_and_fetch import many, produce, produce_request
from tests.unit.broker.transactional import Producer

Connect = Callable[[], Awaitable[Client]]
REFUSED_BY_VERSION = {
    12: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    13: ErrorCode.UNKNOWN_TOPIC_ID,
}


class Held:
    """Holds what an asynchronous function returns until somebody lets it go."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, owner: object, name: str) -> None:
        self.reached, self.let_go = asyncio.Event(), asyncio.Event()
        original = getattr(owner, name)

        async def hold(*arguments: Any, **options: Any) -> object:
            result = await original(*arguments, **options)
            self.reached.set()
            await self.let_go.wait()
            return result

        monkeypatch.setattr(owner, name, hold)


async def land_after_recreation(
    connect: Connect, client: Client, request: ProduceRequest, version: int, held: Held
) -> None:
    """Re-creates the topic while the request is held, and sees it refused."""
    asking = asyncio.ensure_future(client.ask(request, ProduceResponse, version=version))
    await held.reached.wait()
    other = await connect()
    deletion = DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=5_000)
    deleted = await other.ask(deletion, DeleteTopicsResponse)
    assert deleted.responses[0].error_code == 0
    await other.create_topic("t", cleanup_policy="compact")
    held.let_go.set()
    answer = (await asking).responses[0].partition_responses[0]
    assert (answer.error_code, answer.base_offset) == (REFUSED_BY_VERSION[version], -1)
    assert (await produce(other, batch(b"first"))).base_offset == 0


@pytest.mark.parametrize("version", REFUSED_BY_VERSION)
@on_broker()
async def test_a_batch_that_took_long_to_look_into_is_refused_if_its_topic_was_made_anew(
    connect: Connect, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = await connect()
    topic_id = await client.create_topic("t", cleanup_policy="compact")
    held = Held(monkeypatch, Partition, "validate_in_steps")
    request = produce_request(many(20_000), topic_id)
    await land_after_recreation(connect, client, request, version, held)


@pytest.mark.parametrize("version", REFUSED_BY_VERSION)
@on_broker()
async def test_the_first_batch_of_a_transaction_is_refused_if_its_topic_was_made_anew(
    connect: Connect, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = await connect()
    topic_id = await client.create_topic("t")
    producer = Producer(client)
    assert await producer.start() == 0
    held = Held(monkeypatch, TransactionVerifier, "join")
    request = producer.request(producer.batch(b"a"))
    request.topic_data[0].topic_id = TopicId(topic_id)
    await land_after_recreation(connect, client, request, version, held)
