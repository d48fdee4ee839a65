"""Look-ups by key beside plain readings of the log, whatever happens to log and index.

Two machines. One goes on where the model of compaction ends: tombstones, transactions, restarts,
compaction at any moment, and look-ups must find the model's values. The other cuts the log, moves
its start, lets leaders change and high watermarks lag, and damages the index; look-ups must find
what a reader finds who goes through all batches.
"""

import asyncio
import json
from collections.abc import Coroutine
from contextlib import suppress
from typing import TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from odradek.protocol.compression import Codec
from odradek.protocol.records import (
    BatchBuilder,
    BatchHeader,
    ControlType,
    EndTransactionMarker,
    Record,
    decode_end_transaction_marker,
    decode_records,
    encode_end_transaction_marker,
)
from odradek.protocol.types import LeaderEpoch, Offset, ProducerId
from odradek.storage import Log, LogManager
from odradek.storage.key_index.index import KeyIndex, KeyIndexLimits
from odradek.storage.key_index.run import KEYS_SUFFIX, DamagedRun, RunHeader
from odradek.storage.key_index.run_builder import carry_out, encode_job
from odradek.storage.key_index.search import BytesRead
from odradek.storage.producer_state import Verification
from odradek.world import World
from tests.unit.storage.compaction.test_compaction_model import CompactionMachine
from tests.unit.storage.storage_world import (
    NOW_MS,
    PARTITION,
    TOPIC_ID,
    make_manager,
    make_world,
    topic,
)

T = TypeVar("T")

# Small, so that a few batches are a run and a few runs are merged.
LIMITS = KeyIndexLimits(min_bytes=150, job_bytes=500, job_entries=8)
KEYS = [b"", b"a", b"aa", *(b"key-%d" % number for number in range(8))]


def do_jobs(index: KeyIndex, world: World, most: int = 1000) -> None:
    for _ in range(most):
        job = index.next_job()
        if job is None:
            return
        steps = carry_out(world.disk, world.clock, json.loads(json.dumps(encode_job(job))))
        while True:
            try:
                next(steps)
            except StopIteration as end:
                index.adopt(RunHeader(**end.value))
                break
            except DamagedRun:
                index.distrust(job)
                break
    assert most < 1000, "the jobs never end"


async def look_up(
    index: KeyIndex, key: bytes, end_offset: Offset, *, committed_only: bool
) -> Record | None:
    found = await index.look_up(
        key, end_offset=end_offset, committed_only=committed_only, read=BytesRead()
    )
    return None if found is None else found.record


class LookUpsAndCompaction(CompactionMachine):
    index: KeyIndex | None = None

    def key_index(self) -> KeyIndex:
        if self.index is None or self.index.log is not self.log:
            self.index = KeyIndex(self.log, self.world, LIMITS)
        return self.index

    @rule(most=st.integers(1, 6))
    def make_runs(self, most: int) -> None:
        async def work() -> None:
            self.log.high_watermark = self.log.log_end_offset
            do_jobs(self.key_index(), self.world, most)

        self.run(work())

    @invariant()
    def look_ups_find_the_values_of_the_model(self) -> None:
        undecided = self.log.producers.first_unstable_offset
        end = self.end if undecided is None else undecided
        newest: dict[bytes, tuple[int, bytes | None]] = {}
        for offset, (key, value) in self.history.items():
            if offset < end:
                newest[key] = offset, value

        async def check() -> None:
            index = self.key_index()
            for key in [*newest, b"nobody"]:
                found = await look_up(index, key, Offset(end), committed_only=True)
                offset, value = newest.get(key, (-1, None))
                if value is not None:
                    assert found is not None
                    assert (found.offset, found.value) == (offset, value)
                elif found is not None:
                    assert (found.offset, found.value) == (offset, None)

        self.run(check())


LookUpsAndCompaction.TestCase.settings = settings(
    max_examples=25, stateful_step_count=40, deadline=None
)
TestLookUpsAndCompaction = LookUpsAndCompaction.TestCase

