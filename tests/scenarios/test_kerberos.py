"""Kerberos in a cluster and with the clients of others, as docs/kerberos.md shows it."""

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from kafka import KafkaProducer

from benchmarks.apache_kafka import ApacheKafka, require_program
from odradek.client.sync import Admin, Consumer, NewTopic, Producer
from odradek.testing import Cluster
from tests.kdc import Kdc, jaas
from tests.needs import need

# `odradek up` names its listeners PLAINTEXT; the map says what they are.
LISTENER = "listener.name.plaintext."


class Kerberized(NamedTuple):
    cluster: Cluster
    kdc: Kdc
    directory: Path
    client: dict[str, str]


@pytest.fixture(scope="module")
def kerberized(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kerberized]:
    directory = tmp_path_factory.mktemp("kerberized")
    kdc = need(lambda: Kdc(directory / "kdc"))
    with kdc.running(), kdc.used_here():
        kdc.keytab("kafka", "kafka/localhost")
        # The tickets of brokers end after seconds, and are replaced before that.
        kdc.admin("modprinc", "-maxlife", "5 seconds", "kafka/localhost")
        ada = kdc.keytab("ada", "ada")
        line = jaas(f"{kdc.directory}/kafka.keytab", "kafka/localhost")
        settings = {
            "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT",
            "sasl.mechanism.inter.broker.protocol": "GSSAPI",
            "sasl.kerberos.service.name": "kafka",
            f"{LISTENER}sasl.enabled.mechanisms": "GSSAPI",
            f"{LISTENER}gssapi.sasl.jaas.config": line,
            # Brokers log in again every few seconds.
            f"{LISTENER}gssapi.connections.max.reauth.ms": "3000",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:kafka;User:ada",
            "min.insync.replicas": "2",
        }
        client = {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.kerberos.service.name": "kafka",
            "sasl.jaas.config": jaas(ada, "ada"),
        }
        with Cluster(brokers=3, settings=settings, host="localhost") as cluster:
            client["bootstrap.servers"] = cluster.bootstrap
            lines = (f"{name}={value}\n" for name, value in client.items())
            (directory / "client.properties").write_text("".join(lines))
            with Admin(client) as admin:
                admin.create_topics([NewTopic("orders", partitions=3, replication_factor=3)])
            yield Kerberized(cluster, kdc, directory, client)


def read_all(kerberized: Kerberized, wanted: set[bytes]) -> None:
    found: set[bytes] = set()
    group = {"auto.offset.reset": "earliest", "group.id": f"g{time.time_ns()}"}
    with Consumer(kerberized.client | group) as consumer:
        consumer.subscribe(["orders"])
        end_s = time.monotonic() + 30
        while not wanted <= found:
            assert time.monotonic() < end_s, wanted - found
            for records in consumer.poll(timeout_ms=500).values():
                found |= {record.value for record in records if record.value}


def test_brokers_log_in_at_each_other_again_and_again(kerberized: Kerberized) -> None:
    sent: set[bytes] = set()
    with Producer(kerberized.client | {"acks": "all"}) as producer:
        # Two tickets of each broker have ended by then, and some of its sessions.
        end_s = time.monotonic() + 12
        while time.monotonic() < end_s:
            values = {b"%d" % number for number in range(len(sent), len(sent) + 20)}
            for future in [producer.send("orders", value) for value in values]:
                future.result(timeout=30)
            sent |= values
    read_all(kerberized, sent)


