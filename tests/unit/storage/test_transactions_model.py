"""Transactions of a log beside a plain reading of its batches, through cuts, rolls and restarts.

Whatever is done, the log must know of open and aborted transactions exactly what a reader finds
out who goes through it from the first segment on.
"""

import asyncio
from collections.abc import Coroutine
from typing import NamedTuple, TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from odradek.protocol.records import (
    BatchHeader,
    ControlType,
    EndTransactionMarker,
    decode_end_transaction_marker,
    decode_records,
    encode_end_transaction_marker,
    split_batches,
)
from odradek.protocol.types import LeaderEpoch, Offset, ProducerId
from odradek.storage import Log, LogManager
from odradek.storage.producer_state import Verification
from odradek.storage.transaction_index import AbortedTransaction
from tests.unit.storage.storage_world import (
    NOW_MS,
    PARTITION,
    TOPIC_ID,
    make_batch,
    make_manager,
    make_world,
    read_slice,
    topic,
)

T = TypeVar("T")

SETTINGS = topic(segment_bytes=500, index_interval_bytes=100)
PRODUCERS = range(1, 4)


class Seen(NamedTuple):
    """One batch, as a reader sees it."""

    offset: int
    producer_id: int
    kind: ControlType | None


def seen(log: Log) -> list[Seen]:
    found = []
    for segment in filter(lambda one: one.size, log.segments):
        for position, header in segment.headers(0):
            kind = marker_kind(segment.read_batch(position, header), header)
            producer_id = header.producer_id if header.is_transactional else -1
            found.append(Seen(header.base_offset, producer_id, kind))
    return found


def marker_kind(batch: bytes, header: BatchHeader) -> ControlType | None:
    if not header.is_control:
        return None
    return decode_end_transaction_marker(decode_records(batch)[0]).control_type


class Model:
    """What follows from the batches."""

    def __init__(self, batches: list[Seen]) -> None:
        self.open: dict[int, int] = {}
        self.aborted: list[AbortedTransaction] = []
        for offset, producer_id, kind in batches:
            if kind is None:
                if producer_id >= 0:
                    self.open.setdefault(producer_id, offset)
                continue
            first = self.open.pop(producer_id, None)
            if first is not None and kind is ControlType.ABORT:
                stable = min(self.open.values(), default=offset + 1)
                self.aborted.append(
                    AbortedTransaction(
                        ProducerId(producer_id), Offset(first), Offset(offset), Offset(stable)
                    )
                )


