"""Real ZooKeeper servers for tests: one, or an ensemble of three, on loopback.

Their jars come as Apache Kafka's do, and a machine that cannot have them says why: who asks
decides whether that is a skip or a failure.
"""

import signal
import socket
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from benchmarks.apache_kafka import Artifact, install_jars, java_program
from benchmarks.broker_process import free_ports
from odradek.cli.running.zookeeper import server_command, write_config

VERSION = "3.9.4"
_NETTY = "org.apache.zookeeper.server.NettyServerCnxnFactory"
READY_TIMEOUT_S = 60.0


def zookeeper_jars() -> Path:
    java_program()
    return install_jars(
        f"zookeeper-{VERSION}",
        [
            Artifact("org.apache.zookeeper", "zookeeper", VERSION),
            # ZooKeeper's server needs these and leaves them to whoever packages it.
            Artifact("io.dropwizard.metrics", "metrics-core", "4.1.12.1"),
            Artifact("org.xerial.snappy", "snappy-java", "1.1.10.5"),
        ],
    )


class ZookeeperServer:
    """One server's process."""

    def __init__(self, jars: Path, directory: Path, port: int, more: dict[str, str]) -> None:
        self.port = port
        self.secure_port = int(more.get("secureClientPort", "0"))
        self._command = server_command(write_config(str(directory), port, more=more), f"{jars}/*")
        self._output = directory / "output"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._output.open("ab") as output:
            self.process = subprocess.Popen(
                self._command, stdout=output, stderr=subprocess.STDOUT, cwd=self._output.parent
            )

    def wait_until_serving(self) -> None:
        deadline_s = time.monotonic() + READY_TIMEOUT_S
        while not is_serving(self.port):
            assert self.process is not None
            assert self.process.poll() is None, self._output.read_text()
            assert time.monotonic() < deadline_s, self._output.read_text()
            time.sleep(0.02)

    def kill(self) -> None:
        """As with kill -9."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def send(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)


class Ensemble:
    """One server, or several that elect a leader."""

    def __init__(
        self,
        jars: Path,
        directory: Path,
        size: int = 1,
        *,
        more: Mapping[str, str] | None = None,
        has_tls: bool = False,
    ) -> None:
        """`more` are settings of each server. With `has_tls` each has a second port for clients,
        with TLS; `secure_address` has those. Options of the JVM come from SERVER_JVMFLAGS."""
        ports = free_ports(4 * size)
        peers = {}
        if size > 1:
            peers = {"initLimit": "20", "syncLimit": "10"}
            for number in range(size):
                first, second = ports[size + 2 * number : size + 2 * number + 2]
                peers[f"server.{number + 1}"] = f"127.0.0.1:{first}:{second}"
        self.servers = []
        for number in range(size):
            home = directory / f"zookeeper-{number + 1}"
            home.mkdir(parents=True)
            (home / "myid").write_text(str(number + 1))
            settings = {**peers, **(more or {})}
            if has_tls:
                settings["secureClientPort"] = str(ports[3 * size + number])
                settings["serverCnxnFactory"] = _NETTY
            self.servers.append(ZookeeperServer(jars, home, ports[number], settings))
        self.address = ",".join(f"127.0.0.1:{server.port}" for server in self.servers)
        self.secure_address = ",".join(f"localhost:{one.secure_port}" for one in self.servers)

    def __enter__(self) -> "Ensemble":
        for server in self.servers:
            server.start()
        try:
            for server in self.servers:
                server.wait_until_serving()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        for server in self.servers:
            server.kill()


def is_serving(port: int) -> bool:
    """Whether the server has found its place: alone, leader or follower."""
    return "Mode: " in ask(port, "srvr")


def ask(port: int, word: str) -> str:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
            connection.sendall(word.encode())
            answer = b""
            while data := connection.recv(4096):
                answer += data
            return answer.decode()
    except OSError:
        return ""
