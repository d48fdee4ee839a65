"""What requests may cost before anybody has logged in: memory, turns, connections."""

import asyncio
import gc
import weakref
from collections.abc import Awaitable, Callable
from random import Random

import psutil
import pytest

from odradek.broker.network.connection import Connection
from odradek.broker.network.connection_rate import ConnectionRate
from odradek.broker.network.connections import Connections
from odradek.broker.network.listeners import Listeners
from odradek.broker.network.request_serving import Pending
from odradek.broker.network.server import request_memory_bytes
from odradek.config import Listener
from odradek.config.setting import MAX_INT
from odradek.invariants import InvariantViolation
from odradek.protocol.messages.api_versions import ApiVersionsRequest
from odradek.protocol.messages.fetch import FetchRequest
from odradek.protocol.messages.metadata import MetadataRequest, MetadataResponse
from odradek.protocol.messages.produce import ProduceRequest
from odradek.protocol.types import Buffer
from odradek.world import World
from tests.unit.broker.harness import PORT, Client, on_broker, serving_on_sockets
from tests.unit.broker.network.test_connection import frame, read_frame

Connect = Callable[[], Awaitable[Client]]
MEGABYTE = 1_000_000


class FakeTransport(asyncio.Transport):
    """Notes whether its connection wants to read, and whether it was given up."""

    def __init__(self) -> None:
        super().__init__({"peername": ("10.0.0.1", 1)})
        self.reads = True
        self.was_aborted = False

    def pause_reading(self) -> None:
        self.reads = False

    def resume_reading(self) -> None:
        self.reads = True

    def is_closing(self) -> bool:
        return self.was_aborted

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...

    def write(self, data: object) -> None: ...

    def close(self) -> None:
        self.was_aborted = True

    def abort(self) -> None:
        self.was_aborted = True


class Peers:
    """Connections over fake transports; requests are answered by `serve`."""

    def __init__(
        self,
        *,
        max_bytes: int = MAX_INT,
        max_queued: int = MAX_INT,
        waits: bool = False,
        pipelines: bool = False,
    ) -> None:
        self.connections = Connections(
            max_total=1000,
            max_per_address=1000,
            overrides={},
            frame_bytes=100 * MEGABYTE,
            max_queued_requests=max_queued,
            max_request_bytes=max_bytes,
        )
        self.queue = self.connections.queue
        self.replies: list[asyncio.Future[object]] = []
        self.served = 0
        self._waits = waits
        self._pipelines = pipelines

    def connect(self) -> tuple[Connection, FakeTransport]:
        connection = Connection("PLAINTEXT", self.connections, self._serve)
        transport = FakeTransport()
        connection.connection_made(transport)
        return connection, transport

    def _serve(self, connection: Connection, request: Buffer) -> Pending | None:
        self.served += 1
        if not self._waits:
            return None
        reply: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        self.replies.append(reply)
        is_produce = bytes(request[:2]) == int(ProduceRequest.api_key).to_bytes(2, "big")
        return Pending(reply, lambda _: [b"reply"], is_pipelined=is_produce and self._pipelines)


def begin(size: int, sent: int, key: int = ProduceRequest.api_key) -> bytes:
    """The first bytes of a request of `size`, with the size in front."""
    return (size.to_bytes(4, "big") + int(key).to_bytes(2, "big") + bytes(sent))[:sent]


async def until(holds: Callable[[], bool], within_s: float = 10) -> None:
    async with asyncio.timeout(within_s):
        while not holds():  # noqa: ASYNC110 - a broker has no event for it
            await asyncio.sleep(0.01)


async def test_what_a_connection_holds_is_counted_until_it_is_answered() -> None:
    peers = Peers(waits=True)
    connection, _ = peers.connect()
    connection.data_received(begin(1000, 600))
    assert peers.queue.held_bytes == connection.held_bytes == 600
    connection.data_received(bytes(404) + begin(1000, 100))
    assert peers.queue.held_bytes == 1104  # One request under way, one unfinished.
    peers.replies[0].set_result(None)
    await asyncio.sleep(0.001)
    assert peers.queue.held_bytes == 100
    connection.connection_lost(None)
    assert peers.queue.held_bytes == connection.held_bytes == 0


@pytest.mark.parametrize("end", ["close", "finish", "connection_lost"])
async def test_a_connection_that_ends_gives_back_what_it_held(end: str) -> None:
    peers = Peers(waits=True)
    connection, _ = peers.connect()
    connection.data_received(begin(1000, 1004) + begin(1000, 1004) + begin(1000, 500))
    assert peers.queue.held_bytes == 2508
    if end == "connection_lost":
        connection.connection_lost(None)
        assert peers.queue.held_bytes == 0
        return
    getattr(connection, end)()
    assert peers.queue.held_bytes == 1004  # The request under way.
    peers.replies[0].set_result(None)
    await asyncio.sleep(0.001)
    assert peers.queue.held_bytes == 0


