"""Every change of the metadata store survives another one that is made at the same moment.

For each kind of change, a rival makes its own change between the reading and the writing of the
first; afterwards both must be there. Then the reply to the change is lost, after it happened and
before it: nothing may be lost or made twice. `CALLERS` names every place that changes nodes; the
last tests fail when there is another one, or one that goes around the helper.
"""

import ast
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest

import odradek
from odradek.cluster.acls import AclStore
from odradek.cluster.configs import Configs
from odradek.cluster.elections import after_loss
from odradek.cluster.producer_ids import ProducerIds
from odradek.cluster.reassignment import reassign
from odradek.cluster.state_changes import change_states
from odradek.cluster.topics import NewTopic, Topics
from odradek.config import BrokerSettings, parse_listener
from odradek.config.live import LiveSettings
from odradek.invariants import InvariantViolation
from odradek.metadata import (
    ClusterImage,
    Create,
    MetadataCache,
    Operation,
    PartitionImage,
    Set,
    node_values,
    paths,
    store_setup,
)
from odradek.metadata.compare_and_set import attempt
from odradek.metadata.memory import LostReply, MemoryMetadata, MemorySession
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
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.types import BrokerId, LeaderEpoch, TopicPartition
from odradek.world import Randomness

CALLERS = {
    "cluster.acls:AclStore._change",
    "cluster.adoption:_adopt_topic",
    "cluster.broker_ids:next_broker_id",
    "cluster.configs:Configs._change",
    "cluster.controller:Controller._become_controller",
    "cluster.controller:Controller._withdraw",
    "cluster.membership:Membership._bump_epoch",
    "cluster.membership:Membership._register",
    "cluster.producer_ids:ProducerIds._take_block",
    "cluster.producer_ids:start_above",
    "cluster.reassignment:write_steps",
    "cluster.state_changes:change_states",
    "cluster.topics:Topics._add_partitions",
    "cluster.topics:Topics._delete",
    "cluster.topics:Topics._is_taken",
    "cluster.topics:Topics._write_new",
    "replication.isr_changes:IsrChanges._write",
}
"""Whoever adds a place here adds a kind below, or a test of two writers elsewhere: adoption is
tested in `test_lost_store`, ids of brokers in `test_broker_ids`, seat and registration in
`test_controller`, ISRs by the cluster scenario of the simulation."""

_HELPERS = {"attempt", "change_node", "write"}


class RacingSession(MemorySession):
    """Lets a rival go first, once, when the next change is about to be written."""

    rival: Callable[[], Awaitable[object]] | None = None
    has_raced = False

    async def multi(self, *operations: Operation) -> list[int]:
        rival, self.rival = self.rival, None
        if rival is not None:
            await rival()
            self.has_raced = True
        return await super().multi(*operations)


class Broker:
    """What one broker changes the store with."""

    def __init__(self, number: int, store: MemorySession) -> None:
        self.number = number
        self.store = store
        self.images = MetadataCache(store)
        settings = LiveSettings(BrokerSettings())
        self.topics = Topics(store, self.images, settings, Randomness(number))
        self.configs = Configs(store, self.images, settings)
        self.rules = AclStore(store, self.images)
        self.producer_ids = ProducerIds(self.images, BrokerId(number))


class Pair:
    """Two brokers on one store, with a topic `t` of two partitions on brokers 1 and 2 of 4."""

    def __init__(self) -> None:
        self.metadata = MemoryMetadata()
        self.racing = RacingSession(self.metadata)
        self.first = Broker(1, self.racing)
        self.second = Broker(2, self.metadata.connect())

    async def prepare(self) -> None:
        await store_setup.prepare_store(self.second.store, "cluster")
        for number in range(1, 5):
            listeners = (parse_listener(f"PLAINTEXT://h:{number}"),)
            registration = node_values.BrokerRegistration(
                listeners, {"PLAINTEXT": "PLAINTEXT"}
            ).encode()
            node = Create(paths.broker_path(number), registration, ephemeral=True)
            await self.second.store.multi(node)
        await self.second.images.load()
        await self.second.topics.create(NewTopic("t", assignment={0: [1, 2], 1: [2, 1]}))
        await self.first.images.load()

    @property
    def image(self) -> ClusterImage:
        from tests.unit.metadata.images import image_of

        return image_of(self.metadata.tree.read_tree("/"))


def setting(name: str, value: str) -> Callable[[Mapping[str, str]], Mapping[str, str]]:
    return lambda before: {**before, name: value}


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
    wanted = {0: [3, 2], 1: [4, 1]}[index]
    assert await reassign(broker.images, "t", {index: wanted}) == {}


async def _elect(broker: Broker) -> None:
    """Each takes the other away as leader of one partition."""
    where = TopicPartition("t", broker.number - 1)

    def decide(image: ClusterImage, partition: PartitionImage) -> PartitionState | None:
        return after_loss(partition, {3 - broker.number}, image.controller_epoch)

    await change_states(broker.images, [where], decide, "test")


async def _grow_or_move(broker: Broker) -> None:
    if broker.number == 1:
        await broker.topics.add_partitions("t", 4, [[3, 4], [4, 3]])
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


