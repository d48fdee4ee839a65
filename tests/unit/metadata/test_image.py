"""The picture of the cluster: whole, step by step, and the same either way."""

import asyncio
from collections.abc import Coroutine
from itertools import count, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.config import Listener
from odradek.metadata import (
    Create,
    Delete,
    ImageChange,
    MetadataCache,
    MetadataStore,
    Operation,
    OperationFailed,
    OutcomeUnknown,
    SessionExpired,
    Set,
    StoreUnavailable,
    node_values,
    paths,
    store_setup,
    topic_operations,
)
from odradek.metadata.compare_and_set import change_node
from odradek.metadata.image import ClusterImage, difference
from odradek.metadata.memory import LostReply, MemoryMetadata, StoreFaults
from odradek.metadata.store import EVERYTHING
from odradek.protocol.types import BrokerId, LeaderEpoch, TopicId
from odradek.world.timeslice import measured_by
from tests.unit.metadata.images import image_of

PLAIN = {"PLAINTEXT": "PLAINTEXT"}


def run(scenario: Coroutine[None, None, None]) -> None:
    asyncio.run(scenario)


def topic_id(number: int) -> TopicId:
    return TopicId(number.to_bytes(16, "big"))


def state(leader: BrokerId = BrokerId(1), epoch: int = 0) -> node_values.PartitionState:
    return node_values.PartitionState(leader, LeaderEpoch(epoch), (leader,), 1)


def topic(name: str, number: int, partitions: int = 2, **overrides: str) -> list[Operation]:
    assignment = node_values.TopicAssignment(
        topic_id(number), ((BrokerId(1), BrokerId(2)),) * partitions
    )
    return topic_operations.create_topic(name, assignment, [state()] * partitions, overrides, None)


def broker(number: int, rack: str | None = None) -> Create:
    registration = node_values.BrokerRegistration(
        (Listener("PLAINTEXT", "h", number),), PLAIN, rack
    )
    return Create(paths.broker_path(number), registration.encode(), ephemeral=True)


async def keeper_on(store: MetadataStore) -> MetadataCache:
    await store_setup.prepare_store(store, "cluster")
    keeper = MetadataCache(store)
    await keeper.load()
    return keeper


async def from_scratch(store: MetadataStore, number: int) -> ClusterImage:
    return image_of(await store.read_tree("/"), number)


def test_an_image_shows_everything() -> None:
    async def scenario() -> None:
        store = MemoryMetadata().connect()
        keeper = await keeper_on(store)
        await keeper.write(broker(2, "east"), broker(1))
        await keeper.write(*topic("t", 7, retention="1"))
        await keeper.write(
            Create(paths.CONTROLLER, node_values.Controller(BrokerId(1)).encode(), ephemeral=True),
            Create(paths.CONTROLLER_EPOCH, node_values.encode_controller_epoch(3)),
            Create(paths.broker_config_path(1), node_values.ConfigOverrides({"a": "1"}).encode()),
            Create(
                paths.broker_config_path(paths.CLUSTER_DEFAULT),
                node_values.ConfigOverrides({"b": "2"}).encode(),
            ),
            Create(
                paths.group_config_path("a/b"), node_values.ConfigOverrides({"c": "3"}).encode()
            ),
            Create(f"{paths.DELETE_TOPICS}/old"),
        )
        image = keeper.image
        assert image.cluster_id == "cluster"
        assert (image.controller_id, image.controller_epoch) == (1, 3)
        assert list(image.brokers) == [1, 2]
        assert image.brokers[BrokerId(2)].rack == "east"
        assert image.brokers[BrokerId(2)].listener("PLAINTEXT") == Listener("PLAINTEXT", "h", 2)
        assert image.brokers[BrokerId(2)].listener("OTHER") is None
        found = image.topics["t"]
        assert image.topics_by_id[topic_id(7)] is found
        assert found.overrides == image.topic_overrides("t") == {"retention": "1"}
        partition = image.partition("t", 1)
        assert partition is not None
        assert (partition.partition, partition.replicas, partition.leader) == (1, (1, 2), 1)
        assert (partition.leader_epoch, partition.isr, partition.version) == (0, (1,), 0)
        assert image.offline_replicas(partition) == []
        assert image.partition("t", 2) is image.partition("t", -1) is None
        assert image.partition("none", 0) is None
        assert image.broker_config(1) == {"a": "1"}
        assert image.broker_config(2) == {}
        assert image.cluster_default_config == {"b": "2"}
        assert image.group_config("a/b") == {"c": "3"}
        assert image.group_config("other") == {}
        assert image.topics_to_delete == {"old"}
        assert image == await from_scratch(store, image.number)

    run(scenario())


