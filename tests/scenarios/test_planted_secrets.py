"""Secrets are planted wherever an operator may write one, and everything that the system writes is
searched for them: logs, audit log, standard output and error, DescribeConfigs, state files, the
management port, and what tools say."""

import asyncio
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from odradek.client.admin.admin import Admin
from odradek.client.admin.config_types import ConfigChange, ConfigResource, ConfigType
from odradek.config.encryption import encrypt, write_key
from tests.scenarios.test_cli import Shell

KEY = bytes(range(32))
# Each is planted in another place, so that a leak tells where it came from.
PLAIN = "planted-plain-4711"
FILE = "planted-file-4712"
VARIABLE = "planted-variable-4713"
DIRECTORY = "planted-directory-4714"
SEALED = "planted-sealed-4715"
JAAS = "planted-jaas-4716"
JAAS_USER = "planted-jaas-user-4717"
UNKNOWN = "planted-unknown-4718"
CLIENT = "planted-client-4719"
FLAG = "planted-flag-4720"
STORED = "planted-stored-4721"
SECRETS = [
    PLAIN, FILE, VARIABLE, DIRECTORY, SEALED, JAAS, JAAS_USER, UNKNOWN, CLIENT, FLAG, STORED,
]  # fmt: skip

_STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


class Planted:
    """A broker with secrets in its files, and everything that was said so far."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.data = directory / "data"
        self.said: list[str] = []
        self.bootstrap = ""
        self.management = ""

    def write_files(self) -> Path:
        secrets = self.directory / "secrets"
        secrets.mkdir()
        (secrets / "a.properties").write_text(f"password={FILE}\n")
        (secrets / "token").write_text(f"{DIRECTORY}\n")
        (secrets / "key").write_text(write_key(KEY))
        sealed = encrypt(SEALED, KEY, os.urandom(12))
        settings = {
            "node.id": "1",
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "log.dirs": str(self.data),
            "management.listener": "http://127.0.0.1:0",
            "authorizer.class.name": _STANDARD,
            "super.users": "User:ANONYMOUS",
            "odradek.logs.level": "DEBUG",
            "odradek.audit.sink": "file",
            "odradek.audit.events": "authentication,denied,allowed,changes",
            "odradek.secrets.key.file": str(secrets / "key"),
            "ssl.keystore.password": PLAIN,
            "ssl.key.password": f"${{file:{secrets}/a.properties:password}}",
            "ssl.truststore.password": "${env:PLANTED_VARIABLE}",
            "listener.name.x.ssl.key.password": f"${{dir:{secrets}:token}}",
            "listener.name.x.ssl.keystore.password": f"${{encrypted:{sealed}}}",
            "listener.name.x.plain.sasl.jaas.config": "org.apache.kafka.common.security.plain."
            f'PlainLoginModule required username="a" password="{JAAS}" user_a="{JAAS_USER}";',
            "my.plugin.api.token": UNKNOWN,
        }
        path = self.directory / "server.properties"
        path.write_text("".join(f"{name}={text}\n" for name, text in settings.items()))
        return path

    @contextmanager
    def broker(self, path: Path) -> Iterator[None]:
        with (self.directory / "stderr").open("w") as stderr:
            process = subprocess.Popen(
                [sys.executable, "-m", "odradek.cli", "broker", str(path)],
                env={**os.environ, "PLANTED_VARIABLE": VARIABLE},
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
            )
        assert process.stdout is not None
        try:
            for line in process.stdout:
                self.said.append(line)
                if found := re.search(r"ready at (\S+:\d+)", line):
                    self.bootstrap = found[1]
                    break
            assert self.bootstrap, (self.directory / "stderr").read_text()
            yield
        finally:
            process.send_signal(signal.SIGTERM)
            self.said.append(process.communicate(timeout=60)[0])
            self.said.append((self.directory / "stderr").read_text())

    def tool(self, *words: str, debug: bool = False, stdin: str = "") -> str:
        """Runs a tool, with whatever success, and keeps what it said."""
        environment = {**os.environ, "ODRADEK_BOOTSTRAP": self.bootstrap}
        if debug:
            environment["ODRADEK_DEBUG"] = "1"
        done = subprocess.run(
            [sys.executable, "-m", "odradek.cli", *words],
            env=environment,
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        self.said += [done.stdout, done.stderr]
        return done.stdout + done.stderr

    def written(self) -> Iterator[tuple[str, bytes]]:
        """Yields everything that the broker wrote below its data directory."""
        for path in self.data.rglob("*"):
            if path.is_file():
                yield str(path.relative_to(self.directory)), path.read_bytes()


def test_no_secret_is_written_anywhere(tmp_path: Path) -> None:
    planted = Planted(tmp_path)
    settings = planted.write_files()
    client = tmp_path / "client.properties"
    client.write_text(
        f"ssl.keystore.password={CLIENT}\nsecurity.protocol=PLAINTEXT\nretries=none-{CLIENT}\n"
    )
    with planted.broker(settings):
        described = planted.tool("configs", "--describe", "--broker", "1", "--all")
        assert "ssl.key.password" in described
        planted.tool("configs", "--describe", "--broker", "1", "--all", "--json")
        planted.tool("topics", "--create", "--topic", "t")
        # A password that a client stores, in a setting that the broker does not know.
        asyncio.run(store_setting(planted.bootstrap, "my.other.password", STORED))
        planted.tool("configs", "--describe", "--broker", "1", "--all")
        # Failures, with and without a traceback, of tools that were given secrets.
        for debug in (False, True):
            planted.tool("topics", "--list", "--command-config", str(client), debug=debug)
            planted.tool(
                "topics", "--list", "--command-property", f"ssl.key.password={FLAG}",
                "--command-property", f"request.timeout.ms={FLAG}", debug=debug,
            )  # fmt: skip
        planted.said += list(scraped(planted))
        audit = planted.data / "audit.log"
        wait_for(lambda: audit.exists() and b"IncrementalAlterConfigs" in audit.read_bytes())
    # A start that fails, with the secrets in its settings.
    broken = tmp_path / "broken.properties"
    broken.write_text(settings.read_text() + "num.partitions=many\n")
    planted.tool("broker", str(broken))
    planted.tool("broker", str(broken), debug=True)
    planted.tool("doctor", "--config", str(settings))
    everything = "\n".join(planted.said)
    assert "server.log" in {Path(name).name for name, _ in planted.written()}
    for secret in SECRETS:
        assert secret not in everything, f"{secret} was said"
    for name, content in planted.written():
        for secret in SECRETS:
            # The settings that clients change are kept in the store, as in Kafka's.
            if secret == STORED and "metadata" in name:
                continue
            assert secret.encode() not in content, f"{secret} is in {name}"


async def store_setting(bootstrap: str, name: str, value: str) -> None:
    async with Admin(bootstrap_servers=bootstrap) as admin:
        resource = ConfigResource(ConfigType.BROKER, "1")
        answers = await admin.incremental_alter_configs({resource: [ConfigChange(name, value)]})
        assert set(answers.values()) == {None}, answers


def scraped(planted: Planted) -> Iterator[str]:
    """Yields the pages of the management port, whose address is in the server's log."""
    text = (planted.data / "server.log").read_text()
    found = re.search(r"http://127\.0\.0\.1:\d+", text)
    assert found is not None, text
    for path in ("/metrics", "/health", "/jolokia/list", "/"):
        try:
            with urllib.request.urlopen(found[0] + path, timeout=10) as answer:
                yield answer.read().decode()
        except urllib.error.HTTPError as error:
            yield error.read().decode()


