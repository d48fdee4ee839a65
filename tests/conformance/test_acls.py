"""Access rules as real clients meet them: on Apache Kafka first, then the same on ours."""

from collections.abc import Iterator

import pytest
from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicCollection,
)
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewPartitions,
    ResourcePatternType,
    ResourceType,
)
from kafka import KafkaAdminClient
from kafka.admin import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ResourcePattern,
    ResourcePatternFilter,
)
from kafka.admin import (
    ResourceType as PythonResourceType,
)

from benchmarks.apache_kafka import ApacheKafka
from benchmarks.broker_process import BrokerProcess
from benchmarks.broker_process import odradek_broker as running_odradek
from odradek.testing import Cluster
from tests.conformance.patience import PATIENCE_S, eventually
from tests.conformance.topics import create_topic, new_topic_name

AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}
ANYTHING = AclBindingFilter(
    ResourceType.ANY,
    None,
    ResourcePatternType.ANY,
    None,
    None,
    AclOperation.ANY,
    AclPermissionType.ANY,
)


@pytest.fixture(scope="module", params=["apache", "odradek"])
def broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[BrokerProcess]:
    """A broker with an authoriser, on which whatever no rule is about is open."""
    directory = tmp_path_factory.mktemp(request.param)
    if request.param == "odradek":
        with running_odradek(directory, AUTHORIZER) as ours:
            yield ours
    else:
        home: ApacheKafka = request.getfixturevalue("kafka_home")
        with home.broker(directory, AUTHORIZER) as reference:
            yield reference


@pytest.fixture
def admin(broker: BrokerProcess) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.bootstrap})


def rule(
    name: str,
    operation: AclOperation,
    *,
    kind: ResourceType = ResourceType.TOPIC,
    pattern: ResourcePatternType = ResourcePatternType.LITERAL,
    principal: str = "User:ANONYMOUS",
    permission: AclPermissionType = AclPermissionType.ALLOW,
) -> AclBinding:
    return AclBinding(kind, name, pattern, principal, "*", operation, permission)


def add(admin: AdminClient, *rules: AclBinding) -> None:
    for future in admin.create_acls(list(rules)).values():
        future.result(PATIENCE_S)


def found(admin: AdminClient, wanted: AclBindingFilter) -> set[AclBinding]:
    return set(admin.describe_acls(wanted).result(PATIENCE_S))


def about(name: str, pattern: ResourcePatternType) -> AclBindingFilter:
    return AclBindingFilter(
        ResourceType.TOPIC,
        name,
        pattern,
        None,
        None,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )


def test_rules_are_made_found_and_removed(admin: AdminClient) -> None:
    name = new_topic_name()
    literal = rule(f"{name}-1", AclOperation.READ)
    prefixed = rule(name, AclOperation.ALL, pattern=ResourcePatternType.PREFIXED)
    other = rule(f"{name}-2", AclOperation.WRITE, permission=AclPermissionType.DENY)
    add(admin, literal, prefixed, other)
    add(admin, literal)
    matching = about(f"{name}-1", ResourcePatternType.MATCH)
    eventually(lambda: found(admin, matching), lambda rules: rules == {literal, prefixed})
    assert {literal, prefixed, other} <= found(admin, ANYTHING)
    removed = admin.delete_acls([matching])[matching].result(PATIENCE_S)
    assert set(removed) == {literal, prefixed}
    eventually(lambda: found(admin, about(f"{name}-2", ResourcePatternType.MATCH)), {other}.__eq__)


@pytest.mark.parametrize(
    ("kind", "name"), [(ResourceType.BROKER, "not-the-cluster"), (ResourceType.TOPIC, "")]
)
def test_a_rule_that_says_nothing_is_refused(
    admin: AdminClient, kind: ResourceType, name: str
) -> None:
    bad = rule(name or "x", AclOperation.READ, kind=kind)
    bad.name = name
    with pytest.raises((KafkaException, ValueError)):
        add(admin, bad)


def code_of_producing(broker: BrokerProcess, topic: str) -> int:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "message.timeout.ms": 20_000})
    codes: list[int] = []
    producer.produce(topic, b"x", on_delivery=lambda error, _: codes.append(error and error.code()))
    producer.flush(PATIENCE_S)
    return codes[0] or 0