def test_the_settings_of_a_group_come_change_and_go() -> None:
    async def scenario() -> None:
        store = MemoryMetadata().connect()
        keeper = await keeper_on(store)
        path = paths.group_config_path("g")
        for wanted in ({"a": "1"}, {"a": "2", "b": "1"}, {}):
            value = node_values.ConfigOverrides(wanted).encode()
            await change_node(keeper, path, lambda _, value=value: value)  # type: ignore[misc]
            assert keeper.image.group_config("g") == wanted
            assert keeper.image == await from_scratch(store, keeper.image.number)

    run(scenario())


def test_a_broker_that_leaves_takes_its_replicas_offline_and_comes_back_with_a_new_epoch() -> None:
    async def scenario() -> None:
        metadata = MemoryMetadata()
        mortal, store = metadata.connect(), metadata.connect()
        keeper = await keeper_on(store)
        await keeper.write(broker(1), *topic("t", 7))
        await mortal.multi(broker(2))
        first = (await keeper.catch_up()).brokers[BrokerId(2)].epoch
        partition = keeper.image.topics["t"].partitions[0]
        mortal.expire()
        image = await keeper.catch_up()
        assert list(image.brokers) == [1]
        assert image.offline_replicas(partition) == [2]
        await metadata.connect().multi(broker(2))
        assert (await keeper.catch_up()).brokers[BrokerId(2)].epoch > first

    run(scenario())


def test_what_did_not_change_is_shared() -> None:
    async def scenario() -> None:
        store = MemoryMetadata().connect()
        keeper = await keeper_on(store)
        for number in range(20):
            await keeper.write(*topic(f"t{number}", number + 1))
        before = keeper.image
        path = paths.partition_state_path("t3", 1)
        await keeper.write(Set(path, state(BrokerId(2), 1).encode(), 0))
        after = keeper.image
        assert after.number == before.number + 1
        assert after.topics["t3"].partitions[0] is before.topics["t3"].partitions[0]
        changed = after.topics["t3"].partitions[1]
        assert (changed.leader, changed.leader_epoch, changed.version) == (2, 1, 1)
        assert before.topics["t3"].partitions[1].leader == 1
        for name in before.topics:
            assert (after.topics[name] is before.topics[name]) is (name != "t3")
        assert after.brokers is before.brokers

    run(scenario())


def test_subscribers_hear_what_changed() -> None:
    async def scenario() -> None:
        store = MemoryMetadata().connect()
        keeper = await keeper_on(store)
        heard: list[ImageChange] = []
        keeper.subscribe(heard.append)
        await keeper.write(*topic("a", 1), *topic("b", 2))
        await keeper.write(broker(5))
        await keeper.write(
            Create(paths.broker_config_path(5), node_values.ConfigOverrides({"x": "1"}).encode())
        )
        await keeper.write(
            Create(paths.topic_config_path("a"), node_values.ConfigOverrides({"y": "1"}).encode())
        )
        await keeper.write(Create("/brokers/unknown"))
        await keeper.catch_up(paths.topic_path("a"))
        assert [(sorted(c.topics), sorted(c.brokers), c.broker_configs) for c in heard] == [
            (["a", "b"], [], False),
            ([], [5], False),
            ([], [], True),
            (["a"], [], False),
        ]
        for one, other in pairwise(heard):
            assert one.after is other.before
        assert heard[-1].after is keeper.image

    run(scenario())


def test_changes_come_in_the_order_in_which_they_were_made() -> None:
    """A set of names would come in another order in every process."""
    names = [f"t{number * 7 % 12}" for number in range(12)]

    async def scenario() -> None:
        store = MemoryMetadata().connect()
        keeper = await keeper_on(store)
        heard: list[ImageChange] = []
        keeper.subscribe(heard.append)
        made = [op for number, name in enumerate(names) for op in topic(name, number, 1)]
        before = keeper.image
        await keeper.write(*made)
        assert [list(change.topics) for change in heard] == [names]
        assert list(difference(before, keeper.image).topics) == names

    run(scenario())


def test_a_topic_made_again_has_its_new_id_only() -> None:
    async def scenario() -> None:
        store = MemoryMetadata().connect()
        keeper = await keeper_on(store)
        await keeper.write(*topic("t", 1, 2))
        tree = await store.read_tree(paths.topic_path("t"))
        await store.multi(*topic_operations.delete_topic("t", tree, None))
        await store.multi(*topic("t", 2, 1))
        image = await keeper.catch_up()
        assert len(image.topics["t"].partitions) == 1
        assert list(image.topics_by_id) == [topic_id(2)]

    run(scenario())


