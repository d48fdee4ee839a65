"""No peer keeps the memory for requests: neither one that waits nor one that is gone."""

import asyncio

import pytest

from odradek.broker.network.connection import Connection
from odradek.config.setting import MAX_INT
from odradek.protocol.messages.api_versions import ApiVersionsRequest
from odradek.protocol.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.protocol.messages.join_group import JoinGroupRequest
from tests.unit.broker.harness import PORT, on_broker
from tests.unit.broker.network.test_connection import frame, read_frame
from tests.unit.broker.network.test_request_queue import (
    MEGABYTE,
    Connect,
    FakeTransport,
    Peers,
    begin,
)


def send(connection: Connection, transport: FakeTransport, pieces: list[bytes]) -> None:
    """Sends as many of the pieces as the broker is willing to read."""
    while pieces and transport.reads:
        connection.data_received(pieces.pop(0))


@pytest.mark.parametrize("pipelines", [False, True])
async def test_one_request_at_a_time_is_completed_beyond_the_limit(pipelines: bool) -> None:
    """Producers with several large requests in flight, which wait for followers."""
    peers = Peers(max_bytes=10 * MEGABYTE, waits=True, pipelines=pipelines)
    piece = 200_000
    senders = [(*peers.connect(), list[bytes]()) for _ in range(12)]
    for _, _, pieces in senders:
        for _ in range(3):
            pieces += [begin(15 * piece - 4, piece), *[bytes(piece)] * 14]
    highest = answered = 0
    while answered < 36:
        for _ in range(60):
            for connection, transport, pieces in senders:
                if transport.reads and pieces:
                    connection.data_received(pieces.pop(0))
            await asyncio.sleep(0)
        highest = max(highest, peers.queue.held_bytes)
        assert answered < len(peers.replies), "requests wait for each other"
        peers.replies[answered].set_result(None)
        answered += 1
        await asyncio.sleep(0)
    assert highest <= 10 * MEGABYTE + 15 * piece + 12 * piece
    await asyncio.sleep(0)
    assert peers.queue.held_bytes == 0
    assert peers.queue.stopped == 0


async def test_the_time_to_complete_a_request_is_not_set_before_its_size_is_known() -> None:
    """Otherwise a request of any size would have five seconds."""
    peers = Peers(max_bytes=MEGABYTE, waits=True)
    connection, transport = peers.connect()
    connection.data_received(begin(MEGABYTE, MEGABYTE + 4) + begin(50 * MEGABYTE, 3))
    await asyncio.sleep(0)  # Large requests are served in the next turn.
    assert peers.queue.finisher is None
    assert not transport.reads
    peers.replies[0].set_result(None)
    await asyncio.sleep(0.001)
    send(connection, transport, [begin(50 * MEGABYTE, MEGABYTE)[3:]])
    assert connection.missing_bytes == 49 * MEGABYTE + 4
    assert peers.queue.finisher is connection


async def test_a_large_request_behind_a_fetch_is_not_read_before_that_is_answered() -> None:
    peers = Peers(waits=True)
    connection, transport = peers.connect()
    connection.data_received(begin(50, 54, FetchRequest.api_key))
    pieces = [begin(1_000_000, 4), *[bytes(250_000)] * 4]
    send(connection, transport, pieces)
    assert connection.held_bytes == 54 + 4 + 250_000
    assert not transport.reads
    peers.replies[0].set_result(None)
    await asyncio.sleep(0.001)
    send(connection, transport, pieces)
    assert not pieces
    await asyncio.sleep(0)
    assert peers.served == 2


async def test_nothing_large_is_read_from_a_client_that_does_not_read_its_replies() -> None:
    peers = Peers()
    connection, transport = peers.connect()
    connection.pause_writing()
    pieces = [begin(1_000_000, 4), *[bytes(250_000)] * 4]
    send(connection, transport, pieces)
    assert connection.held_bytes == 4 + 250_000
    connection.resume_writing()
    send(connection, transport, pieces)
    await asyncio.sleep(0)
    assert peers.served == 1


