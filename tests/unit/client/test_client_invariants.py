"""Violations planted in the client's state are caught where that state moves next."""

import itertools
from collections.abc import Callable, Coroutine

import pytest

from odradek.client.consumer.positions import PartitionState
from odradek.client.producer.accumulator import Accumulator, PartitionQueue, ProducerBatch
from odradek.client.producer.idempotence import Idempotence
from odradek.client.settings import ProducerSettings
from odradek.invariants import InvariantViolation
from odradek.protocol.records import BatchBuilder
from odradek.protocol.types import Offset, ProducerEpoch, ProducerId, TopicPartition
from simulation.run import run

T0 = TopicPartition("t", 0)
_numbers = itertools.count(1)


def simulated(test: Callable[[], Coroutine[None, None, None]]) -> None:
    run(lambda _: test(), 1)


def make_accumulator() -> Accumulator:
    return Accumulator(
        ProducerSettings(batch_size=100),
        on_ready=lambda _: None,
        on_opened=lambda _: None,
        on_full=lambda: None,
    )


def batch_of(queue: PartitionQueue) -> ProducerBatch:
    batch = ProducerBatch(queue, BatchBuilder(), (next(_numbers),), 0.0)
    batch.builder.append(None, b"v", (), 0)
    return batch


def test_batches_out_of_order_are_found_when_a_batch_is_put_back() -> None:
    queue = PartitionQueue(T0)
    first, second, third = (batch_of(queue) for _ in range(3))
    queue.batches.extend([third, second])
    with pytest.raises(InvariantViolation, match="batches are not in order"):
        queue.put_back(first)


def test_a_batch_that_is_queued_twice_is_found() -> None:
    queue = PartitionQueue(T0)
    batch = batch_of(queue)
    queue.put_back(batch)
    with pytest.raises(InvariantViolation, match="batches are not in order"):
        queue.put_back(batch)


def test_memory_that_was_not_returned_is_found_with_the_next_batch() -> None:
    async def test() -> None:
        accumulator = make_accumulator()
        accumulator.free_bytes -= 1
        with pytest.raises(InvariantViolation, match="bytes are free of"):
            accumulator.append(accumulator.queue(T0), None, b"v", (), 0, 50, None)

    simulated(test)


def test_a_batch_that_is_finished_twice_is_found() -> None:
    async def test() -> None:
        accumulator = make_accumulator()
        queue = accumulator.queue(T0)
        accumulator.append(queue, None, b"v", (), 0, 50, None)
        batch = accumulator.take(queue)
        accumulator.finish(batch)
        with pytest.raises(InvariantViolation, match="is finished twice"):
            accumulator.finish(batch)

    simulated(test)


def test_batches_in_flight_out_of_order_are_found_with_the_next_batch() -> None:
    idempotence, queue = Idempotence(), PartitionQueue(T0)
    idempotence.new_producer_id(ProducerId(7), ProducerEpoch(0))
    first, second = batch_of(queue), batch_of(queue)
    idempotence.assign(queue, second)
    with pytest.raises(InvariantViolation, match="in flight out of order"):
        idempotence.assign(queue, first)


def test_a_batch_in_flight_of_another_epoch_is_found_with_the_next_batch() -> None:
    idempotence, queue = Idempotence(), PartitionQueue(T0)
    idempotence.new_producer_id(ProducerId(7), ProducerEpoch(0))
    first, second = batch_of(queue), batch_of(queue)
    idempotence.assign(queue, first)
    first.producer_epoch = ProducerEpoch(1)
    with pytest.raises(InvariantViolation, match="another producer id or epoch"):
        idempotence.assign(queue, second)


def test_a_position_beyond_what_was_fetched_is_found() -> None:
    state = PartitionState(T0)
    state.seek(Offset(10))
    state.check()
    state.position = Offset(11)
    with pytest.raises(InvariantViolation, match="position 11 is beyond fetch offset 10"):
        state.check()
