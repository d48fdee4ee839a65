"""Brokers on a ZooKeeper ensemble that asks for TLS and a log-in; nodes belong to their owner."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from kazoo.exceptions import NoAuthError
from kazoo.security import Permissions

from odradek.broker import Broker
from odradek.broker.broker import BrokerCannotStart
from odradek.client.sync import Admin, NewTopic, Producer
from odradek.config import BrokerSettings
from odradek.metadata.kazoo_client import make_client
from odradek.metadata.zookeeper_security import zookeeper_security
from odradek.testing import Cluster
from odradek.world import OsDisk, Randomness, World
from tests.certificates import PASSWORD, Authority
from tests.kdc import Kdc, jaas
from tests.needs import need
from tests.unit.metadata.zookeeper_servers import Ensemble, zookeeper_jars

DIGEST = "org.apache.zookeeper.server.auth.DigestLoginModule required"
LOG_IN = f'{DIGEST} username="broker" password="brokers-secret";'
SASL_PROVIDER = {
    "authProvider.1": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
}


class Secured(NamedTuple):
    ensemble: Ensemble
    directory: Path
    authority: Authority
    settings: dict[str, str]


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """Three servers, which let nobody in who has not logged in."""
    jars = need(zookeeper_jars)
    directory = tmp_path_factory.mktemp("secured")
    authority = Authority()
    trusted = authority.truststore(directory / "ca.p12")
    keys = authority.issue("zookeeper").keystore(directory / "server.p12")
    (directory / "server.conf").write_text(
        f'Server {{ {DIGEST} user_broker="brokers-secret" user_other="others-secret"; }};\n'
    )
    more = {
        **SASL_PROVIDER,
        "enforce.auth.enabled": "true",
        "enforce.auth.schemes": "sasl",
        "ssl.keyStore.location": str(keys),
        "ssl.keyStore.password": PASSWORD,
        "ssl.trustStore.location": str(trusted),
        "ssl.trustStore.password": PASSWORD,
        "ssl.clientAuth": "need",
    }
    shown = authority.issue("broker").keystore(directory / "broker.pem")
    settings = {
        "odradek.zookeeper.sasl.jaas.config": LOG_IN,
        "zookeeper.set.acl": "true",
        "zookeeper.ssl.client.enable": "true",
        "zookeeper.clientCnxnSocket": "org.apache.zookeeper.ClientCnxnSocketNetty",
        "zookeeper.ssl.keystore.location": str(shown),
        "zookeeper.ssl.truststore.location": str(trusted),
        "zookeeper.ssl.truststore.password": PASSWORD,
    }
    with pytest.MonkeyPatch.context() as patch:
        flags = f"-Djava.security.auth.login.config={directory}/server.conf"
        patch.setenv("SERVER_JVMFLAGS", flags)
        ensemble = Ensemble(jars, directory / "servers", size=3, more=more, has_tls=True)
    with ensemble:
        yield Secured(ensemble, directory, authority, settings)


@contextmanager
def zookeeper(secured: Secured, user: str, secret: str) -> Iterator[Any]:
    """A client of ZooKeeper that has logged in as that user, without TLS."""
    line = f'{DIGEST} username="{user}" password="{secret}";'
    settings = BrokerSettings.from_properties({"odradek.zookeeper.sasl.jaas.config": line})
    security = zookeeper_security(settings, OsDisk(), Randomness())
    client = make_client(secured.ensemble.address, 10.0, security)
    client.start(timeout=30)
    try:
        yield client
    finally:
        client.stop()
        client.close()


async def refusal(address: str, directory: str, settings: Mapping[str, str]) -> str:
    """Why a broker with these settings does not start."""
    properties = {
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "log.dirs": directory,
        "zookeeper.connect": address,
        "zookeeper.connection.timeout.ms": "2500",
        **settings,
    }
    with pytest.raises(BrokerCannotStart) as refused:
        await Broker(BrokerSettings.from_properties(properties), World()).run()
    text = str(refused.value)
    assert "\n" not in text
    assert "secret" not in text
    return text


def test_brokers_and_who_may_read_what(secured: Secured) -> None:
    address = f"{secured.ensemble.secure_address}/kafka"
    with Cluster(brokers=3, zookeeper=address, settings=secured.settings) as cluster:
        servers = {"bootstrap.servers": cluster.bootstrap}
        with Admin(servers) as admin:
            admin.create_topics([NewTopic("orders", partitions=3, replication_factor=3)])
        with Producer(servers | {"acks": "all"}) as producer:
            producer.send("orders", b"one").result(timeout=30)
            cluster.kill(2)
            for number in range(20):
                producer.send("orders", b"%d" % number).result(timeout=60)
        cluster.restart(2)
        with zookeeper(secured, "other", "others-secret") as other:
            assert json.loads(other.get("/kafka/cluster/id")[0])["id"]
            acls, _ = other.get_acls("/kafka/brokers/topics/orders")
            rights = {(acl.id.scheme, acl.id.id): acl.perms for acl in acls}
            # ZooKeeper adds the certificate of the connection, which is an identity too.
            assert rights.pop(("x509", "CN=broker,OU=test,O=Example,C=AT")) == Permissions.ALL
            assert rights == {
                ("sasl", "broker"): Permissions.ALL,
                ("world", "anyone"): Permissions.READ,
            }
            attempts: list[Callable[[], object]] = [
                lambda: other.get_children("/kafka/config/users"),
                lambda: other.get("/kafka/config/brokers"),
                lambda: other.set("/kafka/cluster/id", b"nonsense"),
                lambda: other.delete("/kafka/controller"),
                lambda: other.create("/kafka/brokers/ids/99", b"{}"),
            ]
            for forbidden in attempts:
                with pytest.raises(NoAuthError):
                    forbidden()
        with zookeeper(secured, "broker", "brokers-secret") as own:
            acls, _ = own.get_acls("/kafka/config/users")
            assert {acl.id.scheme for acl in acls} == {"sasl", "x509"}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"odradek.zookeeper.sasl.jaas.config": LOG_IN.replace("brokers-", "wrong-")},
            "the log-in at ZooKeeper on localhost failed: it was refused",
        ),
        (
            {
                "odradek.zookeeper.sasl.jaas.config": "",
                "zookeeper.ssl.keystore.location": "",
            },
            "zookeeper.set.acl: nodes need an owner",
        ),
        ({"zookeeper.ssl.truststore.location": "STRANGER"}, "is not trusted"),
        ({"zookeeper.ssl.keystore.location": ""}, "no TLS with ZooKeeper on localhost"),
        ({"zookeeper.ssl.client.enable": "false"}, "no ZooKeeper answers"),
        ({"zookeeper.clientCnxnSocket": "org.apache.zookeeper.ClientCnxnSocketNIO"}, "TLS needs"),
        ({"zookeeper.ssl.truststore.password": "wrong"}, "zookeeper.ssl.truststore.password"),
        ({"zookeeper.ssl.enabled.protocols": "TLSv1"}, "is not secure and not supported"),
    ],
)
async def test_what_cannot_work_is_said_in_a_line(
    secured: Secured, change: dict[str, str], said: str, tmp_path: Path
) -> None:
    stranger = Authority("stranger").truststore(tmp_path / "stranger.p12")
    settings = secured.settings | {
        name: text.replace("STRANGER", str(stranger)) for name, text in change.items()
    }
    given = {name: text for name, text in settings.items() if text}
    assert said in await refusal(secured.ensemble.secure_address, str(tmp_path / "data"), given)


async def test_the_name_of_the_server_is_checked(secured: Secured, tmp_path: Path) -> None:
    """The certificate is for localhost and 127.0.0.1."""
    address = f"127.0.0.2:{secured.ensemble.servers[0].secure_port}"
    said = await refusal(address, str(tmp_path), secured.settings)
    assert "is not trusted: IP address mismatch" in said


async def test_a_log_in_that_is_missing(secured: Secured, tmp_path: Path) -> None:
    settings = {
        name: text for name, text in secured.settings.items() if name.startswith("zookeeper.ssl")
    }
    said = await refusal(secured.ensemble.secure_address, str(tmp_path), settings)
    assert "wants a log-in: a section Client in the file of KAFKA_OPTS" in said


def run_odradek(*words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "odradek.cli", *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def odradek(*words: str) -> str:
    done = run_odradek(*words)
    assert done.returncode == 0, (done.stdout, done.stderr)
    return done.stdout


def test_nodes_that_were_open_are_given_to_the_brokers_and_opened_again(secured: Secured) -> None:
    """The tools find TLS and the log-in in the file of a broker."""
    address = f"{secured.ensemble.secure_address}/open"
    settings = secured.settings | {"zookeeper.set.acl": "false"}
    file = str(secured.directory / "server.properties")
    lines = (f"{name}={text}\n" for name, text in settings.items())
    (secured.directory / "server.properties").write_text("".join(lines))

    def migrate(acl: str) -> str:
        connect = ("--zookeeper.connect", address, "--zk-tls-config-file", file)
        checked = ("--enable.path.check",)
        return odradek("zookeeper-security-migration", "--zookeeper.acl", acl, *connect, *checked)

    with (
        Cluster(brokers=2, zookeeper=address, settings=settings) as cluster,
        zookeeper(secured, "other", "others-secret") as other,
    ):
        scram = "SCRAM-SHA-512=[password=opensesame]"
        user = ("--entity-type", "users", "--entity-name", "ada")
        how = ("--zookeeper", address, "--zk-tls-config-file", file)
        odradek("configs", *how, "--alter", *user, "--add-config", scram)
        assert b"SCRAM-SHA-512" in other.get("/open/config/users/ada")[0]
        assert "belong to their brokers now" in migrate("secure")
        with pytest.raises(NoAuthError):
            other.get("/open/config/users/ada")
        with pytest.raises(NoAuthError):
            other.set("/open/brokers/topics", b"")
        assert sorted(other.get_children("/open/brokers/ids")) == ["1", "2"]
        # The brokers own the nodes, so they go on.
        with Admin({"bootstrap.servers": cluster.bootstrap}) as admin:
            admin.create_topics([NewTopic("after", partitions=1, replication_factor=2)])
        shown = odradek("zookeeper-shell", "--zk-tls-config-file", file, address, "ls", "/config")
        assert "users" in shown
        with_address = secured.directory / "with-address.properties"
        with_address.write_text(f"{Path(file).read_text()}zookeeper.connect={address}\n")
        there = ("--bootstrap-server", cluster.bootstrap.split(",")[0])
        checked = run_odradek("doctor", "--config", str(with_address), *there, "--json").stdout
        findings = json.loads(checked)["findings"]
        modes = [one["text"] for one in findings if one["check"] == "zookeeper"]
        assert len(modes) == 1, checked
        assert modes[0].count("follower") == 2, modes
        wrong = secured.directory / "wrong.properties"
        wrong.write_text(Path(file).read_text().replace("brokers-", "wrong-"))
        connect = ("--zookeeper.connect", address, "--zk-tls-config-file", str(wrong))
        patience = ("--zookeeper.connection.timeout", "3000")
        refused = run_odradek(
            "zookeeper-security-migration", "--zookeeper.acl", "unsecure", *connect, *patience
        )
        assert refused.returncode != 0
        said = refused.stderr.strip().splitlines()
        assert len(said) == 1, said
        assert "the log-in at ZooKeeper on localhost failed: it was refused" in said[0]
        assert "are open to everybody now" in migrate("unsecure")
        assert b"SCRAM-SHA-512" in other.get("/open/config/users/ada")[0]


def test_a_certificate_alone_may_own_the_nodes(secured: Secured, tmp_path: Path) -> None:
    trusted = str(secured.directory / "ca.p12")
    keys = secured.directory / "server.p12"
    more = {
        "ssl.keyStore.location": str(keys),
        "ssl.keyStore.password": PASSWORD,
        "ssl.trustStore.location": trusted,
        "ssl.trustStore.password": PASSWORD,
        "ssl.clientAuth": "need",
    }
    settings = {
        name: text for name, text in secured.settings.items() if name.startswith("zookeeper.")
    }
    with Ensemble(zookeeper_jars(), tmp_path, more=more, has_tls=True) as ensemble:
        address = f"{ensemble.secure_address}/kafka"
        with Cluster(brokers=2, zookeeper=address, settings=settings) as cluster:
            with Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"}) as producer:
                producer.send("orders", b"one").result(timeout=30)
            anybody = make_client(ensemble.address, 10.0)
            anybody.start(timeout=30)
            try:
                acls, _ = anybody.get_acls("/kafka/brokers/topics/orders")
                assert {(acl.id.scheme, acl.id.id, acl.perms) for acl in acls} == {
                    ("x509", "CN=broker,OU=test,O=Example,C=AT", Permissions.ALL),
                    ("world", "anyone", Permissions.READ),
                }
                with pytest.raises(NoAuthError):
                    anybody.delete("/kafka/controller")
                with pytest.raises(NoAuthError):
                    anybody.get("/kafka/config/users")
            finally:
                anybody.stop()
                anybody.close()


# Kerberos


@pytest.fixture(scope="module")
def by_kerberos(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Ensemble, Kdc]]:
    jars = need(zookeeper_jars)
    directory = tmp_path_factory.mktemp("by-kerberos")
    kdc = need(lambda: Kdc(directory / "kdc"))
    with kdc.running(), kdc.used_here(), pytest.MonkeyPatch.context() as patch:
        line = jaas(kdc.keytab("zookeeper", "zookeeper/localhost"), "zookeeper/localhost")
        (directory / "server.conf").write_text(f"Server {{ {line} }};\n")
        kdc.keytab("kafka", "kafka/localhost")
        kdc.keytab("eve", "eve")
        patch.setenv(
            "SERVER_JVMFLAGS",
            f"-Djava.security.auth.login.config={directory}/server.conf"
            f" -Djava.security.krb5.conf={kdc.config}",
        )
        more = {
            **SASL_PROVIDER,
            "enforce.auth.enabled": "true",
            "enforce.auth.schemes": "sasl",
            "kerberos.removeHostFromPrincipal": "true",
            "kerberos.removeRealmFromPrincipal": "true",
        }
        with Ensemble(jars, directory / "servers", more=more) as ensemble:
            yield ensemble, kdc


def test_brokers_log_in_by_kerberos(
    by_kerberos: tuple[Ensemble, Kdc], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ensemble, kdc = by_kerberos
    address = f"localhost:{ensemble.servers[0].port}/kafka"
    line = jaas(f"{kdc.directory}/kafka.keytab", "kafka/localhost")
    (tmp_path / "broker.conf").write_text(f"Client {{ {line} }};\n")
    monkeypatch.setenv("KAFKA_OPTS", f"-Djava.security.auth.login.config={tmp_path}/broker.conf")
    with Cluster(brokers=2, zookeeper=address, settings={"zookeeper.set.acl": "true"}) as cluster:
        with Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"}) as producer:
            producer.send("orders", b"one").result(timeout=30)
        eve = jaas(f"{kdc.directory}/eve.keytab", "eve")
        settings = BrokerSettings.from_properties({"odradek.zookeeper.sasl.jaas.config": eve})
        security = zookeeper_security(settings, OsDisk(), Randomness())
        client = make_client(f"localhost:{ensemble.servers[0].port}", 10.0, security)
        client.start(timeout=30)
        try:
            acls, _ = client.get_acls("/kafka/brokers/ids")
            assert {(acl.id.scheme, acl.id.id) for acl in acls} == {
                ("sasl", "kafka"),
                ("world", "anyone"),
            }
            with pytest.raises(NoAuthError):
                client.get_children("/kafka/config/users")
        finally:
            client.stop()
            client.close()


async def test_a_log_in_by_kerberos_that_fails(
    by_kerberos: tuple[Ensemble, Kdc], tmp_path: Path
) -> None:
    ensemble, kdc = by_kerberos
    address = f"127.0.0.1:{ensemble.servers[0].port}"
    line = jaas(f"{kdc.directory}/kafka.keytab", "kafka/localhost")
    settings = {"odradek.zookeeper.sasl.jaas.config": line}
    said = await refusal(address, str(tmp_path), settings)
    assert "Server zookeeper/127.0.0.1@ODRADEK.TEST not found" in said
    missing = settings | {"odradek.zookeeper.sasl.jaas.config": line.replace("kafka.k", "no.k")}
    said = await refusal(address, str(tmp_path), missing)
    assert "no.keytab cannot be read" in said
