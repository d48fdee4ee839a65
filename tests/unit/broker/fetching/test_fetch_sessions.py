"""Fetch sessions: what each combination of session id and epoch means."""

import pytest

from odradek.broker.fetching.fetch_lifecycle import Fetch
from odradek.broker.fetching.fetch_sessions import FetchSessions
from odradek.invariants import InvariantViolation
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
)
from odradek.protocol.types import Offset, TopicId
from odradek.statemachine.watermark import Watermark
from odradek.world import Randomness

NAMES, IDS = 12, 13


def sessions(slots: int = 10, partitions: int = 10_000, known: int = 1 << 30) -> FetchSessions:
    """A cache on a broker that knows so many partitions of each topic."""
    return FetchSessions(
        slots,
        Randomness(1),
        max_partitions=partitions,
        is_known=lambda entry: entry.partition < known,
    )


def request(
    session_id: int = 0,
    session_epoch: int = 0,
    offsets: dict[int, int] | None = None,
    forget: tuple[int, ...] = (),
    topic: str = "t",
) -> FetchRequest:
    partitions = [
        FetchPartition(partition=partition, fetch_offset=Offset(offset), partition_max_bytes=100)
        for partition, offset in (offsets or {}).items()
    ]
    return FetchRequest(
        session_id=session_id,
        session_epoch=session_epoch,
        topics=[FetchTopic(topic=topic, partitions=partitions)] if partitions else [],
        forgotten_topics_data=[ForgottenTopic(topic=topic, partitions=list(forget))],
    )


def take(fetch: Fetch) -> list[tuple[int, int]]:
    """What is to be read: partitions and offsets."""
    entries = fetch.due.take_all()
    fetch.due.put_back(entries)
    return [(entry.partition, entry.fetch_offset) for entry in entries]


def test_a_full_fetch_without_a_session_leaves_nothing_behind() -> None:
    cache = sessions()
    fetch = cache.begin(request(session_epoch=-1, offsets={0: 5}), NAMES, 0.0)
    assert fetch.session_id == 0
    assert take(fetch) == [(0, 5)]
    assert len(cache) == 0


def test_a_session_remembers_adds_changes_and_forgets() -> None:
    cache = sessions()
    first = cache.begin(request(offsets={0: 5, 1: 6}), NAMES, 0.0)
    assert first.session_id
    assert not first.is_incremental
    second = cache.begin(
        request(first.session_id, 1, offsets={1: 7, 2: 8}, forget=(0,)), NAMES, 0.0
    )
    assert second.is_incremental
    assert take(second) == [(1, 7), (2, 8)]
    third = cache.begin(request(first.session_id, 2), NAMES, 0.0)
    assert take(third) == [(1, 7), (2, 8)]


def test_a_wrong_epoch_and_an_unknown_session_are_told_apart() -> None:
    cache = sessions()
    first = cache.begin(request(offsets={0: 0}), NAMES, 0.0)
    wrong = cache.begin(request(first.session_id, 5), NAMES, 0.0)
    assert wrong.error is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    unknown = cache.begin(request(first.session_id + 1, 1), NAMES, 0.0)
    assert unknown.error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert cache.begin(request(first.session_id, 1), NAMES, 0.0).error is ErrorCode.NONE


def test_names_and_ids_do_not_mix_in_one_session() -> None:
    cache = sessions()
    first = cache.begin(request(offsets={0: 0}), NAMES, 0.0)
    mixed = cache.begin(request(first.session_id, 1), IDS, 0.0)
    assert mixed.error is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_ids_keep_topics_apart() -> None:
    cache = sessions()
    ask = FetchRequest(
        session_epoch=0,
        topics=[
            FetchTopic(topic_id=TopicId(bytes([1] * 16)), partitions=[FetchPartition(partition=0)]),
            FetchTopic(topic_id=TopicId(bytes([2] * 16)), partitions=[FetchPartition(partition=0)]),
        ],
    )
    first = cache.begin(ask, IDS, 0.0)
    assert len(take(cache.begin(request(first.session_id, 1), IDS, 0.0))) == 2


@pytest.mark.parametrize("epoch", [0, -1])
def test_an_old_session_ends_when_a_full_fetch_names_it(epoch: int) -> None:
    cache = sessions()
    first = cache.begin(request(offsets={0: 0}), NAMES, 0.0)
    again = cache.begin(request(first.session_id, epoch, offsets={0: 1}), NAMES, 0.0)
    assert again.session_id != first.session_id
    assert len(cache) == (1 if epoch == 0 else 0)


def test_forgetting_everything_ends_the_session() -> None:
    cache = sessions()
    first = cache.begin(request(offsets={0: 0}), NAMES, 0.0)
    last = cache.begin(request(first.session_id, 1, forget=(0,)), NAMES, 0.0)
    assert last.session_id == 0
    assert len(cache) == 0


