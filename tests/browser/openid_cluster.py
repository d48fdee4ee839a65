"""A broker that checks the tokens of an OpenID provider, and the provider, as processes."""

import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.apache_kafka import ApacheKafka
from benchmarks.broker_process import wait_until_ready
from odradek.client.sync import Admin
from odradek.protocol.acls import (
    AccessEntry,
    Acl,
    Operation,
    Permission,
    ResourcePattern,
    ResourceType,
)
from tests.browser.apache_kafka_cluster import ON_APACHE_KAFKA, start_apache_kafka
from tests.needs import need

_BEARER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;"
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required;"


@dataclass(frozen=True)
class OpenIdCluster:
    issuer: str
    open_address: str
    bearer_address: str
    provider_log: Path


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


@contextmanager
def _process(log: Path, *arguments: str) -> Iterator[str]:
    """Runs a program of Python until it says that it is ready; yields that line."""
    with log.open("w") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", *arguments], stdout=subprocess.PIPE, stderr=errors, text=True
        )
        try:
            assert process.stdout is not None
            line = next((line for line in process.stdout if "is ready at" in line), "")
            assert line, log.read_text()
            yield line
        finally:
            process.terminate()
            process.communicate(timeout=20)


@contextmanager
def _apache_kafka(directory: Path, settings: Mapping[str, str]) -> Iterator[None]:
    """Runs Apache Kafka with these settings, and with those that it needs beside them."""
    own = dict(settings)
    listener, protocols = "listener.name.sasl_plaintext.oauthbearer", "PLAINTEXT:PLAINTEXT"
    own[f"{listener}.sasl.server.callback.handler.class"] = (
        "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
    )
    (controller_port,) = _free_ports(1)
    own |= {
        "process.roles": "broker,controller",
        "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
        "controller.listener.names": "CONTROLLER",
        "listeners": f"{settings['listeners']},CONTROLLER://127.0.0.1:{controller_port}",
        "advertised.listeners": settings["listeners"],
        "listener.security.protocol.map": (
            f"{protocols},CONTROLLER:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT"
        ),
        "offsets.topic.replication.factor": "1",
    }
    kafka = need(ApacheKafka.install)
    file = directory / "apache-kafka.properties"
    file.write_text("".join(f"{name}={text}\n" for name, text in own.items()))
    kafka.format_storage(file)
    # Apache Kafka asks only the addresses that this property lists.
    url = settings["sasl.oauthbearer.jwks.endpoint.url"]
    allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={url}"
    open_port = int(settings["listeners"].partition(",")[0].rpartition(":")[2])
    broker = start_apache_kafka(kafka, file, open_port, "broker", [allowed])
    try:
        wait_until_ready(broker)
        yield
    finally:
        broker.stop()


@contextmanager
def openid_cluster(
    directory: Path, *, lifetime_s: int, has_tokens: bool
) -> Iterator[OpenIdCluster]:
    """Starts both. The access tokens live for `lifetime_s`; with `has_tokens` the broker gives
    delegation tokens. Ada may do everything with the topic `ledger`."""
    provider_port, open_port, bearer_port = _free_ports(3)
    log = directory / "provider.log"
    settings = {
        "node.id": "1",
        "log.dirs": f"{directory}/data",
        "listeners": f"PLAINTEXT://127.0.0.1:{open_port},SASL_PLAINTEXT://127.0.0.1:{bearer_port}",
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": "OAUTHBEARER,SCRAM-SHA-512",
        "listener.name.sasl_plaintext.oauthbearer.sasl.jaas.config": _BEARER,
        "listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config": _SCRAM,
        "sasl.oauthbearer.jwks.endpoint.url": f"http://127.0.0.1:{provider_port}/keys",
        "sasl.oauthbearer.expected.audience": "kafka",
        "sasl.oauthbearer.expected.issuer": f"http://127.0.0.1:{provider_port}",
        "sasl.oauthbearer.clock.skew.seconds": "0",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    if has_tokens:
        settings["delegation.token.secret.key"] = "a-secret-of-all-brokers"
    file = directory / "server.properties"
    file.write_text("".join(f"{name}={text}\n" for name, text in settings.items()))
    arguments = ("tests.openid_provider", str(provider_port), "--lifetime", str(lifetime_s))
    with (
        _process(log, *arguments) as line,
        _apache_kafka(directory, settings)
        if ON_APACHE_KAFKA
        else _process(directory / "broker.log", "odradek.cli", "broker", str(file)),
    ):
        with Admin(bootstrap_servers=f"127.0.0.1:{open_port}") as admin:
            for topic in ("ledger", "payroll"):
                admin.create_topic(topic)
            rule = AccessEntry("User:ada", "*", Operation.ALL, Permission.ALLOW)
            admin.create_acls(
                [Acl(ResourcePattern(ResourceType.TOPIC, "ledger"), rule)]
            ).raise_for_errors()
        yield OpenIdCluster(
            line.split()[-1], f"127.0.0.1:{open_port}", f"127.0.0.1:{bearer_port}", log
        )
