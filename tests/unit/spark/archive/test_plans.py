import pytest

from odradek.protocol.types import TopicPartition
from odradek.spark.archive.entries import DataFile, Gap, Offsets
from odradek.spark.archive.plans import (
    DataLoss,
    Interval,
    Merge,
    batches_of,
    files_with,
    merges,
    next_chunk,
    refuse_other_topics,
    rounds,
)
from odradek.spark.offsets import Range
from tests.unit.spark.archive.files import data_file

_P0, _P1 = TopicPartition("t", 0), TopicPartition("t", 1)


# What to archive


def test_the_first_chunk_begins_where_the_topic_does() -> None:
    chunk = next_chunk({}, {_P0: 5, _P1: 0}, {_P0: 10, _P1: 0}, 100)
    assert chunk.ranges == [Range("t", 0, 5, 10)]
    # An empty partition is noted: a copy of the topic has it.
    assert chunk.offsets == {_P0: 10, _P1: 0}
    assert not chunk.gaps


def test_chunks_follow_one_another_until_all_is_done() -> None:
    done: Offsets = {}
    ends = {_P0: 25, _P1: 5}
    seen: list[int] = []
    while (chunk := next_chunk(done, {_P0: 0, _P1: 0}, ends, 10)).offsets:
        assert chunk.size <= 10
        for one in chunk.ranges:
            seen += [one.partition * 100 + offset for offset in range(one.start, one.end)]
        done |= chunk.offsets
    assert sorted(seen) == [*range(25), *range(100, 105)]
    assert done == ends


def test_deleted_records_are_an_error_or_a_gap() -> None:
    with pytest.raises(DataLoss, match=r"offsets 3 to 6 of t \[0\]"):
        next_chunk({_P0: 3}, {_P0: 7}, {_P0: 9}, 100)
    chunk = next_chunk({_P0: 3}, {_P0: 7}, {_P0: 9}, 100, allow_data_loss=True)
    assert chunk == ([Range("t", 0, 7, 9)], [Gap("t", 0, 3, 7)], {_P0: 9})
    # All that was left is gone: nothing to read, but something to note.
    chunk = next_chunk({_P0: 3}, {_P0: 7}, {_P0: 7}, 100, allow_data_loss=True)
    assert chunk == ([], [Gap("t", 0, 3, 7)], {_P0: 7})


def test_a_topic_that_was_made_anew_is_not_mixed_with_the_old() -> None:
    with pytest.raises(DataLoss, match="another topic of the same name"):
        next_chunk({_P0: 50}, {_P0: 0}, {_P0: 10}, 100)
    with pytest.raises(DataLoss, match="t was deleted and created again"):
        refuse_other_topics({"t": "aa", "u": "bb"}, {"t": "cc", "u": "bb"})
    refuse_other_topics({"t": "aa", "gone": "bb"}, {"t": "aa", "new": "cc"})
    chunk = next_chunk({}, {_P0: 0}, {_P0: 10}, 100, topic_ids={"t": "aa"})
    assert chunk.ranges == [Range("t", 0, 0, 10, "aa")]


# What to merge


def _merged(files: list[DataFile], target_bytes: int) -> list[list[int]]:
    return [[one.first_offset for one in merge.files] for merge in merges(files, target_bytes)]


def test_small_neighbours_of_an_hour_are_merged() -> None:
    files = [data_file(0, first, first + 9) for first in (0, 10, 20)]
    others = [data_file(1, 0, 9), data_file(0, 30, 39, hour="08")]
    assert _merged([*others, *reversed(files)], 1000) == [[0, 10, 20]]
    assert _merged(files, 200) == [[0, 10]]
    assert _merged(files, 150) == []


def test_a_large_file_is_not_written_again_for_a_small_one() -> None:
    sizes = [500, 100, 100]
    files = [data_file(0, at, at, size_bytes=size) for at, size in enumerate(sizes)]
    assert _merged(files, 1000) == [[1, 2]]
    assert _merged([*files, data_file(0, 3, 3, size_bytes=300)], 1000) == [[0, 1, 2, 3]]


def test_a_record_is_rewritten_seldom_however_often_files_are_added() -> None:
    files: list[DataFile] = []
    written = 0
    for at in range(512):
        files.append(data_file(0, at, at, size_bytes=1))
        for merge in merges(files, 1024):
            written += merge.rows
            kept = [one for one in files if one not in merge.files]
            whole = data_file(
                0,
                merge.files[0].first_offset,
                merge.files[-1].last_offset,
                size_bytes=merge.size_bytes,
            )
            files = [*kept, whole]
    assert sum(one.rows for one in files) == 512
    # log1.5(512)
    assert len(files) <= 16
    assert written <= 512 * 16


def test_merges_are_done_in_bounded_groups() -> None:
    found = [Merge((data_file(0, at, at, size_bytes=400),)) for at in range(5)]
    assert [len(one) for one in batches_of(found, 1000)] == [2, 2, 1]
    assert [len(one) for one in batches_of(found, 10)] == [1] * 5
    assert batches_of([], 10) == []


# What to send


def test_each_partition_is_sent_in_order_and_whole() -> None:
    files = [data_file(0, 0, 99), data_file(0, 100, 149), data_file(1, 5, 14)]
    jobs = rounds(files, {}, rows=60, partitions=16)
    assert jobs == [
        [Interval(0, 0, 50), Interval(1, 5, 15)],
        [Interval(0, 50, 100)],
        [Interval(0, 100, 150)],
    ]


def test_what_was_sent_is_not_sent_again() -> None:
    files = [data_file(0, 0, 99), data_file(0, 100, 149), data_file(1, 0, 9)]
    jobs = rounds(files, {0: 120, 1: 10}, rows=60, partitions=16)
    assert jobs == [[Interval(0, 120, 150)]]
    assert rounds(files, {0: 150, 1: 10}, rows=60, partitions=16) == []


def test_a_job_has_a_bounded_number_of_partitions() -> None:
    files = [data_file(partition, 0, 0) for partition in range(5)]
    assert [len(job) for job in rounds(files, {}, rows=10, partitions=2)] == [2, 2, 1]


def test_files_of_an_interval_may_overlap_it() -> None:
    files = [data_file(0, 0, 9), data_file(0, 5, 14, hour="08"), data_file(1, 0, 9)]
    assert files_with(files, Interval(0, 9, 10)) == files[:2]
    assert files_with(files, Interval(0, 10, 20)) == [files[1]]