def test_a_full_cache_refuses_until_the_oldest_is_idle_long_enough() -> None:
    cache = sessions(slots=2)
    oldest = cache.begin(request(offsets={0: 0}), NAMES, 0.0)
    newer = cache.begin(request(offsets={0: 0}), NAMES, 1.0)
    assert cache.begin(request(offsets={0: 0}), NAMES, 60.0).session_id == 0
    assert cache.begin(request(offsets={0: 0}), NAMES, 121.0).session_id
    gone = cache.begin(request(oldest.session_id, 1), NAMES, 121.0)
    assert gone.error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert cache.begin(request(newer.session_id, 1), NAMES, 121.0).error is ErrorCode.NONE


def test_partitions_that_gave_data_are_served_last_the_next_time() -> None:
    cache = sessions()
    first = cache.begin(request(offsets={0: 0, 1: 0, 2: 0}), NAMES, 0.0)
    busy, *others = first.due.take_all()
    first.due.put_back(others)
    first.due.put_back([busy])
    second = cache.begin(request(first.session_id, 1), NAMES, 0.0)
    assert take(second) == [(1, 0), (2, 0), (0, 0)]


def test_what_is_silent_is_read_when_it_moves_or_the_client_asks_for_something_else() -> None:
    cache = sessions()
    first = cache.begin(request(offsets={0: 0, 1: 0, 2: 0}), NAMES, 0.0)
    marks = [Watermark() for _ in range(3)]
    for entry, mark in zip(first.due.take_all(), marks, strict=True):
        entry.register(mark)
    assert take(cache.begin(request(first.session_id, 1), NAMES, 0.0)) == []
    marks[1].advance(Offset(1))
    marks[1].advance(Offset(2))
    assert take(cache.begin(request(first.session_id, 2, {2: 5}), NAMES, 0.0)) == [(1, 0), (2, 5)]
    cache.begin(request(first.session_id, -1), NAMES, 0.0)
    assert not any(mark.waiters for mark in marks)


def test_partitions_that_do_not_exist_fill_no_session() -> None:
    cache = sessions(partitions=1_000_000, known=10)
    many = dict.fromkeys(range(49_000), 0)
    for _ in range(10):
        fetch = cache.begin(request(offsets=many), NAMES, 0.0)
        assert fetch.session_id == 0
        assert len(fetch.due.take_all()) == 49_000  # They are answered all the same.
    # Nor by and by: the session ends, and the client begins again.
    fetch = cache.begin(request(offsets={0: 0}), NAMES, 0.0)
    assert fetch.session_id
    added = request(fetch.session_id, 1, offsets=many)
    assert cache.begin(added, NAMES, 0.0).error == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert (len(cache), cache.partitions) == (0, 0)


def test_a_few_partitions_that_this_broker_has_not_heard_of_are_remembered() -> None:
    cache = sessions(known=10)
    fetch = cache.begin(request(offsets={0: 0, 10: 0}), NAMES, 0.0)
    assert fetch.session_id
    again = cache.begin(request(fetch.session_id, 1, offsets={11: 0}), NAMES, 0.0)
    assert [partition for partition, _ in take(again)] == [0, 10, 11]


def test_all_sessions_together_hold_no_more_partitions_than_they_may() -> None:
    cache = sessions(partitions=100)
    fetches = [
        cache.begin(request(offsets=dict.fromkeys(range(30), 0)), NAMES, 0.0) for _ in range(5)
    ]
    assert [bool(fetch.session_id) for fetch in fetches] == [True, True, True, False, False]
    assert cache.partitions == 90
    # One that grows beyond ends, unless others have been idle for long.
    grown = dict.fromkeys(range(30, 60), 0)
    first = fetches[0].session_id
    fetch = cache.begin(request(first, 1, offsets=grown), NAMES, 1.0)
    assert fetch.error == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert cache.partitions == 60
    second = fetches[1].session_id
    fetch = cache.begin(request(second, 1, offsets=dict.fromkeys(range(30, 80), 0)), NAMES, 500.0)
    assert (fetch.error, cache.partitions) == (ErrorCode.NONE, 80)
    fetch = cache.begin(request(second, 2, forget=tuple(range(79))), NAMES, 500.0)
    assert cache.partitions == 1
    cache.begin(request(second, -1), NAMES, 500.0)
    assert (len(cache), cache.partitions) == (0, 0)


def test_a_session_that_is_counted_twice_is_an_invariant_violation() -> None:
    cache = sessions()
    fetch = cache.begin(request(offsets={0: 0, 1: 0}), NAMES, 0.0)
    cache.check()
    cache.partitions += 2
    with pytest.raises(InvariantViolation, match="is what the sessions hold"):
        cache.begin(request(offsets={0: 0}), NAMES, 0.0)
    cache.partitions = 0
    with pytest.raises(InvariantViolation, match=">= 0"):
        cache.begin(request(fetch.session_id, -1), NAMES, 0.0)
