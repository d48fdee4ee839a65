import asyncio
from collections.abc import Callable, Coroutine

from odradek.client.producer.accumulator import Accumulator, PartitionQueue
from odradek.client.settings import ProducerSettings
from odradek.protocol.types import TopicPartition
from simulation.run import run


class Story:
    """An accumulator of which each record fills a batch."""

    def __init__(self) -> None:
        self.accumulator = Accumulator(
            ProducerSettings(batch_size=0),
            on_ready=lambda _: None,
            on_opened=lambda _: None,
            on_full=lambda: None,
        )

    async def pause(self) -> None:
        """What `send` does before it appends a record."""
        await self.accumulator.room(50, asyncio.get_running_loop().time() + 60)

    def queue(self, batches: int, *, sending: int, partition: int = 0) -> PartitionQueue:
        queue = self.accumulator.queue(TopicPartition("t", partition))
        for _ in range(batches):
            self.accumulator.append(queue, None, b"v", (), 5, 50, None)
        queue.sending = sending
        return queue

    def take(self, queue: PartitionQueue, count: int) -> None:
        for _ in range(count):
            self.accumulator.take(queue)


def simulated(test: Callable[[Story], Coroutine[None, None, None]]) -> None:
    async def story() -> None:
        await test(Story())

    run(lambda _: story(), 1)


async def seconds_of(pause: Coroutine[None, None, None]) -> float:
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    await pause
    return loop.time() - began_s


def test_nobody_waits_for_a_short_queue() -> None:
    async def test(story: Story) -> None:
        story.queue(8, sending=5)
        assert await seconds_of(story.pause()) == 0

    simulated(test)


def test_nobody_waits_if_no_response_is_under_way() -> None:
    async def test(story: Story) -> None:
        story.queue(100, sending=0)
        assert await seconds_of(story.pause()) == 0, "there may be no leader: let the buffer fill"

    simulated(test)


def test_a_deep_queue_is_waited_for_until_half_of_it_is_sent() -> None:
    async def test(story: Story) -> None:
        queue = story.queue(9, sending=5)
        waiting = asyncio.ensure_future(seconds_of(story.pause()))
        await asyncio.sleep(0.003)
        story.take(queue, 4)
        await asyncio.sleep(0.003)
        assert not waiting.done(), "five batches are left"
        story.take(queue, 1)
        assert 0.006 <= await waiting < 0.007

    simulated(test)


def test_another_queue_that_is_short_ends_no_wait() -> None:
    async def test(story: Story) -> None:
        other = story.queue(2, sending=1, partition=1)
        story.queue(9, sending=5)
        waiting = asyncio.ensure_future(seconds_of(story.pause()))
        await asyncio.sleep(0.003)
        story.take(other, 1)
        assert await waiting >= 0.02

    simulated(test)


def test_a_broker_that_does_not_answer_delays_for_a_moment_only() -> None:
    async def test(story: Story) -> None:
        story.queue(100, sending=5)
        assert 0.02 <= await seconds_of(story.pause()) < 0.021
        assert await seconds_of(story.pause()) == 0, "until the queue gets another batch"

    simulated(test)


def test_a_queue_that_stands_still_is_waited_for_once() -> None:
    """A partition whose broker hangs must not slow down the others (a wait for every 4 batches)."""

    async def test(story: Story) -> None:
        queue = story.queue(9, sending=5)
        assert await seconds_of(story.pause()) >= 0.02
        for _ in range(10):
            story.queue(4, sending=5)
            assert await seconds_of(story.pause()) == 0
        story.take(queue, 1)
        story.queue(4, sending=5)
        assert await seconds_of(story.pause()) >= 0.02, "its broker answers again"

    simulated(test)


def test_a_pause_is_not_the_full_buffer() -> None:
    async def test(story: Story) -> None:
        story.queue(9, sending=5)
        await story.accumulator.room(50, asyncio.get_running_loop().time())
        assert not story.accumulator.waiters, "max.block.ms=0 gives up only if there is no memory"

    simulated(test)


def test_a_wait_can_be_cancelled_beside_another() -> None:
    async def test(story: Story) -> None:
        queue = story.queue(9, sending=5)
        first = asyncio.ensure_future(story.pause())
        await asyncio.sleep(0)
        second = asyncio.ensure_future(seconds_of(story.pause()))
        await asyncio.sleep(0.003)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        assert first.cancelled()
        story.take(queue, 8)
        assert await second < 0.01

    simulated(test)
