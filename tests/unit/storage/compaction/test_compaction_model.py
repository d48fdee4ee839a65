"""Compaction beside a dict: whatever happened, a reader from the start ends with the dict's values.

Keyed records, tombstones, transactions that commit and abort, idempotent producers that repeat
themselves, rolls, passes of time, clean restarts, kills and truncations, with compaction at any
moment, on a small map of keys too, in memory and on a real disk.
"""

import asyncio
import shutil
import tempfile
from collections.abc import Coroutine
from typing import TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from odradek.protocol.compression import Codec
from odradek.protocol.records import (
    BatchBuilder,
    ControlType,
    EndTransactionMarker,
    Record,
    decode_records,
    encode_end_transaction_marker,
    split_batches,
)
from odradek.protocol.types import LeaderEpoch, Offset, ProducerId
from odradek.storage import Log, LogManager
from odradek.storage.producer_state import Verification
from odradek.world import Disk, MemoryDisk, OsDisk
from tests.log_verification import verify_log
from tests.unit.storage.storage_world import (
    PARTITION,
    TOPIC_ID,
    clock_of,
    make_manager,
    make_world,
    read_slice,
    run_deletions,
)

T = TypeVar("T")

PROPERTIES = {
    "log_cleanup_policy": "compact",
    "log_segment_bytes": "700",
    "log_index_interval_bytes": "100",
    "log_segment_delete_delay_ms": "0",
    "log_cleaner_min_cleanable_ratio": "0",
    "log_cleaner_delete_retention_ms": "1000",
}
IDEMPOTENT, TRANSACTIONAL = 5, (7, 8)

Written = tuple[bytes, bytes | None]


