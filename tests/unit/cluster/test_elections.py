"""Decisions about leaders, over every small partition there is."""

from collections.abc import Callable, Iterator
from itertools import combinations, permutations

from odradek.cluster import elections
from odradek.cluster.elections import LogCondition
from odradek.metadata import BrokerImage, ClusterImage, PartitionImage, TopicImage
from odradek.metadata.node_values import NO_LEADER, PartitionState
from odradek.protocol.types import BrokerId, LeaderEpoch, TopicId, TopicPartition

BROKERS = (BrokerId(1), BrokerId(2), BrokerId(3))
ME = BrokerId(1)


def partition(
    replicas: tuple[BrokerId, ...], leader: BrokerId, isr: tuple[BrokerId, ...], version: int = 4
) -> PartitionImage:
    return PartitionImage(
        0, replicas, leader, LeaderEpoch(7), isr, controller_epoch=1, version=version
    )


def subsets(of: tuple[BrokerId, ...]) -> Iterator[tuple[BrokerId, ...]]:
    for size in range(len(of) + 1):
        yield from combinations(of, size)


def every_partition() -> Iterator[PartitionImage]:
    """Every assignment, ISR and leader that can be in the store."""
    for chosen in subsets(BROKERS):
        for replicas in permutations(chosen):
            for isr in subsets(tuple(sorted(replicas))):
                for leader in (*isr, NO_LEADER) if isr else ():
                    yield partition(replicas, leader, isr)


def every_case() -> Iterator[tuple[PartitionImage, tuple[BrokerId, ...]]]:
    for one in every_partition():
        for live in subsets(BROKERS):
            yield one, live


def check_state(before: PartitionImage, after: PartitionState, live: tuple[BrokerId, ...]) -> None:
    """What holds of every state that any decision writes, but for an unclean one."""
    assert after.isr, "somebody always has everything"
    assert set(after.isr) <= set(before.isr), "elections let nobody in"
    assert after.leader == NO_LEADER or after.leader in after.isr
    if after.leader == before.leader:
        assert after.leader_epoch in (before.leader_epoch, before.leader_epoch + 1)
    else:
        assert after.leader_epoch == before.leader_epoch + 1
    assert after.controller_epoch == 9


def test_after_a_loss_the_first_live_replica_in_sync_leads_or_nobody() -> None:
    for one, live in every_case():
        after = elections.after_loss(one, live, 9)
        able = [replica for replica in one.replicas if replica in one.isr and replica in live]
        if one.leader in live or (not able and one.leader == NO_LEADER):
            assert after is None
            continue
        assert after is not None
        check_state(one, after, live)
        assert after.leader == (able[0] if able else NO_LEADER)
        assert set(after.isr) == (set(one.isr) & set(live) if able else set(one.isr))


def test_a_returning_broker_never_keeps_the_epoch_in_which_it_led() -> None:
    for one, live in every_case():
        for condition in set(LogCondition) - {LogCondition.LOST}:
            is_clean = condition is LogCondition.COMPLETE
            others = tuple(broker for broker in live if broker != ME)
            after = elections.returning(one, ME, others, 9, condition)
            if after is None:
                assert one.leader != ME
                assert is_clean or ME not in one.isr or one.isr == (ME,)
                continue
            check_state(one, after, live)
            if one.leader == ME:
                assert after.leader_epoch == one.leader_epoch + 1
                assert after.leader in {ME, NO_LEADER, *others}
            if not is_clean and one.isr != (ME,):
                assert ME not in after.isr
            else:
                assert after.isr == one.isr


def test_a_broker_that_lost_its_log_never_leads_others_with_an_empty_one() -> None:
    for one, live in every_case():
        others = tuple(broker for broker in live if broker != ME)
        after = elections.returning(one, ME, others, 9, LogCondition.LOST)
        if one.isr != (ME,):
            assert after == elections.returning(one, ME, others, 9, LogCondition.TAIL_MAY_BE_LOST)
        elif len(one.replicas) == 1:
            assert after is None or (after.leader, after.isr) == (ME, (ME,))
        else:
            assert after is not None
            assert (after.leader, after.isr, after.last_known) == (NO_LEADER, (), (ME,))
            assert after.leader_epoch == one.leader_epoch + 1
            offline = one._replace(**after._asdict())
            assert elections.after_loss(offline, BROKERS, 9) is None
            waiting = elections.unclean_candidates(offline, BROKERS, is_enabled=True)
            assert ME not in waiting
            assert set(waiting) == set(one.replicas) - {ME}
            asked = elections.unclean_candidates(
                offline, BROKERS, is_enabled=False, is_asked_for=True
            )
            assert set(asked) == set(one.replicas)
            back = elections.restored(offline, ME, 9)
            assert back is not None
            assert (back.leader, back.isr, back.last_known) == (ME, (ME,), ())
            assert back.leader_epoch == after.leader_epoch + 1
            dropped = offline._replace(replicas=tuple(r for r in one.replicas if r != ME))
            assert elections.restored(dropped, ME, 9) is None


