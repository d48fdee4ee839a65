"""Days on which brokers compact: what the checker says."""

from odradek.protocol.types import TopicPartition
from simulation.compaction_workload import Found, Write, keyed_violations

PARTITION = TopicPartition("states", 0)


def rules(writes: list[Write], found: list[Found], *, keeps_tombstones: bool = False) -> list[str]:
    wrong = keyed_violations(PARTITION, writes, found, keeps_tombstones=keeps_tombstones)
    return [one.rule for one in wrong]


def acknowledged(value: bytes | None, offset: int | None) -> Write:
    return Write(PARTITION, b"k", value, is_acknowledged=True, offset=offset)


def undecided(value: bytes | None) -> Write:
    return Write(PARTITION, b"k", value)


def found(offset: int, value: bytes | None, key: bytes = b"k") -> Found:
    return Found(offset, key, value)


def test_the_newest_acknowledged_value_is_what_must_be_there() -> None:
    writes = [acknowledged(b"1", 0), acknowledged(b"2", 5)]
    assert rules(writes, [found(5, b"2")]) == []
    assert rules(writes, [found(0, b"1"), found(5, b"2")]) == []
    assert rules(writes, [found(0, b"1")]) == ["stale"]
    assert rules(writes, []) == ["gone"]


def test_a_write_that_nobody_answered_may_be_there_or_not() -> None:
    writes = [acknowledged(b"1", 0), undecided(b"2")]
    assert rules(writes, [found(0, b"1")]) == []
    assert rules(writes, [found(3, b"2")]) == []
    # But not once a later one was acknowledged.
    writes = [undecided(b"1"), acknowledged(b"2", None)]
    assert rules(writes, [found(1, b"1")]) == ["stale"]


def test_a_tombstone_may_go_when_its_time_is_over() -> None:
    writes = [acknowledged(b"1", 0), acknowledged(None, 5)]
    assert rules(writes, [found(5, None)], keeps_tombstones=True) == []
    assert rules(writes, []) == []
    assert rules(writes, [], keeps_tombstones=True) == ["gone"]
    assert rules(writes, [found(0, b"1")]) == ["stale"]
    # One that came before what was acknowledged last excuses nothing.
    assert rules([*writes, acknowledged(b"2", 6)], []) == ["gone"]


def test_an_older_tombstone_is_not_taken_for_a_newer_one() -> None:
    writes = [acknowledged(None, 2), acknowledged(b"1", 3), acknowledged(None, 5)]
    assert rules(writes, [found(2, None)]) == ["stale"]


def test_records_that_nobody_sent_and_offsets_that_fall_are_noticed() -> None:
    writes = [acknowledged(b"1", 4)]
    assert rules(writes, [found(4, b"1"), found(5, b"1", b"other")]) == ["phantom"]
    assert rules(writes, [found(5, b"1"), found(4, b"1")]) == ["backwards"]
