"""A log beside a model through crashes that leave every checkpoint file stale in some way.

The log is appended to, truncated, rolled, emptied, led in new epochs, made to copy another replica
(whose next records may be of an older epoch than the one that this replica last led in), shortened
from its start, deleted and made again under the same name. Checkpoints are written, left alone, or
begun and not finished. Then the broker is stopped, killed or loses its power, between two steps or
inside one. Afterwards

- a kill has lost nothing but the write during which it came;
- a power cut has lost nothing that the log called flushed, and has brought back nothing that was
  never written;
- leader epochs and producers are what the batches say, and the high watermark says no more than is
  true.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from random import Random
from typing import NamedTuple, TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from odradek.protocol.records import decode_records
from odradek.protocol.types import NO_TOPIC_ID, LeaderEpoch, Offset, ProducerId, TopicId
from odradek.storage import Log, LogManager
from odradek.storage.housekeeping import Housekeeping
from odradek.world import Randomness
from simulation.disk import PowerCut, SimulatedDisk
from tests.log_verification import verify_log
from tests.unit.storage.storage_world import (
    PARTITION,
    make_batch,
    make_manager,
    make_world,
    run_deletions,
)

T = TypeVar("T")

PRODUCERS = 2
PROPERTIES = {
    "log_segment_bytes": "600",
    "log_index_interval_bytes": "100",
    "log_segment_delete_delay_ms": "0",
}


class Batch(NamedTuple):
    base_offset: int
    epoch: int
    values: tuple[bytes, ...]
    # Its id and first sequence; -1 for none.
    producer_id: int
    sequence: int

    @property
    def next_offset(self) -> int:
        return self.base_offset + len(self.values)

    def encoded(self, *, by_producer: bool = False) -> bytes:
        return make_batch(
            self.values,
            base_offset=0 if by_producer else self.base_offset,
            leader_epoch=-1 if by_producer else self.epoch,
            producer=(self.producer_id, 0 if self.producer_id >= 0 else -1, self.sequence),
        )


class CrashMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.boot = 1
        self.disk = SimulatedDisk(Random(0))
        self.lives = self.topics = 0
        # Where a log of an earlier topic ever started.
        self.inherited_start = self.highest_start = 0
        self.serial = 0
        self.epoch = 0
        # Whether the next step is interrupted: by a kill or not, and after how many operations.
        self.crash_within: tuple[bool, int] | None = None
        # Checkpoints that are being written.
        self.tasks: list[asyncio.Task[None]] = []
        self.begin_topic()
        self.load()

    def begin_topic(self) -> None:
        self.topics += 1
        self.inherited_start = max(self.inherited_start, self.highest_start)
        self.topic_id = TopicId(self.topics.to_bytes(16, "big"))
        self.batches: list[Batch] = []
        # Everything that was ever written under this topic id.
        self.history: set[Batch] = set()
        self.end = self.high_watermark = self.flushed = 0
        # Where the log starts; where it starts after a kill, and after a power cut, at least.
        self.start = self.kept_start = self.durable_start = self.highest_start = 0
        # Whether records were removed from the start: producers may be known without a batch.
        self.was_shortened = False

    def run(self, work: Coroutine[None, None, T]) -> T:
        return self.loop.run_until_complete(work)

    @property
    def log(self) -> Log:
        return self.manager.logs[PARTITION]

    def teardown(self) -> None:
        self.end_tasks()
        self.loop.close()

    def end_tasks(self) -> None:
        """A dead process finishes nothing."""

        async def cancel() -> None:
            this = asyncio.current_task()
            others = [*self.tasks, *(task for task in asyncio.all_tasks() if task is not this)]
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)

        self.run(cancel())
        self.tasks.clear()

    # What a process does

    def next_batch(self, offset: int, count: int, epoch: int, producer: tuple[int, int]) -> Batch:
        values = tuple(b"%d" % number for number in range(self.serial, self.serial + count))
        self.serial += count
        return Batch(offset, epoch, values, *producer)

    def next_sequence(self, producer_id: ProducerId) -> int:
        known = self.log.producers.entries.get(producer_id)
        return -1 if producer_id < 0 else 0 if known is None else known.last_sequence + 1

    producers = st.integers(-1, PRODUCERS - 1)

    @rule(count=st.integers(1, 3), producer_id=producers)
    def append(self, count: int, producer_id: ProducerId) -> None:
        self.epoch = max(self.epoch, self.log.leader_epochs.latest)
        producer = producer_id, self.next_sequence(producer_id)
        batch = self.next_batch(self.end, count, self.epoch, producer)

        async def work() -> None:
            self.log.append(batch.encoded(by_producer=True), leader_epoch=LeaderEpoch(batch.epoch))

        self.do(work, [*self.batches, batch])

    @rule()
    def lead_in_a_new_epoch(self) -> None:
        self.epoch = max(self.epoch, self.log.leader_epochs.latest) + 1
        self.log.leader_epochs.assign(LeaderEpoch(self.epoch), self.log.log_end_offset)

    @rule(data=st.data(), count=st.integers(1, 4), producer_id=producers)
    def copy_another_replica(
        self, data: st.DataObject, count: int, producer_id: ProducerId
    ) -> None:
        """Follows a leader whose log parts from this one somewhere."""
        if data.draw(st.booleans()) and not self.truncate(data.draw(st.integers(0, 40))):
            return
        self.log.leader_epochs.truncate_from_end(self.log.log_end_offset)
        self.epoch = max(self.epoch, self.log.leader_epochs.latest) + 1
        lowest = self.batches[-1].epoch if self.batches else 0
        epoch = data.draw(st.integers(lowest, self.epoch))
        sequence = self.next_sequence(producer_id)
        run: list[Batch] = []
        for number in range(count):
            producer = producer_id, sequence + number if producer_id >= 0 else -1
            run.append(self.next_batch(self.end + number, 1, epoch, producer))

        async def work() -> None:
            records = b"".join(batch.encoded() for batch in run)
            self.log.append(records, leader_epoch=LeaderEpoch(self.epoch), as_follower=True)

        self.do(work, [*self.batches, *run])

    def truncate(self, offset: int) -> bool:
        offset = min(max(offset, self.start), self.end)
        kept = [batch for batch in self.batches if batch.next_offset <= offset]

        async def work() -> None:
            self.log.truncate_to(Offset(offset))

        end = self.end
        if not self.do(work, kept):
            return False
        if offset < end:
            # If a batch reaches over the start, the log is empty behind it.
            self.end = max(kept[-1].next_offset if kept else self.log.log_end_offset, self.start)
            assert self.log.log_end_offset == self.end
            self.durable_start = 0
            self.high_watermark = min(self.high_watermark, self.end)
            self.flushed = self.log.flushed.value
        return True

    @rule(offset=st.integers(0, 12))
    def start_over(self, offset: int) -> None:
        async def work() -> None:
            self.log.truncate_fully_and_start_at(Offset(offset))

        # In between there is no file that tells where the log was.
        self.start, self.kept_start, self.durable_start = max(self.start, offset), 0, 0
        self.highest_start = max(self.highest_start, offset)
        if self.do(work, []):
            self.start = self.kept_start = self.end = offset
            self.high_watermark = min(self.high_watermark, offset)
            self.flushed = self.log.flushed.value

    @rule()
    def roll(self) -> None:
        async def work() -> None:
            self.log.roll()

        self.do(work)

    @rule()
    def flush(self) -> None:
        self.do(self.log.flush)

    @rule(data=st.data())
    def replicate(self, data: st.DataObject) -> None:
        self.high_watermark = data.draw(st.integers(self.high_watermark, self.end))
        self.log.high_watermark = Offset(self.high_watermark)

    @rule(data=st.data(), is_kept=st.booleans())
    def delete_records(self, data: st.DataObject, *, is_kept: bool) -> None:
        """As in the broker, never behind the high watermark."""
        offset = data.draw(st.integers(self.start, max(self.high_watermark, self.start)))
        self.was_shortened |= offset > self.start
        self.log.advance_log_start(Offset(offset))
        run_deletions(self.log.directory, float("inf"))
        self.start = offset
        self.highest_start = max(self.highest_start, offset)
        if is_kept and self.do(self.manager.checkpoint_log_start_offsets):
            self.kept_start = self.durable_start = offset

    @rule()
    def write_checkpoints(self) -> None:
        self.do(Housekeeping(self.manager, self.world).write_checkpoints)

    @rule(steps=st.integers(1, 4))
    def begin_to_write_checkpoints(self, steps: int) -> None:
        """The rest of it comes with later steps, or never."""

        async def work() -> None:
            housekeeping = Housekeeping(self.manager, self.world)
            self.tasks.append(asyncio.ensure_future(housekeeping.write_checkpoints()))
            self.tasks.append(asyncio.ensure_future(self.manager.checkpoint_log_start_offsets()))
            for _ in range(steps):
                await asyncio.sleep(0)

        self.run(work())

    @rule(is_flushed=st.booleans())
    def delete_and_make_again(self, *, is_flushed: bool) -> None:
        if is_flushed:
            self.run(self.log.flush())
        self.manager.delete(PARTITION)
        self.begin_topic()
        self.make_log()

    def make_log(self) -> None:
        self.manager.create(PARTITION, self.topic_id, self.manager.settings.topic_defaults)

    # Ends

    @rule(is_kill=st.booleans(), operations=st.integers(0, 12))
    def crash_soon(self, operations: int, *, is_kill: bool) -> None:
        """The next step that touches the disk often enough is interrupted."""
        self.crash_within = is_kill, operations

    def do(
        self, work: Callable[[], Coroutine[None, None, None]], after: list[Batch] | None = None
    ) -> bool:
        """Does a step. False if a crash came during it: then the log was loaded and compared.

        `after` are the batches that the log holds if the step is done.
        """
        before, self.flushed = self.batches, self.log.flushed.value
        after = before if after is None else after
        self.history.update(after)
        crash, self.crash_within = self.crash_within, None
        if crash is not None and self.dies(work, *crash):
            self.batches = after
            self.check_what_is_left(before, is_kill=crash[0])
            return False
        if crash is None:
            self.run(work())
        self.batches = after
        if after and after is not before:
            self.end = after[-1].next_offset
        self.flushed = self.log.flushed.value
        return True

    def dies(
        self, work: Callable[[], Coroutine[None, None, None]], is_kill: bool, operations: int
    ) -> bool:
        deaths: list[bool] = []

        def die() -> None:
            deaths.append(is_kill)
            if is_kill:
                self.disk.drop_handles()
            else:
                self.disk.crash()

        self.disk.on_power_cut = die
        self.disk.cut_power_after(operations)

        async def until_dead() -> None:
            """Who waits for a sync, say, is told nothing by a process that dies."""
            step = asyncio.ensure_future(work())
            while not step.done() and not deaths:  # noqa: ASYNC110
                await asyncio.sleep(0)
            if deaths:
                step.cancel()
                await asyncio.gather(step, return_exceptions=True)
            else:
                step.result()

        with suppress(PowerCut):
            self.run(until_dead())
        if deaths:
            self.disk.power_on()
            self.boot += not is_kill
            return True
        self.disk.keep_power()
        return False

    @rule()
    def stop(self) -> None:
        self.run(self.manager.close())
        before = self.batches
        self.end_tasks()
        self.kept_start = self.start
        self.load()
        assert self.manager.had_clean_shutdown
        self.compare(before, is_kill=True)
        assert self.log.log_start_offset == self.start

    @rule()
    def kill(self) -> None:
        self.end_tasks()
        self.disk.drop_handles()
        self.check_what_is_left(self.batches, is_kill=True)

    @rule(seed=st.integers(0, 1 << 16))
    def cut_power(self, seed: int) -> None:
        self.end_tasks()
        self.flushed = self.log.flushed.value
        self.disk.random.seed(seed)
        self.disk.crash()
        self.boot += 1
        self.check_what_is_left(self.batches, is_kill=False)

    def load(self) -> None:
        self.lives += 1
        self.world = replace(
            make_world(self.disk), boot_id=str(self.boot), randomness=Randomness(self.lives)
        )

        async def start() -> LogManager:
            manager = make_manager(self.world, **PROPERTIES)
            await manager.load()
            manager.begin_run(7)
            return manager

        self.manager = self.run(start())
        log = self.manager.get(PARTITION)
        if log is not None and log.topic_id not in (NO_TOPIC_ID, self.topic_id):
            self.manager.delete(PARTITION)  # As `Replicas` does.
        self.make_log()

    # What must hold

    def check_what_is_left(self, before: list[Batch], *, is_kill: bool) -> None:
        self.end_tasks()
        self.load()
        self.compare(before, is_kill=is_kill)
        log = self.log
        self.batches = self.found()
        self.start = self.kept_start = log.log_start_offset
        self.durable_start = min(self.durable_start, self.start)
        self.end, self.high_watermark = log.log_end_offset, log.high_watermark
        # What a log calls flushed after it was loaded must survive, too.
        self.flushed = log.flushed.value

    def found(self) -> list[Batch]:
        found = []
        for segment in self.log.segments:
            if segment.size:
                for position, header in segment.headers(0):
                    records = decode_records(segment.read_batch(position, header))
                    values = tuple(record.value or b"" for record in records)
                    producer = header.producer_id, header.base_sequence
                    epoch = header.leader_epoch
                    found.append(Batch(header.base_offset, epoch, values, *producer))
        return found

    def compare(self, before: list[Batch], *, is_kill: bool) -> None:
        log, found = self.log, self.found()
        assert verify_log(self.disk, log.path, deep=True).problems == []
        start = log.log_start_offset
        expected = common_prefix(before, self.batches)
        if not is_kill:
            expected = [batch for batch in expected if batch.next_offset <= self.flushed]
            assert set(found) <= self.history
        else:
            assert set(found) <= {*before, *self.batches}
        for batch in expected:
            assert batch in found or batch.next_offset <= start, f"{batch} is lost"
        if is_kill and before is self.batches:
            assert [one for one in found if one not in before] == []
        if is_kill:
            assert self.kept_start <= start <= self.start
        else:
            # It may stand where it stood before it was moved, by whatever was not synced.
            # A log of a deleted topic that never had a record has no synced topic id, so after a
            # power cut it may be taken for the next topic's, which is empty and starts there.
            highest = self.highest_start if found else max(self.highest_start, self.inherited_start)
            assert self.durable_start <= start <= highest
        assert log.high_watermark <= max(self.high_watermark, start)
        check_row(found)
        for batch in found:
            for offset in range(max(batch.base_offset, start), batch.next_offset):
                assert log.leader_epochs.epoch_for(Offset(offset)) == batch.epoch
        self.check_producers(found)

    def check_producers(self, found: list[Batch]) -> None:
        entries = self.log.producers.entries
        for producer_id in range(PRODUCERS):
            last = next((one for one in found[::-1] if one.producer_id == producer_id), None)
            if last is not None:
                assert (
                    entries[ProducerId(producer_id)].last_sequence
                    == last.sequence + len(last.values) - 1
                )
            elif not self.was_shortened:
                assert producer_id not in entries


def common_prefix(one: list[Batch], other: list[Batch]) -> list[Batch]:
    for number, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return one[:number]
    return one[: min(len(one), len(other))]


def check_row(found: list[Batch]) -> None:
    """One batch begins where the one before ends, and leader epochs do not fall."""
    for batch, following in pairwise(found):
        assert following.base_offset == batch.next_offset
        assert following.epoch >= batch.epoch


TestCrashes = CrashMachine.TestCase
TestCrashes.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)


def test_an_offset_that_recovery_cut_does_not_come_back_with_the_next_append() -> None:
    """A power cut interrupts a truncation; the checkpoint of the high watermark lies beyond the
    end of the recovered log, until something is appended."""
    state = CrashMachine()
    state.start_over(offset=1)
    state.kill()
    state.stop()
    state.crash_soon(is_kill=False, operations=3)
    state.start_over(offset=0)
    state.append(count=1, producer_id=0)
    state.kill()
    state.teardown()