def test_broker_0_is_somebody() -> None:
    nobody_is_missing = partition((BrokerId(0), BrokerId(1)), NO_LEADER, (BrokerId(0),))
    assert (
        elections.unclean_candidates(nobody_is_missing, (BrokerId(0), BrokerId(1)), is_enabled=True)
        == []
    )
    assert elections.after_loss(nobody_is_missing, (BrokerId(0), BrokerId(1)), 9) is not None


def test_a_departing_leader_leaves_only_where_somebody_can_take_over() -> None:
    for one, live in every_case():
        after = elections.departing(one, ME, live, 9)
        able = [
            replica
            for replica in one.replicas
            if replica in one.isr and replica in live and replica != ME
        ]
        if one.leader != ME or not able:
            assert after is None
            continue
        assert after is not None
        check_state(one, after, live)
        assert (after.leader, ME in after.isr) == (able[0], False)


def test_a_follower_that_leaves_changes_nothing_but_the_in_sync_set() -> None:
    for one in every_partition():
        after = elections.leaving(one, ME, 9)
        if ME not in one.isr or one.leader in (ME, NO_LEADER):
            assert after is None
            continue
        assert after is not None
        check_state(one, after, BROKERS)
        assert (after.leader, after.leader_epoch) == (one.leader, one.leader_epoch)
        assert set(after.isr) == set(one.isr) - {ME}


def test_the_preferred_leader_leads_if_it_is_live_and_in_sync() -> None:
    for one, live in every_case():
        after = elections.preferred(one, live, 9)
        first = one.replicas[0]
        if one.leader == first or first not in live or first not in one.isr:
            assert after is None
            continue
        assert after is not None
        check_state(one, after, live)
        assert (after.leader, after.isr) == (first, one.isr)


def test_an_unclean_leader_is_taken_only_when_nobody_in_sync_is_there() -> None:
    for one, live in every_case():
        assert elections.unclean_candidates(one, live, is_enabled=False) == []
        candidates = elections.unclean_candidates(one, live, is_enabled=True)
        clean = [replica for replica in one.isr if replica in live]
        assert candidates == (
            []
            if clean or one.leader in live
            else [replica for replica in one.replicas if replica in live]
        )
        for chosen in map(BrokerId, BROKERS):
            after = elections.unclean(one, chosen, live, 9)
            assert (after is not None) == (chosen in candidates)
            if after is not None:
                assert (after.leader, after.isr, after.is_recovering) == (chosen, (chosen,), True)
                assert after.leader_epoch == one.leader_epoch + 1


def test_a_partition_without_a_state_is_left_alone() -> None:
    bare = partition((BrokerId(1), BrokerId(2)), NO_LEADER, (), version=-1)
    live = (BrokerId(1), BrokerId(2))
    decisions: list[Callable[[], object]] = [
        lambda: elections.after_loss(bare, live, 9),
        lambda: elections.returning(bare, ME, live, 9, LogCondition.TAIL_MAY_BE_LOST),
        lambda: elections.departing(bare, ME, live, 9),
        lambda: elections.leaving(bare, ME, 9),
        lambda: elections.preferred(bare, live, 9),
        lambda: elections.unclean(bare, ME, live, 9),
    ]
    assert [decide() for decide in decisions] == [None] * len(decisions)


def test_leaders_are_given_back_to_brokers_that_lead_too_few() -> None:
    def image(*partitions: PartitionImage, live: tuple[BrokerId, ...] = BROKERS) -> ClusterImage:
        numbered = tuple(one._replace(partition=index) for index, one in enumerate(partitions))
        topic = TopicImage("t", TopicId(bytes(16)), numbered, {}, 0)
        brokers = {n: BrokerImage(n, 0, (), {}, None) for n in live}
        return ClusterImage(brokers=brokers, topics=type(ClusterImage().topics)({"t": topic}))

    home = partition((BrokerId(1), BrokerId(2)), ME, (BrokerId(1), BrokerId(2)))
    away = partition((BrokerId(1), BrokerId(2)), BrokerId(2), (BrokerId(1), BrokerId(2)))
    behind = partition((BrokerId(1), BrokerId(2)), BrokerId(2), (BrokerId(2),))
    moving = away._replace(adding=(BrokerId(3),))
    assert elections.out_of_balance(image(home, away), 10) == [TopicPartition("t", 1)]
    assert elections.out_of_balance(image(home, away), 50) == []
    assert elections.out_of_balance(image(away, behind), 10) == [TopicPartition("t", 0)]
    assert elections.out_of_balance(image(moving), 0) == []
    assert elections.out_of_balance(image(away, live=(BrokerId(2), BrokerId(3))), 0) == []


def test_a_change_is_told_in_a_line() -> None:
    before = partition((BrokerId(1), BrokerId(2)), ME, (BrokerId(1), BrokerId(2)))
    after = elections.after_loss(before, (BrokerId(2),), 9)
    assert after is not None
    said = "leader 1 -> 2, epoch 8, in sync 1,2 -> 2, eligible nobody -> 1"
    assert elections.describe(before, after) == said


