"""How far the high watermark may go, and who is in sync: pure, without a loop."""

from odradek.protocol.types import BrokerId, LeaderEpoch, Offset
from odradek.replication.leadership import LagLimits, Leadership

LAG_S = 10.0
LEASE_S = 18.0
LIMITS = LagLimits(LAG_S, LEASE_S)


def term(
    *,
    start: Offset = Offset(0),
    replicas: tuple[BrokerId, ...] = (BrokerId(1), BrokerId(2), BrokerId(3)),
    in_sync: tuple[BrokerId, ...] = (BrokerId(1), BrokerId(2), BrokerId(3)),
) -> Leadership:
    return Leadership(BrokerId(1), LeaderEpoch(5), start, replicas, in_sync, version=0, now_s=0.0)


def fetched(
    one: Leadership,
    replica: BrokerId,
    offset: Offset,
    leader_end: Offset,
    *,
    now_s: float = 1.0,
    epoch: int = 7,
) -> None:
    one.note_fetch(
        replica, offset, Offset(0), broker_epoch=epoch, leader_end=leader_end, now_s=now_s
    )


def wanted(
    one: Leadership,
    high_watermark: Offset,
    leader_end: Offset,
    *,
    now_s: float = 1.0,
    alive: dict[BrokerId, int] | None = None,
) -> tuple[BrokerId, ...]:
    alive = {BrokerId(number): 7 for number in (1, 2, 3)} if alive is None else alive
    one.drop_laggards(leader_end, now_s, LIMITS)
    return one.next_in_sync(high_watermark, leader_end, alive, now_s=now_s, limits=LIMITS)


def test_nothing_is_committed_before_everyone_in_sync_was_heard_of() -> None:
    one = term()
    assert one.committed_offset(Offset(10)) == -1
    fetched(one, BrokerId(2), Offset(10), Offset(10))
    assert one.committed_offset(Offset(10)) == -1
    fetched(one, BrokerId(3), Offset(4), Offset(10))
    assert one.committed_offset(Offset(10)) == 4


def test_a_lone_leader_decides_alone() -> None:
    assert term(replicas=(BrokerId(1),), in_sync=(BrokerId(1),)).committed_offset(Offset(10)) == 10
    out_of_sync = term(in_sync=(BrokerId(1),))
    assert out_of_sync.waits_for_no_follower
    assert out_of_sync.committed_offset(Offset(10)) == 10


def test_the_leader_counts_itself_only_up_to_what_it_vouches_for() -> None:
    one = term(replicas=(BrokerId(1), BrokerId(2)), in_sync=(BrokerId(1), BrokerId(2)))
    fetched(one, BrokerId(2), Offset(10), Offset(10))
    assert one.committed_offset(Offset(6)) == 6


def test_a_shrink_counts_only_once_stored() -> None:
    one = term(replicas=(BrokerId(1), BrokerId(2)), in_sync=(BrokerId(1), BrokerId(2)))
    fetched(one, BrokerId(2), Offset(3), Offset(10))
    one.propose((BrokerId(1),))
    assert one.committed_offset(Offset(10)) == 3
    one.settle()
    assert one.committed_offset(Offset(10)) == 3, "it was refused"
    one.propose((BrokerId(1),))
    one.update((BrokerId(1), BrokerId(2)), (BrokerId(1),), 1)
    one.settle()
    assert one.committed_offset(Offset(10)) == 10


def test_an_expansion_counts_from_the_moment_it_is_proposed() -> None:
    one = term(replicas=(BrokerId(1), BrokerId(2)), in_sync=(BrokerId(1),))
    fetched(one, BrokerId(2), Offset(5), Offset(5))
    one.propose((BrokerId(1), BrokerId(2)))
    one.followers[BrokerId(2)].is_joining = False
    assert one.committed_offset(Offset(9)) == 5
    one.settle()
    assert one.committed_offset(Offset(9)) == 9, "it was refused"


def test_a_follower_that_keeps_up_is_waited_for_before_it_is_in_sync() -> None:
    """Else the mark runs away from it for as long as records pour in."""
    one = term(replicas=(BrokerId(1), BrokerId(2)), in_sync=(BrokerId(1),))
    fetched(one, BrokerId(2), Offset(0), Offset(100))
    assert one.committed_offset(Offset(200)) == 200, "it is far behind: nobody waits"
    fetched(one, BrokerId(2), Offset(100), Offset(200), now_s=2.0)
    assert one.followers[BrokerId(2)].caught_up_s == 1.0
    assert one.committed_offset(Offset(300)) == 100
    assert wanted(one, Offset(100), Offset(300), now_s=2.0) == (1, 2)


def test_a_follower_that_fell_silent_is_waited_for_no_longer() -> None:
    one = term(replicas=(BrokerId(1), BrokerId(2)), in_sync=(BrokerId(1),))
    fetched(one, BrokerId(2), Offset(5), Offset(5))
    assert one.committed_offset(Offset(9)) == 5
    assert wanted(one, Offset(9), Offset(9), now_s=1.0 + LAG_S + 0.1) == (1,)
    assert one.committed_offset(Offset(9)) == 9


def test_who_was_not_caught_up_for_too_long_leaves() -> None:
    one = term()
    fetched(one, BrokerId(2), Offset(10), Offset(10))
    fetched(one, BrokerId(3), Offset(4), Offset(10))
    assert wanted(one, Offset(4), Offset(10), now_s=LAG_S) == (1, 2, 3)
    assert wanted(one, Offset(4), Offset(10), now_s=LAG_S + 0.1) == (1, 2)


