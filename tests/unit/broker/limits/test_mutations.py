"""Quotas on changes of topics (KIP-599): new clients get an error, old ones have to wait."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from odradek.protocol.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from odradek.protocol.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from tests.unit.broker.harness import Client, on_broker
from tests.unit.broker.limits.quota_requests import alter, client_named

Connect = Callable[[], Awaitable[Client]]
EXCEEDED = ErrorCode.THROTTLING_QUOTA_EXCEEDED
# What eleven windows of a second bring at two partitions a second.
BURST = 22


async def create(
    client: Client, partitions: dict[str, int], version: int = 7, *, validate_only: bool = False
) -> CreateTopicsResponse:
    return await client.ask(
        CreateTopicsRequest(
            topics=[
                CreatableTopic(name=name, num_partitions=count, replication_factor=1)
                for name, count in partitions.items()
            ],
            validate_only=validate_only,
        ),
        CreateTopicsResponse,
        version=version,
    )


async def limited(connect: Connect) -> Client:
    await alter(await connect(), {"client-id": "admin"}, controller_mutation_rate=2)
    return await client_named("admin")


@on_broker()
async def test_a_new_client_is_refused_and_told_when_to_try_again(connect: Connect) -> None:
    client = await limited(connect)
    # The first topic takes all there is and more, the second one finds nothing.
    response = await create(client, {"a": BURST + 2, "b": 1, "c": 1})
    assert [topic.error_code for topic in response.topics] == [0, EXCEEDED, EXCEEDED]
    assert response.throttle_time_ms == pytest.approx(1000, abs=20)
    assert "try again" in (response.topics[1].error_message or "")
    # The next request is read when the client has waited.
    begin_s = asyncio.get_running_loop().time()
    assert (await create(client, {"b": 1})).topics[0].error_code == 0
    assert asyncio.get_running_loop().time() - begin_s >= 0.9
    client.connection.close()


@on_broker()
async def test_an_old_client_is_served_and_has_to_wait(connect: Connect) -> None:
    client = await limited(connect)
    response = await create(client, {"a": BURST, "b": 4}, version=5)
    assert [topic.error_code for topic in response.topics] == [0, 0]
    assert response.throttle_time_ms == pytest.approx(2000, abs=20)
    client.connection.close()


@on_broker()
async def test_only_what_changes_something_counts(connect: Connect) -> None:
    client = await limited(connect)
    for _ in range(3):
        response = await create(client, {"a": BURST}, validate_only=True)
        assert response.topics[0].error_code == 0
    response = await create(client, {"bad/name": BURST})
    assert response.topics[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert (await create(client, {"a": BURST + 2})).topics[0].error_code == 0
    # Another client id has no quota.
    assert (await create(await connect(), {"d": 100})).topics[0].error_code == 0
    client.connection.close()


@on_broker()
async def test_more_partitions_and_deletions_count(connect: Connect) -> None:
    admin = await connect()
    await admin.create_topic("a", 1)
    await admin.create_topic("b", 5)
    client = await limited(connect)

    async def grow(count: int) -> CreatePartitionsResponse:
        return await client.ask(
            CreatePartitionsRequest(
                topics=[CreatePartitionsTopic(name="a", count=count, assignments=None)]
            ),
            CreatePartitionsResponse,
            version=3,
        )

    assert (await grow(BURST + 2)).results[0].error_code == 0
    response = await grow(BURST + 3)
    assert response.results[0].error_code == EXCEEDED
    assert response.throttle_time_ms > 0
    deleted = await client.ask(
        DeleteTopicsRequest(topics=[DeleteTopicState(name="a"), DeleteTopicState(name="b")]),
        DeleteTopicsResponse,
        version=6,
    )
    assert [topic.error_code for topic in deleted.responses] == [0, EXCEEDED]
    assert deleted.throttle_time_ms == pytest.approx((BURST + 2) / 2 * 1000, rel=0.1)
    client.connection.close()


@on_broker()
async def test_the_rate_holds_over_a_long_time(connect: Connect) -> None:
    client = await limited(connect)
    loop = asyncio.get_running_loop()
    begin_s, created = loop.time(), 0
    while loop.time() < begin_s + 120:
        response = await create(client, {f"t{created}": 4})
        if response.topics[0].error_code == 0:
            created += 1
        else:
            assert response.topics[0].error_code == EXCEEDED
    # The burst comes once.
    assert (4 * created - BURST) / 120 == pytest.approx(2, rel=0.1)
    client.connection.close()
