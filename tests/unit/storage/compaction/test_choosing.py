"""Which log is compacted next, how far, and which segments become one."""

import asyncio

import pytest

from odradek.config import TopicSettings
from odradek.protocol.types import LeaderEpoch, Offset
from odradek.storage import Log
from odradek.storage.compaction.cleanable import examine, filthiest, group_segments
from tests.unit.storage.storage_world import (
    NOW_MS,
    clock_of,
    make_batch,
    make_log,
    make_world,
    topic,
)

HOUR_MS = 3_600_000


def compacted(**values: object) -> TopicSettings:
    return topic(cleanup_policy=("compact",), segment_bytes=300, **values)


async def filled(
    settings: TopicSettings, ages_ms: tuple[int, ...] = (0,) * 4, root: str = "/data"
) -> Log:
    """A log with a closed, durable segment for each age, and an empty active one."""
    world = make_world()
    log = make_log(world, settings, root)
    for age_ms in ages_ms:
        log.append(
            make_batch([b"x" * 100] * 2, timestamp_ms=NOW_MS - age_ms), leader_epoch=LeaderEpoch(0)
        )
        log.roll()
    log.high_watermark = log.log_end_offset
    while log.recovery_point < log.active_segment.base_offset:  # noqa: ASYNC110 - turns, not time
        await asyncio.sleep(0)
    return log


async def test_all_closed_segments_can_be_compacted() -> None:
    log = await filled(compacted())
    found = examine(log, NOW_MS)
    assert (found.first_dirty_offset, found.end_offset) == (0, 8)
    assert len(found.segments) == 4
    assert (found.clean_bytes, found.dirty_ratio) == (0, 1.0)
    assert found.is_due


async def test_a_pass_ends_at_the_high_watermark_and_between_segments() -> None:
    log = await filled(compacted())
    log.high_watermark = Offset(5)
    assert examine(log, NOW_MS).end_offset == 4
    log.high_watermark = Offset(1)
    found = examine(log, NOW_MS)
    assert (found.end_offset, found.segments, found.is_due) == (0, (), False)


async def test_young_records_wait_for_min_compaction_lag_ms() -> None:
    settings = compacted(min_compaction_lag_ms=HOUR_MS)
    log = await filled(settings, (3 * HOUR_MS, 2 * HOUR_MS, HOUR_MS // 2, 4 * HOUR_MS))
    assert examine(log, NOW_MS).end_offset == 4
    assert examine(log, NOW_MS + HOUR_MS).end_offset == 8


async def test_the_ratio_decides_and_max_compaction_lag_ms_overrules_it() -> None:
    settings = compacted(min_cleanable_dirty_ratio=0.5, max_compaction_lag_ms=2 * HOUR_MS)
    log = await filled(settings, (HOUR_MS,) * 4)
    log.first_dirty_offset = Offset(4)
    found = examine(log, NOW_MS)
    assert (found.dirty_ratio, found.is_due) == (0.5, False)
    found = examine(log, NOW_MS + HOUR_MS + 1)
    assert found.is_overdue
    assert found.is_due
    assert found.delay_ms(NOW_MS + HOUR_MS + 1) == 1


async def test_those_that_wait_too_long_come_first_then_the_dirtiest() -> None:
    dirty = await filled(compacted())
    half = await filled(compacted(min_cleanable_dirty_ratio=0.1))
    half.first_dirty_offset = Offset(4)
    late = await filled(
        compacted(max_compaction_lag_ms=HOUR_MS, min_cleanable_dirty_ratio=0.9), (2 * HOUR_MS,) * 4
    )
    late.first_dirty_offset = Offset(6)
    candidates = [examine(log, NOW_MS) for log in (half, dirty, late)]
    chosen = filthiest(candidates)
    assert chosen is not None
    assert chosen.log is late
    chosen = filthiest(candidates[:2])
    assert chosen is not None
    assert chosen.log is dirty
    assert filthiest([]) is None


async def test_what_lies_below_the_log_start_is_no_longer_dirty() -> None:
    log = await filled(compacted())
    log.advance_log_start(Offset(5))
    found = examine(log, NOW_MS)
    assert found.first_dirty_offset == 5
    assert found.end_offset == 8


def group(
    sizes: list[int],
    *,
    index_sizes: list[int] | None = None,
    segment_bytes: int = 100,
    span: int = 10,
) -> list[list[int]]:
    segments = [(Offset(number * span), size) for number, size in enumerate(sizes)]
    found = group_segments(
        segments,
        index_sizes or [0] * len(sizes),
        end_offset=Offset(len(sizes) * span),
        segment_bytes=segment_bytes,
        segment_index_bytes=50,
    )
    return [[base_offset // span for base_offset, _ in one] for one in found]


def test_neighbours_become_one_as_far_as_they_fit() -> None:
    assert group([40, 40, 40, 100, 0, 10]) == [[0, 1], [2], [3, 4], [5]]
    assert group([150, 10]) == [[0], [1]]
    assert group([]) == []


def test_indexes_and_the_span_of_offsets_limit_a_group() -> None:
    assert group([1, 1, 1], index_sizes=[30, 20, 1]) == [[0, 1], [2]]
    assert group([1, 1, 1], span=1 << 30) == [[0, 1], [2]]


def test_a_group_has_a_bounded_number_of_segments() -> None:
    assert [len(one) for one in group([0] * 130)] == [64, 64, 2]


@pytest.mark.parametrize("lag_ms", [HOUR_MS, 10 * HOUR_MS])
async def test_the_active_segment_of_a_compacted_log_rolls_within_the_lag(lag_ms: int) -> None:
    world = make_world()
    log = make_log(world, compacted(segment_ms=5 * HOUR_MS, max_compaction_lag_ms=lag_ms))
    log.append(make_batch(timestamp_ms=NOW_MS), leader_epoch=LeaderEpoch(0))
    later_ms = NOW_MS + min(lag_ms, 5 * HOUR_MS)
    clock_of(world).advance(later_ms - NOW_MS)
    log.append(make_batch(timestamp_ms=later_ms), leader_epoch=LeaderEpoch(0))
    assert len(log.segments) == 1
    log.append(make_batch(timestamp_ms=later_ms + 1), leader_epoch=LeaderEpoch(0))
    assert len(log.segments) == 2


def test_jitter_lets_segments_roll_at_different_times() -> None:
    lives = set()
    log = make_log(make_world(), topic(segment_ms=HOUR_MS, segment_jitter_ms=HOUR_MS // 2))
    for _ in range(5):
        log.append(make_batch(), leader_epoch=LeaderEpoch(0))
        log.roll()
        lives.add(log.active_segment.roll_early_ms)
    assert len(lives) > 2
    assert max(lives) < HOUR_MS // 2