def test_who_leaves_the_last_one_standing_stays_eligible() -> None:
    alone = partition(
        (BrokerId(1), BrokerId(2), BrokerId(3)), BrokerId(1), (BrokerId(1), BrokerId(2))
    )
    after = elections.leaving(alone, BrokerId(2), 9)
    assert after is not None
    assert (after.isr, after.eligible) == ((1,), (2,))
    many = elections.leaving(
        partition(
            (BrokerId(1), BrokerId(2), BrokerId(3)),
            BrokerId(1),
            (BrokerId(1), BrokerId(2), BrokerId(3)),
        ),
        BrokerId(2),
        9,
    )
    assert many is not None
    assert (many.isr, many.eligible) == ((1, 3), ())


def test_the_eligible_take_the_place_of_the_last_one_that_lost_its_tail() -> None:
    alone = partition(
        (BrokerId(1), BrokerId(2), BrokerId(3)), BrokerId(1), (BrokerId(1),)
    )._replace(eligible=(BrokerId(2), BrokerId(3)))
    after = elections.returning(
        alone, BrokerId(1), (BrokerId(3),), 9, LogCondition.TAIL_MAY_BE_LOST
    )
    assert after is not None
    assert (after.leader, after.isr, after.eligible) == (3, (2, 3), ())
    assert after.leader_epoch == alone.leader_epoch + 1
    clean = elections.returning(alone, BrokerId(1), (BrokerId(3),), 9, LogCondition.COMPLETE)
    assert clean is not None
    assert (clean.leader, clean.isr, clean.eligible) == (1, (1,), (2, 3))


def test_an_eligible_replica_that_lost_its_tail_is_eligible_no_more() -> None:
    alone = partition(
        (BrokerId(1), BrokerId(2), BrokerId(3)), BrokerId(1), (BrokerId(1),)
    )._replace(eligible=(BrokerId(2), BrokerId(3)))
    after = elections.returning(
        alone, BrokerId(2), (BrokerId(1), BrokerId(3)), 9, LogCondition.TAIL_MAY_BE_LOST
    )
    assert after is not None
    assert (after.leader, after.isr, after.eligible) == (1, (1,), (3,))
    assert (
        elections.returning(
            alone, BrokerId(2), (BrokerId(1), BrokerId(3)), 9, LogCondition.COMPLETE
        )
        is None
    )


def test_whoever_was_merely_killed_stays_eligible() -> None:
    """Of three that stopped at once, only the last one to come back has lost its tail."""
    together = partition(
        (BrokerId(1), BrokerId(2), BrokerId(3)),
        BrokerId(1),
        (BrokerId(1), BrokerId(2), BrokerId(3)),
    )
    one = elections.returning(together, BrokerId(1), (), 9, LogCondition.PAGE_CACHE_KEPT)
    assert one is not None
    assert (one.leader, one.isr, one.eligible) == (NO_LEADER, (2, 3), ())
    partition_of_two = partition(
        (BrokerId(1), BrokerId(2), BrokerId(3)), NO_LEADER, (BrokerId(2), BrokerId(3))
    )
    two = elections.returning(
        partition_of_two, BrokerId(2), (BrokerId(1),), 9, LogCondition.PAGE_CACHE_KEPT
    )
    assert two is not None
    assert (two.leader, two.isr, two.eligible) == (NO_LEADER, (3,), (2,))
    last = partition((BrokerId(1), BrokerId(2), BrokerId(3)), NO_LEADER, (BrokerId(3),))._replace(
        eligible=(BrokerId(2),)
    )
    assert (
        elections.returning(last, BrokerId(2), (BrokerId(1),), 9, LogCondition.PAGE_CACHE_KEPT)
        is None
    )
    three = elections.returning(
        last, BrokerId(3), (BrokerId(1), BrokerId(2)), 9, LogCondition.TAIL_MAY_BE_LOST
    )
    assert three is not None
    assert (three.leader, three.isr, three.eligible) == (2, (2,), ())


def test_the_last_one_in_sync_stays_so_if_it_was_merely_killed() -> None:
    alone = partition(
        (BrokerId(1), BrokerId(2), BrokerId(3)), BrokerId(1), (BrokerId(1),)
    )._replace(eligible=(BrokerId(2), BrokerId(3)))
    after = elections.returning(alone, BrokerId(1), (BrokerId(3),), 9, LogCondition.PAGE_CACHE_KEPT)
    assert after is not None
    assert (after.leader, after.isr, after.eligible) == (1, (1,), (2, 3))


def test_an_eligible_replica_leads_when_nobody_in_sync_is_there() -> None:
    alone = partition(
        (BrokerId(1), BrokerId(2), BrokerId(3)), BrokerId(1), (BrokerId(1),)
    )._replace(eligible=(BrokerId(2),))
    assert elections.unclean_candidates(alone, (BrokerId(2), BrokerId(3)), is_enabled=True) == []
    after = elections.after_loss(alone, (BrokerId(2), BrokerId(3)), 9)
    assert after is not None
    assert (after.leader, after.isr, after.eligible) == (2, (2,), (1,))
