"""A ZooKeeper ensemble of three, each server on a host of its own."""

import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Self

from benchmarks.broker_process import ToolMissing
from odradek.cli.running.zookeeper import server_command, write_config
from tests.scenarios.hosts.network import Network
from tests.scenarios.namespaces import CannotRun, inside
from tests.unit.metadata.zookeeper_servers import zookeeper_jars

_PORT: Final = 2181
_READY_S: Final = 60.0


class HostedEnsemble:
    """Use it with `with`: it serves when the block begins."""

    def __init__(self, network: Network, hosts: Sequence[int], directory: Path) -> None:
        try:
            self._jars = zookeeper_jars()
        except ToolMissing as missing:
            raise CannotRun(str(missing)) from None
        self._network = network
        self._hosts = list(hosts)
        self._directory = directory
        self._processes: list[subprocess.Popen[bytes]] = []

    @property
    def address(self) -> str:
        servers = ",".join(f"{self._network.address(host)}:{_PORT}" for host in self._hosts)
        return f"{servers}/odradek"

    def __enter__(self) -> Self:
        peers = {"initLimit": "20", "syncLimit": "10"}
        for number, host in enumerate(self._hosts, 1):
            peers[f"server.{number}"] = f"{self._network.address(host)}:2888:3888"
        try:
            for number, host in enumerate(self._hosts, 1):
                self._start(number, host, peers)
            for host in self._hosts:
                self._wait_until_serving(host)
        except BaseException:
            self.stop()
            raise
        return self

    def _start(self, number: int, host: int, peers: dict[str, str]) -> None:
        home = self._directory / f"zookeeper-{number}"
        home.mkdir(parents=True)
        (home / "myid").write_text(str(number))
        config = write_config(str(home), _PORT, host=self._network.address(host), more=peers)
        command = server_command(config, f"{self._jars}/*")
        with (home / "output").open("ab") as output:
            self._processes.append(
                subprocess.Popen(
                    [*inside(self._network.name(host)), *command],
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    cwd=home,
                )
            )

    def _wait_until_serving(self, host: int) -> None:
        deadline_s = time.monotonic() + _READY_S
        while not _is_serving(self._network.address(host)):
            assert time.monotonic() < deadline_s, f"ZooKeeper on host {host} does not serve"
            time.sleep(0.05)

    def stop(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait()
        self._processes.clear()

    def __exit__(self, *_: object) -> None:
        self.stop()


def _is_serving(address: str) -> bool:
    try:
        with socket.create_connection((address, _PORT), 5) as connection:
            connection.sendall(b"srvr")
            return b"Mode: " in connection.makefile("rb").read()
    except OSError:
        return False
