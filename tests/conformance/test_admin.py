"""What administrators do: topics, partitions, settings, clusters, by three libraries."""

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin import NewTopic as AioNewTopic
from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)
from kafka import KafkaAdminClient
from kafka.admin import NewTopic as PythonNewTopic

from benchmarks.broker_process import BrokerProcess
from tests.conformance.clients import ConfluentClient
from tests.conformance.patience import PATIENCE_S, eventually
from tests.conformance.rows import Row
from tests.conformance.topics import create_topic, new_topic_name


@pytest.fixture
def admin(any_broker: BrokerProcess) -> AdminClient:
    return AdminClient({"bootstrap.servers": any_broker.bootstrap})


@pytest.fixture
def topic(any_broker: BrokerProcess) -> str:
    return create_topic(any_broker, partitions=3, config={"retention.ms": "123456789"})


def settings_of(admin: AdminClient, resource: ConfigResource) -> dict[str, ConfigEntry]:
    found: dict[str, ConfigEntry] = admin.describe_configs([resource])[resource].result(PATIENCE_S)
    return found


def expect_setting(admin: AdminClient, resource: ConfigResource, name: str, value: str) -> None:
    eventually(lambda: settings_of(admin, resource)[name].value, lambda found: found == value)


def change_setting(
    admin: AdminClient, resource: ConfigResource, name: str, value: str, how: AlterConfigOpType
) -> None:
    entry = ConfigEntry(name, value, incremental_operation=how)
    changed = ConfigResource(resource.restype, resource.name, incremental_configs=[entry])
    for future in admin.incremental_alter_configs([changed]).values():
        future.result(PATIENCE_S)


def topic_names(admin: AdminClient) -> set[str]:
    return set(admin.list_topics(timeout=PATIENCE_S).topics)


def topic_id(admin: AdminClient, topic: str) -> str:
    """The id of a topic, or an empty text while it is unknown."""
    try:
        found = admin.describe_topics(TopicCollection([topic]))[topic].result(PATIENCE_S)
    except KafkaException:
        return ""
    return str(found.topic_id)


def test_a_new_topic_is_described_as_it_was_made(admin: AdminClient, topic: str) -> None:
    eventually(lambda: topic_names(admin), lambda names: topic in names)
    metadata = admin.list_topics(timeout=PATIENCE_S).topics[topic]
    assert sorted(metadata.partitions) == [0, 1, 2]
    for partition in metadata.partitions.values():
        assert (partition.leader, partition.replicas, partition.isrs) == (1, [1], [1])
    eventually(lambda: topic_id(admin, topic), lambda found: len(found) == 22)
    described = admin.describe_topics(TopicCollection([topic]))[topic].result(PATIENCE_S)
    assert [partition.id for partition in described.partitions] == [0, 1, 2]
    assert not described.is_internal


def test_partitions_can_be_added_and_hold_records(
    any_broker: BrokerProcess, admin: AdminClient, topic: str
) -> None:
    admin.create_partitions([NewPartitions(topic, 5)])[topic].result(PATIENCE_S)
    eventually(
        lambda: sorted(admin.list_topics(topic, PATIENCE_S).topics[topic].partitions),
        lambda partitions: partitions == [0, 1, 2, 3, 4],
    )
    ConfluentClient().produce(any_broker.bootstrap, topic, "none", [Row(b"k", b"v")])


def test_a_deleted_topic_is_gone_and_its_name_is_free(admin: AdminClient, topic: str) -> None:
    first = eventually(lambda: topic_id(admin, topic), bool)
    admin.delete_topics([topic])[topic].result(PATIENCE_S)
    eventually(lambda: topic_names(admin), lambda names: topic not in names)
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(PATIENCE_S)
    assert eventually(lambda: topic_id(admin, topic), bool) != first


def test_a_topic_may_be_validated_without_being_made(admin: AdminClient) -> None:
    name = new_topic_name()
    admin.create_topics([NewTopic(name, 1, 1)], validate_only=True)[name].result(PATIENCE_S)
    assert name not in topic_names(admin)


def test_replicas_may_be_assigned_by_hand(admin: AdminClient) -> None:
    name = new_topic_name()
    topic = NewTopic(name, num_partitions=2, replica_assignment=[[1], [1]])
    admin.create_topics([topic])[name].result(PATIENCE_S)
    eventually(
        lambda: admin.list_topics(name, PATIENCE_S).topics[name].partitions,
        lambda partitions: len(partitions) == 2,
    )


