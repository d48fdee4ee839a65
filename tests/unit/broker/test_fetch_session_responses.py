"""Over the wire, a fetch session answers with what is new and nothing else."""

from collections.abc import Awaitable, Callable

from odradek.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from odradek.protocol.messages.produce import ProduceResponse
from tests.unit.broker.harness import Client, batch, with_broker
from tests.unit.broker.test_produce_and_fetch import produce_request

Connect = Callable[[], Awaitable[Client]]


def request(session_id: int, epoch: int, offsets: dict[int, int]) -> FetchRequest:
    return FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        session_id=session_id,
        session_epoch=epoch,
        topics=[
            FetchTopic(
                topic="t",
                partitions=[
                    FetchPartition(
                        partition=partition, fetch_offset=offset, partition_max_bytes=1 << 20
                    )
                    for partition, offset in offsets.items()
                ],
            )
        ]
        if offsets
        else [],
    )


def partitions(response: FetchResponse) -> list[int]:
    return [data.partition_index for topic in response.responses for data in topic.partitions]


def test_only_partitions_with_news_are_in_an_incremental_answer() -> None:
    async def test(connect: Connect) -> None:
        client = await connect()
        await client.create_topic("t", 3)

        async def fetch(session_id: int, epoch: int, offsets: dict[int, int]) -> FetchResponse:
            return await client.ask(request(session_id, epoch, offsets), FetchResponse, version=12)

        full = await fetch(0, 0, {0: 0, 1: 0, 2: 0})
        assert full.session_id
        assert partitions(full) == [0, 1, 2]
        assert partitions(await fetch(full.session_id, 1, {})) == []
        await client.ask(produce_request(batch(b"a"), partition=1), ProduceResponse, version=9)
        news = await fetch(full.session_id, 2, {})
        assert partitions(news) == [1]
        # Not acknowledged by a new offset, so it comes again.
        assert partitions(await fetch(full.session_id, 3, {})) == [1]
        assert partitions(await fetch(full.session_id, 4, {1: 1})) == []

    with_broker(test)