def test_run_follows_the_store_until_the_session_ends() -> None:
    async def scenario() -> None:
        metadata = MemoryMetadata(StoreFaults(max_notification_delay_s=0.001))
        writer, store = metadata.connect(), metadata.connect()
        await store_setup.prepare_store(store, "cluster")
        keeper = MetadataCache(store)
        await keeper.load()
        running = asyncio.ensure_future(keeper.run())
        number = keeper.image.number
        await writer.multi(*topic("t", 1))
        assert "t" not in keeper.image.topics
        image = await keeper.newer_than(number)
        assert "t" in image.topics
        # A late notification does not keep a broker from seeing what it wrote itself.
        await keeper.write(*topic("own", 2))
        assert "own" in keeper.image.topics
        store.expire()
        await writer.multi(*topic("later", 3))
        while "later" not in keeper.image.topics:
            await keeper.newer_than(keeper.image.number)
        await store.close()
        with pytest.raises(SessionExpired):
            await running

    run(scenario())


def test_a_partition_without_state_has_no_leader() -> None:
    async def scenario() -> None:
        store = MemoryMetadata().connect()
        keeper = await keeper_on(store)
        assignment = node_values.TopicAssignment(topic_id(1), ((BrokerId(1),),))
        await keeper.write(Create(paths.topic_path("t"), assignment.encode()))
        partition = keeper.image.topics["t"].partitions[0]
        assert (partition.leader, partition.leader_epoch, partition.version) == (-1, -1, -1)
        await keeper.write(
            Create(f"{paths.topic_path('t')}/partitions"),
            *topic_operations.create_partitions("t", 0, [state()]),
        )
        assert keeper.image.topics["t"].partitions[0].leader == 1

    run(scenario())


names = st.sampled_from(["a", "b", "c"])
steps = st.lists(
    st.tuples(
        st.sampled_from(["create", "delete", "grow", "state", "config", "broker", "leave", "all"]),
        names,
        st.integers(0, 3),
    ),
    max_size=25,
)


async def take(store: MetadataStore, step: tuple[str, str, int], serial: int) -> None:
    kind, name, number = step
    tree = await store.read_tree(paths.topic_path(name))
    node = tree.get(paths.topic_path(name))
    if kind == "create":
        await store.multi(*topic(name, serial + 1, number + 1))
    elif kind == "delete" and node is not None:
        config = await store.read(paths.topic_config_path(name))
        await store.multi(*topic_operations.delete_topic(name, tree, config))
    elif kind == "grow" and node is not None:
        old = node_values.TopicAssignment.decode("/", node.value)
        new = old._replace(replicas=(*old.replicas, (BrokerId(number),)))
        more = topic_operations.create_partitions(
            name, len(old.replicas), [state(BrokerId(number))]
        )
        await store.multi(Set(paths.topic_path(name), new.encode()), *more)
    elif kind == "state":
        path = paths.partition_state_path(name, number)
        await store.multi(Set(path, state(BrokerId(number), serial).encode()))
    elif kind == "config":
        path = paths.topic_config_path(name)
        value = node_values.ConfigOverrides({"k": str(serial)} if number else {}).encode()
        found = await store.read(path)
        await store.multi(Create(path, value) if found is None else Set(path, value))
    elif kind == "broker":
        await store.multi(broker(number))
    elif kind == "leave":
        await store.multi(Delete(paths.broker_path(number)))


@settings(deadline=None, max_examples=60)
@given(steps, st.sets(st.integers(0, 24)))
def test_step_by_step_gives_what_a_fresh_look_gives(
    taken: list[tuple[str, str, int]], looks: set[int]
) -> None:
    async def scenario() -> None:
        store = MemoryMetadata().connect()
        keeper = await keeper_on(store)
        for serial, step in enumerate(taken):
            try:
                await take(store, step, serial)
            except OperationFailed:
                continue
            if serial in looks:
                await keeper.catch_up(*(["/"] if step[0] == "all" else []))
        image = await keeper.catch_up()
        assert image == await from_scratch(store, image.number)

    run(scenario())


def test_the_image_waits_while_the_store_is_away_and_then_tells_the_difference() -> None:
    async def scenario() -> None:
        metadata = MemoryMetadata()
        store, other = metadata.connect(), metadata.connect()
        keeper = await keeper_on(store)
        await keeper.write(*topic("kept", 1), broker(5))
        running = asyncio.ensure_future(keeper.run())
        heard: list[ImageChange] = []
        keeper.subscribe(heard.append)
        before = keeper.image
        store.cut()
        await other.multi(*topic("new", 2), Delete(paths.broker_path(5)))
        with pytest.raises(StoreUnavailable):
            await keeper.catch_up(EVERYTHING)
        with pytest.raises(StoreUnavailable):
            await keeper.write(*topic("refused", 3))
        assert keeper.image is before
        assert not running.done()
        store.reconnect()
        image = await keeper.newer_than(before.number)
        assert sorted(image.topics) == ["kept", "new"]
        assert [(change.before, [*change.topics], [*change.brokers]) for change in heard] == [
            (before, ["new"], [5])
        ]
        running.cancel()

    run(scenario())


