"""Every change of the metadata store survives another one that is made at the same moment.

For each kind of change, a rival makes its own change between the reading and the writing of the
first; afterwards both must be there. Then the reply to the change is lost, after it happened and
before it: nothing may be lost or made twice. `CALLERS` names every place that changes nodes; the
last tests fail when there is another one, or one that goes around the helper.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple

import pytest

from odradek.cluster.elections import after_loss, unclean
from odradek.cluster.reassignment import reassign
from odradek.cluster.state_changes import change_states
from odradek.cluster.topics import NewTopic
from odradek.invariants import InvariantViolation
from odradek.metadata import (
    ClusterImage,
    PartitionImage,
    Set,
    node_values,
    paths,
)
from odradek.metadata.compare_and_set import attempt
from odradek.metadata.memory import LostReply
from odradek.metadata.node_values import PartitionState
from odradek.protocol.acls import (
    AccessEntry,
    AclFilter,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from odradek.protocol.acls import Operation as Action
from odradek.protocol.types import BrokerId, TopicPartition
from tests.unit.cluster.racing import Broker, Pair, setting

"""Whoever adds a place here adds a kind below, or a test of two writers elsewhere: adoption is
tested in `test_lost_store`, ids of brokers in `test_broker_ids`, seat and registration in
`test_controller`, ISRs by the cluster scenario of the simulation."""


def entry(name: str) -> AccessEntry:
    return AccessEntry(f"User:{name}", "*", Action.READ, Permission.ALLOW)


PATTERN = ResourcePattern(ResourceType.TOPIC, "t", PatternType.LITERAL)


class Kind(NamedTuple):
    """`change(broker)` makes the change of that broker; `both` says whether both are there, given
    what they returned (None where only the first was asked)."""

    change: Callable[[Broker], Awaitable[object]]
    is_made: Callable[[Pair, set[int]], bool]
    before: Callable[[Broker], Awaitable[object]] | None = None


def _name(number: int) -> str:
    return {1: "retention.ms", 2: "segment.ms"}[number]


async def _topic_setting(broker: Broker) -> None:
    change = setting(_name(broker.number), "86400000")
    await broker.configs.change_topic("t", change, validate_only=False)


async def _broker_setting(broker: Broker) -> None:
    name = {1: "log.cleaner.threads", 2: "num.io.threads"}[broker.number]
    await broker.configs.change_broker("", setting(name, "2"), validate_only=False)


async def _group_setting(broker: Broker) -> None:
    name = {1: "consumer.session.timeout.ms", 2: "consumer.heartbeat.interval.ms"}[broker.number]
    value = {1: "50000", 2: "6000"}[broker.number]
    await broker.configs.change_group("g", setting(name, value), validate_only=False)


async def _user_setting(broker: Broker) -> None:
    await broker.configs.change_user("u", setting(f"mechanism-{broker.number}", "key"))


async def _add_rule(broker: Broker) -> None:
    await broker.rules.add(PATTERN, [entry(str(broker.number))])


async def _add_both_rules(broker: Broker) -> None:
    await broker.rules.add(PATTERN, [entry("1"), entry("2"), entry("3")])


async def _remove_rule(broker: Broker) -> None:
    wanted = AclFilter(
        ResourceType.ANY,
        None,
        PatternType.ANY,
        f"User:{broker.number}",
        None,
        Action.ANY,
        Permission.ANY,
    )
    assert await broker.rules.remove(PATTERN, wanted) == (entry(str(broker.number)),)


async def _move(broker: Broker) -> None:
    index = broker.number - 1
    wanted = list(map(BrokerId, {0: [3, 2], 1: [4, 1]}[index]))
    assert await reassign(broker.images, "t", {index: wanted}) == {}


async def _elect(broker: Broker) -> None:
    """Each takes the other away as leader of one partition."""
    where = TopicPartition("t", broker.number - 1)

    def decide(image: ClusterImage, partition: PartitionImage) -> PartitionState | None:
        return after_loss(partition, {BrokerId(3 - broker.number)}, image.controller_epoch)

    await change_states(broker.images, [where], decide, "test")


async def _grow_or_move(broker: Broker) -> None:
    if broker.number == 1:
        await broker.topics.add_partitions(
            "t", 4, [[BrokerId(3), BrokerId(4)], [BrokerId(4), BrokerId(3)]]
        )
    else:
        await _move(broker)


async def _create(broker: Broker) -> None:
    await broker.topics.create(NewTopic(f"new-{broker.number}", 2, 2))


def _entries(pair: Pair) -> set[AccessEntry]:
    return set(pair.image.acls.get(PATTERN, ()))


def _settings_of_user(pair: Pair) -> Mapping[str, str]:
    path = paths.user_config_path("u")
    node = pair.metadata.tree.get(path)
    return {} if node is None else node_values.ConfigOverrides.decode(path, node.value).settings


KINDS: dict[str, Kind] = {
    "settings of a topic": Kind(
        _topic_setting,
        lambda pair, who: set(pair.image.topic_overrides("t")) == set(map(_name, who)),
    ),
    "settings of all brokers": Kind(
        _broker_setting,
        lambda pair, who: len(pair.image.cluster_default_config) == len(who),
    ),
    "settings of a group": Kind(
        _group_setting, lambda pair, who: len(pair.image.group_config("g")) == len(who)
    ),
    "credentials of a user": Kind(
        _user_setting, lambda pair, who: len(_settings_of_user(pair)) == len(who)
    ),
    "ACLs that are added": Kind(
        _add_rule, lambda pair, who: _entries(pair) == {entry(str(one)) for one in who}
    ),
    "ACLs that are removed": Kind(
        _remove_rule,
        lambda pair, who: _entries(pair) == {entry(str(one)) for one in {1, 2, 3} - who},
        _add_both_rules,
    ),
    "moves of two partitions": Kind(
        _move,
        lambda pair, who: (
            {one.partition + 1 for one in pair.image.topics["t"].partitions if one.adding} == who
        ),
    ),
    "leaders of two partitions": Kind(
        _elect,
        lambda pair, who: (
            [one.leader for one in pair.image.topics["t"].partitions]
            == [2 if 1 in who else 1, 1 if 2 in who else 2]
        ),
    ),
    "growth during a move": Kind(
        _grow_or_move,
        lambda pair, who: (
            len(pair.image.topics["t"].partitions) == (4 if 1 in who else 2)
            and bool(pair.image.topics["t"].partitions[1].adding) == (2 in who)
        ),
    ),
    "topics": Kind(
        _create,
        lambda pair, who: all(len(pair.image.topics[f"new-{one}"].partitions) == 2 for one in who),
    ),
}


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
async def test_two_changes_at_the_same_moment_are_both_there(kind: Kind) -> None:
    pair = Pair()
    await pair.prepare()
    if kind.before is not None:
        await kind.before(pair.second)
    pair.racing.rival = lambda: kind.change(pair.second)
    await kind.change(pair.first)
    assert pair.racing.has_raced
    assert kind.is_made(pair, {1, 2})


@pytest.mark.parametrize("outcome", LostReply)
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
async def test_a_change_whose_reply_is_lost_is_made_once(kind: Kind, outcome: LostReply) -> None:
    pair = Pair()
    await pair.prepare()
    if kind.before is not None:
        await kind.before(pair.second)
    pair.metadata.faults.lose_next_reply(outcome)
    await kind.change(pair.first)
    assert kind.is_made(pair, {1})


async def test_a_replica_that_a_cancelled_move_has_dropped_is_not_elected() -> None:
    """A cancelled move leaves the partition's state as it is, so its version does not tell."""
    pair = Pair()
    await pair.prepare()
    new = BrokerId(3)
    assert await reassign(pair.first.images, "t", {0: [new, BrokerId(2)]}) == {}
    await pair.second.images.catch_up(paths.topic_path("t"))

    def decide(image: ClusterImage, partition: PartitionImage) -> PartitionState | None:
        return unclean(partition, new, {new}, image.controller_epoch)

    pair.racing.rival = lambda: reassign(pair.second.images, "t", {0: None})
    await change_states(pair.first.images, [TopicPartition("t", 0)], decide, "test")
    assert pair.racing.has_raced
    (partition, _) = pair.image.topics["t"].partitions
    assert (partition.replicas, partition.leader, partition.isr) == ((2, 1), 1, (1, 2))


async def test_two_brokers_never_give_away_the_same_producer_id() -> None:
    pair = Pair()
    await pair.prepare()
    given: list[int] = []

    async def rival() -> None:
        given.append(await pair.second.producer_ids.next())

    pair.racing.rival = rival
    given.append(await pair.first.producer_ids.next())
    assert len(set(given)) == 2


@pytest.mark.parametrize("outcome", LostReply)
async def test_a_block_of_producer_ids_whose_reply_was_lost_is_given_to_nobody_else(
    outcome: LostReply,
) -> None:
    pair = Pair()
    await pair.prepare()
    pair.metadata.faults.lose_next_reply(outcome)
    first = [await pair.first.producer_ids.next() for _ in range(1000)]
    second = [await pair.second.producer_ids.next() for _ in range(1000)]
    assert not set(first) & set(second)


async def test_whoever_would_overwrite_blindly_is_stopped() -> None:
    pair = Pair()
    await pair.prepare()
    with pytest.raises(InvariantViolation, match="overwrites"):
        await attempt(pair.first.images, Set(paths.topic_path("t"), b""))