class TransactionsOfALog(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.world = make_world()
        self.min_end = 0
        self.manager = self.run(self.start())
        self.log = self.manager.create(PARTITION, TOPIC_ID, SETTINGS)

    def run(self, work: Coroutine[None, None, T]) -> T:
        return self.loop.run_until_complete(work)

    async def start(self) -> LogManager:
        manager = make_manager(self.world, "/data", log_segment_delete_delay_ms="0")
        await manager.load(lambda _: SETTINGS)
        return manager

    @rule(producer_id=st.sampled_from(PRODUCERS), count=st.integers(1, 3))
    def write(self, producer_id: ProducerId, count: int) -> None:
        entry = self.log.producers.entries.get(producer_id)
        sequence = 0 if entry is None else entry.last_sequence + 1
        batch = make_batch(
            [b"x"] * count, producer=(producer_id, 0, sequence), is_transactional=True
        )
        last_marker = self.log.producers.last_marker_offset(producer_id)
        self.log.append(batch, leader_epoch=LeaderEpoch(0), verification=Verification(last_marker))

    @rule(count=st.integers(1, 3))
    def write_outside(self, count: int) -> None:
        self.log.append(make_batch([b"y"] * count), leader_epoch=LeaderEpoch(0))

    @rule(producer_id=st.sampled_from(PRODUCERS), commits=st.booleans())
    def end(self, producer_id: int, commits: bool) -> None:
        kind = ControlType.COMMIT if commits else ControlType.ABORT
        marker = encode_end_transaction_marker(
            EndTransactionMarker(kind, 0),
            producer_id=producer_id,
            producer_epoch=0,
            timestamp_ms=NOW_MS,
        )
        self.log.append(marker, leader_epoch=LeaderEpoch(0), by_coordinator=True)

    @rule()
    def roll(self) -> None:
        self.log.roll()

    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        self.log.truncate_to(Offset(data.draw(st.integers(self.min_end, self.log.log_end_offset))))

    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        """Never below an open transaction: its beginning would be unknown to a reader."""
        start = self.log.log_start_offset
        stable = self.log.producers.last_stable_offset(self.log.log_end_offset)
        if stable > start:
            self.log.advance_log_start(Offset(data.draw(st.integers(start, stable))))
            # What was decided when its beginning went stays decided.
            self.min_end = stable

    @rule(cleanly=st.booleans())
    def restart(self, cleanly: bool) -> None:
        async def restart() -> LogManager:
            if cleanly:
                await self.manager.close()
            else:
                await self.manager.checkpoints.write_log_starts(self.manager.directories[0])
                self.manager.abandon()
            return await self.start()

        self.manager = self.run(restart())
        self.log = self.manager.logs[PARTITION]

    @invariant()
    def it_knows_what_a_reader_finds_out(self) -> None:
        log = self.log
        batches = seen(log)
        first = log.segments[0].base_offset
        model = Model(batches)
        # What began before the first segment is known to the log alone: a truncation that takes
        # the marker away opens such a transaction again.
        ongoing = log.producers.ongoing
        assert list(ongoing.values()) == sorted(ongoing.values())
        older = {producer_id for producer_id, offset in ongoing.items() if offset < first}
        assert {one: ongoing[one] for one in ongoing if one not in older} == {
            one: model.open[one] for one in model.open if one not in older
        }
        if first == 0:
            assert list(log.aborted) == model.aborted
        cut = {one.producer_id for one in log.aborted if one.first_offset < first}
        known = [one[:3] for one in log.aborted if one.producer_id not in cut]
        assert known == [one[:3] for one in model.aborted if one.producer_id not in cut]
        stable = min(ongoing.values(), default=log.log_end_offset)
        assert log.producers.last_stable_offset(log.log_end_offset) == stable

    @invariant()
    def the_files_say_the_same(self) -> None:
        log = self.log
        bases = [segment.base_offset for segment in log.segments]
        for base, end in zip(bases, [*bases[1:], log.log_end_offset], strict=True):
            path = f"{log.path}/{base:020d}.txnindex"
            written = self.world.disk.read(path) if self.world.disk.exists(path) else b""
            assert written == log.aborted.encode(base, end)

    @rule(data=st.data())
    def read(self, data: st.DataObject) -> None:
        """A consumer that skips what it is told to skip sees no aborted record."""
        log = self.log
        offset = data.draw(st.integers(log.log_start_offset, log.log_end_offset))
        stable = log.producers.last_stable_offset(log.log_end_offset)
        found = log.read(Offset(offset), data.draw(st.integers(1, 2000)), end_offset=stable)
        if found is None:
            return
        told = {
            (one.producer_id, one.first_offset)
            for one in log.aborted_in(found, Offset(offset), stable)
        }
        content = found.read(0, len(found))
        found.release()
        headers = [header for _, header in split_batches(content)]
        for one in log.aborted:
            overlaps = any(
                header.producer_id == one.producer_id
                and one.first_offset <= header.base_offset < one.last_offset
                for header in headers
            )
            assert not overlaps or (one.producer_id, one.first_offset) in told

    def teardown(self) -> None:
        assert read_slice(self.log, self.log.log_start_offset) is not None
        self.manager.abandon()
        self.loop.close()


TransactionsOfALog.TestCase.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None
)
TestTransactionsOfALog = TransactionsOfALog.TestCase
