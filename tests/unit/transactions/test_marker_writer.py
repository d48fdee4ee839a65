"""Decisions that fall while the markers of earlier ones are being written, and ends that the
coordinator's log does not take at once."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from typing import Any, cast

from odradek.metadata import ClusterImage
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.types import BrokerId, ProducerEpoch, ProducerId, TopicPartition
from odradek.replication.pending_append import TransactionMarker
from odradek.statemachine.machine import ProducerIdentity
from odradek.transactions.commands import DescribeTransaction, MarkersWritten
from odradek.transactions.local_markers import LocalMarkers
from odradek.transactions.machine import WriteMarkers
from odradek.transactions.markers import MarkerWriter
from odradek.transactions.transaction import Status, Transaction
from odradek.world.timeslice import SLICE_S, measured_by

IDLE = Transaction("tx", ProducerId(7), ProducerEpoch(3), 1000, Status.COMPLETE_COMMIT)
PREPARED = Transaction("tx", ProducerId(7), ProducerEpoch(3), 1000, Status.PREPARE_COMMIT)


class Images:
    """An image that never changes."""

    image = ClusterImage()

    async def newer_than(self, _: int) -> None:
        await asyncio.get_running_loop().create_future()


class Coordinators:
    """Answers when it is told to; what it answers was so when it was asked."""

    def __init__(self) -> None:
        self.state = PREPARED
        self.ended = asyncio.Event()
        self.asked = asyncio.Event()
        self.may_answer = asyncio.Event()
        self.refuses = False
        self.epoch = 1
        self.epoch_read = asyncio.Event()
        self.log_takes_nothing = False
        self.not_written = asyncio.Event()
        self.lease_is_back: asyncio.Event | None = None

    def leader_epoch(self, _: str) -> int:
        self.epoch_read.set()
        return self.epoch

    async def ask(
        self, _: str, command: DescribeTransaction | MarkersWritten
    ) -> Transaction | None:
        if isinstance(command, MarkersWritten):
            assert self.state is PREPARED
            if self.log_takes_nothing:
                self.not_written.set()
                raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            self.ended.set()
            self.state = IDLE
            return None
        seen, refuses = self.state, self.refuses
        self.asked.set()
        await self.may_answer.wait()
        if refuses:
            raise ApiError(ErrorCode.NOT_COORDINATOR)
        return seen

    async def regains(self, _: str) -> bool:
        """Whether the broker had only lost its lease, and has it back."""
        if self.lease_is_back is None:
            return False
        await self.lease_is_back.wait()
        self.refuses = False
        return True

    async def next_question(self) -> None:
        await self.asked.wait()
        self.asked.clear()


@asynccontextmanager
async def writer_beside(coordinators: Coordinators) -> AsyncIterator[MarkerWriter]:
    """Raises TimeoutError if what is awaited within never comes."""
    nobody = cast("Any", None)
    markers = LocalMarkers(nobody, nobody, nobody)
    writer = MarkerWriter(
        BrokerId(1), cast("Any", coordinators), markers, cast("Any", Images()), nobody
    )
    running = asyncio.ensure_future(writer.run())
    async with asyncio.timeout(5):
        yield writer
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def write_while(coordinators: Coordinators, *, refuses: bool) -> None:
    """A decision falls after the writer has asked, and before it hears the answer."""
    coordinators.state = IDLE
    coordinators.refuses = refuses
    async with writer_beside(coordinators) as writer:
        writer.write(WriteMarkers("tx"))
        await coordinators.next_question()
        coordinators.state = PREPARED
        coordinators.refuses = False
        writer.write(WriteMarkers("tx"))
        coordinators.may_answer.set()
        await coordinators.ended.wait()


async def test_a_decision_that_an_answer_on_its_way_does_not_know_of_gets_its_markers() -> None:
    await write_while(Coordinators(), refuses=False)


async def test_a_decision_that_falls_when_the_lead_was_lost_and_won_again_gets_its_markers() -> (
    None
):
    await write_while(Coordinators(), refuses=True)


async def test_an_end_that_the_coordinators_log_does_not_take_is_written_down_later() -> None:
    coordinators = Coordinators()
    coordinators.may_answer.set()
    coordinators.log_takes_nothing = True
    async with writer_beside(coordinators) as writer:
        writer.write(WriteMarkers("tx"))
        for _ in range(2):
            await coordinators.not_written.wait()
            coordinators.not_written.clear()
        coordinators.log_takes_nothing = False
        await coordinators.ended.wait()


async def test_an_end_that_is_not_taken_is_left_to_the_next_coordinator_when_there_is_one() -> None:
    coordinators = Coordinators()
    coordinators.may_answer.set()
    coordinators.log_takes_nothing = True
    async with writer_beside(coordinators) as writer:
        writer.write(WriteMarkers("tx"))
        await coordinators.not_written.wait()
        coordinators.epoch = 2
        coordinators.epoch_read.clear()
        coordinators.log_takes_nothing = False
        await coordinators.epoch_read.wait()
        assert not coordinators.ended.is_set()
        writer.write(
            WriteMarkers("tx")
        )  # As the one who coordinates in that epoch finds it in its log.
        await coordinators.ended.wait()


async def test_markers_that_were_left_for_a_lost_lease_are_written_when_it_is_back() -> None:
    coordinators = Coordinators()
    coordinators.may_answer.set()
    coordinators.refuses = True
    coordinators.lease_is_back = asyncio.Event()
    async with writer_beside(coordinators) as writer:
        writer.write(WriteMarkers("tx"))
        await coordinators.next_question()
        await asyncio.sleep(0)
        assert not coordinators.ended.is_set()
        coordinators.lease_is_back.set()
        await coordinators.ended.wait()


async def test_markers_of_many_partitions_give_the_others_a_turn_by_time() -> None:
    asked: list[TopicPartition] = []

    class Replicas:
        def leader(self, topic: str, index: int) -> None:
            asked.append(TopicPartition(topic, index))
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    nobody = cast("Any", None)
    markers = LocalMarkers(cast("Any", Replicas()), nobody, nobody)
    marker = TransactionMarker(
        ProducerIdentity(ProducerId(1), ProducerEpoch(0)),
        committed=True,
        coordinator_epoch=0,
        is_bumped=True,
    )
    partitions = [TopicPartition("t", index) for index in range(1000)]
    reads = count()
    in_a_turn = [0]
    before = 0
    # Every question whether the slice is over costs a millisecond.
    with measured_by(lambda: next(reads) / 1000):
        appending = asyncio.ensure_future(markers.append(partitions, marker))
        while not appending.done():
            await asyncio.sleep(0)
            in_a_turn.append(len(asked) - before)
            before = len(asked)
    assert asked == partitions
    assert set((await appending).errors) == set(partitions)
    assert max(in_a_turn) <= SLICE_S * 1000