def test_who_may_not_write_may_still_read(broker: BrokerProcess, admin: AdminClient) -> None:
    topic = create_topic(broker)
    assert code_of_producing(broker, topic) == 0
    groups = ResourcePatternType.PREFIXED
    add(
        admin,
        rule(topic, AclOperation.READ),
        rule("g-", AclOperation.READ, kind=ResourceType.GROUP, pattern=groups),
    )
    denied = KafkaError.TOPIC_AUTHORIZATION_FAILED
    eventually(lambda: code_of_producing(broker, topic), denied.__eq__)
    reader = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": f"g-{topic}",
            "auto.offset.reset": "earliest",
        }
    )
    try:
        reader.subscribe([topic])
        message = eventually(lambda: reader.poll(0.1), lambda got: got is not None)
        assert message is not None
        assert message.error() is None
        assert message.value() == b"x"
    finally:
        reader.close()


def vanishes(admin: AdminClient, topic: str) -> None:
    eventually(lambda: topic in admin.list_topics(timeout=PATIENCE_S).topics, lambda seen: not seen)


def test_topics_vanish_and_are_refused_by_name(broker: BrokerProcess, admin: AdminClient) -> None:
    topic = create_topic(broker)
    assert topic in admin.list_topics(timeout=PATIENCE_S).topics
    add(admin, rule(topic, AclOperation.ALL, principal="User:somebody-else"))
    eventually(lambda: topic in admin.list_topics(timeout=PATIENCE_S).topics, lambda seen: not seen)
    named = admin.list_topics(topic, timeout=PATIENCE_S).topics[topic]
    assert named.error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    grown = admin.create_partitions([NewPartitions(topic, 3)])[topic]
    with pytest.raises(KafkaException) as refused:
        grown.result(PATIENCE_S)
    assert refused.value.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED


def test_clients_are_told_what_they_may_do(broker: BrokerProcess, admin: AdminClient) -> None:
    topic = create_topic(broker)
    add(
        admin,
        rule(topic, AclOperation.WRITE),
        rule(topic, AclOperation.ALTER_CONFIGS),
        rule(topic, AclOperation.DELETE, permission=AclPermissionType.DENY),
    )

    def operations() -> set[AclOperation]:
        described = admin.describe_topics(
            TopicCollection([topic]), include_authorized_operations=True
        )[topic].result(PATIENCE_S)
        return set(described.authorized_operations)

    expected = {
        AclOperation.WRITE,
        AclOperation.DESCRIBE,
        AclOperation.ALTER_CONFIGS,
        AclOperation.DESCRIBE_CONFIGS,
    }
    eventually(operations, expected.__eq__)


def test_a_group_that_may_not_be_joined(broker: BrokerProcess, admin: AdminClient) -> None:
    topic = create_topic(broker)
    group = f"closed-{topic}"
    add(admin, rule(group, AclOperation.DESCRIBE, kind=ResourceType.GROUP))
    reader = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group})
    try:
        reader.subscribe([topic])
        message = eventually(lambda: reader.poll(0.1), lambda got: got is not None)
        assert message is not None
        error = message.error()
        assert error is not None
        assert error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED
    finally:
        reader.close()


def test_kafka_python_makes_finds_and_removes_rules(broker: BrokerProcess) -> None:
    name = new_topic_name()
    acl = ACL(
        principal="User:test",
        host="*",
        operation=ACLOperation.ALL,
        permission_type=ACLPermissionType.ALLOW,
        resource_pattern=ResourcePattern(
            PythonResourceType.TOPIC, name, ACLResourcePatternType.PREFIXED
        ),
    )
    wanted = ACLFilter(
        principal=None,
        host="*",
        operation=ACLOperation.ANY,
        permission_type=ACLPermissionType.ANY,
        resource_pattern=ResourcePatternFilter(
            PythonResourceType.TOPIC, f"{name}-1", ACLResourcePatternType.MATCH
        ),
    )
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    try:
        created = admin.create_acls([acl])
        assert created["succeeded"] == [acl]
        assert not created["failed"]
        eventually(lambda: admin.describe_acls(wanted)[0], lambda rules: rules == [acl])
        ((_, deleted, error),) = admin.delete_acls([wanted])
        assert error.errno == 0
        assert deleted == [acl]
    finally:
        admin.close()


def test_a_rule_made_through_one_broker_is_obeyed_by_all() -> None:
    with Cluster(brokers=3, settings=AUTHORIZER) as cluster:
        addresses = cluster.bootstrap.split(",")
        admins = [AdminClient({"bootstrap.servers": address}) for address in addresses]
        topic = new_topic_name()
        for admin in admins:
            # Asking creates it, wherever it is asked first.
            admin.list_topics(topic, timeout=PATIENCE_S)
        hidden = rule(topic, AclOperation.ALL, principal="User:somebody-else")
        add(admins[0], hidden)
        for admin in admins:
            assert hidden in found(admin, ANYTHING)
            vanishes(admin, topic)
