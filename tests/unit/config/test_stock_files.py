"""Files written for Apache Kafka: obeyed, refused with one line, or announced; never a surprise."""

import pytest

from odradek.config import BrokerSettings, InvalidSetting, describe_broker
from odradek.config.stock_files import GENERATED_ID

# The settings of the server.properties of Kafka 4, for one process with both roles.
KAFKA_4 = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.quorum.bootstrap.servers": "localhost:9093",
    "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
    "inter.broker.listener.name": "PLAINTEXT",
    "advertised.listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL",
    "num.network.threads": "3",
    "num.io.threads": "8",
    "socket.send.buffer.bytes": "102400",
    "socket.receive.buffer.bytes": "102400",
    "log.dirs": "/tmp/kraft-combined-logs",
    "num.recovery.threads.per.data.dir": "1",
    "offsets.topic.replication.factor": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}
# Those of Kafka 3 on ZooKeeper.
KAFKA_3 = {
    "broker.id": "0",
    "num.network.threads": "3",
    "log.dirs": "/tmp/kafka-logs",
    "zookeeper.connect": "localhost:2181",
    "zookeeper.connection.timeout.ms": "18000",
    "group.initial.rebalance.delay.ms": "0",
}


def settings(*files: dict[str, str], **more: str) -> BrokerSettings:
    merged: dict[str, str] = {}
    for file in files:
        merged |= file
    merged |= {name.replace("_", "."): value for name, value in more.items()}
    return BrokerSettings.from_properties(merged)


def refusal(*files: dict[str, str], **more: str) -> str:
    with pytest.raises(InvalidSetting) as caught:
        settings(*files, **more)
    return str(caught.value)


def test_the_file_of_kafka_4_starts_a_lone_broker_and_says_what_it_leaves_out() -> None:
    found = settings(KAFKA_4)
    assert [str(one) for one in found.listeners] == ["PLAINTEXT://:9092"]
    assert [str(one) for one in found.effective_advertised_listeners] == [
        "PLAINTEXT://localhost:9092"
    ]
    assert found.odradek_metadata_store == "sqlite"
    assert found.warnings == ()
    assert found.idle_sentence is not None
    for name in ("process.roles", "num.recovery.threads.per.data.dir", "share.coordinator."):
        assert name in found.idle_sentence
    assert "num.network.threads" not in found.idle_sentence, "3 is what Kafka does anyway"
    assert "\n" not in found.idle_sentence


def test_the_file_of_kafka_3_chooses_the_zookeeper_store() -> None:
    found = settings(KAFKA_3)
    assert found.odradek_metadata_store == "zookeeper"
    assert found.zookeeper_connection_timeout_ms == 18_000
    assert found.node_id == 0
    assert (found.warnings, found.idle_sentence) == ((), None)


def test_another_store_wins_over_zookeeper_connect_and_says_so() -> None:
    found = settings(KAFKA_3, odradek_metadata_store="sqlite")
    assert found.odradek_metadata_store == "sqlite"
    assert found.warnings == (
        "zookeeper.connect=localhost:2181 is ignored: odradek.metadata.store=sqlite wins",
    )


@pytest.mark.parametrize(
    "name", ["controller.quorum.voters", "controller.quorum.bootstrap.servers"]
)
def test_a_member_of_a_quorum_is_not_started_as_a_cluster_of_its_own(name: str) -> None:
    quorum = {name: "1@a:9093,2@b:9093,3@c:9093"}
    assert "there is no KRaft quorum" in refusal(KAFKA_4, quorum)
    broker_only = {name: "1@a:9093", "process.roles": "broker"}
    assert "zookeeper.connect" in refusal(KAFKA_4, broker_only)
    alone = settings(KAFKA_4, quorum, odradek_metadata_store="sqlite")
    assert alone.odradek_metadata_store == "sqlite"
    shared = settings(KAFKA_4, quorum, zookeeper_connect="z:2181")
    assert shared.odradek_metadata_store == "zookeeper"


def test_a_controller_without_a_broker_is_refused() -> None:
    assert "there are no separate controllers here" in refusal(
        {"process.roles": "controller", "listeners": "PLAINTEXT://:1"}
    )
    assert "no listener is left for clients" in refusal(
        {
            "listeners": "CONTROLLER://:9093",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT",
        }
    )