async def test_a_small_connection_is_resumed_when_its_turn_comes_though_memory_is_short() -> None:
    peers = Peers(max_bytes=MEGABYTE, max_queued=1, waits=True)
    small, small_transport = peers.connect()
    peers.queue.queued = 1
    small.read_on()
    reads = [small_transport.reads]
    large, _ = peers.connect()
    large.data_received(begin(2 * MEGABYTE, 2 * MEGABYTE + 4))
    peers.queue.queued = 0
    peers.queue.settle()
    reads.append(small_transport.reads)
    assert reads == [False, True]
    assert peers.queue.held_bytes > MEGABYTE


@on_broker(queued_max_request_bytes="100000")
async def test_a_fetch_ends_early_when_large_requests_behind_it_use_memory_up(
    connect: Connect,
) -> None:
    loop = asyncio.get_running_loop()
    fetch = FetchRequest(
        max_wait_ms=MAX_INT,
        min_bytes=MAX_INT,
        topics=[FetchTopic(topic="t", partitions=[FetchPartition(partition=0)])],
    )
    client = await connect()
    topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
    await client.ask(CreateTopicsRequest(topics=[topic]), CreateTopicsResponse)
    honest = frame(ApiVersionsRequest(), 0)
    padded = (len(honest) - 4 + 200_000).to_bytes(4, "big") + honest[4:] + bytes(200_000)
    peers = [await asyncio.open_connection("broker", PORT) for _ in range(8)]
    for _, writer in peers:
        writer.write(frame(fetch, 4))
    await asyncio.sleep(5)
    begun_s = loop.time()
    for _, writer in peers:
        writer.write(padded)
    await asyncio.sleep(1)
    other_reader, other_writer = await asyncio.open_connection("broker", PORT)
    other_writer.write(padded)
    async with asyncio.timeout(9):
        await read_frame(other_reader)
        for reader, _ in peers:
            await read_frame(reader)
            await read_frame(reader)
    assert loop.time() - begun_s < 5
    for writer in [other_writer, *(writer for _, writer in peers)]:
        writer.close()


@on_broker()
async def test_who_holds_much_behind_a_wait_that_does_not_end_is_closed_while_memory_is_short(
    connect: Connect,
) -> None:
    # Connections of their own, in the virtual time of the simulation.
    peers = Peers(max_bytes=MEGABYTE, waits=True)
    waiting = [peers.connect() for _ in range(5)]
    for connection, transport in waiting:
        join = begin(50, 54, JoinGroupRequest.api_key)
        send(connection, transport, [join, begin(400_000, 4), bytes(250_000)])
    member, member_transport = peers.connect()
    member.data_received(begin(100_000, 100_004, JoinGroupRequest.api_key))
    producer, producer_transport = peers.connect()
    producer.data_received(begin(100_000, 100_004))
    await asyncio.sleep(5)
    assert not any(transport.was_aborted for _, transport in waiting)
    await asyncio.sleep(10)
    assert all(transport.was_aborted for _, transport in waiting)
    assert not member_transport.was_aborted
    assert not producer_transport.was_aborted


class CountedWait:
    def __init__(self) -> None:
        self.interruptions: list[str] = []

    def interrupt(self) -> None:
        self.interruptions.append("interrupted")

    def next_request_arrived(self) -> None: ...


async def test_a_fetch_with_a_request_behind_it_ends_when_its_connection_has_been_idle() -> None:
    """The connection is not read from, so only a reply finds out that the peer is gone."""
    peers = Peers(waits=True)
    connection, transport = peers.connect()
    wait = CountedWait()
    connection.begin_wait(wait)
    connection.data_received(begin(50, 54, FetchRequest.api_key))
    now_s = asyncio.get_running_loop().time()
    peers.connections.close_idle(now_s + 1)
    assert not wait.interruptions  # It is read from, and a close would be noticed.
    connection.data_received(begin(50, 54))
    peers.connections.close_idle(now_s - 1)
    assert not wait.interruptions
    peers.connections.close_idle(now_s + 1)
    assert len(wait.interruptions) == 1
    assert not transport.was_aborted