def test_who_may_not_know_the_new_leader_stays_while_it_may_have_a_lease() -> None:
    """The leader before may be cut off from the store. It answers from memory until its lease ends,
    so nothing is committed without it till then."""
    one = term()
    fetched(one, BrokerId(2), Offset(10), Offset(10))
    assert wanted(one, Offset(0), Offset(10), now_s=LEASE_S) == (1, 2, 3)
    assert wanted(one, Offset(0), Offset(10), now_s=LEASE_S + 0.1) == (1, 2)
    without_it = {BrokerId(1): 7, BrokerId(2): 7}
    assert wanted(one, Offset(0), Offset(10), alive=without_it) == (1, 2), "its session has ended"
    one.forget(BrokerId(3))
    assert wanted(one, Offset(0), Offset(10)) == (1, 2), "it is back, with a new session"


def test_who_is_at_the_end_stays_however_long_nothing_is_written() -> None:
    one = term()
    fetched(one, BrokerId(2), Offset(10), Offset(10))
    fetched(one, BrokerId(3), Offset(10), Offset(10))
    assert wanted(one, Offset(10), Offset(10), now_s=1000.0) == (1, 2, 3)


def test_a_follower_always_a_little_behind_stays() -> None:
    one = term(replicas=(BrokerId(1), BrokerId(2)), in_sync=(BrokerId(1), BrokerId(2)))
    for second in range(100):
        fetched(
            one, BrokerId(2), Offset(10 * second), Offset(10 * (second + 1)), now_s=float(second)
        )
    assert wanted(one, Offset(0), Offset(2000), now_s=100.0) == (1, 2)


def test_who_has_left_the_cluster_leaves_at_once() -> None:
    one = term()
    fetched(one, BrokerId(2), Offset(10), Offset(10))
    fetched(one, BrokerId(3), Offset(10), Offset(10))
    assert wanted(one, Offset(10), Offset(10), alive={BrokerId(1): 7, BrokerId(2): 7}) == (1, 2)


def test_nobody_enters_below_the_high_watermark_or_before_this_term() -> None:
    one = term(start=Offset(8), replicas=(BrokerId(1), BrokerId(2)), in_sync=(BrokerId(1),))
    fetched(one, BrokerId(2), Offset(8), Offset(8))
    assert wanted(one, Offset(9), Offset(9)) == (1,)
    fetched(one, BrokerId(2), Offset(7), Offset(8))
    assert wanted(one, Offset(6), Offset(9)) == (1,)
    fetched(one, BrokerId(2), Offset(9), Offset(9))
    assert wanted(one, Offset(9), Offset(9)) == (1, 2)


def test_a_broker_enters_only_in_the_life_that_the_cluster_knows() -> None:
    one = term(replicas=(BrokerId(1), BrokerId(2)), in_sync=(BrokerId(1),))
    fetched(one, BrokerId(2), Offset(10), Offset(10), epoch=7)
    assert wanted(one, Offset(10), Offset(10), alive={BrokerId(1): 1, BrokerId(2): 8}) == (1,)
    fetched(one, BrokerId(2), Offset(10), Offset(10), epoch=8)
    assert wanted(one, Offset(10), Offset(10), alive={BrokerId(1): 1, BrokerId(2): 8}) == (1, 2)


def test_another_life_of_a_broker_holds_only_what_it_says() -> None:
    one = term(replicas=(BrokerId(1), BrokerId(2)), in_sync=(BrokerId(1), BrokerId(2)))
    fetched(one, BrokerId(2), Offset(10), Offset(10), epoch=7)
    assert one.committed_offset(Offset(10)) == 10
    fetched(one, BrokerId(2), Offset(3), Offset(10), epoch=8)
    assert one.committed_offset(Offset(12)) == 3


def test_a_removed_replica_is_not_waited_for() -> None:
    one = term(replicas=(BrokerId(1), BrokerId(2)), in_sync=(BrokerId(1), BrokerId(2)))
    one.update((BrokerId(1),), (BrokerId(1),), 1)
    assert one.waits_for_no_follower
    assert one.committed_offset(Offset(5)) == 5


def test_an_added_replica_is_watched() -> None:
    one = term(replicas=(BrokerId(1),), in_sync=(BrokerId(1),))
    one.update((BrokerId(1), BrokerId(4)), (BrokerId(1),), 1)
    fetched(one, BrokerId(4), Offset(5), Offset(5))
    assert wanted(one, Offset(5), Offset(5), alive={BrokerId(1): 7, BrokerId(4): 7}) == (1, 4)


def test_the_low_watermark_is_that_of_the_slowest_replica_that_lives_or_may_lead() -> None:
    one = term()
    for replica, log_start in ((BrokerId(2), Offset(4)), (BrokerId(3), Offset(2))):
        one.note_fetch(
            replica, Offset(10), log_start, broker_epoch=7, leader_end=Offset(10), now_s=1.0
        )
    all_live = {BrokerId(1): 7, BrokerId(2): 7, BrokerId(3): 7}
    without_3 = {BrokerId(1): 7, BrokerId(2): 7}
    everyone = (BrokerId(1), BrokerId(2), BrokerId(3))
    assert one.low_watermark(Offset(5), all_live) == 2
    assert one.low_watermark(Offset(5), without_3) == 2, "3 is in sync yet, and may lead next"
    changes = one.log_start_changes.value
    one.forget(BrokerId(3))
    one.update(everyone, everyone[:2], 2, (BrokerId(3),))
    assert one.low_watermark(Offset(5), without_3) == -1, "3 is eligible, and may lead next"
    one.update(everyone, everyone[:2], 3)
    assert one.low_watermark(Offset(5), without_3) == 4
    assert one.log_start_changes.value == changes + 3, "deletions that wait are woken"
