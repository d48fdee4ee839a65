"""`odradek up --secure`: what it makes, who gets in, and what later starts keep."""

import os
import re
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from odradek.client.errors import AuthenticationFailed
from odradek.client.sync import Admin, Producer
from odradek.config.properties import parse_properties
from odradek.protocol.errors import KafkaError
from odradek.testing import Cluster


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("secured") / "data"


@pytest.fixture(scope="module")
def cluster(directory: Path) -> Iterator[Cluster]:
    with Cluster(brokers=3, secure=True, data=str(directory)) as running:
        yield running


def odradek(cluster: Cluster, *words: str, config: str = "") -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [
            *(sys.executable, "-m", "odradek.cli", *words, "--bootstrap-server", cluster.bootstrap),
            *("--command-config", config or cluster.client_path),
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def client_of(cluster: Cluster, directory: Path, user: str, password: str) -> str:
    properties = cluster.client_properties
    login = "org.apache.kafka.common.security.scram.ScramLoginModule required"
    properties["sasl.jaas.config"] = f'{login} username="{user}" password="{password}";'
    path = directory.parent / f"{user}.properties"
    path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    return str(path)


def test_a_new_user_may_do_what_an_acl_allows(cluster: Cluster, directory: Path) -> None:
    """The ten minutes of docs/security.md, and that the user may do nothing before."""
    made = odradek(
        cluster,
        "configs",
        "--alter",
        "--user",
        "ada",
        "--add-config",
        "SCRAM-SHA-512=[password=x,y=z]",
    )
    assert made.returncode == 0, made.stderr
    ada = client_of(cluster, directory, "ada", "x,y=z")
    odradek(cluster, "topics", "--create", "--topic", "orders")
    assert odradek(cluster, "topics", "--list", config=ada).stdout.strip() == ""
    with Producer(parse_properties(Path(ada).read_text())) as producer:
        with pytest.raises(KafkaError, match=r"[Pp]ermission|authoriz"):
            producer.send("orders", b"denied").result(timeout=30)
        rules = ("acls", "--add", "--allow-principal", "User:ada", "--producer")
        assert odradek(cluster, *rules, "--topic", "orders").returncode == 0
        producer.send("orders", b"allowed").result(timeout=30)
    assert odradek(cluster, "topics", "--list", config=ada).stdout == "orders\n"
    described = odradek(cluster, "configs", "--describe", "--user", "ada").stdout
    assert described == (
        "SCRAM credential configs for user-principal 'ada' are SCRAM-SHA-512=iterations=4096\n"
    )
    removed = ("configs", "--alter", "--user", "ada", "--delete-config", "SCRAM-SHA-512")
    assert odradek(cluster, *removed).returncode == 0
    with (
        Admin(parse_properties(Path(ada).read_text())) as admin,
        pytest.raises(AuthenticationFailed),
    ):
        admin.list_topics()


def test_who_has_no_log_in_does_not_get_in(cluster: Cluster, directory: Path) -> None:
    plain = directory.parent / "plain.properties"
    plain.write_text("client.id=nobody\n")
    said = odradek(cluster, "topics", "--list", config=str(plain))
    assert said.returncode == 1
    assert "security.protocol" in said.stderr
    wrong = client_of(cluster, directory, "admin", "guess")
    said = odradek(cluster, "topics", "--list", config=wrong)
    assert said.returncode == 1
    assert "SCRAM-SHA-512" in said.stderr
    assert "Traceback" not in said.stderr


def test_only_the_owner_may_read_what_it_made(cluster: Cluster, directory: Path) -> None:
    found = [directory, *directory.rglob("*")]
    assert len(found) > 30
    for path in found:
        mode = stat.S_IMODE(os.lstat(path).st_mode)
        assert mode & 0o077 == 0, f"{path} has mode {mode:o}"


def test_no_file_of_brokers_shows_a_password(cluster: Cluster, directory: Path) -> None:
    passwords = parse_properties((directory / "security/passwords.properties").read_text())
    assert sorted(passwords) == ["admin", "broker"]
    secrets = parse_properties((directory / "security/secrets.properties").read_text())
    assert len(secrets["delegation.token.secret.key"]) == 32
    passwords |= secrets
    own = {"client.properties", "librdkafka.properties", "passwords.properties"}
    own.add("secrets.properties")
    for path in directory.rglob("*"):
        if path.is_file() and path.name not in own:
            content = path.read_bytes()
            for password in passwords.values():
                assert password.encode() not in content, path


def test_a_delegation_token_logs_in_at_every_broker(cluster: Cluster) -> None:
    properties = cluster.client_properties
    with Admin(properties) as admin:
        token = admin.create_delegation_token(owner="User:grace")
    login = {name.replace("_", "."): text for name, text in token.login().items()}
    for server in cluster.bootstrap.split(","):
        by_token = {**properties, **login, "bootstrap.servers": server}
        with Admin(by_token) as grace:
            assert grace.list_topics() == {}, "she may do nothing yet"


def test_a_later_start_keeps_what_there_is(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with Cluster(secure=True, data=str(data)) as first:
        assert (data / "security/secrets.properties").exists()
        kept = {path: path.read_bytes() for path in (data / "security").iterdir()}
        login = (data / "client.properties").read_text().partition("sasl.jaas")[2]
        alter = ("configs", "--alter", "--user", "admin")
        done = odradek(first, *alter, "--add-config", "SCRAM-SHA-512=[password=changed]")
        assert done.returncode == 0, done.stderr
    # Without --secure it stays secured: it would be open to everybody otherwise.
    with Cluster(data=str(data)) as second:
        assert {path: path.read_bytes() for path in (data / "security").iterdir()} == kept
        assert (data / "client.properties").read_text().endswith(login)
        secured = Cluster(secure=True, data=str(data))
        secured._bootstrap = second.bootstrap
        said = odradek(secured, "topics", "--list")
        assert said.returncode == 1, "the first password is back"
        path = client_of(secured, data, "admin", "changed")
        assert odradek(secured, "topics", "--list", config=path).returncode == 0


def test_the_doctor_says_when_certificates_end(tmp_path: Path) -> None:
    data = tmp_path / "data"
    settings = {"odradek.ssl.reload.interval.ms": "50"}
    with Cluster(secure=True, data=str(data), settings=settings) as cluster:
        said = odradek(cluster, "doctor", "--data", str(data)).stdout
        # 365 of them within the first second.
        assert re.search("its certificate is valid for 36[45] days", said)
        certs = [sys.executable, "-m", "odradek.cli", "certs", "renew", "--days", "20"]
        subprocess.run([*certs, "--dir", str(data / "security")], check=True, capture_output=True)
        end_s = time.monotonic() + 20
        while "valid for 19 days" not in said:
            assert time.monotonic() < end_s, said
            said = odradek(cluster, "doctor", "--data", str(data)).stdout
        assert "-> odradek certs renew" in said
    # A start renews what ends soon.
    with Cluster(data=str(data)):
        shown = subprocess.run(
            [sys.executable, "-m", "odradek.cli", "certs", "show", "--dir", str(data / "security")],
            check=True,
            capture_output=True,
            text=True,
        )
        assert re.search("36[45] days", shown.stdout)


@pytest.mark.parametrize("brokers", ["1", "2"])
def test_a_certificate_is_for_this_machine_if_all_addresses_are_listened_on(
    tmp_path: Path, brokers: str
) -> None:
    data = tmp_path / "data"
    up = subprocess.Popen(
        [
            *(sys.executable, "-m", "odradek.cli", "up", "--secure", "--host", "0.0.0.0"),
            *("--brokers", brokers, "--port", "0", "--data", str(data), "--until-input-closes"),
            *(() if brokers != "1" else ("--override", "management.listener=")),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert up.stdout is not None
        assert any(line.startswith("odradek is ready at ") for line in up.stdout)
        properties = parse_properties((data / "client.properties").read_text())
        assert socket.gethostname() in properties["bootstrap.servers"]
        with Admin(properties) as admin:
            assert len(admin.describe_cluster().brokers) == int(brokers)
    finally:
        up.communicate(timeout=60)


def test_a_secured_broker_in_memory_becomes_ready(tmp_path: Path) -> None:
    with Cluster(secure=True) as cluster, Admin(cluster.client_properties) as admin:
        assert not admin.list_topics()
        directory = os.path.dirname(cluster.client_path)
    assert not os.path.exists(directory)