async def test_settings_that_were_emptied_and_made_again_are_not_overwritten() -> None:
    """The node would have the same version again if it were deleted in between."""
    pair = Pair()
    await pair.prepare()
    await pair.second.configs.change_topic("t", setting("segment.ms", "1"), validate_only=False)

    async def rival() -> None:
        await pair.second.configs.change_topic("t", lambda _: {}, validate_only=False)
        await pair.second.configs.change_topic("t", setting("segment.ms", "2"), validate_only=False)

    pair.racing.rival = rival
    await pair.first.configs.change_topic("t", setting("retention.ms", "3"), validate_only=False)
    assert pair.image.topic_overrides("t") == {"segment.ms": "2", "retention.ms": "3"}


@pytest.mark.parametrize("by_id", [True, False])
async def test_a_slow_delete_leaves_a_topic_that_was_made_again_meanwhile(by_id: bool) -> None:
    pair = Pair()
    await pair.prepare()
    topic_id = pair.image.topics["t"].topic_id

    async def rival() -> None:
        await pair.second.topics.delete("t")
        await pair.second.topics.create(NewTopic("t", 2, 2))

    pair.racing.rival = rival
    # Somebody has deleted the one that was meant, so there is nothing left to do.
    with pytest.raises(ApiError, match="another topic id") as caught:
        await pair.first.topics.delete("t", topic_id if by_id else None)
    unknown = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert caught.value.code == unknown
    assert pair.image.topics["t"].topic_id != topic_id
    assert len(pair.image.topics["t"].partitions) == 2


async def test_a_repeated_delete_leaves_a_topic_that_was_made_again_meanwhile() -> None:
    pair = Pair()
    await pair.prepare()
    before = pair.image.topics["t"].topic_id
    pair.metadata.faults.lose_next_reply(LostReply.HAPPENED)

    class Remade(MetadataCache):
        """Somebody makes the topic again before this broker has read back."""

        async def caught_up(self, *changed: str) -> ClusterImage:
            if "t" not in pair.image.topics:
                await pair.second.images.caught_up(paths.topic_path("t"))
                await pair.second.topics.create(NewTopic("t", 1, 1))
            return await super().caught_up(*changed)

    images = Remade(pair.racing)
    await images.load()
    settings = LiveSettings(BrokerSettings())
    await Topics(pair.racing, images, settings, Randomness(1)).delete("t")
    assert pair.image.topics["t"].topic_id != before


async def test_a_topic_that_another_broker_deleted_can_be_made_at_once() -> None:
    pair = Pair()
    await pair.prepare()
    await pair.second.topics.delete("t")
    assert "t" in pair.first.images.image.topics  # It has not heard of it yet.
    made = await pair.first.topics.create(NewTopic("t", assignment={0: [2, 1]}))
    assert made.topic_id in pair.image.topics_by_id


async def test_a_topic_that_exists_is_refused_before_anything_else_is_checked() -> None:
    pair = Pair()
    await pair.prepare()
    with pytest.raises(ApiError) as refused:
        await pair.first.topics.create(NewTopic("t", partitions=1, replication_factor=100))
    assert refused.value.code is ErrorCode.TOPIC_ALREADY_EXISTS


async def test_a_topic_that_another_broker_made_can_be_grown_at_once() -> None:
    pair = Pair()
    await pair.prepare()
    await pair.second.topics.create(NewTopic("new", assignment={0: [1, 2]}))
    assert "new" not in pair.first.images.image.topics
    await pair.first.topics.add_partitions("new", 2, [[2, 1]])
    assert len(pair.image.topics["new"].partitions) == 2


async def test_settings_made_while_their_topic_is_deleted_go_with_it() -> None:
    pair = Pair()
    await pair.prepare()

    async def rival() -> None:
        await pair.second.configs.change_topic(
            "t", setting("retention.ms", "1"), validate_only=False
        )

    pair.racing.rival = rival
    await pair.first.topics.delete("t")
    assert pair.racing.has_raced
    assert paths.topic_config_path("t") not in pair.metadata.tree.nodes
    await pair.second.images.caught_up(paths.topic_path("t"))
    await pair.second.topics.create(NewTopic("t", 1, 1))
    assert pair.image.topic_overrides("t") == {}


@pytest.mark.parametrize("overrides", [{}, {"retention.ms": "2"}])
async def test_a_new_topic_replaces_settings_that_were_left_behind(
    overrides: dict[str, str],
) -> None:
    pair = Pair()
    await pair.prepare()
    left = node_values.ConfigOverrides({"retention.ms": "1"}).encode()
    await pair.second.store.multi(Create(paths.topic_config_path("u"), left))

    async def rival() -> None:
        await pair.second.store.multi(Set(paths.topic_config_path("u"), left, 0))

    pair.racing.rival = rival
    await pair.first.topics.create(NewTopic("u", 1, 1, overrides=overrides))
    assert pair.image.topic_overrides("u") == overrides