class CompactionMachine(RuleBasedStateMachine):
    root = "/data"

    def make_disk(self) -> Disk:
        return MemoryDisk()

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.world = make_world(self.make_disk())
        # Everything ever written, by offset; aborted records are taken out when they are.
        self.history: dict[int, Written] = {}
        self.open: dict[int, list[int]] = {}
        self.sequences: dict[int, int] = {}
        self.epochs: dict[int, int] = {}
        self.end = 0
        self.known_up_to = 0
        self.last_sent: tuple[int, list[Written]] | None = None
        self.passes = 0
        self.buffer_bytes = "134217728"
        self.manager = self.run(self.start_manager())
        self.manager.create(PARTITION, TOPIC_ID, self.manager.settings.topic_defaults)

    def run(self, work: Coroutine[None, None, T]) -> T:
        return self.loop.run_until_complete(work)

    async def start_manager(self) -> LogManager:
        manager = make_manager(
            self.world,
            self.root,
            **PROPERTIES,
            log_cleaner_dedupe_buffer_size=self.buffer_bytes,
        )
        await manager.load()
        return manager

    @property
    def log(self) -> Log:
        return self.manager.logs[PARTITION]

    def teardown(self) -> None:
        self.run(self.manager.close())
        self.loop.close()

    # What is done

    keys = st.sampled_from([b"%d" % number for number in range(12)] + [b"long" * 20])
    values = st.one_of(st.none(), st.binary(max_size=40))
    records = st.lists(st.tuples(keys, values), min_size=1, max_size=5)
    codecs = st.sampled_from(list(Codec))

    def build(self, records: list[Written], codec: Codec, producer: int = -1) -> bytes:
        builder = BatchBuilder(codec)
        for number, (key, value) in enumerate(records):
            builder.append(key, value, [("h", b"x")], self.world.clock.now_ms() + number % 2)
        if producer < 0:
            return builder.build()
        return builder.build(
            0,
            producer,
            self.epochs.get(producer, 0),
            self.sequences.get(producer, 0),
            is_transactional=producer in TRANSACTIONAL,
        )

    async def append(
        self, batch: bytes, records: list[Written], producer: ProducerId = ProducerId(-1)
    ) -> None:
        verification = Verification(self.log.producers.last_marker_offset(producer))
        result = self.log.append(batch, leader_epoch=LeaderEpoch(0), verification=verification)
        assert result.base_offset == self.end
        for number, record in enumerate(records):
            self.history[self.end + number] = record
        self.end += len(records)
        if producer >= 0:
            self.sequences[producer] = self.sequences.get(producer, 0) + len(records)
            self.known_up_to = self.end

    @rule(records=records, codec=codecs)
    def write(self, records: list[Written], codec: Codec) -> None:
        self.run(self.append(self.build(records, codec), records))

    @rule(records=records, codec=codecs)
    def write_idempotently(self, records: list[Written], codec: Codec) -> None:
        first = self.end
        self.run(
            self.append(self.build(records, codec, IDEMPOTENT), records, ProducerId(IDEMPOTENT))
        )
        self.last_sent = first, records

    @precondition(lambda self: self.last_sent is not None)
    @rule()
    def repeat(self) -> None:
        """The last batch of a producer is known, however often the log was compacted."""
        assert self.last_sent is not None
        offset, records = self.last_sent
        self.sequences[IDEMPOTENT] -= len(records)
        batch = self.build(records, Codec.NONE, IDEMPOTENT)
        self.sequences[IDEMPOTENT] += len(records)
        result = self.log.append(batch, leader_epoch=LeaderEpoch(0))
        assert (result.base_offset, result.duplicate) == (offset, True)

    @rule(producer=st.sampled_from(TRANSACTIONAL), records=records, codec=codecs)
    def write_in_transaction(
        self, producer: ProducerId, records: list[Written], codec: Codec
    ) -> None:
        written = self.open.setdefault(producer, [])
        written += range(self.end, self.end + len(records))
        self.run(self.append(self.build(records, codec, producer), records, producer))

    @precondition(lambda self: self.open)
    @rule(producer=st.sampled_from(TRANSACTIONAL), commits=st.booleans(), bumps=st.booleans())
    def end_transaction(self, producer: int, commits: bool, bumps: bool) -> None:
        if producer not in self.open:
            return
        if bumps:
            self.epochs[producer] = self.epochs.get(producer, 0) + 1
            self.sequences[producer] = 0
        kind = ControlType.COMMIT if commits else ControlType.ABORT
        marker = encode_end_transaction_marker(
            EndTransactionMarker(kind, 1),
            producer_id=producer,
            producer_epoch=self.epochs.get(producer, 0),
            timestamp_ms=self.world.clock.now_ms(),
        )

        async def work() -> None:
            self.log.append(marker, leader_epoch=LeaderEpoch(0), by_coordinator=True)

        self.run(work())
        self.end += 1
        self.known_up_to = self.end
        offsets = self.open.pop(producer)
        if not commits:
            for offset in offsets:
                del self.history[offset]

    @rule()
    def roll(self) -> None:
        async def work() -> None:
            self.log.roll()

        self.run(work())

    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        """As a follower does: above what is compacted, and what producers are known by."""
        lowest = max(self.known_up_to, self.log.first_dirty_offset)
        if lowest == self.end:
            return
        offset = data.draw(st.integers(lowest, self.end))

        async def work() -> None:
            self.log.truncate_to(Offset(offset))

        self.run(work())
        self.end = self.log.log_end_offset
        for lost in [one for one in self.history if one >= self.end]:
            del self.history[lost]

    @rule(by_ms=st.integers(1, 1500))
    def time_passes(self, by_ms: int) -> None:
        clock_of(self.world).advance(by_ms)

    @rule()
    def compact(self) -> None:
        async def work() -> None:
            log = self.log
            log.high_watermark = log.log_end_offset
            log.flusher.request(log.log_end_offset)
            while log.recovery_point < log.active_segment.base_offset:  # noqa: ASYNC110
                await asyncio.sleep(0)
            if await self.manager.cleaner.clean_one():
                self.passes += 1
            assert not self.manager.cleaner.uncleanable
            run_deletions(log.directory, self.world.clock.monotonic_s() + 1)

        self.run(work())

    @rule(is_clean=st.booleans(), is_small=st.booleans(), forgets=st.booleans())
    def restart(self, is_clean: bool, is_small: bool, forgets: bool) -> None:
        """Perhaps without snapshots: then batches alone tell where producers were."""
        self.buffer_bytes = "300" if is_small else "134217728"
        path, disk = self.log.path, self.world.disk

        async def work() -> LogManager:
            if is_clean:
                await self.manager.close()
            else:
                self.manager.abandon()
            for name in disk.list_directory(path) if forgets else ():
                if name.endswith(".snapshot"):
                    disk.remove(f"{path}/{name}")
            return await self.start_manager()

        self.manager = self.run(work())

    # What holds

    def surviving(self) -> list[Record]:
        """What a reader of committed records gets from the start on."""
        log = self.log
        found: list[Record] = []
        aborted = list(log.aborted)
        offset = log.log_start_offset
        undecided = log.producers.first_unstable_offset
        end = log.log_end_offset if undecided is None else undecided
        while offset < end and (data := read_slice(log, offset, 1000, end_offset=end)):
            for position, header in split_batches(data):
                assert header.next_offset > offset or offset == log.log_start_offset
                offset = header.next_offset
                is_aborted = header.is_transactional and any(
                    entry.producer_id == header.producer_id
                    and entry.first_offset <= header.base_offset <= entry.last_offset
                    for entry in aborted
                )
                if not header.is_control and not is_aborted:
                    found += decode_records(data, position)
        return found

    @invariant()
    def readers_end_with_the_model(self) -> None:
        undecided = self.log.producers.first_unstable_offset
        end = self.end if undecided is None else undecided
        model: dict[bytes, tuple[int, bytes | None]] = {}
        for offset, (key, value) in self.history.items():
            if offset < end:
                model[key] = offset, value
        found: dict[bytes, tuple[int, bytes | None]] = {}
        last_offset = -1
        offsets = set()
        for record in self.surviving():
            assert record.key is not None
            assert record.offset > last_offset
            last_offset = record.offset
            offsets.add(record.offset)
            assert self.history[record.offset] == (record.key, record.value)
            assert record.headers == [("h", b"x")]
            found[record.key] = record.offset, record.value
        # A key whose newest record is a tombstone may be there or not; nothing older is.
        for key, (offset, value) in model.items():
            if value is not None:
                assert found.get(key) == (offset, value)
            else:
                assert found.get(key, (offset, None)) == (offset, None)
        first_dirty = self.log.first_dirty_offset
        dirty = {offset for offset in self.history if first_dirty <= offset < end}
        assert dirty <= offsets
        assert self.log.log_end_offset == self.end

    @invariant()
    def files_are_sound(self) -> None:
        log = self.log
        assert verify_log(self.world.disk, log.path, deep=True).problems == []
        for name in self.world.disk.list_directory(log.path):
            assert not name.endswith((".cleaned", ".swap"))


class DiskCompactionMachine(CompactionMachine):
    """The same on a real disk, where a process of its own does the work."""

    def make_disk(self) -> Disk:
        self.root = tempfile.mkdtemp(prefix="odradek-compaction-")
        return OsDisk()

    def teardown(self) -> None:
        async def work() -> None:
            await self.manager.cleaner.end()

        self.run(work())
        super().teardown()
        shutil.rmtree(self.root)


TestCompactionInMemory = CompactionMachine.TestCase
TestCompactionInMemory.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestCompactionOnDisk = DiskCompactionMachine.TestCase
TestCompactionOnDisk.settings = settings(max_examples=4, stateful_step_count=30, deadline=None)
