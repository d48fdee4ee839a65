"""Groups under churn. Longer: ``python -m tests.scenarios.churn``."""

from pathlib import Path

import pytest

from tests.scenarios.churn import Churn
from tests.scenarios.ownership import Event, What, intervals, owned_twice, rebalances


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_no_partition_has_two_owners_and_no_record_is_missed(tmp_path: Path, protocol: str) -> None:
    churn = Churn(tmp_path, consumers=6, protocol=protocol, seed=1, assignor="range")
    tally = churn.run(seconds=8)
    assert tally.records > 1_000
    assert tally.count(What.CLOSING) + tally.count(What.KILLED) > 6
    assert len(tally.rebalances) > 2


def test_two_owners_at_once_are_found() -> None:
    taken = [Event(1, "a", What.ASSIGNED, (0, 1), 1), Event(2, "b", What.ASSIGNED, (1,), 2)]
    (problem,) = owned_twice(intervals([*taken, Event(3, "a", What.REVOKED, (1,), 2)]))
    assert problem.startswith("partition 1: a in generation 1 from 1.000 to 3.000")
    assert not owned_twice(intervals([*taken, Event(1.5, "a", What.REVOKED, (1,), 1)]))


def test_who_was_put_out_may_learn_it_late() -> None:
    taken = [Event(1, "a", What.ASSIGNED, (0,), 1), Event(3, "a", What.LOST, (0,), 1)]
    assert not owned_twice(intervals([*taken, Event(2, "b", What.ASSIGNED, (0,), 2)]))
    assert owned_twice(intervals([*taken, Event(2, "b", What.ASSIGNED, (0,), 1)]))


def test_a_rebalance_lasts_until_everything_is_owned_and_everybody_has_a_part() -> None:
    events = [
        Event(0, "a", What.SUBSCRIBED),
        Event(1, "a", What.ASSIGNED, (0, 1)),
        Event(5, "b", What.SUBSCRIBED),
        Event(6, "a", What.REVOKED, (1,)),
        Event(7, "b", What.ASSIGNED, (1,)),
        Event(10, "b", What.KILLED),
        Event(17, "a", What.ASSIGNED, (1,)),
        Event(20, "c", What.SUBSCRIBED),
    ]
    settled, unsettled = rebalances(events, partitions=2, death_known_after_s=6)
    assert [(each.why, each.duration_s, each.is_held_up) for each in settled] == [
        (What.SUBSCRIBED, 1, False),
        (What.SUBSCRIBED, 2, False),
        (What.KILLED, 1, True),
    ]
    assert unsettled == [events[-1]]
