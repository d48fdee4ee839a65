"""What a client is told when it asks for something that cannot be: Kafka's codes, one by one."""

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from benchmarks.broker_process import BrokerProcess
from tests.conformance.clients import read_messages, send
from tests.conformance.patience import PATIENCE_S
from tests.conformance.topics import create_topic, new_topic_name


@pytest.fixture
def admin(any_broker: BrokerProcess) -> AdminClient:
    return AdminClient({"bootstrap.servers": any_broker.bootstrap})


def creation_error(admin: AdminClient, topic: NewTopic) -> int:
    with pytest.raises(KafkaException) as raised:
        admin.create_topics([topic])[topic.topic].result(PATIENCE_S)
    code: int = raised.value.args[0].code()
    return code


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        (NewTopic("not/a/name", 1, 1), KafkaError.TOPIC_EXCEPTION),
        (NewTopic("..", 1, 1), KafkaError.TOPIC_EXCEPTION),
        (NewTopic("x" * 250, 1, 1), KafkaError.TOPIC_EXCEPTION),
        (NewTopic("t", 0, 1), KafkaError.INVALID_PARTITIONS),
        (NewTopic("t", 1, 2), KafkaError.INVALID_REPLICATION_FACTOR),
        (NewTopic("t", 1, replica_assignment=[[7]]), KafkaError.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic("t", 1, 1, config={"no.such": "1"}), KafkaError.INVALID_CONFIG),
        (NewTopic("t", 1, 1, config={"retention.ms": "soon"}), KafkaError.INVALID_CONFIG),
        (NewTopic("t", 1, 1, config={"cleanup.policy": "burn"}), KafkaError.INVALID_CONFIG),
    ],
    ids=lambda value: value.topic[:10] if isinstance(value, NewTopic) else str(value),
)
def test_a_topic_that_cannot_be(admin: AdminClient, topic: NewTopic, code: int) -> None:
    assert creation_error(admin, topic) == code


def test_a_name_is_given_once(any_broker: BrokerProcess, admin: AdminClient) -> None:
    name = create_topic(any_broker)
    assert creation_error(admin, NewTopic(name, 1, 1)) == KafkaError.TOPIC_ALREADY_EXISTS


def test_names_that_collide_in_metrics_are_refused(
    any_broker: BrokerProcess, admin: AdminClient
) -> None:
    name = new_topic_name()
    admin.create_topics([NewTopic(name + ".a", 1, 1)])[name + ".a"].result(PATIENCE_S)
    assert creation_error(admin, NewTopic(name + "_a", 1, 1)) == KafkaError.TOPIC_EXCEPTION


def test_partitions_do_not_become_fewer(any_broker: BrokerProcess, admin: AdminClient) -> None:
    name = create_topic(any_broker, partitions=3)
    for total in (2, 3):
        with pytest.raises(KafkaException) as raised:
            admin.create_partitions([NewPartitions(name, total)])[name].result(PATIENCE_S)
        assert raised.value.args[0].code() == KafkaError.INVALID_PARTITIONS


def test_deleting_what_is_not_there(admin: AdminClient) -> None:
    name = new_topic_name()
    with pytest.raises(KafkaException) as raised:
        admin.delete_topics([name])[name].result(PATIENCE_S)
    assert raised.value.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_settings_of_a_topic_that_is_not_there(admin: AdminClient) -> None:
    resource = ConfigResource(ResourceType.TOPIC, new_topic_name())
    with pytest.raises(KafkaException) as raised:
        admin.describe_configs([resource])[resource].result(PATIENCE_S)
    assert raised.value.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART


@pytest.mark.parametrize(("name", "value"), [("no.such", "1"), ("segment.bytes", "tiny")])
def test_a_setting_that_cannot_be(
    any_broker: BrokerProcess, admin: AdminClient, name: str, value: str
) -> None:
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    topic = create_topic(any_broker)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    with pytest.raises(KafkaException) as raised:
        admin.incremental_alter_configs([resource])[resource].result(PATIENCE_S)
    assert raised.value.args[0].code() == KafkaError.INVALID_CONFIG


def test_metadata_does_not_make_topics_unasked(
    any_broker: BrokerProcess, admin: AdminClient
) -> None:
    name = new_topic_name()
    consumer = Consumer({"bootstrap.servers": any_broker.bootstrap, "group.id": "no-group"})
    found = consumer.list_topics(name, timeout=PATIENCE_S).topics[name]
    consumer.close()
    assert found.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART
    assert name not in admin.list_topics(timeout=PATIENCE_S).topics


def test_producing_makes_the_topic(any_broker: BrokerProcess, admin: AdminClient) -> None:
    """auto.create.topics.enable is on by default, and a producer's metadata request asks for it."""
    name = new_topic_name()
    assert send(any_broker.bootstrap, name, b"first", {}) is None
    assert len(admin.list_topics(name, PATIENCE_S).topics[name].partitions) == 1
    (message,) = read_messages(any_broker.bootstrap, name, 1)
    assert message.value() == b"first"


def test_an_invalid_name_is_not_made_by_producing(any_broker: BrokerProcess) -> None:
    error = send(any_broker.bootstrap, "not/a/name", b"v", {"message.timeout.ms": 3000})
    assert error is not None
    assert error.code() == KafkaError.TOPIC_EXCEPTION


def test_a_partition_that_is_not_there(any_broker: BrokerProcess) -> None:
    topic = create_topic(any_broker)
    settings = {"message.timeout.ms": 3000}
    error = send(any_broker.bootstrap, topic, b"v", settings, partition=9)
    assert error is not None
    assert error.code() == KafkaError._UNKNOWN_PARTITION


def test_a_topic_whose_batches_are_too_large(any_broker: BrokerProcess) -> None:
    topic = create_topic(any_broker, config={"max.message.bytes": "1000"})
    error = send(any_broker.bootstrap, topic, b"x" * 2000, {})
    assert error is not None
    assert error.code() == KafkaError.MSG_SIZE_TOO_LARGE
    assert send(any_broker.bootstrap, topic, b"x" * 200, {}) is None


def test_a_lone_replica_satisfies_a_topic_that_asks_for_two(any_broker: BrokerProcess) -> None:
    """min.insync.replicas counts for no more than the replicas that a partition has."""
    topic = create_topic(any_broker, config={"min.insync.replicas": "2"})
    assert send(any_broker.bootstrap, topic, b"v", {"acks": "all"}) is None