@pytest.mark.parametrize("end", ["close", "finish", "connection_lost"])
async def test_a_connection_that_ends_keeps_no_unfinished_frame(end: str) -> None:
    """Its transport may live on until the client has read its replies."""
    peers = Peers()
    connection, _ = peers.connect()
    connection.data_received(begin(MEGABYTE, MEGABYTE // 2))
    assert connection.unfinished_bytes
    if end == "connection_lost":
        connection.connection_lost(None)
    else:
        getattr(connection, end)()
    assert connection.unfinished_bytes == 0


async def test_a_connection_that_is_given_up_before_it_is_made_is_closed() -> None:
    """Its time to log in is over, and the broker was held up in between. The fuzzer found one that
    stayed open, of which nobody knew any more."""
    peers = Peers()
    connection = Connection("PLAINTEXT", peers.connections, lambda *_: None)
    connection.abort()
    transport = FakeTransport()
    connection.connection_made(transport)
    assert transport.was_aborted
    assert not peers.connections.open
    connection.connection_lost(None)


async def test_a_connection_that_is_lost_is_freed_without_the_garbage_collector() -> None:
    def serve(connection: Connection, request: Buffer) -> Pending | None:
        return None

    connection = Connection("PLAINTEXT", Peers().connections, serve)
    connection.connection_made(FakeTransport())
    connection.data_received(begin(MEGABYTE, MEGABYTE // 2))
    held_by_it_alone = weakref.ref(serve)
    gc.disable()
    try:
        connection.connection_lost(None)
        del connection, serve
        await asyncio.sleep(0)
        assert held_by_it_alone() is None
    finally:
        gc.enable()


async def test_large_requests_wait_while_memory_is_short_and_small_ones_do_not() -> None:
    peers = Peers(max_bytes=10 * MEGABYTE)
    small, small_transport = peers.connect()
    large = [peers.connect() for _ in range(12)]
    for connection, transport in large:
        # As many bytes as the broker is willing to read.
        for piece in [begin(2 * MEGABYTE, 256_000), *[bytes(256_000)] * 6]:
            if not transport.reads:
                break
            connection.data_received(piece)
    # One that finishes in spite of it, and one read of each that came too late.
    assert peers.queue.held_bytes < (10 + 2) * MEGABYTE + 12 * 256_000
    assert sum(transport.reads for _, transport in large[-5:]) <= 1
    small.data_received(begin(100, 104))
    assert small_transport.reads
    assert peers.served == 1


async def test_requests_that_have_used_all_memory_up_are_completed_one_after_the_other() -> None:
    peers = Peers(max_bytes=10 * MEGABYTE)
    senders = [(*peers.connect(), [begin(3 * MEGABYTE, MEGABYTE)]) for _ in range(12)]
    for _, _, pieces in senders:
        pieces += [bytes(MEGABYTE), bytes(MEGABYTE), bytes(4)]
    highest = 0
    for _ in range(200):
        for connection, transport, pieces in senders:
            if transport.reads and pieces:
                connection.data_received(pieces.pop(0))
                highest = max(highest, peers.queue.held_bytes)
        await asyncio.sleep(0)  # Large requests are served in the next turn.
    assert peers.served == 12
    assert highest <= (10 + 3 + 12) * MEGABYTE
    assert peers.queue.held_bytes == 0
    assert peers.queue.stopped == 0


@on_broker(queued_max_request_bytes="1000000")
async def test_a_stalled_sender_is_closed_while_memory_is_short_and_lives_while_it_is_not(
    connect: Connect,
) -> None:
    stalled = [await asyncio.open_connection("broker", PORT) for _ in range(3)]
    for _, writer in stalled[:1]:
        writer.write(begin(900_000, 400_000))
    await asyncio.sleep(60)
    assert not stalled[0][0].at_eof()
    for _, writer in stalled[1:]:
        writer.write(begin(900_000, 400_000))
    honest = frame(ApiVersionsRequest(), 0)
    padded = (len(honest) - 4 + 500_000).to_bytes(4, "big") + honest[4:] + bytes(500_000)
    reader, writer = await asyncio.open_connection("broker", PORT)
    writer.write(padded)
    client = await connect()
    begun_s = asyncio.get_running_loop().time()
    async with asyncio.timeout(30):
        await client.ask(MetadataRequest(), MetadataResponse)
        assert asyncio.get_running_loop().time() - begun_s < 1
        assert await read_frame(reader)
        with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
            await read_frame(stalled[0][0])
    # Without the first there is room for the others.
    await asyncio.sleep(60)
    assert not any(stalled_reader.at_eof() for stalled_reader, _ in stalled[1:])
    for each in [writer, *(other for _, other in stalled)]:
        each.close()


async def test_no_connection_is_read_while_too_many_wait_for_their_turn() -> None:
    peers = Peers(max_queued=2)
    request = begin(4, 8)
    busy = [peers.connect() for _ in range(2)]
    for connection, _ in busy:
        connection.data_received(request * 40)  # More than are served in a turn.
    other, transport = peers.connect()
    other.data_received(request)
    assert peers.queue.queued == 2
    reads = [transport.reads]
    await asyncio.sleep(0.001)
    reads.append(transport.reads)
    assert reads == [False, True]
    assert peers.served == 81


async def test_a_connection_serves_a_few_requests_before_others_have_their_turns() -> None:
    """Or one that is large; and reads no more until it has served what has come."""
    peers = Peers()
    small, large = begin(4, 8), begin(200_000, 200_004)
    many, _ = peers.connect()
    many.data_received(small * 40)
    assert peers.served == 8
    wide, transport = peers.connect()
    wide.data_received(large * 3)
    assert peers.served == 8
    reads = [transport.reads]
    alone, _ = peers.connect()
    alone.data_received(small)
    assert peers.served == 9
    await until(lambda: not peers.queue.queued)
    assert peers.served == 44
    reads.append(transport.reads)
    assert reads == [False, True]
    assert peers.queue.held_bytes == 0


async def test_large_requests_are_received_by_turns() -> None:
    """A chunk each, and eight connections in a turn of the loop; small requests need no turn."""
    peers = Peers()
    senders = [peers.connect() for _ in range(20)]
    for connection, _ in senders:
        connection.data_received(begin(10 * MEGABYTE, 2 * MEGABYTE))
    small, small_transport = peers.connect()
    small.data_received(begin(4, 8))

    def reading() -> int:
        return sum(transport.reads for _, transport in senders)

    seen = [reading()]
    while seen[-1] < 20:
        await asyncio.sleep(0)
        seen.append(reading())
    assert [count for count in seen if count] == [8, 16, 20]
    assert small_transport.reads
    assert peers.served == 1
    connection, transport = senders[0]
    connection.data_received(bytes(MEGABYTE))
    reads = transport.reads
    connection.connection_lost(None)  # While it waits for its turn.
    await asyncio.sleep(0)
    assert not reads


async def test_a_closed_connection_leaves_nothing_to_the_garbage_collector() -> None:
    """On real sockets: each of the peers begins a large request and goes away."""
    async with serving_on_sockets() as broker:
        host, port = broker.bootstrap.split(":")
        before = psutil.Process().memory_info().rss
        gc.disable()
        try:
            for _ in range(10):
                reader, writer = await asyncio.open_connection(host, int(port))
                writer.write(begin(100 * MEGABYTE, 4))
                for _ in range(20):
                    writer.write(bytes(MEGABYTE))
                    await writer.drain()
                writer.close()
                await writer.wait_closed()
                del reader, writer
            await until(lambda: not broker.connections)
            assert psutil.Process().memory_info().rss - before < 60 * MEGABYTE
        finally:
            gc.enable()


@on_broker(max_connection_creation_rate="5")
async def test_connections_beyond_the_rate_are_served_when_they_are_due(connect: Connect) -> None:
    loop = asyncio.get_running_loop()
    begun_s = loop.time()

    async def ask() -> float:
        await connect()
        return loop.time() - begun_s

    taken = sorted(await asyncio.gather(*(ask() for _ in range(20))))
    assert taken[4] < 0.9  # The connections of a second may come at once.
    assert 2.5 < taken[-1] < 4
    await asyncio.sleep(5)
    begun_s = loop.time()
    await connect()
    assert loop.time() - begun_s < 0.5


def test_a_rate_is_kept_over_any_interval() -> None:
    rate = ConnectionRate(10)
    due = sorted(now_s + rate.delay_s(now_s) for now_s in [0.0] * 30 + [2.0] * 5 + [50.0] * 30)
    for first, begun_s in enumerate(due):
        for last in range(first, len(due)):
            assert last - first + 1 <= 10 * (due[last] - begun_s + 1) + 1e-6
    assert ConnectionRate(0).delay_s(0.0) == float("inf")
    assert ConnectionRate(MAX_INT).delay_s(0.0) == 0.0


def test_memory_for_requests_has_a_bound_where_none_is_set() -> None:
    assert request_memory_bytes(-1, World(memory_bytes=8 << 30)) == 2 << 30
    assert request_memory_bytes(5000, World(memory_bytes=8 << 30)) == 5000
    assert World().memory_bytes > 1 << 20


async def test_the_backlog_of_a_listener_is_the_one_that_is_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[object] = []

    async def create_server(*_: object, **options: object) -> None:
        asked.append(options["backlog"])
        raise OSError

    monkeypatch.setattr(asyncio.get_running_loop(), "create_server", create_server)
    listener = Listener("PLAINTEXT", "127.0.0.1", 0)
    with pytest.raises(OSError, match="cannot listen"):
        await Listeners((listener,), (listener,), backlog=7).open(lambda _: asyncio.Protocol())
    assert asked == [7]


@pytest.mark.parametrize("seed", range(40))
async def test_nothing_is_lost_or_forgotten_whatever_comes_first(seed: int) -> None:
    """Peers send in pieces, are stopped and resumed, go away, are answered late: the counts are
    right at every step, and in the end everybody who stayed has been served."""
    random = Random(seed)
    peers = Peers(
        max_bytes=random.choice([50_000, 200_000, MAX_INT]),
        max_queued=random.choice([1, 3, MAX_INT]),
        waits=random.random() < 0.5,
        pipelines=random.random() < 0.5,
    )
    keys = random.choice(
        [
            [ProduceRequest.api_key],
            [ProduceRequest.api_key, ProduceRequest.api_key, FetchRequest.api_key],
        ]
    )
    senders: list[tuple[Connection, FakeTransport, bytearray]] = []
    expected = 0
    for _ in range(12):
        connection, transport = peers.connect()
        sizes = [random.choice([10, 1_000, 30_000, 90_000]) for _ in range(random.randrange(1, 40))]
        stream = b"".join(begin(size, 4 + size, random.choice(keys)) for size in sizes)
        senders.append((connection, transport, bytearray(stream)))
        expected += len(sizes)
    leaving = {id(senders[index][0]) for index in random.sample(range(12), 3)}
    answered = 0
    for _ in range(20_000):
        for connection, transport, left in senders:
            if transport.reads and left and random.random() < 0.7:
                piece = bytes(left[: random.choice([1, 100, 20_000, 64_000])])
                del left[: len(piece)]
                connection.data_received(piece)
            if id(connection) in leaving and random.random() < 0.01:
                leaving.discard(id(connection))
                left.clear()
                connection.connection_lost(None)
                assert connection.held_bytes == 0
        await asyncio.sleep(0)
        if answered < len(peers.replies) and random.random() < 0.8:
            if not peers.replies[answered].done():
                peers.replies[answered].set_result(None)
            answered += 1
        held = sum(connection.held_bytes for connection in peers.connections.open)
        assert peers.queue.held_bytes == held
        if not held and not any(left for _, _, left in senders):
            break
    assert peers.queue.held_bytes == 0
    assert peers.queue.queued == 0
    assert peers.queue.stopped == 0
    assert not any(left for _, _, left in senders)
    if len(peers.connections.open) == 12:
        assert peers.served == expected


async def test_a_request_that_is_released_twice_is_an_invariant_violation() -> None:
    peers = Peers(waits=True)
    connection, _ = peers.connect()
    connection.data_received((50).to_bytes(4, "big") + bytes(50))
    assert peers.queue.held_bytes == 54
    peers.queue.check()
    peers.queue.held_bytes -= 54
    with pytest.raises(InvariantViolation, match="at least what the open connections hold"):
        peers.queue.settle()
    peers.queue.held_bytes -= 1
    with pytest.raises(InvariantViolation, match="not negative"):
        peers.queue.settle()


async def test_bytes_that_are_counted_and_not_held_are_an_invariant_violation() -> None:
    peers = Peers()
    connection, _ = peers.connect()
    connection.data_received((50).to_bytes(4, "big") + bytes(50))
    connection.held_bytes += 1
    peers.queue.held_bytes += 1
    with pytest.raises(InvariantViolation, match="is what it holds"):
        connection.data_received((50).to_bytes(4, "big") + bytes(50))


async def test_a_connection_that_is_counted_for_no_address_is_an_invariant_violation() -> None:
    peers = Peers()
    connection, _ = peers.connect()
    other, _ = peers.connect()
    del peers.connections.open[other]
    with pytest.raises(InvariantViolation, match="add up to the number of open connections"):
        peers.connections.forget(connection, connection.address)
