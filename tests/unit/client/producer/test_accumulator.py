import asyncio
import gc
from collections.abc import Callable, Coroutine

import pytest

from odradek.client.errors import BufferFull, ClientClosed
from odradek.client.producer.accumulator import (
    RECORD_OVERHEAD,
    Accumulator,
    PartitionQueue,
    ProducerBatch,
)
from odradek.client.producer.deliveries import OnDelivery, RecordMetadata
from odradek.client.settings import ProducerSettings
from odradek.protocol.records import BatchBuilder, decode_records
from odradek.protocol.types import ProducerEpoch, ProducerId, TopicPartition
from simulation.run import run

T0 = TopicPartition("t", 0)


class Story:
    """An accumulator and what it told the sender."""

    def __init__(self, **options: int) -> None:
        self.ready: list[PartitionQueue] = []
        self.opened: list[ProducerBatch] = []
        self.full = 0
        self.accumulator = Accumulator(
            ProducerSettings(**options),  # type: ignore[arg-type]
            on_ready=self.ready.append,
            on_opened=self.opened.append,
            on_full=self.was_full,
        )
        self.queue = self.accumulator.queue(T0)

    def was_full(self) -> None:
        self.full += 1

    def append(self, value: bytes) -> "asyncio.Future[RecordMetadata]":
        size = len(value) + RECORD_OVERHEAD
        return self.accumulator.append(self.queue, None, value, (), 5, size, None)


def simulated(test: Callable[[], Coroutine[None, None, None]]) -> None:
    run(lambda _: test(), 1)


def test_records_gather_until_the_next_would_not_fit() -> None:
    async def test() -> None:
        story = Story(batch_size=400)
        for _ in range(5):
            story.append(b"x" * 100)
        assert [batch.record_count for batch in story.queue.batches] == [2, 2, 1]
        assert story.ready == [story.queue] * 2, "a batch that has a successor is ready"
        assert len(story.opened) == 3

    simulated(test)


def test_a_record_larger_than_a_batch_has_one_of_its_own() -> None:
    async def test() -> None:
        story = Story(batch_size=400)
        story.append(b"x" * 5_000)
        assert [batch.record_count for batch in story.queue.batches] == [1]
        assert story.ready == [story.queue], "nothing more will fit"

    simulated(test)


def test_a_batch_that_was_taken_gets_no_more_records() -> None:
    async def test() -> None:
        story = Story()
        story.append(b"first")
        taken = story.accumulator.take(story.queue)
        story.append(b"second")
        assert taken.record_count == 1
        assert len(story.queue.batches) == 1

    simulated(test)


def test_deliveries_are_told_where_each_record_is() -> None:
    async def test() -> None:
        story = Story()
        deliveries = [story.append(b"v") for _ in range(3)]
        deliveries[1].cancel()
        batch = story.accumulator.take(story.queue)
        batch.complete(70, -1)
        assert deliveries[0].result() == RecordMetadata("t", 0, 70, 5)  # type: ignore[arg-type]
        assert deliveries[2].result().offset == 72
        story.append(b"v")
        late = story.append(b"v")
        story.accumulator.take(story.queue).complete(73, 999)
        assert late.result() == RecordMetadata("t", 0, 74, 999)  # type: ignore[arg-type]

    simulated(test)


def test_memory_is_taken_by_records_and_given_back_by_finished_batches() -> None:
    async def test() -> None:
        story = Story(buffer_memory=1_000)
        story.append(b"x" * 100)
        story.append(b"x" * 100)
        assert story.accumulator.free_bytes == 1_000 - 2 * (100 + RECORD_OVERHEAD)
        story.accumulator.finish(story.accumulator.take(story.queue))
        assert story.accumulator.free_bytes == 1_000

    simulated(test)


def test_room_is_given_in_the_order_it_was_asked_for() -> None:
    async def test() -> None:
        loop = asyncio.get_running_loop()
        story = Story(buffer_memory=1_000, batch_size=0)
        for _ in range(4):
            story.append(b"x" * 200)
        order: list[int] = []

        async def ask(size: int) -> None:
            await story.accumulator.room(size, loop.time() + 10)
            order.append(size)

        asked = [asyncio.ensure_future(ask(size)) for size in (400, 50, 300)]
        await asyncio.sleep(1)
        assert order == [], "even the one that would fit waits for its turn"
        assert story.full >= 3
        while story.queue.batches:
            story.accumulator.finish(story.accumulator.take(story.queue))
            await asyncio.sleep(0.1)
        await asyncio.gather(*asked)
        assert order == [400, 50, 300]

    simulated(test)


def test_room_that_does_not_come_is_an_error_in_time() -> None:
    async def test() -> None:
        loop = asyncio.get_running_loop()
        story = Story(buffer_memory=200)
        story.append(b"x" * 100)
        with pytest.raises(BufferFull):
            await story.accumulator.room(200, loop.time() + 3)
        assert 2.9 < loop.time() < 3.1
        assert not story.accumulator.waiters
        waiting = asyncio.ensure_future(story.accumulator.room(200, loop.time() + 3))
        await asyncio.sleep(0)
        story.accumulator.close()
        with pytest.raises(ClientClosed):
            await waiting

    simulated(test)


