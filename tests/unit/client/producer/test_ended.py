"""A producer whose background task has ended: calls say so, and none of them waits for ever."""

import asyncio

import pytest

from odradek.client.errors import ClientClosed
from odradek.client.producer.sender import Sender
from simulation.world import Simulation
from tests.unit.client.mini_cluster import MiniCluster
from tests.unit.client.producer.producing import producer, values
from tests.unit.client.simulated import in_simulation


@in_simulation()
async def test_a_sender_that_failed_fails_every_record_and_accepts_no_more(
    cluster: MiniCluster, simulation: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.create("t")
    one = producer(cluster, simulation, linger_ms=60)
    await one.send_and_wait("t", b"good")
    delivery = await one.send("t", b"lost")

    def fail(self: Sender) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(Sender, "_step", fail)
    async with asyncio.timeout(10):
        with pytest.raises(RuntimeError, match="a bug"):
            await delivery
        for _ in range(2):
            with pytest.raises(ClientClosed, match=r"the producer ended: RuntimeError\('a bug'\)"):
                await one.send("t", b"refused")
        await one.flush()
        assert one.undelivered == 0
        await one.close()
    with pytest.raises(ClientClosed, match="the producer is closed"):
        await one.send("t", b"refused")
    assert values(cluster) == [b"good"]


@in_simulation()
async def test_a_send_that_waits_for_room_is_told_that_the_sender_failed(
    cluster: MiniCluster, simulation: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.create("t")
    one = producer(cluster, simulation, buffer_memory=10_000, linger_ms=20_000)
    await one.send_and_wait("t", b"good")
    await cluster.stop()
    for _ in range(9):
        await one.send("t", b"x" * 1_000)
    waiting = asyncio.ensure_future(one.send("t", b"x" * 1_000))
    await asyncio.sleep(1)
    assert not waiting.done()

    def fail(self: Sender) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(Sender, "_step", fail)
    assert one._sender is not None
    one._sender.wake()
    with pytest.raises(ClientClosed, match="the producer ended"):
        await waiting
    await one.close()


@in_simulation()
async def test_a_producer_whose_loop_has_ended_says_so(
    cluster: MiniCluster, simulation: Simulation
) -> None:
    cluster.create("t")
    one = producer(cluster, simulation, linger_ms=60)
    await one.send_and_wait("t", b"good")
    delivery = await one.send("t", b"not closed")
    assert one._running is not None
    one._running.cancel()  # as asyncio.run() does at its end
    for waiting in (delivery, one.send("t", b"in the next asyncio.run()")):
        with pytest.raises(ClientClosed, match=r"make a new one in each asyncio.run\(\)"):
            await waiting
    await one.close()


@in_simulation()
async def test_concurrent_sends_keep_their_order(
    cluster: MiniCluster, simulation: Simulation
) -> None:
    cluster.create("t")
    async with producer(cluster, simulation, batch_size=2_000) as one:
        await one.send_and_wait("t", b"first")
        numbers = range(400)
        await asyncio.gather(*(one.send("t", b"%d" % number + bytes(999)) for number in numbers))
    found = [int((value or b"").rstrip(b"\0")) for value in values(cluster)[1:]]
    assert found == list(numbers)


@in_simulation()
async def test_a_cancelled_send_has_sent_nothing(
    cluster: MiniCluster, simulation: Simulation
) -> None:
    cluster.create("t")
    sent = []
    async with producer(cluster, simulation, batch_size=0) as one:
        await one.send_and_wait("t", b"first")
        sends = [asyncio.ensure_future(one.send("t", b"%d" % number)) for number in range(20)]
        await asyncio.sleep(0)
        for number, task in enumerate(sends):
            if number % 2:
                task.cancel()
        await asyncio.wait(sends)
        sent = [b"%d" % number for number, task in enumerate(sends) if not task.cancelled()]
        assert 0 < len(sent) < 20, "some were cancelled while they waited"
    assert values(cluster)[1:] == sent
