"""Three brokers with SASL_SSL between them, used by our client, our tools and librdkafka."""

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import Producer as LibrdkafkaProducer

from odradek.client.errors import AuthenticationFailed, TlsFailed
from odradek.client.sync import Admin, Consumer, NewTopic, Producer
from odradek.testing import Cluster
from tests.certificates import PASSWORD, Authority

USER, SECRET = "admin", "between-the-brokers"
LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
# `odradek up` names its listeners PLAINTEXT; the map says what they are.
LISTENER = "listener.name.plaintext."


class Secured(NamedTuple):
    cluster: Cluster
    directory: Path
    client: dict[str, str]

    @property
    def properties(self) -> str:
        return str(self.directory / "client.properties")


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    directory = tmp_path_factory.mktemp("secured")
    authority = Authority()
    trusted = authority.truststore(directory / "ca.p12")
    authority.truststore(directory / "ca.pem")
    keys = authority.issue("broker").keystore(directory / "broker.p12")
    stores = {
        "ssl.keystore.location": str(keys),
        "ssl.keystore.password": PASSWORD,
        "ssl.truststore.location": str(trusted),
        "ssl.truststore.password": PASSWORD,
    }
    settings = {
        "listener.security.protocol.map": "PLAINTEXT:SASL_SSL",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        f"{LISTENER}sasl.enabled.mechanisms": "PLAIN",
        f"{LISTENER}plain.sasl.jaas.config": (
            f'{LOGIN} username="{USER}" password="{SECRET}" user_{USER}="{SECRET}"'
            ' user_ada="ada-secret";'
        ),
        f"{LISTENER}ssl.client.auth": "required",
        # Brokers log in again every few seconds, under load.
        f"{LISTENER}plain.connections.max.reauth.ms": "3000",
        "min.insync.replicas": "2",
        **{LISTENER + name: value for name, value in stores.items()},
    }
    shown = authority.issue("ada").keystore(directory / "ada.p12")
    client = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'{LOGIN} username="ada" password="ada-secret";',
        **stores,
        "ssl.keystore.location": str(shown),
    }
    with Cluster(brokers=3, settings=settings, data=str(directory / "data")) as cluster:
        client["bootstrap.servers"] = cluster.bootstrap
        lines = (f"{name}={value}\n" for name, value in client.items())
        (directory / "client.properties").write_text("".join(lines))
        with Admin(client) as admin:
            admin.create_topics([NewTopic("orders", partitions=3, replication_factor=3)])
        yield Secured(cluster, directory, client)


def odradek(secured: Secured, *words: str, stdin: str = "") -> str:
    done = subprocess.run(
        [sys.executable, "-m", "odradek.cli", *words, "--command-config", secured.properties],
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert SECRET not in done.stdout + done.stderr
    return done.stdout


def read_all(secured: Secured, count: int) -> set[bytes]:
    found: set[bytes] = set()
    config = secured.client | {"auto.offset.reset": "earliest", "group.id": f"g{time.time_ns()}"}
    with Consumer(config) as consumer:
        consumer.subscribe(["orders"])
        end_s = time.monotonic() + 30
        while len(found) < count and time.monotonic() < end_s:
            for records in consumer.poll(timeout_ms=500).values():
                found |= {record.value for record in records}
    return found


def test_records_survive_a_broker_and_sessions_are_renewed_under_load(secured: Secured) -> None:
    sent: list[bytes] = []
    with Producer(secured.client | {"acks": "all"}) as producer:
        # Longer than two lifetimes of a session, so each connection logs in again.
        end_s = time.monotonic() + 7
        while time.monotonic() < end_s:
            futures = [producer.send("orders", b"%d" % (len(sent) + i)) for i in range(20)]
            sent += [b"%d" % (len(sent) + i) for i in range(20)]
            for future in futures:
                future.result(timeout=30)
        secured.cluster.kill(2)
        for number in range(len(sent), len(sent) + 20):
            producer.send("orders", b"%d" % number).result(timeout=60)
            sent.append(b"%d" % number)
    secured.cluster.restart(2)
    assert set(sent) <= read_all(secured, len(sent))
    with Admin(secured.client) as admin:
        end_s = time.monotonic() + 30
        while True:
            orders = admin.describe_topics(["orders"])["orders"]
            in_sync = [len(one.in_sync) for one in orders.partitions.values()]  # type: ignore[union-attr]
            if in_sync == [3, 3, 3]:
                break
            assert time.monotonic() < end_s, f"the broker that came back is not in sync: {in_sync}"
            time.sleep(0.1)


def test_the_tools_take_the_file_of_the_client(secured: Secured) -> None:
    assert "orders" in odradek(secured, "topics", "--list")
    odradek(secured, "console-producer", "--topic", "orders", stdin="by the console\n")
    count = ("--max-messages", "1", "--timeout-ms", "20000")
    read = odradek(secured, "console-consumer", "--topic", "orders", "--from-beginning", *count)
    assert read.strip()
    sizes = ("--num-records", "100", "--record-size", "10", "--throughput", "-1")
    for engine in ("librdkafka", "odradek"):
        said = odradek(
            secured, "producer-perf-test", "--topic", "orders", *sizes, "--engine", engine
        )
        assert said.startswith("100 records sent")


def test_librdkafka_uses_the_same_listener(secured: Secured) -> None:
    failed: list[object] = []
    producer = LibrdkafkaProducer(
        {
            "bootstrap.servers": secured.cluster.bootstrap,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "ada",
            "sasl.password": "ada-secret",
            "ssl.keystore.location": secured.client["ssl.keystore.location"],
            "ssl.keystore.password": PASSWORD,
            "ssl.ca.location": str(secured.directory / "ca.pem"),
        }
    )
    producer.produce("orders", b"by librdkafka", on_delivery=lambda error, _: failed.append(error))
    assert producer.flush(30) == 0
    assert failed == [None]


def test_who_has_no_right_to_be_there_is_told_why(secured: Secured) -> None:
    wrong = f'{LOGIN} username="ada" password="guess";'
    with (
        Producer(secured.client | {"sasl.jaas.config": wrong}) as producer,
        pytest.raises(AuthenticationFailed, match="refused the log-in by PLAIN"),
    ):
        producer.send("orders", b"x").result(timeout=30)
    stranger = Authority("stranger").truststore(secured.directory / "stranger.p12")
    with (
        Admin(secured.client | {"ssl.truststore.location": str(stranger)}) as admin,
        pytest.raises(TlsFailed, match=r"set ssl\.truststore\.location"),
    ):
        admin.list_topics()