@pytest.mark.parametrize("had_settings", [True, False])
async def test_a_change_of_settings_carries_nothing_over_to_the_next_topic_of_the_name(
    had_settings: bool,
) -> None:
    """The settings of the second topic have the version that those of the first had."""
    pair = Pair()
    await pair.prepare()
    old = {"retention.ms": "1"} if had_settings else {}
    await pair.second.topics.create(NewTopic("u", 1, 1, overrides=old))
    await pair.first.images.caught_up(paths.topic_path("u"))

    async def rival() -> None:
        await pair.second.topics.delete("u")
        await pair.second.topics.create(NewTopic("u", 1, 1, overrides={"segment.ms": "5"}))

    pair.racing.rival = rival
    await pair.first.configs.change_topic(
        "u", setting("max.message.bytes", "9"), validate_only=False
    )
    assert pair.image.topic_overrides("u") == {"segment.ms": "5", "max.message.bytes": "9"}


async def test_settings_of_a_topic_that_is_gone_are_refused() -> None:
    pair = Pair()
    await pair.prepare()

    async def rival() -> None:
        await pair.second.topics.delete("t")

    pair.racing.rival = rival
    with pytest.raises(ApiError) as caught:
        await pair.first.configs.change_topic(
            "t", setting("retention.ms", "1"), validate_only=False
        )
    assert caught.value.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert paths.topic_config_path("t") not in pair.metadata.tree.nodes


@pytest.mark.parametrize("change", ["grow", "reassign"])
async def test_a_slow_change_of_partitions_leaves_the_next_topic_of_the_name_as_it_is(
    change: str,
) -> None:
    """The nodes of the second topic have the versions that those of the first had."""
    pair = Pair()
    await pair.prepare()

    async def rival() -> None:
        await pair.second.topics.delete("t")
        await pair.second.topics.create(NewTopic("t", assignment={0: [3, 4], 1: [4, 3]}))

    pair.racing.rival = rival
    before = pair.image.topics["t"]
    with suppress(ApiError):
        if change == "grow":
            await pair.first.topics.add_partitions("t", 3, [[1, 2]])
        else:
            await reassign(pair.first.images, "t", {0: [1, 3]})
    assert pair.racing.has_raced
    after = pair.image.topics["t"]
    stored = node_values.TopicAssignment.decode(
        paths.topic_path("t"), pair.metadata.tree.nodes[paths.topic_path("t")].value
    )
    assert after.topic_id != before.topic_id
    assert paths.topic_id_path("t", stored.topic_id) in pair.metadata.tree.nodes
    assert set(after.partitions[1].replicas) == {3, 4}
    assert after.partitions[0].leader in after.partitions[0].replicas


async def test_a_slow_election_leaves_the_next_topic_of_the_name_as_it_is() -> None:
    """The states of the second topic have the versions that those of the first had."""
    pair = Pair()
    await pair.prepare()
    where = TopicPartition("t", 0)
    first_id = pair.image.topics["t"].topic_id

    async def rival() -> None:
        await pair.second.topics.delete("t")
        await pair.second.topics.create(NewTopic("t", assignment={0: [3, 4], 1: [4, 3]}))

    def decide(image: ClusterImage, partition: PartitionImage) -> PartitionState | None:
        if image.topics["t"].topic_id != first_id:
            return None
        return PartitionState(BrokerId(2), LeaderEpoch(1), (2,), 1)

    pair.racing.rival = rival
    await change_states(pair.first.images, [where], decide, "test")
    assert pair.racing.has_raced
    assert pair.image.topics["t"].topic_id != first_id
    assert pair.image.topics["t"].partitions[0].leader == 3


async def test_whoever_would_overwrite_blindly_is_stopped() -> None:
    pair = Pair()
    await pair.prepare()
    with pytest.raises(InvariantViolation, match="overwrites"):
        await attempt(pair.first.images, Set(paths.topic_path("t"), b""))


# What the sources say


def _calls() -> dict[str, set[str]]:
    """The functions awaited in each function of rooms that may import `odradek.metadata`."""
    root = Path(odradek.__file__).parent
    found: dict[str, set[str]] = {}
    for path in sorted(root.rglob("*.py")):
        module = ".".join(path.relative_to(root).with_suffix("").parts)
        if not module.startswith(("metadata", "client")):
            _collect(ast.parse(path.read_text()), f"{module}:", found)
    return found


def _collect(node: ast.AST, where: str, found: dict[str, set[str]]) -> None:
    for child in ast.iter_child_nodes(node):
        inner = where
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            inner = where + ("" if where.endswith(":") else ".") + child.name
        if isinstance(child, ast.Await) and isinstance(child.value, ast.Call):
            found.setdefault(where, set()).add(ast.unparse(child.value.func))
        _collect(child, inner, found)


def test_every_place_that_changes_nodes_is_known() -> None:
    places = {where for where, called in _calls().items() if called & _HELPERS}
    assert places == CALLERS


def test_nobody_goes_around_the_helper() -> None:
    around = {
        where
        for where, called in _calls().items()
        if any(name.endswith((".multi", "images.write", "cache.write")) for name in called)
    }
    assert around == set()
