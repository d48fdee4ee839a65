"""Which requests the request log writes when it takes a sample."""

import pytest

from odradek.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from odradek.protocol.types import TopicId
from tests.unit.broker.harness import Client, on_broker
from tests.unit.broker.test_logger_levels import Connect, alter, listening, produce_and_fetch


async def ask_for(client: Client, topic: str, times: int) -> None:
    for _ in range(times):
        await client.ask(
            MetadataRequest(
                topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False
            ),
            MetadataResponse,
        )


def asked(lines: list[str]) -> int:
    return sum(line.startswith("api=Metadata ") for line in lines)


@on_broker(odradek_logs_request_sample_every="10")
async def test_one_of_many_requests_is_written_and_each_that_failed(connect: Connect) -> None:
    with listening() as lines:
        client = await connect()
        await client.create_topic("t")
        await alter(client, ("odradek.request", "DEBUG"))
        await ask_for(client, "t", 1000)
        assert asked(lines) == pytest.approx(100, abs=5)
        lines.clear()
        await ask_for(client, "missing", 20)
        assert asked(lines) == 20


@on_broker(odradek_logs_request_sample_every="2147483647", odradek_logs_request_slow_ms="0")
async def test_slow_requests_are_written_although_they_are_not_of_the_sample(
    connect: Connect,
) -> None:
    with listening() as lines:
        client = await connect()
        await client.create_topic("t")
        await alter(client, ("odradek.request", "DEBUG"))
        await ask_for(client, "t", 20)  # Each takes at least 0 ms.
        assert asked(lines) == 20


@on_broker(odradek_logs_request_sample_every="2147483647", odradek_logs_request_slow_ms="100")
async def test_the_wait_for_others_makes_no_request_slow(connect: Connect) -> None:
    with listening() as lines:
        client = await connect()
        topic_id = TopicId(await client.create_topic("t"))
        await alter(client, ("odradek.request", "DEBUG"))
        await produce_and_fetch(client, topic_id)
        assert lines == [], "a fetch waited 500 ms for records, which is no fault of the broker"
