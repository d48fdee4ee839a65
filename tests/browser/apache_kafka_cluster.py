"""Apache Kafka in place of our brokers, for the tests of this folder.

    ODRADEK_BROWSER_TESTS_ON=apache-kafka scripts/test tests/browser

`ON_APACHE_KAFKA` says whether that was asked for. Tests that need what only our brokers have are
left out by `LEFT_OUT`, with the reason; those where a page says something else ask
`ON_APACHE_KAFKA` themselves.
"""

import base64
import os
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final, Self

from benchmarks.apache_kafka import SERVER_JVM_FLAGS, ApacheKafka
from benchmarks.broker_process import BrokerProcess, free_ports, wait_until_ready
from odradek.testing.cluster import Cluster
from tests.needs import need

ON_APACHE_KAFKA: Final = os.environ.get("ODRADEK_BROWSER_TESTS_ON") == "apache-kafka"

# Why a test cannot pass on Apache Kafka, by its name.
LEFT_OUT: Final[Mapping[str, str]] = {
    "test_secured_console.py::test_the_audit_log_is_for_those_who_may_read_it": (
        "Apache Kafka writes no audit log to a topic"
    ),
    "test_secured_console.py::test_a_role_is_previewed_granted_and_revoked": (
        "Apache Kafka has no roles"
    ),
}

ADMIN: Final = "admin"
ADMIN_PASSWORD: Final = "admin-password-1"
_SCRAM: Final = "org.apache.kafka.common.security.scram.ScramLoginModule required"
_SECURE: Final = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": f"User:{ADMIN};User:ANONYMOUS",  # brokers reach each other without a log-in
    "sasl.enabled.mechanisms": "SCRAM-SHA-512",
    "listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config": f"{_SCRAM};",
    "delegation.token.secret.key": "a-secret-of-all-brokers",
}


class ApacheKafkaCluster(Cluster):
    """Brokers of Apache Kafka, where a test would have started ours: the same methods, and the same
    numbers of brokers. Broker 1 is the controller too, so a test may kill any other."""

    def __init__(
        self, *, brokers: int = 1, settings: Mapping[str, str] | None = None, secure: bool = False
    ) -> None:
        super().__init__(brokers=brokers, settings=settings, secure=secure)
        self._kafka = need(ApacheKafka.install)
        self._running: dict[int, BrokerProcess] = {}

    def start(self) -> Self:
        self._closing = ExitStack()
        directory = tempfile.TemporaryDirectory(prefix="apache-kafka-")
        self._directory = Path(self._closing.enter_context(directory))
        ports = free_ports(2 * self._brokers + 1)
        self._controller_port = ports.pop()
        self._ports = {number: (ports.pop(), ports.pop()) for number in range(1, self._brokers + 1)}
        cluster_id = "O" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode()[1:22]
        for number in self._ports:
            self._format(number, cluster_id)
        for number in self._ports:
            self._running[number] = self._started(number)
        for broker in self._running.values():
            wait_until_ready(broker)
        self._bootstrap = ",".join(f"127.0.0.1:{port}" for port, _ in self._ports.values())
        return self

    @property
    def client_properties(self) -> dict[str, str]:
        if not self._secure:
            return {"bootstrap.servers": self.bootstrap}
        return {
            "bootstrap.servers": self.bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.jaas.config": f'{_SCRAM} username="{ADMIN}" password="{ADMIN_PASSWORD}";',
        }

    def kill(self, broker_id: int) -> None:
        self._running.pop(broker_id).kill()

    def restart(self, broker_id: int) -> None:
        self._running[broker_id] = self._started(broker_id)
        wait_until_ready(self._running[broker_id])

    def stop(self) -> None:
        # The controller last: the others need it for a clean stop.
        with self._closing:
            for number in sorted(self._running, reverse=True):
                self._running.pop(number).stop()

    def _format(self, number: int, cluster_id: str) -> None:
        port, internal_port = self._ports[number]
        is_controller = number == 1
        protocol = "SASL_PLAINTEXT" if self._secure else "PLAINTEXT"
        addresses = [f"{protocol}://127.0.0.1:{port}", f"INTERNAL://127.0.0.1:{internal_port}"]
        controller = f"CONTROLLER://127.0.0.1:{self._controller_port}"
        copies = str(min(self._brokers, 3))
        properties = {
            "process.roles": "broker,controller" if is_controller else "broker",
            "node.id": str(number),
            "controller.quorum.voters": f"1@127.0.0.1:{self._controller_port}",
            "controller.listener.names": "CONTROLLER",
            "listeners": ",".join([*addresses, controller] if is_controller else addresses),
            "advertised.listeners": ",".join(addresses),
            "inter.broker.listener.name": "INTERNAL",
            "listener.security.protocol.map": (
                f"{protocol}:{protocol},INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT"
            ),
            "log.dirs": str(self._directory / f"data-{number}"),
            "default.replication.factor": copies,
            "offsets.topic.replication.factor": copies,
            "offsets.topic.num.partitions": "3",
            "transaction.state.log.replication.factor": copies,
            "transaction.state.log.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            **(_SECURE if self._secure else {}),
            # Settings of ours mean nothing to Apache Kafka.
            **{key: value for key, value in self._settings.items() if "odradek." not in key},
        }
        file = self._file(number)
        file.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        scram = f"SCRAM-SHA-512=[name={ADMIN},password={ADMIN_PASSWORD}]"
        users = ["--add-scram", scram] if self._secure and is_controller else []
        self._kafka.run_tool("storage", "format", "-t", cluster_id, "-c", str(file), *users)

    def _file(self, number: int) -> Path:
        return self._directory / f"broker-{number}.properties"

    def _started(self, number: int) -> BrokerProcess:
        return start_apache_kafka(
            self._kafka, self._file(number), self._ports[number][1], f"broker-{number}"
        )  # which is ready when its listener without a log-in answers


def start_apache_kafka(
    kafka: ApacheKafka, settings: Path, port: int, name: str, flags: Sequence[str] = ()
) -> BrokerProcess:
    """Starts a node whose storage is formatted, and returns at once."""
    # The heap of the benchmarks is more than what a few topics need.
    sized = ["-Xmx512M", *SERVER_JVM_FLAGS[2:], *flags]
    return BrokerProcess.start(
        name="Apache Kafka",
        command=[*kafka.java_command("kafka.Kafka", sized), str(settings)],
        port=port,
        data_directory=settings.parent,
        output=settings.parent / f"{name}.log",
    )


def cluster_for_tests(
    *, brokers: int = 1, settings: Mapping[str, str] | None = None, secure: bool = False
) -> Cluster:
    """Returns a cluster that is not started yet: ours, or Apache Kafka if that was asked for."""
    kind = ApacheKafkaCluster if ON_APACHE_KAFKA else Cluster
    return kind(brokers=brokers, settings=settings, secure=secure)