def test_after_an_expiry_the_registration_is_missing_from_the_image() -> None:
    async def scenario() -> None:
        store = MemoryMetadata(session_timeout_ms=1).connect()
        keeper = await keeper_on(store)
        await keeper.write(broker(5)._replace(ephemeral=True))
        running = asyncio.ensure_future(keeper.run())
        session_id, number = store.session_id, keeper.image.number
        store.cut()
        asyncio.get_running_loop().call_later(0.01, store.reconnect)
        assert 5 not in (await keeper.newer_than(number)).brokers
        assert await store.next_session(session_id) != session_id
        await keeper.write(broker(5)._replace(ephemeral=True))
        assert 5 in keeper.image.brokers
        running.cancel()

    run(scenario())


def test_a_notice_whose_reading_was_cancelled_is_read_all_the_same() -> None:
    """A client that hangs up must not take the news of others with it."""

    async def scenario() -> None:
        store = MemoryMetadata().connect()
        keeper = await keeper_on(store)
        before = keeper.image.number
        async with keeper._refreshing:
            await store.multi(*topic("t", 1))
            reading = asyncio.ensure_future(keeper.catch_up())
            await asyncio.sleep(0)
            reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        async with asyncio.timeout(5):
            await keeper.newer_than(before)
        assert "t" in keeper.image.topics

    run(scenario())


def test_after_an_unknown_outcome_the_image_holds_what_happened() -> None:
    async def scenario() -> None:
        metadata = MemoryMetadata()
        store = metadata.connect()
        keeper = await keeper_on(store)
        metadata.faults.lose_next_reply(LostReply.HAPPENED)
        with pytest.raises(OutcomeUnknown):
            await keeper.write(*topic("t", 1))
        assert "t" in (await keeper.catch_up()).topics

    run(scenario())


def test_a_wide_topic_is_drawn_by_turns() -> None:
    """Each reading of the stopwatch takes a millisecond here, so each step does."""

    async def scenario() -> None:
        keeper = await keeper_on(MemoryMetadata().connect())
        turns = 0

        async def others() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        operations = topic("t", 7, 10_000)
        await keeper.store.multi(*operations)
        waiting = asyncio.create_task(others())
        await keeper.catch_up(*(operation.path for operation in operations))
        waiting.cancel()
        assert len(keeper.image.topics["t"].partitions) == 10_000
        # 10,000 partitions are 50 steps, and 20,000 paths and nodes are 60 more; five a turn.
        assert turns > 15
        assert keeper.image == await from_scratch(keeper.store, keeper.image.number)

    ticks = count()
    with measured_by(lambda: next(ticks) / 1000):
        run(scenario())


def test_a_change_names_the_partitions_that_differ() -> None:
    async def scenario() -> None:
        keeper = await keeper_on(MemoryMetadata().connect())
        changes: list[ImageChange] = []
        await keeper.write(*topic("t", 7, 50))
        keeper.subscribe(changes.append)
        changed = [paths.partition_state_path("t", index) for index in (3, 40)]
        await keeper.write(*(Set(path, state(epoch=1).encode(), 0) for path in changed))
        (change,) = changes
        after = change.after.topics["t"]
        assert [one.partition for one in change.partitions(after)] == [3, 40]
        assert not change.is_reconfigured(after)
        fresh = difference(ClusterImage(), change.after)
        assert len(list(fresh.partitions(after))) == 50
        assert fresh.is_reconfigured(after)

    run(scenario())


def test_topics_that_did_not_change_are_shared_when_everything_is_read_again() -> None:
    async def scenario() -> None:
        keeper = await keeper_on(MemoryMetadata().connect())
        await keeper.write(*topic("t", 7, 5))
        await keeper.write(*topic("u", 8, 5))
        kept = keeper.image.topics["t"]
        await keeper.store.multi(
            Set(paths.partition_state_path("u", 0), state(epoch=1).encode(), 0)
        )
        await keeper.catch_up(EVERYTHING)
        assert keeper.image.topics["u"].partitions[0].leader_epoch == 1
        assert keeper.image.topics["t"] is kept

    run(scenario())