def test_the_tools_take_the_file_of_the_client(kerberized: Kerberized) -> None:
    def odradek(*words: str, stdin: str = "") -> "subprocess.CompletedProcess[str]":
        properties = str(kerberized.directory / "client.properties")
        return subprocess.run(
            [sys.executable, "-m", "odradek.cli", *words, "--command-config", properties],
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    assert "orders" in odradek("topics", "--list").stdout
    assert odradek("console-producer", "--topic", "orders", stdin="by a tool\n").returncode == 0
    read_all(kerberized, {b"by a tool"})
    perf = ("--num-records", "10", "--record-size", "10", "--throughput", "-1")
    test = ("producer-perf-test", "--topic", "orders", *perf, "--engine")
    assert odradek(*test, "odradek").returncode == 0
    refused = odradek(*test, "librdkafka")
    assert refused.returncode != 0
    assert "choose --engine odradek" in refused.stderr


def test_librdkafka_of_the_distribution(kerberized: Kerberized) -> None:
    program = need(lambda: require_program("kcat", "kcat libsasl2-modules-gssapi-mit", "kcat"))
    kdc = kerberized.kdc
    settings = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        "sasl.kerberos.principal": "ada",
        "sasl.kerberos.keytab": f"{kdc.directory}/ada.keytab",
    }
    flags = [word for name, value in settings.items() for word in ("-X", f"{name}={value}")]
    done = subprocess.run(
        [program, "-b", kerberized.cluster.bootstrap, *flags, "-P", "-t", "orders"],
        input="by kcat\n",
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    read_all(kerberized, {b"by kcat"})


def test_kafka_python(kerberized: Kerberized, monkeypatch: pytest.MonkeyPatch) -> None:
    kdc = kerberized.kdc
    cache = f"FILE:{kdc.directory}/python.ccache"
    kdc.kinit("ada", f"{kdc.directory}/ada.keytab", cache)
    monkeypatch.setenv("KRB5CCNAME", cache)
    producer = KafkaProducer(
        bootstrap_servers=kerberized.cluster.bootstrap,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="GSSAPI",
        sasl_kerberos_service_name="kafka",
    )
    try:
        producer.send("orders", b"by kafka-python").get(timeout=30)
    finally:
        producer.close()
    read_all(kerberized, {b"by kafka-python"})


def test_java_with_its_jaas_file(kerberized: Kerberized) -> None:
    kafka = need(ApacheKafka.install)
    kdc = kerberized.kdc
    section = f"KafkaClient {{\n  {jaas(f'{kdc.directory}/ada.keytab', 'ada@ODRADEK.TEST')}\n}};\n"
    (kerberized.directory / "jaas.conf").write_text(section)
    properties = kerberized.directory / "java.properties"
    properties.write_text("security.protocol=SASL_PLAINTEXT\nsasl.kerberos.service.name=kafka\n")
    flags = [
        f"-Djava.security.auth.login.config={kerberized.directory}/jaas.conf",
        f"-Djava.security.krb5.conf={kdc.config}",
    ]
    where = ("--bootstrap-server", kerberized.cluster.bootstrap, "--topic", "orders")
    config = ("--command-config", str(properties))
    done = subprocess.run(
        kafka.tool_command("console-producer", *where, *config, jvm_flags=flags),
        input="by java\n",
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, (done.stdout, done.stderr)
    read_all(kerberized, {b"by java"})


def test_our_clients_at_apache_kafka(
    kerberized: Kerberized, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka = need(ApacheKafka.install)
    kdc = kerberized.kdc
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", f"-Djava.security.krb5.conf={kdc.config}")
    node = kafka.prepare(tmp_path / "kafka")
    text = node.configuration.read_text()
    text = text.replace(f"PLAINTEXT://127.0.0.1:{node.port}", f"SASL://localhost:{node.port}")
    text += (
        "listener.security.protocol.map=SASL:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT\n"
        "inter.broker.listener.name=SASL\nsasl.mechanism.inter.broker.protocol=GSSAPI\n"
        "sasl.kerberos.service.name=kafka\nsasl.enabled.mechanisms=GSSAPI\n"
        "listener.name.sasl.gssapi.connections.max.reauth.ms=2000\n"
        "listener.name.sasl.gssapi.sasl.jaas.config="
        + jaas(f"{kdc.directory}/kafka.keytab", "kafka/localhost@ODRADEK.TEST")
        + "\n"
    )
    node.configuration.write_text(text)
    broker = node.start()
    try:
        servers = {"bootstrap.servers": f"localhost:{node.port}"}
        with Producer(kerberized.client | servers | {"acks": "all"}) as producer:
            producer.send("orders", b"first").result(timeout=60)
            end_s = time.monotonic() + 5
            while time.monotonic() < end_s:
                producer.send("orders", b"again").result(timeout=30)
    finally:
        broker.stop()
