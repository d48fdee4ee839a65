"""A log beside a list: whatever is done to both, they hold the same records.

Appends by producers and followers, rolls, truncations, deletions from the start, clean
restarts and kills, in any order, in memory and on a real disk.
"""

import asyncio
import shutil
import tempfile
from collections.abc import Coroutine
from typing import TypeVar, cast

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from odradek.protocol.records import split_batches
from odradek.protocol.types import LeaderEpoch, Offset, ProducerId
from odradek.storage import LogManager, OffsetOutOfRange
from odradek.storage.log import Log
from odradek.world import Disk, MemoryDisk, OsDisk
from tests.log_verification import verify_log
from tests.unit.storage.storage_world import (
    NOW_MS,
    PARTITION,
    TOPIC_ID,
    make_batch,
    make_manager,
    make_world,
    read_all,
    read_slice,
    run_deletions,
)

T = TypeVar("T")

PROPERTIES = {
    "log_segment_bytes": "900",
    "log_index_interval_bytes": "200",
    "log_segment_delete_delay_ms": "0",
}


class LogMachine(RuleBasedStateMachine):
    root = "/data"

    def make_disk(self) -> Disk:
        return MemoryDisk()

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.world = make_world(self.make_disk())
        # The model: batches as (base offset, values), and where the log starts and ends.
        self.batches: list[tuple[int, list[bytes]]] = []
        self.start = 0
        self.end = 0
        self.epoch = 0
        self.sequence = 0
        self.last_sent: tuple[int, list[bytes]] | None = None
        self.manager = self.run(self.start_manager())
        defaults = self.manager.settings.topic_defaults
        self.manager.create(PARTITION, TOPIC_ID, defaults)

    def run(self, work: Coroutine[None, None, T]) -> T:
        return self.loop.run_until_complete(work)

    async def start_manager(self) -> LogManager:
        manager = make_manager(self.world, self.root, **PROPERTIES)
        await manager.load()
        return manager

    @property
    def log(self) -> Log:
        return self.manager.logs[PARTITION]

    def teardown(self) -> None:
        self.run(self.manager.close())
        self.loop.close()

    # What is done

    values = st.lists(st.binary(max_size=60), min_size=1, max_size=4)

    @rule(values=values, age=st.integers(0, 50))
    def append(self, values: list[bytes], age: int) -> None:
        async def work() -> None:
            batch = make_batch(values, timestamp_ms=NOW_MS - age)
            assert (
                self.log.append(batch, leader_epoch=LeaderEpoch(self.epoch)).base_offset == self.end
            )

        self.run(work())
        self.batches.append((self.end, values))
        self.end += len(values)

    @rule(values=values)
    def append_idempotently(self, values: list[bytes]) -> None:
        async def work() -> None:
            batch = make_batch(values, producer=(5, 0, self.sequence))
            result = self.log.append(batch, leader_epoch=LeaderEpoch(self.epoch))
            assert (result.base_offset, result.duplicate) == (self.end, False)

        self.run(work())
        self.last_sent = (self.end, values)
        self.batches.append((self.end, values))
        self.end += len(values)
        self.sequence += len(values)

    @precondition(lambda self: self.last_sent is not None)
    @rule()
    def repeat(self) -> None:
        assert self.last_sent is not None
        offset, values = self.last_sent
        batch = make_batch(values, producer=(5, 0, self.sequence - len(values)))
        result = self.log.append(batch, leader_epoch=LeaderEpoch(self.epoch))
        assert (result.base_offset, result.duplicate) == (offset, True)

    @rule(values=st.lists(values, min_size=1, max_size=5))
    def append_as_follower(self, values: list[list[bytes]]) -> None:
        run, end = b"", self.end
        for part in values:
            run += make_batch(part, base_offset=end, leader_epoch=self.epoch)
            self.batches.append((end, part))
            end += len(part)

        async def work() -> None:
            self.log.append(run, leader_epoch=LeaderEpoch(self.epoch), as_follower=True)

        self.run(work())
        self.end = end

    @rule()
    def roll(self) -> None:
        self.run(self._roll())

    async def _roll(self) -> None:
        self.log.roll()

    @rule()
    def flush(self) -> None:
        self.run(self.log.flush())
        assert self.log.flushed.value == self.end

    @rule()
    def new_epoch(self) -> None:
        self.epoch += 1

    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(self.start, self.end))
        self.log.truncate_to(Offset(offset))
        while self.batches and sum((self.batches[-1][0], len(self.batches[-1][1]))) > offset:
            self.batches.pop()
        if offset < self.end:
            last = self.batches[-1] if self.batches else (self.log.segments[0].base_offset, [])
            self.end = max(last[0] + len(last[1]), self.start)
            # What the producer sent may be gone, and with it what the log knows of it.
            self.forget_producer()

    @rule(data=st.data())
    def advance_start(self, data: st.DataObject) -> None:
        self.start = data.draw(st.integers(self.start, self.end))
        self.log.advance_log_start(Offset(self.start))
        run_deletions(self.log.directory, self.world.clock.monotonic_s())

    @rule()
    def restart(self) -> None:
        self.run(self.manager.close())
        self.manager = self.run(self.start_manager())
        assert self.manager.had_clean_shutdown
        assert self.log.flushed.value == self.end

    @rule()
    def kill(self) -> None:
        async def work() -> LogManager:
            # DeleteRecords is durable from its checkpoint on.
            await self.manager.checkpoints.write_log_starts(self.manager.directories[0])
            self.manager.abandon()
            return await self.start_manager()

        self.manager = self.run(work())
        assert not self.manager.had_clean_shutdown
        if self.last_sent is not None and self.last_sent[0] < self.log.segments[0].base_offset:
            self.forget_producer()  # Its last batch went with its segment.

    def forget_producer(self) -> None:
        self.last_sent = None
        entry = self.log.producers.entries.get(ProducerId(5))
        self.sequence = (entry.last_sequence + 1) if entry is not None else 0

    # What must hold

    @invariant()
    def holds_the_same(self) -> None:
        log = self.log
        assert (log.log_start_offset, log.log_end_offset) == (self.start, self.end)
        assert log.recovery_point <= log.flushed.value <= log.log_end_offset
        expected = [
            (base + number, value)
            for base, values in self.batches
            for number, value in enumerate(values)
            if base + number >= self.start
        ]
        assert read_all(log, 300) == expected

    @rule(data=st.data())
    def read_somewhere(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(self.start, self.end))
        end_offset = data.draw(st.integers(self.start, self.end))
        max_bytes = data.draw(st.sampled_from([1, 100, 500, 5000]))
        found = split_batches(
            read_slice(self.log, Offset(offset), max_bytes, end_offset=Offset(end_offset))
        )
        within = [
            base
            for base, values in self.batches
            if base + len(values) > offset and base + len(values) <= end_offset
        ]
        if offset >= end_offset or (within and within[0] > offset):
            within = []
        first = [base for base, values in self.batches if base + len(values) > offset][:1]
        if first and within[:1] != first:
            within = []
        bases = [header.base_offset for _, header in found]
        assert bases == within[: len(bases)]
        assert bool(bases) == bool(within)
        assert len(bases) == 1 or sum(header.size_bytes for _, header in found) <= max_bytes

    @rule(offset=st.integers(-5, 500))
    def read_out_of_range(self, offset: Offset) -> None:
        if not self.start <= offset <= self.end:
            try:
                self.log.read(offset, 10)
            except OffsetOutOfRange:
                return
            raise AssertionError(f"read {offset} of {self.log}")

    @rule()
    def verify(self) -> None:
        report = verify_log(self.world.disk, self.log.path, deep=True)
        assert report.problems == []


