"""A wrong argument is answered with what to write, and what is clear is taken as it is meant."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from odradek.client import arguments
from odradek.client.admin.acls import ANY_ACL
from odradek.client.admin.admin import Admin
from odradek.client.admin.config_types import ConfigChange, ConfigResource, ConfigType
from odradek.client.admin.group_types import GroupOffset
from odradek.client.admin.topic_types import NewPartitions, NewTopic
from odradek.client.consumer.consumer import Consumer, OffsetAndMetadata
from odradek.client.consumer.dead_letters import Retrying
from odradek.client.errors import SettingsError
from odradek.client.producer.producer import Producer
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.types import TopicPartition
from simulation.world import Simulation
from tests.unit.client.consumer.reading import T0, T1, consumer, fill, read
from tests.unit.client.group_cluster import BOOTSTRAP, GroupCluster, on_groups, with_groups
from tests.unit.client.mini_cluster import MiniCluster
from tests.unit.client.simulated import in_simulation

Call = Callable[[Any], Any]
A_TOPIC = ConfigResource(ConfigType.TOPIC, "t")

WRONG_FOR_CONSUMER: list[tuple[Call, str]] = [
    (lambda one: one.seek(T0, "0"), "seek() needs offset as an integer, not '0': write offset=0"),
    (lambda one: one.seek("t", 0), "needs a partition, not 't': write TopicPartition('t', 0)"),
    (lambda one: one.seek(("t", "0"), 0), "not ('t', '0'): write TopicPartition('t', 0)"),
    (lambda one: one.seek(T0, -1), "an offset cannot be negative"),
    (lambda one: one.seek(T0, 2**63), "seek(): offset=9223372036854775808 must be at most"),
    (lambda one: one.seek(T0, 0, 2**31), "seek(): leader_epoch=2147483648 must be at most"),
    (lambda one: one.seek_to_timestamp(2**63), "timestamp_ms=9223372036854775808 must be at most"),
    (lambda one: one.seek_to_timestamp(1.5), "write timestamp_ms=int(time.time() * 1000)"),
    (lambda one: one.seek_to_timestamp(-1), "a time cannot be before 1970"),
    (lambda one: one.seek_to_end("t"), "write [TopicPartition('t', 0)]"),
    (lambda one: one.pause(0), "pause() needs partitions, not 0"),
    (lambda one: one.position("t"), "position() needs a partition, not 't'"),
    (lambda one: one.lag(None), "lag() needs a partition, not None"),
    (lambda one: one.assign("t"), "write [TopicPartition('t', 0)], or subscribe([\"topic\"])"),
    (lambda one: one.assign(["t"]), "write TopicPartition('t', 0), or subscribe([\"topic\"])"),
    (lambda one: one.assign({"t": 0}), "assign() needs a partition, not 't'"),
    (lambda one: one.assign([("t", 2**31)]), "assign(): partition=2147483648 must be at most"),
    (lambda one: one.assign([T0, ("a\ud800", 0)]), "must be the name of a topic, not 'a\\ud800'"),
    (lambda one: one.assign([T0, ("a" * 250, 0)]), "it has 250 characters, and 249 are allowed"),
    (lambda one: one.assign(5), "assign() needs partitions, not 5"),
    (lambda one: one.subscribe([5]), "subscribe() needs names of topics as text, not 5"),
    (lambda one: one.subscribe(5), "subscribe() needs names of topics as text, not 5"),
    (lambda one: one.subscribe(["^t.*"]), "'^t.*' is no topic: write subscribe(pattern='^t.*')"),
    (lambda one: one.subscribe(pattern="("), "pattern='(' is no regular expression: missing )"),
    (lambda one: one.subscribe(pattern=""), "pattern='' matches no topic"),
    (lambda one: one.subscribe([""]), "subscribe(): the name of a topic is empty"),
    (lambda one: one.subscribe(pattern=b"t"), "subscribe() needs pattern as text, not b't'"),
    (lambda one: one.subscribe(["t"], listener=print), "a listener with on_partitions_assigned or"),
    (
        lambda one: one.commit(5),
        "commit() needs a dict, not 5: write {TopicPartition('topic', 0): ",
    ),
    (lambda one: one.commit([T0]), "commit() needs a dict, not [TopicPartition("),
    (lambda one: one.commit({T0: -1}), "an offset cannot be negative"),
    (lambda one: one.commit({T0: "5"}), "commit() needs offset as an integer, not '5'"),
    (lambda one: one.commit({T0: (5, None)}), "commit() needs metadata as text, not None"),
    (lambda one: one.commit({"t": 5}), "commit() needs a partition, not 't'"),
    (lambda one: one.commit(timeout_ms=0.5), "write timeout_ms=500 for 0.5 s"),
    (lambda one: one.commit_async({T0: 5}, 5), "commit_async() needs on_commit as a function"),
    (lambda one: one.committed("t"), "committed() needs partitions, not 't'"),
    (lambda one: one.end_offsets(["t"]), "end_offsets() needs a partition, not 't'"),
    (lambda one: one.beginning_offsets("t"), "write [TopicPartition('t', 0)]"),
    (lambda one: one.offsets_for_times({T0: "now"}), "needs timestamp_ms as an integer"),
    (lambda one: one.offsets_for_times([T0]), "offsets_for_times() needs a dict"),
    (lambda one: one.partitions_for(5), "partitions_for() needs the name of a topic as text"),
    (lambda one: one.partitions_for(b"t"), "not b't': write 't'"),
    (lambda one: one.get("t", 5), "get() needs a key as bytes or text, not 5: write b'5'"),
    (lambda one: one.get("t", ["a", "b"]), "get() needs a key as bytes or text, not ['a', 'b']"),
    (lambda one: one.get_many("t", 5), "get_many() needs a key as bytes or text, not 5"),
    (lambda one: one.get_many("t", [None]), "get_many() needs a key as bytes or text, not None"),
    (lambda one: one.poll("1"), "poll() needs timeout_ms as an integer, not '1'"),
    (lambda one: one.poll(1.5), "poll() counts milliseconds: write timeout_ms=1500 for 1.5 s"),
    (lambda one: one.poll(-1), "timeout_ms=-1: a time to wait cannot be negative"),
    (lambda one: one.commit(timeout_ms=-1), "commit(): timeout_ms=-1: a time to wait cannot be"),
    (lambda one: one.poll(1, 0), "poll(): max_records=0 must be at least 1"),
    (lambda one: one.poll(1, "5"), "poll() needs max_records as an integer, not '5'"),
]


@in_simulation()
async def test_a_consumer_says_what_to_write(brokers: MiniCluster, simulation: Simulation) -> None:
    (log,) = brokers.create("t")
    fill(log, range(3))
    async with Consumer(bootstrap_servers=brokers.bootstrap, group_id="g") as one:
        for call, line in WRONG_FOR_CONSUMER:
            with pytest.raises((TypeError, ValueError)) as raised:
                await call(one)
            assert line in str(raised.value)
            assert "\n" not in str(raised.value)
    async with consumer(brokers, simulation) as two:
        two.assign(T0)
        assert len(await read(two, 3)) == 3, "nothing of it has harmed the others"


WRONG_FOR_ADMIN: list[tuple[Call, str]] = [
    (lambda admin: admin.create_topics([5]), "create_topics() needs topics as NewTopic, not 5"),
    (lambda admin: admin.create_topic(5), "NewTopic() needs the name of a topic as text, not 5"),
    (lambda admin: NewTopic("t", "3"), "needs partitions as an integer, not '3': write part"),  # type: ignore[arg-type]
    (lambda admin: NewTopic("t", 2**31), "NewTopic(): partitions=2147483648 must be at most"),
    (lambda admin: NewTopic("t", num_partitions=3), "write NewTopic(name, partitions=3)"),  # type: ignore[call-arg]
    (lambda admin: NewTopic("t", topic_configs={}), "write NewTopic(name, configs={...})"),  # type: ignore[call-arg]
    (lambda admin: NewTopic("t", configs="x"), "NewTopic() needs a dict, not 'x'"),  # type: ignore[arg-type]
    (lambda admin: NewPartitions(total_count=3), "write NewPartitions(total=6)"),  # type: ignore[call-arg]
    (lambda admin: admin.create_partitions({"t": "3"}), "needs total as an integer, not '3'"),
    (lambda admin: admin.create_partitions("t"), "needs a dict, not 't': write {\"topic\": 6}"),
    (lambda admin: admin.delete_topics([5]), "delete_topics() needs names of topics as text"),
    (lambda admin: admin.delete_topic(["t"]), "needs the name of a topic as text, not ['t']"),
    (lambda admin: admin.describe_topics(None), "describe_topics() needs names of topics as text"),
    (lambda admin: admin.describe_configs("t"), 'write ConfigResource(ConfigType.TOPIC, "topic")'),
    (
        lambda admin: admin.describe_configs([ConfigResource("topic", "t")]),  # type: ignore[arg-type]
        "needs a type of resource, not 'topic': write ConfigResource(ConfigType.TOPIC",
    ),
    (
        lambda admin: admin.incremental_alter_configs({A_TOPIC: {"retention.ms": "1"}}),
        "needs changes, not 'retention.ms': write [ConfigChange(",
    ),
    (
        lambda admin: admin.alter_configs({A_TOPIC: {"cleanup.policy": ["compact", "delete"]}}),
        "as text or a number, not ['compact', 'delete']: write \"compact,delete\"",
    ),
    (lambda admin: admin.list_offsets({T0: "x"}), "needs timestamp_ms as an integer, not 'x'"),
    (lambda admin: admin.delete_records({T0: -2}), "offset=-2 must be at least -1"),
    (lambda admin: admin.delete_records([T0]), "delete_records() needs a dict"),
    (lambda admin: admin.describe_log_dirs("1"), "needs ids of brokers, not '1': write [1, 2]"),
    (lambda admin: admin.elect_leaders("x"), "write ElectionType.PREFERRED"),
    (lambda admin: admin.alter_partition_reassignments({T0: "12"}), "needs ids of brokers"),
    (lambda admin: admin.describe_groups([None]), "needs names of groups as text, not None"),
    (lambda admin: admin.alter_group_offsets("g", {T0: -1}), "an offset cannot be negative"),
    (lambda admin: admin.alter_group_offsets(5, {T0: 1}), "needs the name of a group as text"),
    (lambda admin: admin.list_group_offsets("g", ["t"]), "needs a partition, not 't'"),
    (lambda admin: admin.remove_members("g", ["m"]), "write [MemberToRemove(member_id)]"),
    (lambda admin: admin.fence_producers(5), "needs names of transactional ids as text, not 5"),
    (lambda admin: admin.create_acls(["x"]), "create_acls() needs ACLs, not 'x'"),
    (lambda admin: admin.delete_topics_by_id(b"x"), "needs ids of 16 bytes, not b'x'"),
    (
        lambda admin: admin.create_topics([NewTopic("t", assignments={0: "1"})]),  # type: ignore[dict-item]
        "create_topics() needs ids of brokers, not '1': write [1, 2]",
    ),
    (
        lambda admin: admin.incremental_alter_configs({A_TOPIC: [ConfigChange("a", 1, "set")]}),  # type: ignore[arg-type]
        "needs an operation, not 'set': write ConfigOperation.SET",
    ),
    (lambda admin: admin.alter_configs({A_TOPIC: {5: "x"}}), "the name of a setting as text"),
    (lambda admin: admin.list_transactions(longer_than_ms=1.5), "write longer_than_ms=1500"),
]


@on_groups()
async def test_an_admin_client_says_what_to_write(cluster: GroupCluster) -> None:
    async with Admin(bootstrap_servers=BOOTSTRAP) as admin:
        for call, line in WRONG_FOR_ADMIN:
            with pytest.raises((TypeError, ValueError)) as raised:
                await call(admin)
            assert line in str(raised.value)


@on_groups()
async def test_one_name_is_not_a_list_of_letters(cluster: GroupCluster) -> None:
    async with Admin(bootstrap_servers=BOOTSTRAP) as admin:
        assert list(await admin.create_topics(["p", "q", NewTopic("pq")])) == ["p", "q", "pq"]
        assert list(await admin.describe_topics("pq")) == ["pq"]
        assert await admin.delete_topics("pq") == {"pq": None}
        assert list(await admin.list_topics()) == ["p", "q"]
        assert list(await admin.create_topics("pq")) == ["pq"]
        for group in ("g", "h", "gh"):
            await admin.alter_group_offsets(group, {TopicPartition("p", 0): 1})
        assert list(await admin.describe_groups("gh")) == ["gh"]
        assert await admin.delete_groups("gh") == {"gh": True}
        assert sorted(listing.group_id for listing in await admin.list_groups()) == ["g", "h"]
        assert list(await admin.list_groups(states="Empty")) != []
        assert list(await admin.fence_producers("tx")) == ["tx"]
        assert list(await admin.delete_acls(ANY_ACL)) == [ANY_ACL]  # type: ignore[arg-type]


@on_groups()
async def test_what_a_consumer_commits_can_be_set_by_an_admin_client(cluster: GroupCluster) -> None:
    await cluster.client.create_topic("t")
    given: Any
    async with Admin(bootstrap_servers=BOOTSTRAP) as admin:
        for given in (OffsetAndMetadata(5, "note"), (5, "note"), GroupOffset(5, -1, "note")):
            assert await admin.alter_group_offsets("g", {T0: given}) == {T0: True}
            assert await admin.list_group_offsets("g") == {T0: GroupOffset(5, -1, "note")}


@on_groups()
async def test_no_names_are_no_topics(cluster: GroupCluster) -> None:
    await cluster.client.create_topic("t")
    async with Admin(bootstrap_servers=BOOTSTRAP) as admin:
        assert [topic async for topic in admin.describe_topic_partitions([])] == []
        assert [topic.name async for topic in admin.describe_topic_partitions("t")] == ["t"]


@on_groups()
async def test_numbers_are_values_of_settings(cluster: GroupCluster) -> None:
    one, topic = ConfigResource(ConfigType.TOPIC, "one"), "retention.ms"
    async with Admin(bootstrap_servers=BOOTSTRAP) as admin:
        await admin.create_topic("one", configs={topic: 1_000, "preallocate": False})
        described = (await admin.describe_configs([one]))[one]
        assert isinstance(described, dict)
        assert (described[topic].value, described["preallocate"].value) == ("1000", "false")
        changed = await admin.incremental_alter_configs({one: [ConfigChange(topic, 2_000)]})
        assert changed == {one: None}
        changes: Any = {one: ConfigChange(topic, 3_000)}
        changed = await admin.incremental_alter_configs(changes)
        assert changed == {one: None}
        described = (await admin.describe_configs(one, topic))[one]  # type: ignore[arg-type]
        assert isinstance(described, dict)
        assert described[topic].value == "3000"


class AsIndex:
    """What an integer of numpy is to Python."""

    def __index__(self) -> int:
        return 0


@in_simulation()
async def test_one_partition_stands_for_a_list_of_one(
    brokers: MiniCluster, simulation: Simulation
) -> None:
    for log in brokers.create("t", 2):
        fill(log, range(10))
    async with consumer(brokers, simulation) as one:
        one.assign(("t", 0))
        assert one.assignment() == [T0]
        of_numpy: Any = ("t", AsIndex())
        one.assign(of_numpy)
        assert [type(partition.partition) for partition in one.assignment()] == [int]
        one.assign([("t", 0), T1])
        await read(one, 20)
        one.seek_to_beginning(T0)
        assert (await one.position(("t", 0)), await one.position(T1)) == (0, 10)
        one.seek_to_beginning(T0, T1)
        assert await one.position(T1) == 0
        one.seek_to_end(partitions=[T0, T1])
        assert await one.position(T0) == 10
        one.pause([T0, T1])
        assert one.paused() == [T0, T1]
        one.resume([T0], T1)
        assert one.paused() == []
        assert await one.end_offsets(T0) == {T0: 10}
        assert await one.beginning_offsets(("t", 1)) == {T1: 0}


@in_simulation()
async def test_offsets_of_a_transaction_are_checked_like_those_of_a_commit(
    brokers: MiniCluster, simulation: Simulation
) -> None:
    options: Any = {"bootstrap_servers": brokers.bootstrap, "transactional_id": "x"}
    async with Producer(**options) as producer:
        send: Any = producer.send_offsets_to_transaction
        for given, group, line in (
            ({T0: -1}, "g", r"send_offsets_to_transaction\(\): offset=-1: an offset cannot be neg"),
            (T0, "g", r"send_offsets_to_transaction\(\) needs a dict"),
            ({T0: 1}, producer, r"the member of the group.*write consumer.group_metadata\(\)"),
        ):
            with pytest.raises((TypeError, ValueError), match=line):
                await send(given, group)


@in_simulation()
async def test_retries_of_one_topic(brokers: MiniCluster, simulation: Simulation) -> None:
    options: Any = {"bootstrap_servers": brokers.bootstrap, "group_id": "g"}
    worker = Retrying(
        Consumer(**options, enable_auto_commit=False), Producer(), print, "orders", delays="5s"
    )
    assert worker.all_topics() == ["orders", "orders.retry.5s"]


@on_groups()
async def test_commits_as_other_clients_write_them(cluster: GroupCluster) -> None:
    await cluster.client.create_topic("t")
    await cluster.fill("t", 5)
    async with cluster.consumer() as one:
        one.assign([T0])
        record = (await read(one, 5))[2]
        await one.commit(record)
        found = await one.committed(T0)
        assert found[T0] == OffsetAndMetadata(3, "", record.leader_epoch)
        await one.commit({T0: (2, "note")})
        assert await one.committed([T0]) == {T0: OffsetAndMetadata(2, "note")}
        plain: Any = {("t", 0): 4}
        await one.commit(plain)
        assert await one.committed([T0]) == {T0: OffsetAndMetadata(4)}


@in_simulation()
async def test_topics_of_a_consumer_may_be_a_list(
    brokers: MiniCluster, simulation: Simulation
) -> None:
    async with Consumer(["a", "b"], bootstrap_servers=brokers.bootstrap, group_id="g") as one:
        assert one.subscription() == ["a", "b"]
    with pytest.raises(TypeError, match=r"Consumer\(\) needs names of topics as text, not 5"):
        Consumer([5], group_id="g")  # type: ignore[list-item]
    with pytest.raises(ValueError, match="is no topic: write subscribe"):
        Consumer("^a.*", group_id="g")


@on_groups()
async def test_a_name_that_no_topic_can_have_ends_a_poll(cluster: GroupCluster) -> None:
    async with cluster.consumer() as one:
        one.subscribe(["clicks*"])
        with pytest.raises(
            KafkaError, match=r"'clicks\*' is not a valid name of a topic"
        ) as raised:
            await one.poll(10_000)
        assert raised.value.code == ErrorCode.INVALID_TOPIC_EXCEPTION
        with pytest.raises(KafkaError, match="is not a valid name"):
            await one.poll(10_000)
        await cluster.client.create_topic("clicks")
        await cluster.fill("clicks", 1)
        one.subscribe(["clicks"])
        assert await read(one, 1)


def test_a_time_in_seconds_is_warned_of_once(
    said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arguments, "_warned_of_seconds", set())
    for time in (5, 1_794_872_710_000):
        assert arguments.timestamp(time, "send()") == time
    assert said == []
    for time in (1_794_872_710, 1_794_872_711):
        assert arguments.timestamp(time, "send()") == time, "it may be the time of another record"
    assert said == [
        (
            "send(): timestamp_ms=1794872710 is in 1970; are these seconds? Milliseconds are"
            " int(time.time() * 1000)"
        )
    ]
    with pytest.raises(TypeError, match=r"write timestamp_ms=int\(moment.timestamp\(\) \* 1000\)"):
        arguments.timestamp(datetime(2026, 3, 1, tzinfo=UTC), "send()")


def test_settings_that_go_back_to_their_defaults_are_named(said: list[str]) -> None:
    async def test(cluster: GroupCluster) -> None:
        resource = ConfigResource(ConfigType.TOPIC, "t")
        async with Admin(bootstrap_servers=BOOTSTRAP) as admin:
            table = {"cleanup.policy": "compact", "retention.ms": "7"}
            await admin.create_topics([NewTopic("t", configs=table)])
            await admin.alter_configs({resource: {"retention.ms": 5}}, validate_only=True)
            assert said == []
            await admin.alter_configs({resource: {"retention.ms": 5}})

    with_groups(test)
    (warning,) = said
    assert "replaces all settings of t: back to the default goes cleanup.policy; incre" in warning


def test_several_addresses_are_separated_by_commas() -> None:
    with pytest.raises(SettingsError, match="is not one address; separate several with commas"):
        Producer(bootstrap_servers="localhost:9092; localhost:9093")


def test_a_setting_of_sasl_without_a_protocol_would_have_no_effect() -> None:
    with pytest.raises(SettingsError, match=r"set security\.protocol=SASL_SSL too"):
        Producer(bootstrap_servers="localhost:9092", sasl_mechanism="PLAIN")


def test_a_client_is_imported_from_the_package_of_clients() -> None:
    with pytest.raises(ImportError, match=r"write `from odradek\.client import Producer`"):
        exec("from odradek import Producer")
