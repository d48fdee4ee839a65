"""Ranges become tasks by their offsets alone, and limits are shared out fairly."""

import json

from hypothesis import given
from hypothesis import strategies as st

from odradek.protocol.types import TopicPartition
from odradek.spark.offsets import (
    Range,
    Split,
    divide,
    from_json,
    ids_of,
    limit,
    plan,
    recreated_topics,
    split_of,
    to_json,
)

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)

_places = st.dictionaries(
    st.tuples(st.sampled_from("ab"), st.integers(0, 4)).map(lambda pair: TopicPartition(*pair)),
    st.integers(0, 1000),
    min_size=1,
)


def test_offsets_are_written_as_sparks_own_source_does() -> None:
    written = to_json({B0: 3, A1: 2, A0: 1})
    assert json.dumps(written) == '{"a": {"0": 1, "1": 2}, "b": {"0": 3}}'
    assert from_json(written) == {A0: 1, A1: 2, B0: 3}


def test_how_to_split_travels_with_the_offsets() -> None:
    written = json.loads(json.dumps(to_json({A0: 100}, Split(min_partitions=4))))
    assert split_of(written) == Split(min_partitions=4)
    assert len(plan(to_json({A0: 0}), written)) == 4
    # Whatever the options of the query that replays it are.
    assert plan(to_json({A0: 0}, Split(9)), written) == plan(to_json({A0: 0}), written)


def test_new_partitions_are_read_from_their_beginning_and_empty_ones_not_at_all() -> None:
    ranges = plan(to_json({A0: 5, B0: 7}), to_json({A0: 9, A1: 3, B0: 7}))
    assert ranges == [Range("a", 0, 5, 9), Range("a", 1, 0, 3)]


def test_a_topic_that_was_made_anew_is_read_from_its_beginning() -> None:
    start = json.loads(json.dumps(to_json({A0: 5, B0: 7}, ids={"a": "aa", "b": "bb"})))
    assert from_json(start) == {A0: 5, B0: 7}
    assert recreated_topics(ids_of(start), {"a": "other", "b": "bb"}) == {"a"}
    end = to_json({A0: 9, B0: 9}, ids={"a": "other", "b": "bb"})
    assert plan(start, end) == [Range("a", 0, 0, 9, "other"), Range("b", 0, 7, 9, "bb")]
    # What was written before ids were is taken for the same topic.
    assert plan(to_json({A0: 5}), end)[0] == Range("a", 0, 5, 9, "other")
    assert recreated_topics({}, ids_of(end)) == recreated_topics(ids_of(end), {}) == set()


@given(_places, _places, st.integers(0, 30), st.integers(0, 100))
def test_tasks_cover_every_offset_once(
    start: dict[TopicPartition, int],
    end: dict[TopicPartition, int],
    min_partitions: int,
    max_records: int,
) -> None:
    tasks = plan(to_json(start), to_json(end, Split(min_partitions, max_records)))
    covered = [
        (one.topic_partition, offset) for one in tasks for offset in range(one.start, one.end)
    ]
    wanted = {
        (place, offset)
        for place, until in end.items()
        for offset in range(start.get(place, 0), until)
    }
    assert len(covered) == len(wanted)
    assert set(covered) == wanted
    assert all(one.start < one.end for one in tasks)
    if max_records:
        assert all(one.end - one.start <= max_records for one in tasks)


def test_large_ranges_are_cut_and_small_ones_are_not() -> None:
    ranges = [Range("a", 0, 0, 90), Range("a", 1, 0, 10)]
    pieces = divide(ranges, Split(min_partitions=10))
    assert len([one for one in pieces if one.partition == 0]) == 9
    assert len([one for one in pieces if one.partition == 1]) == 1
    assert divide(ranges, Split(min_partitions=2)) == ranges


@given(_places, _places, st.integers(1, 3000))
def test_a_limit_is_kept_and_something_moves(
    start: dict[TopicPartition, int], latest: dict[TopicPartition, int], most: int
) -> None:
    limited = limit(start, latest, most)
    assert limited.keys() == latest.keys()
    moved = 0
    for place, until in limited.items():
        begin = start.get(place, 0)
        if latest[place] > begin:
            assert begin <= until <= latest[place]
            moved += until - begin
        else:
            assert until == latest[place]
    waiting = sum(max(0, until - start.get(place, 0)) for place, until in latest.items())
    assert moved <= most
    assert not waiting or moved