class DiskLogMachine(LogMachine):
    """The same on the machine's own disk."""

    def make_disk(self) -> Disk:
        self.root = tempfile.mkdtemp()
        return OsDisk()

    def teardown(self) -> None:
        super().teardown()
        shutil.rmtree(self.root)


class Chosen:
    """Stands in for drawn data in a story that is told by hand."""

    def __init__(self, value: int) -> None:
        self._value = value

    def draw(self, _: object) -> int:
        return self._value


@pytest.mark.parametrize(
    ("sizes", "start", "cut_at"), [((1, 3), 2, 2), ((1, 3), 2, 3), ((1, 3), 3, 3), ((2, 2), 3, 3)]
)
@pytest.mark.parametrize("rolls", [True, False])
def test_a_cut_through_a_batch_that_reaches_over_the_start_leaves_no_hole(
    sizes: tuple[int, ...], start: int, cut_at: int, *, rolls: bool
) -> None:
    machine = LogMachine()
    machine.append_as_follower([[b"x"] * size for size in sizes])
    machine.advance_start(cast("st.DataObject", Chosen(start)))
    machine.truncate(cast("st.DataObject", Chosen(cut_at)))
    if rolls:
        machine.roll()
    machine.append_as_follower([[b"y"]])
    machine.verify()
    machine.kill()
    machine.holds_the_same()
    machine.teardown()


TestLogInMemory = LogMachine.TestCase
TestLogInMemory.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
TestLogOnDisk = DiskLogMachine.TestCase
TestLogOnDisk.settings = settings(max_examples=8, stateful_step_count=30, deadline=None)