def test_settings_of_a_topic_are_listed_with_their_source(admin: AdminClient, topic: str) -> None:
    resource = ConfigResource(ResourceType.TOPIC, topic)
    expect_setting(admin, resource, "retention.ms", "123456789")
    settings = settings_of(admin, resource)
    assert not settings["retention.ms"].is_default
    assert settings["cleanup.policy"].value == "delete"
    assert settings["cleanup.policy"].is_default
    assert {"segment.bytes", "max.message.bytes", "compression.type"} <= set(settings)


def test_settings_change_incrementally(admin: AdminClient, topic: str) -> None:
    resource = ConfigResource(ResourceType.TOPIC, topic)
    change_setting(admin, resource, "max.message.bytes", "2000", AlterConfigOpType.SET)
    change_setting(admin, resource, "cleanup.policy", "compact", AlterConfigOpType.APPEND)
    expect_setting(admin, resource, "max.message.bytes", "2000")
    expect_setting(admin, resource, "cleanup.policy", "delete,compact")
    expect_setting(admin, resource, "retention.ms", "123456789")
    change_setting(admin, resource, "cleanup.policy", "compact", AlterConfigOpType.SUBTRACT)
    change_setting(admin, resource, "retention.ms", "", AlterConfigOpType.DELETE)
    expect_setting(admin, resource, "cleanup.policy", "delete")
    expect_setting(admin, resource, "retention.ms", "604800000")


def test_settings_of_a_broker_change_while_it_runs(admin: AdminClient) -> None:
    resource = ConfigResource(ResourceType.BROKER, "1")
    change_setting(admin, resource, "log.cleaner.threads", "2", AlterConfigOpType.SET)
    try:
        expect_setting(admin, resource, "log.cleaner.threads", "2")
        assert settings_of(admin, resource)["log.dirs"].is_read_only
    finally:
        change_setting(admin, resource, "log.cleaner.threads", "", AlterConfigOpType.DELETE)
    expect_setting(admin, resource, "log.cleaner.threads", "1")


def test_the_cluster_names_itself(any_broker: BrokerProcess, admin: AdminClient) -> None:
    cluster = admin.describe_cluster().result(PATIENCE_S)
    assert len(cluster.cluster_id) == 22
    (node,) = cluster.nodes
    assert (node.id, node.host, node.port) == (1, "127.0.0.1", any_broker.port)
    assert cluster.controller.id == 1


def test_kcat_lists_what_there_is(any_broker: BrokerProcess, topic: str, kcat: str) -> None:
    command = [kcat, "-L", "-J", "-b", any_broker.bootstrap, "-t", topic]
    done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    listing = json.loads(done.stdout)
    assert listing["brokers"] == [{"id": 1, "name": any_broker.bootstrap}]
    (found,) = listing["topics"]
    assert (found["topic"], len(found["partitions"])) == (topic, 3)


def test_kafka_python_administers_topics(any_broker: BrokerProcess) -> None:
    name = new_topic_name()
    admin = KafkaAdminClient(bootstrap_servers=any_broker.bootstrap)
    try:
        admin.create_topics([PythonNewTopic(name, 2, 1)])
        eventually(admin.list_topics, lambda names: name in names)
        (described,) = admin.describe_topics([name])
        assert len(described["partitions"]) == 2
        admin.delete_topics([name])
        eventually(admin.list_topics, lambda names: name not in names)
    finally:
        admin.close()


@asynccontextmanager
async def aiokafka_admin(broker: BrokerProcess) -> AsyncIterator[AIOKafkaAdminClient]:
    admin = AIOKafkaAdminClient(bootstrap_servers=broker.bootstrap)
    await admin.start()
    try:
        yield admin
    finally:
        await admin.close()


async def test_aiokafka_administers_topics(any_broker: BrokerProcess) -> None:
    name = new_topic_name()
    async with aiokafka_admin(any_broker) as admin, asyncio.timeout(PATIENCE_S):
        await admin.create_topics([AioNewTopic(name, 2, 1)])
        while name not in await admin.list_topics():
            pass  # each turn waits for an answer
        (described,) = await admin.describe_topics([name])
        assert len(described["partitions"]) == 2
        cluster = await admin.describe_cluster()
        assert [broker["node_id"] for broker in cluster["brokers"]] == [1]
        await admin.delete_topics([name])
        while name in await admin.list_topics():
            pass  # each turn waits for an answer