def wait_for(condition: "object", deadline_s: float = 20) -> None:
    assert callable(condition)
    until = time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < until, "the condition did not become true"
        time.sleep(0.05)


@pytest.fixture
def odradek(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    monkeypatch.chdir(tmp_path)
    return Shell("127.0.0.1:1")


def test_the_life_of_an_encrypted_value(odradek: Shell, tmp_path: Path) -> None:
    made = odradek.ok("secrets", "create-key", "secrets.key")
    assert "Keep a copy" in made
    assert (tmp_path / "secrets.key").stat().st_mode & 0o777 == 0o600
    assert "exists already" in odradek.refused("secrets", "create-key", "secrets.key")
    key = ("--key-file", "secrets.key")
    sealed = odradek.ok("secrets", "encrypt", *key, stdin="pass word\n").strip()
    assert re.fullmatch(r"\$\{encrypted:[\w-]+\}", sealed)
    assert odradek.ok("secrets", "decrypt", sealed, *key) == "pass word\n"
    (tmp_path / "p.properties").write_text(
        f"odradek.secrets.key.file=secrets.key\nssl.key.password={sealed}\na=${{env:NO_SUCH}}\n"
    )
    shown = odradek("secrets", "show", "p.properties")
    assert shown.returncode == 1
    assert "ssl.key.password  ${encrypted:...}  can be read" in shown.stdout
    assert "the environment has no variable NO_SUCH" in shown.stdout
    assert "pass word" not in shown.stdout


def test_mistakes_with_secrets_are_answered(odradek: Shell, tmp_path: Path) -> None:
    seen = odradek.refused("secrets", "encrypt", "hunter2", code=2)
    assert "seen by everybody" in seen
    assert "hunter2" not in seen
    assert "create-key FILE" in odradek.refused("secrets", "encrypt", stdin="x\n")
    (tmp_path / "bad.key").write_text("hello")
    refused = odradek.refused("secrets", "encrypt", "--key-file", "bad.key", stdin="x\n")
    assert "32 bytes in base64" in refused
    assert "name the file" in odradek("secrets", "show").stderr
    (tmp_path / "c.properties").write_text("a=${vault:x:y}\n")
    refused = odradek.refused("topics", "--list", "--command-config", "c.properties")
    assert refused.startswith("odradek topics: c.properties: ")
    assert "no provider of secrets vault" in refused
