"""Over the wire, a fetch session answers with what is new and nothing else."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from odradek.broker.fetching.due_partitions import FetchEntry
from odradek.broker.fetching.fetch_reads import FetchReads
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from odradek.protocol.messages.produce import ProduceResponse
from odradek.protocol.types import Offset
from odradek.world.timeslice import Timeslice
from tests.unit.broker.harness import Client, batch, on_broker, with_broker
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
                        partition=partition,
                        fetch_offset=Offset(offset),
                        partition_max_bytes=1 << 20,
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


@on_broker()
async def test_only_partitions_with_news_are_in_an_incremental_answer(connect: Connect) -> None:
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


WIDE = 700


def wide_request(session_id: int, epoch: int, max_wait_ms: int) -> FetchRequest:
    wide = request(session_id, epoch, dict.fromkeys(range(WIDE), 0) if epoch == 0 else {})
    wide.max_wait_ms = max_wait_ms
    return wide


def test_others_are_served_while_hundreds_of_partitions_are_fetched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    turns = 0
    next_turn = Timeslice.next_turn

    async def counted(timeslice: Timeslice) -> None:
        nonlocal turns
        turns += 1
        await next_turn(timeslice)

    async def test(connect: Connect) -> None:
        client = await connect()
        await client.create_topic("t", WIDE)
        monkeypatch.setattr(Timeslice, "next_turn", counted)
        for epoch in (0, -1):  # With a session, and without one.
            before = turns
            wide = request(0, epoch, dict.fromkeys(range(WIDE), 0))
            response = await client.ask(wide, FetchResponse, version=12)
            assert partitions(response) == list(range(WIDE))
            assert turns - before > 3

    with_broker(test)


def test_what_is_appended_while_hundreds_of_partitions_are_read_ends_the_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    register = FetchReads.register
    appended = 0

    def register_and_append(reads: FetchReads, entries: list[FetchEntry]) -> None:
        """Appends to the first partition as soon as it has been read, once for each fetch."""
        nonlocal appended
        register(reads, entries)
        if entries[0].partition == 0 and entries[0].fetch_offset == appended:
            reads.partitions[entries[0]].append(batch(b"a"), acks=1)
            appended += 1

    async def test(connect: Connect) -> None:
        client = await connect()
        await client.create_topic("t", WIDE)
        monkeypatch.setattr(FetchReads, "register", register_and_append)
        for number, epoch in enumerate((0, -1)):  # With a session, and without one.
            wide = request(0, epoch, {**dict.fromkeys(range(WIDE), 0), 0: number})
            wide.max_wait_ms = 600_000
            async with asyncio.timeout(60):
                response = await client.ask(wide, FetchResponse, version=12)
            assert appended == number + 1
            answers = [data for topic in response.responses for data in topic.partitions]
            assert [data.partition_index for data in answers if data.records] == [0]

    with_broker(test)


@on_broker()
async def test_a_session_of_hundreds_of_partitions_tells_what_is_new(connect: Connect) -> None:
    client = await connect()
    await client.create_topic("t", WIDE)
    full = await client.ask(wide_request(0, 0, 0), FetchResponse, version=12)
    assert partitions(full) == list(range(WIDE))
    for epoch, partition in enumerate((5, 650), start=1):
        produced = produce_request(batch(b"a"), partition=partition)
        await client.ask(produced, ProduceResponse, version=9)
        news = wide_request(full.session_id, epoch, 0)
        answered = partitions(await client.ask(news, FetchResponse, version=12))
        assert partition in answered
        assert len(answered) == epoch


@pytest.mark.parametrize("width", [1, WIDE])
@on_broker()
async def test_a_fetch_ends_when_its_session_goes_on_over_another_connection(
    connect: Connect, width: int
) -> None:
    """Its client has given the first connection up, and this broker has not noticed yet."""
    first, second = await connect(), await connect()
    await first.create_topic("t", width)
    full = request(0, 0, dict.fromkeys(range(width), 0))
    session_id = (await first.ask(full, FetchResponse, version=12)).session_id

    async def fetch(client: Client, epoch: int) -> FetchResponse:
        ask = request(session_id, epoch, {})
        ask.max_wait_ms = 1000
        return await client.ask(ask, FetchResponse, version=12)

    async with asyncio.timeout(60):
        waiting = asyncio.ensure_future(fetch(first, 1))
        await asyncio.sleep(0.1)
        following = asyncio.ensure_future(fetch(second, 2))
        superseded = await waiting
        assert superseded.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
        assert not following.done()
        await first.ask(produce_request(batch(b"a")), ProduceResponse, version=9)
        assert 0 in partitions(await following)