SETTINGS = topic(segment_bytes=600, index_interval_bytes=100, file_delete_delay_ms=0)
PRODUCERS = (1, 2)


def plain_reading(log: Log, end_offset: int, *, committed_only: bool) -> dict[bytes, Record]:
    """The newest record of every key, by reading all batches from the first segment on."""
    records: list[tuple[int, Record]] = []
    pending: dict[int, list[int]] = {}
    aborted: set[int] = set()
    for segment in log.segments:
        for position, header in segment.headers(0) if segment.size else ():
            batch = segment.read_batch(position, header)
            if header.is_control:
                marker = decode_end_transaction_marker(decode_records(batch)[0])
                offsets = pending.pop(header.producer_id, [])
                if marker.control_type is ControlType.ABORT:
                    aborted.update(offsets)
                continue
            found = decode_records(batch)
            if header.is_transactional:
                pending.setdefault(header.producer_id, []).extend(one.offset for one in found)
            records += [(one.offset, one) for one in found]
    return {
        record.key: record
        for offset, record in records
        if record.key is not None
        and log.log_start_offset <= offset < end_offset
        and not (committed_only and offset in aborted)
    }


class LookUpsAndCuts(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.world = make_world()
        self.epoch = 0
        self.min_end = 0
        self.manager = self.run(self.start())
        self.log = self.manager.create(PARTITION, TOPIC_ID, SETTINGS)
        self.index: KeyIndex | None = None

    def run(self, work: Coroutine[None, None, T]) -> T:
        return self.loop.run_until_complete(work)

    async def start(self) -> LogManager:
        manager = make_manager(self.world, "/data", log_segment_delete_delay_ms="0")
        await manager.load(lambda _: SETTINGS)
        return manager

    keys = st.one_of(st.none(), st.sampled_from(KEYS))
    values = st.one_of(st.none(), st.binary(max_size=30))
    # However large each is, together they fit into a segment.
    records = st.lists(st.tuples(keys, values), min_size=1, max_size=8)

    @rule(
        records=records,
        codec=st.sampled_from(list(Codec)),
        producer=st.sampled_from((-1, -1, *PRODUCERS)),
    )
    def write(
        self, records: list[tuple[bytes | None, bytes | None]], codec: Codec, producer: ProducerId
    ) -> None:
        builder = BatchBuilder(codec)
        for key, value in records:
            builder.append(key, value, [("of", b"x")], NOW_MS)
        if producer < 0:
            self.log.append(builder.build(), leader_epoch=LeaderEpoch(self.epoch))
            return
        entry = self.log.producers.entries.get(producer)
        sequence = 0 if entry is None else entry.last_sequence + 1
        batch = builder.build(0, producer, 0, sequence, is_transactional=True)
        last_marker = self.log.producers.last_marker_offset(producer)
        self.log.append(
            batch, leader_epoch=LeaderEpoch(self.epoch), verification=Verification(last_marker)
        )

    @rule(producer=st.sampled_from(PRODUCERS), commits=st.booleans())
    def end_transaction(self, producer: int, commits: bool) -> None:
        kind = ControlType.COMMIT if commits else ControlType.ABORT
        marker = encode_end_transaction_marker(
            EndTransactionMarker(kind, 0),
            producer_id=producer,
            producer_epoch=0,
            timestamp_ms=NOW_MS,
        )
        self.log.append(marker, leader_epoch=LeaderEpoch(self.epoch), by_coordinator=True)

    @rule(data=st.data())
    def commit(self, data: st.DataObject) -> None:
        """The high watermark rises, to the end of a batch."""
        log = self.log
        ends = [header.next_offset for _, header in self.batches()] or [log.log_end_offset]
        ends = [end for end in ends if end >= log.high_watermark] or [log.log_end_offset]
        log.high_watermark = data.draw(st.sampled_from(ends))

    def batches(self) -> list[tuple[int, BatchHeader]]:
        return [one for segment in self.log.segments if segment.size for one in segment.headers(0)]

    @rule(most=st.integers(1, 6))
    def make_runs(self, most: int) -> None:
        do_jobs(self.key_index(), self.world, most)

    @rule()
    def make_all_runs(self) -> None:
        self.log.high_watermark = self.log.log_end_offset
        do_jobs(self.key_index(), self.world)

    @rule(data=st.data())
    def cut(self, data: st.DataObject) -> None:
        """An unclean election: even what was committed goes, and a new leader writes."""
        log = self.log
        log.truncate_to(Offset(data.draw(st.integers(self.min_end, log.log_end_offset))))
        self.epoch += 1

    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        log = self.log
        log.high_watermark = log.log_end_offset
        stable = log.producers.last_stable_offset(log.log_end_offset)
        if stable > log.log_start_offset:
            log.advance_log_start(Offset(data.draw(st.integers(log.log_start_offset, stable))))
            self.min_end = stable
            for remove in log.directory.take_due_deletions(self.world.clock.monotonic_s() + 1):
                with suppress(FileNotFoundError):
                    remove()

    @rule(cleanly=st.booleans())
    def restart(self, cleanly: bool) -> None:
        async def restart() -> LogManager:
            if cleanly:
                await self.manager.close()
            else:
                await self.manager.checkpoints.write_log_starts(self.manager.directories[0])
                self.manager.abandon()
            return await self.start()

        high_watermark = self.log.high_watermark
        self.manager = self.run(restart())
        self.log = self.manager.logs[PARTITION]
        self.log.high_watermark = min(high_watermark, self.log.log_end_offset)
        self.epoch += 1

    @rule(data=st.data())
    def damage(self, data: st.DataObject) -> None:
        disk = self.world.disk
        names = [one for one in disk.list_directory(self.log.path) if one.endswith(KEYS_SUFFIX)]
        if not names:
            return
        path = f"{self.log.path}/{data.draw(st.sampled_from(names))}"
        content = bytearray(disk.read(path))
        if not content:
            return  # Nothing was left of it the last time.
        content[data.draw(st.integers(0, len(content) - 1))] ^= 0xFF
        disk.replace(path, bytes(content[: data.draw(st.integers(0, 2 * len(content)))]))
        # What is kept in memory of it was read before: as after a restart.
        if data.draw(st.booleans()):
            self.index = None

    def key_index(self) -> KeyIndex:
        if self.index is None or self.index.log is not self.log:
            self.index = KeyIndex(self.log, self.world, LIMITS)
        return self.index

    @invariant()
    def look_ups_find_what_a_reader_finds(self) -> None:
        log = self.log
        high_watermark = max(min(log.high_watermark, log.log_end_offset), log.log_start_offset)
        stable = max(log.producers.last_stable_offset(high_watermark), log.log_start_offset)
        # A transaction of which the beginning was deleted is known to the log alone.
        knows_all = log.segments[0].base_offset == 0
        for committed_only in (False, True) if knows_all else (False,):
            end = stable if committed_only else high_watermark
            expected = plain_reading(log, end, committed_only=committed_only)
            for key in KEYS:
                found = self.run(look_up(self.key_index(), key, end, committed_only=committed_only))
                assert found == expected.get(key)

    def teardown(self) -> None:
        self.manager.abandon()
        self.loop.close()


LookUpsAndCuts.TestCase.settings = settings(max_examples=50, stateful_step_count=40, deadline=None)
TestLookUpsAndCuts = LookUpsAndCuts.TestCase


@pytest.fixture
def hashes_collide(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("index", "run_builder"):
        monkeypatch.setattr(f"odradek.storage.key_index.{module}.hash_of", lambda key: len(key) % 2)


@pytest.mark.usefixtures("hashes_collide")
class TestLookUpsWithCollisions(LookUpsAndCuts.TestCase):  # type: ignore[misc, valid-type]
    """The same with two hashes for all keys."""

    settings = settings(max_examples=15, stateful_step_count=30, deadline=None)