def test_room_that_was_given_and_not_used_goes_to_the_next() -> None:
    async def test() -> None:
        loop = asyncio.get_running_loop()
        story = Story(buffer_memory=1_000, batch_size=0)
        story.append(b"x" * 900)
        waiting = [
            loop.create_task(story.accumulator.room(600, loop.time() + limit_s))
            for limit_s in (30, 5, 30, 30)
        ]
        await asyncio.sleep(4)
        # The first has its room, and is cancelled before it can use it.
        story.accumulator.finish(story.accumulator.take(story.queue))
        waiting[0].cancel()
        await asyncio.sleep(0.1)
        assert [task.done() for task in waiting] == [True] * 4, "nobody used the room"
        assert waiting[0].cancelled()
        assert not story.accumulator.waiters
        assert story.accumulator.free_bytes == 1_000

    simulated(test)


def test_a_batch_is_put_back_before_what_was_never_sent_and_by_sequence() -> None:
    async def test() -> None:
        story = Story(batch_size=0)
        for number in range(4):
            story.append(b"%d" % number)
        sent = [story.accumulator.take(story.queue) for _ in range(3)]
        for sequence, batch in enumerate(sent):
            batch.attempts = 1
            batch.set_producer(ProducerId(1), ProducerEpoch(0), sequence)
        for batch in (sent[1], sent[0], sent[2]):
            story.queue.put_back(batch)
        assert [batch.base_sequence for batch in story.queue.batches] == [0, 1, 2, -1]

    simulated(test)


def test_parts_of_a_batch_call_back_for_their_own_records() -> None:
    async def test() -> None:
        story = Story()
        told: list[tuple[int, int | None, BaseException | None]] = []

        def teller(number: int) -> OnDelivery:
            return lambda metadata, error: told.append(
                (number, metadata and metadata.offset, error)
            )

        for number in range(5):
            on_delivery = None if number == 1 else teller(number)
            story.accumulator.append(story.queue, None, b"v", (), 5, 50, on_delivery)
        first, second = story.accumulator.split(story.accumulator.take(story.queue))
        first.complete(70, -1)
        failed, other = ValueError("other"), ValueError("failed")
        second.fail(failed, {1: other})
        assert told == [(0, 70, None), (2, None, failed), (3, None, other), (4, None, failed)]

    simulated(test)


def test_each_part_of_a_batch_that_was_appended_whole_calls_back() -> None:
    async def test() -> None:
        story = Story()
        told: list[int | None] = []
        builder = BatchBuilder()
        for number in range(5):
            builder.append(None, b"%d" % number, (), 5)
        story.accumulator.append_batch(
            story.queue, builder, lambda metadata, _: told.append(metadata and metadata.offset)
        )
        first, second = story.accumulator.split(story.accumulator.take(story.queue))
        story.accumulator.take(story.queue)
        for offset, part in ((70, first), (72, second)):
            part.complete(offset, -1)
        assert told == [70, 72]

    simulated(test)


def test_a_record_that_waits_is_one_object_for_the_garbage_collector() -> None:
    """It has its future and no more: the collector takes longer the more objects there are."""

    async def test() -> None:
        story = Story(batch_size=1 << 20)
        story.append(b"opens the batch")
        gc.disable()
        try:
            before = len(gc.get_objects())
            for _ in range(500):
                story.append(b"value")
            made = len(gc.get_objects()) - before
        finally:
            gc.enable()
        assert made < 550

    asyncio.run(test())  # a future of the simulation is more than one object


def test_a_batch_is_split_in_two_with_nothing_lost() -> None:
    async def test() -> None:
        story = Story()
        deliveries = [story.append(b"%d" % number) for number in range(5)]
        whole = story.accumulator.take(story.queue)
        flushed = asyncio.ensure_future(story.accumulator.wait_until_flushed())
        await asyncio.sleep(0)
        pieces = story.accumulator.split(whole)
        assert list(story.queue.batches) == pieces
        values = [[one.value for one in decode_records(piece.build())] for piece in pieces]
        assert values == [[b"0", b"1"], [b"2", b"3", b"4"]]
        await asyncio.sleep(1)
        assert not flushed.done(), "the pieces are still to be delivered"
        for offset, piece in zip((0, 2), pieces, strict=True):
            piece.complete(offset, -1)
            story.accumulator.finish(piece)
        await flushed
        assert [delivery.result().offset for delivery in deliveries] == [0, 1, 2, 3, 4]
        assert story.accumulator.free_bytes == ProducerSettings().buffer_memory

    simulated(test)


def test_flush_does_not_wait_for_what_comes_later() -> None:
    async def test() -> None:
        story = Story(batch_size=0)
        story.append(b"before")
        flushed = asyncio.ensure_future(story.accumulator.wait_until_flushed())
        await asyncio.sleep(0)
        story.append(b"after")
        story.accumulator.finish(story.accumulator.take(story.queue))
        await flushed

    simulated(test)


def test_queues_of_a_topic_are_forgotten_only_when_idle() -> None:
    async def test() -> None:
        story = Story()
        story.append(b"v")
        assert not story.accumulator.forget("t", lambda _: True)
        story.accumulator.finish(story.accumulator.take(story.queue))
        assert story.accumulator.forget("t", lambda _: False)
        assert story.accumulator.queue(T0) is story.queue, "its numbers are still needed"
        assert story.accumulator.forget("t", lambda _: True)
        assert story.accumulator.queue(T0) is not story.queue

    simulated(test)
