"""Violations of a log's invariants, planted on purpose: each is caught where the state moves."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from odradek import invariants
from odradek.invariants import InvariantViolation
from odradek.protocol.records import ControlType
from odradek.protocol.types import LeaderEpoch, Offset, ProducerId, TopicPartition
from odradek.storage import Log
from odradek.storage.descriptors import Descriptors, SegmentFile
from odradek.storage.errors import LogFailed
from odradek.storage.file_names import CLEAN_SHUTDOWN
from odradek.storage.housekeeping import Housekeeping
from odradek.storage.key_index.index import KeyIndex
from odradek.storage.key_index.run import Run, RunHeader
from odradek.storage.local_log import Compacted
from odradek.storage.segment import Segment
from odradek.storage.transaction_index import AbortedTransaction
from odradek.world import MemoryDisk
from tests.unit.storage.storage_world import (
    NOW_MS,
    PARTITION,
    TOPIC_ID,
    clock_of,
    make_batch,
    make_log,
    make_manager,
    make_world,
    read_all,
    topic,
)
from tests.unit.storage.test_transactions import VERIFIED, end, send


@contextmanager
def violates(rule: str) -> Iterator[None]:
    with pytest.raises(InvariantViolation, match=rule):
        yield


def filled(count: int = 5, **settings: object) -> Log:
    """A log with a record a segment."""
    log = make_log(settings=topic(segment_bytes=200, **settings))
    for number in range(count):
        log.append(make_batch([bytes(50)], producer=(7, 0, number)), leader_epoch=LeaderEpoch(1))
    assert len(log.segments) == count
    return log


# Offsets


def test_an_append_below_the_end_of_the_segment() -> None:
    log = filled()
    log._offsets.end = Offset(4)
    size = log.active_segment.size
    with violates("offset 4 is appended to a segment that ends at 5"):
        log.append(make_batch(), leader_epoch=LeaderEpoch(1))
    assert log.active_segment.size == size, "nothing was written"


def test_an_append_from_the_leader_below_the_end_of_the_segment() -> None:
    log = filled()
    log._offsets.end = Offset(4)
    with violates("offset 4 is appended to a segment that ends at 5"):
        log.append(
            make_batch(base_offset=4, leader_epoch=1), leader_epoch=LeaderEpoch(1), as_follower=True
        )


def test_an_append_that_does_not_move_the_end() -> None:
    log = filled()
    with violates("an append moves the log end from 5 to 5"):
        log._offsets.advance_end(Offset(5))


def test_a_high_watermark_beyond_the_end() -> None:
    log = filled()
    with violates("the high watermark 6 is beyond the log end 5"):
        log.high_watermark = Offset(6)


def test_a_log_that_is_compacted_beyond_its_end() -> None:
    log = filled()
    with violates("compacted up to 6, but ends at 5"):
        log.first_dirty_offset = Offset(6)


def test_a_log_start_beyond_the_end() -> None:
    log = filled()
    log._offsets.end = Offset(2)
    with violates("the log start moves from 0 to 4, the log ends at 2"):
        log._local.advance_start(Offset(4))


def test_a_log_end_that_is_not_the_end_of_the_active_segment() -> None:
    log = filled()
    log._offsets.end = Offset(9)
    with violates("the log ends at 9, its active segment at 5"):
        log.roll()


def test_offsets_above_the_end_after_a_truncation() -> None:
    log = filled()
    log._offsets.durable_start = Offset(3)
    with violates("the offsets are out of order"):
        log.truncate_to(Offset(4))


# Segments


def test_segments_out_of_order() -> None:
    log = filled()
    segments = log._segments._all
    segments[1], segments[2] = segments[2], segments[1]
    with violates("ends at 3, but .* follows"):
        log.append(make_batch([bytes(50)], producer=(7, 0, 5)), leader_epoch=LeaderEpoch(1))


def test_a_second_active_segment() -> None:
    log = filled()
    log.segments[1].is_active = True
    with violates("is active, but not the last one"):
        log.truncate_to(Offset(4))


def test_a_segment_that_begins_below_the_last_one() -> None:
    log = filled()
    with violates("a segment begins at 3, not after the last one at 4"):
        log._local.roll(Offset(3))


def test_an_index_entry_behind_the_end_of_the_file() -> None:
    log = filled()
    log.active_segment.index.append(Offset(4), 100_000)
    with violates("the offset index ends with offset 4 at byte 100000"):
        log.roll()


def test_a_time_index_entry_behind_the_end_of_the_segment() -> None:
    log = filled()
    log.active_segment.time_index.append(NOW_MS + 1, Offset(1000))
    with violates("the time index ends with offset 1000"):
        log.roll()


def test_a_boundary_that_is_not_the_end_of_the_file() -> None:
    log = filled()
    log.active_segment.tail_positions[-1] += 1
    with violates("the last boundary is at byte"):
        log.roll()


def test_a_deletion_that_reaches_beyond_the_log_start() -> None:
    log = filled()
    with violates("segments up to offset 2 are deleted, but the log starts at 0"):
        log._local.remove_first(2)
    assert len(log.segments) == 5, "nothing was removed"


def test_a_compacted_segment_that_reaches_into_the_next_one() -> None:
    log = filled()
    old = log.segments[:1]
    new = Segment(log.path, Offset(0), log.directory.stores, created_ms=NOW_MS)
    new.is_active = False
    new.set_end(Offset(2))
    with violates("offsets 0 to 2 does not fit the place of"):
        log.replace_segments(old, Compacted(new, Offset(1), [], []))


# Leader epochs, producers and transactions


def test_a_leader_epoch_that_begins_beyond_the_end() -> None:
    log = filled()
    log.leader_epochs.assign(LeaderEpoch(2), Offset(9))
    with violates(r"leader epochs \[1, 2\] \(latest 2\) begin at \[0, 9\]"):
        log.roll()


def test_leader_epochs_that_do_not_rise() -> None:
    log = filled()
    log.leader_epochs.epochs += [LeaderEpoch(3), LeaderEpoch(2)]
    log.leader_epochs.start_offsets += [Offset(2), Offset(3)]
    with violates("leader epochs"):
        log.begin_epoch(LeaderEpoch(4))


def test_a_producer_beyond_the_end() -> None:
    log = filled()
    log.producers.entries[ProducerId(7)].batches[-1] = (
        log.producers.entries[ProducerId(7)].batches[-1]._replace(last_offset=Offset(5))
    )
    with violates("producer 7 is beyond the log end 5"):
        log.roll()


def test_a_producer_that_remembers_six_batches() -> None:
    log = filled()
    batches = log.producers.entries[ProducerId(7)].batches
    batches.insert(0, batches[0]._replace(last_offset=Offset(-1)))
    with violates("producer 7 remembers batches"):
        log.roll()


def test_a_first_unstable_offset_that_no_producer_has() -> None:
    log = make_log()
    send(log, 7, 0, VERIFIED)
    log.producers.ongoing[ProducerId(7)] = Offset(3)
    with violates("3 is listed as its first unstable offset"):
        log.roll()


def test_an_abort_marker_beyond_the_end() -> None:
    log = make_log()
    send(log, 7, 0, VERIFIED)
    end(log, 7, ControlType.ABORT)
    log.aborted.add(AbortedTransaction(ProducerId(7), Offset(2), Offset(9), Offset(10)))
    with violates("an abort marker is at 9, but the log ends at 2"):
        log.roll()


# Flushing, checkpoints, files


async def test_a_flush_beyond_the_end(caplog: pytest.LogCaptureFixture) -> None:
    log = filled(count=1)
    flushing = log.flush_to(Offset(1))
    # What lies below the active segment is always flushed.
    log.active_segment.base_offset = Offset(1)
    log._offsets.end = Offset(0)
    with pytest.raises(LogFailed):
        await flushing
    assert "1 is flushed, but the log ends at 0" in caplog.text


async def test_a_checkpoint_that_says_more_than_is_true() -> None:
    manager = make_manager(make_world())
    await manager.load()
    log = manager.create(PARTITION, TOPIC_ID, topic())
    log.append(make_batch([b"a"] * 5), leader_epoch=LeaderEpoch(0))
    log.high_watermark = Offset(5)
    await manager.checkpoints.write_high_watermarks(log.directory)
    with violates("replication-offset-checkpoint: says 5"):
        manager.checkpoints.of_directory(log.directory).high_watermarks.limit(PARTITION, Offset(0))


def test_a_file_that_is_unpinned_twice() -> None:
    disk = MemoryDisk()
    file = SegmentFile("/file", Descriptors(disk))
    file.pin(create=True)
    file.unpin()
    with violates("unpinned more often than pinned"):
        file.unpin()


def test_runs_of_a_key_index_that_overlap() -> None:
    log = filled()
    index = KeyIndex(log, make_world())
    for first in (0, 2):
        header = RunHeader(Offset(first), Offset(first + 3), LeaderEpoch(1), 0, 0)
        index.runs.append(Run.__new__(Run))
        index.runs[-1].path, index.runs[-1].header = f"/run-{first}", header
    with violates("overlap in the key index"):
        index.check()


# What follows


def test_a_violation_tells_the_recent_history_of_the_log() -> None:
    log = filled(count=3)
    log.begin_epoch(LeaderEpoch(5))
    log.truncate_to(Offset(2))
    log.follow_epoch(LeaderEpoch(6))
    log.advance_log_start(Offset(1))
    with pytest.raises(InvariantViolation) as caught:
        log.high_watermark = Offset(9)
    assert caught.value.subject == log.path
    assert caught.value.history == (
        "rolled at 1, the last segment has 121 bytes",
        "rolled at 2, the last segment has 121 bytes",
        "leader epoch 5 begins at 3",
        "truncated to 2, was 0..3",
        "follows in leader epoch 6, ends at 2",
        "deleted 1 segments below 1",
    )


@contextmanager
def in_production() -> Iterator[None]:
    invariants.check_thoroughly(False)
    try:
        yield
    finally:
        invariants.check_thoroughly(True)


async def test_in_production_the_log_goes_offline_alone_and_is_recovered_next_time(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = make_world()
    manager = make_manager(world)
    await manager.load()
    settings = topic(segment_bytes=200, retention_ms=1000)
    log = manager.create(PARTITION, TOPIC_ID, settings)
    other = manager.create(PARTITION._replace(partition=1), TOPIC_ID, settings)
    for each in (log, other):
        each.append(make_batch([bytes(50)]), leader_epoch=LeaderEpoch(0))
        each.append(
            make_batch([bytes(50)], timestamp_ms=NOW_MS + 2000), leader_epoch=LeaderEpoch(0)
        )
        each.high_watermark = Offset(2)
    told: list[TopicPartition] = []
    manager.on_log_failure.add(told.append)
    log._offsets.durable_start = Offset(2)
    clock_of(world).advance(1500)
    with in_production():
        await Housekeeping(manager, world).apply_retention()
    assert told == [PARTITION]
    assert "the offsets are out of order" in caplog.text
    assert "rolled at 1" in caplog.text
    with pytest.raises(LogFailed):
        log.read(Offset(1), 1000)
    assert other.log_start_offset == 1
    other.append(make_batch(), leader_epoch=LeaderEpoch(0))
    await manager.close()
    assert not world.disk.exists(f"/data/{CLEAN_SHUTDOWN}")
    again = make_manager(world)
    await again.load()
    assert [offset for offset, _ in read_all(again.logs[PARTITION])] == [1]


async def test_a_log_that_is_wrong_when_the_broker_stops_is_recovered_next_time() -> None:
    world = make_world()
    manager = make_manager(world)
    await manager.load()
    log = manager.create(PARTITION, TOPIC_ID, topic())
    log.append(make_batch(), leader_epoch=LeaderEpoch(0))
    log._offsets.end = Offset(0)
    with in_production():
        await manager.close()
    assert not world.disk.exists(f"/data/{CLEAN_SHUTDOWN}")


def test_a_leader_appends_where_a_follower_rolled_to_an_offset_far_away() -> None:
    """The follower found no room for the batch that it had rolled for, and was elected then."""
    log = filled()
    log._local.roll(Offset(1 << 32))
    assert log.append(make_batch(), leader_epoch=LeaderEpoch(2)).base_offset == 5
    assert log.active_segment.base_offset == 5
