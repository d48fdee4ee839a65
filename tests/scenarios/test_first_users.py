"""Users that are written before the first broker starts: `storage format --add-scram`, and `configs
--zookeeper`. Without them brokers that log in to each other by SCRAM could not start."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from odradek.cli.main import main
from odradek.config.properties import parse_properties
from tests.needs import need
from tests.unit.metadata.zookeeper_servers import Ensemble, zookeeper_jars

SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"
PROPERTIES = f"""\
listeners=SASL_PLAINTEXT://127.0.0.1:0
security.inter.broker.protocol=SASL_PLAINTEXT
sasl.mechanism.inter.broker.protocol=SCRAM-SHA-256
sasl.enabled.mechanisms=SCRAM-SHA-256
listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config={SCRAM} \\
    username="ada" password="a,b=c";
management.listener=
"""


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with Ensemble(need(zookeeper_jars), tmp_path_factory.mktemp("zookeeper")) as servers:
        yield servers.address


def odradek(*words: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "odradek.cli", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_the_first_user_logs_in_to_the_first_broker(tmp_path: Path) -> None:
    config = tmp_path / "server.properties"
    config.write_text(f"{PROPERTIES}log.dirs={tmp_path}/data\n")
    cluster_id = odradek("storage", "random-uuid").stdout.strip()
    user = ["--add-scram", "SCRAM-SHA-256=[name=ada,password=a,b=c]"]
    assert odradek("storage", "info", "-c", str(config)).returncode == 1
    assert not (tmp_path / "data").exists()
    made = odradek("kafka-storage.sh", "format", "-t", cluster_id, "-c", str(config), *user)
    assert (made.returncode, made.stderr) == (0, "")
    assert f"cluster {cluster_id}, with the users ada" in made.stdout
    again = odradek("storage", "format", "-c", str(config))
    assert again.returncode == 1
    assert cluster_id in again.stderr

    with broker_of(config) as address:
        shown = described_users(tmp_path, address, "a,b=c")
        assert shown.splitlines() == [
            "SCRAM credential configs for user-principal 'ada' are SCRAM-SHA-256=iterations=4096"
        ]
        used = odradek("storage", "format", "--ignore-formatted", "-c", str(config), *user)
        assert used.returncode == 1
        assert "another process is using it" in used.stderr


@contextmanager
def broker_of(config: Path) -> Iterator[str]:
    """Runs a broker; yields its address."""
    broker = subprocess.Popen(
        [sys.executable, "-m", "odradek.cli", "broker", str(config), "--until-input-closes"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert broker.stdout is not None
        yield broker.stdout.readline().split()[4]
    finally:
        broker.communicate(timeout=30)


def described_users(directory: Path, address: str, password: str) -> str:
    """Returns what `configs` says to the user ada."""
    login = directory / "client.properties"
    login.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-256\n"
        f'sasl.jaas.config={SCRAM} username="ada" password="{password}";\n'
    )
    connect = ("--bootstrap-server", address, "--command-config", str(login))
    shown = odradek("configs", "--describe", "--entity-type", "users", *connect)
    assert shown.returncode == 0, shown.stderr
    return shown.stdout


def test_a_user_is_written_into_an_ensemble(tmp_path: Path, zookeeper: str) -> None:
    """The line of Kafka's documents, before the first broker starts."""
    words = ["--alter", "--entity-type", "users", "--entity-name", "ada"]
    store = f"{zookeeper}/first"
    for password in ("SCRAM-SHA-256=[password=secret]", "SCRAM-SHA-512=[password=other]"):
        made = odradek("configs", "--zookeeper", store, *words, "--add-config", password)
        assert made.returncode == 0, made.stderr
    refused = odradek("configs", "--zookeeper", store, *words, "--delete-config", "SCRAM-SHA-512")
    assert refused.returncode == 2
    config = tmp_path / "server.properties"
    config.write_text(
        f"{PROPERTIES}log.dirs={tmp_path}/data\nodradek.metadata.store=zookeeper\n"
        f"zookeeper.connect={store}\n"
    )
    with broker_of(config) as address:
        shown = described_users(tmp_path, address, "secret")
        assert "SCRAM-SHA-256=iterations=4096, SCRAM-SHA-512=iterations=4096" in shown


def test_a_secured_cluster_on_an_ensemble(tmp_path: Path, zookeeper: str) -> None:
    data = tmp_path / "data"
    up = subprocess.Popen(
        [
            *(sys.executable, "-m", "odradek.cli", "up", "--secure", "--brokers", "2"),
            *("--port", "0", "--zookeeper", f"{zookeeper}/secured", "--data", str(data)),
            "--until-input-closes",
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert up.stdout is not None
        assert any(line.startswith("odradek is ready at ") for line in up.stdout)
        path = str(data / "client.properties")
        made = odradek("topics", "--create", "--topic", "orders", "--command-config", path)
        assert made.returncode == 0, made.stderr
        assert len(parse_properties((data / "client.properties").read_text())) == 6
    finally:
        up.communicate(timeout=60)


def test_format_needs_settings(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["storage", "format"]) == 2
    assert "--config FILE" in capsys.readouterr().err


def test_a_cluster_id_must_be_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "server.properties"
    config.write_text(f"{PROPERTIES}log.dirs={tmp_path}/data\n")
    assert main(["storage", "format", "-t", "abc", "-c", str(config)]) == 2
    assert "random-uuid" in capsys.readouterr().err