def test_the_protocol_between_brokers_needs_a_listener() -> None:
    assert refusal({"security.inter.broker.protocol": "SSL"}) == (
        "Invalid value SSL for security.inter.broker.protocol: listeners has only PLAINTEXT"
    )
    assert "choose one of both" in refusal(KAFKA_4, security_inter_broker_protocol="PLAINTEXT")
    assert settings(security_inter_broker_protocol="PLAINTEXT").warnings == ()


@pytest.mark.parametrize(
    "name", ["zookeeper.ssl.crl.enable", "zookeeper.ssl.ocsp.enable", "config.providers"]
)
def test_protection_that_would_be_missing_is_refused(name: str) -> None:
    assert name in refusal(KAFKA_3, {name: "true"})
    assert settings(KAFKA_3, {name: ""}).idle_sentence is None


@pytest.mark.parametrize("name", ["zookeeper.ssl.crl.enable", "zookeeper.set.acl"])
def test_what_is_refused_as_true_may_be_false(name: str) -> None:
    assert settings(KAFKA_3, {name: "false"}).idle_sentence is None


def test_log_dirs_wins_over_log_dir_and_says_so() -> None:
    found = settings(log_dir="/one", log_dirs="/two")
    assert found.data_directories == ("/two",)
    assert found.warnings == ("log.dir=/one is ignored: log.dirs=/two wins",)
    assert settings(log_dir="/one", log_dirs="/one").warnings == ()


def test_a_broker_without_an_id_gets_one_on_zookeeper_only() -> None:
    assert settings(zookeeper_connect="z").node_id == GENERATED_ID
    assert settings(zookeeper_connect="z", broker_id="-1").node_id == GENERATED_ID
    assert settings(zookeeper_connect="z", broker_id_generation_enable="false").node_id == 1
    assert settings().node_id == 1
    assert "choose a number" in refusal({"broker.id": "-1"})
    assert "broker.id.generation.enable is false" in refusal(
        {"broker.id": "-1", "broker.id.generation.enable": "false", "zookeeper.connect": "z"}
    )
    assert "must be a whole number" in refusal({"broker.id": "-2"})
    given = settings(zookeeper_connect="z", broker_id="-1").with_id(1001)
    assert (given.node_id, given.odradek_metadata_store) == (1001, "zookeeper")
    (shown,) = describe_broker(given, ["node.id"])
    assert shown.value == "1001"


def test_settings_without_effect_are_said_only_where_they_ask_for_something() -> None:
    assert settings(num_io_threads="8", replication_quota_window_num="11").idle_sentence is None
    found = settings(num_io_threads="16", replication_quota_window_num="12", log_preallocate="true")
    assert found.idle_sentence == (
        "set, but without effect here: log.preallocate (segments grow as they are written);"
        " num.io.threads (a broker is one process on one event loop);"
        " replication.quota.window.num (replication throttles limit each read and keep no samples)"
    )


def test_classes_of_kafka_are_known_by_name_and_others_are_refused() -> None:
    package = "org.apache.kafka.coordinator.group.assignor"
    found = settings(group_consumer_assignors=f"{package}.RangeAssignor, uniform")
    assert found.group_consumer_assignors == ("range", "uniform")
    assert "there is no assignor com.example.Mine" in refusal(
        {"group.consumer.assignors": "uniform,com.example.Mine"}
    )
    assert "name at least one" in refusal({"group.consumer.assignors": ""})
    selector = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
    assert settings(replica_selector_class=selector).replica_selector_class == selector
    assert settings(replica_selector_class="").replica_selector_class is None
    assert "other classes cannot be loaded" in refusal(
        {"replica.selector.class": "com.example.Mine"}
    )


def test_a_setting_of_which_a_part_is_obeyed_is_warned_about() -> None:
    assert settings(log_cleaner_threads="4").warnings == (
        "log.cleaner.threads=4: one log is compacted at a time",
    )
    name = "group.coordinator.rebalance.protocols"
    for kind in ("share", "streams"):
        found = settings({name: f"classic,{kind}"})
        assert found.warnings == (f"{name}: there are no groups of kind {kind}",)
    assert settings({name: "classic,consumer,streams"}).warnings == (), "Kafka's default"
    assert "classic groups cannot be switched off" in refusal({name: "consumer"})
