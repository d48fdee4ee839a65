"""Three brokers on a ZooKeeper ensemble of three of which one is dead, under load.

Everything: ``python -m tests.scenarios.failures --stores zookeeper``.
"""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from benchmarks.broker_process import (
    BrokerProcess,
    free_ports,
    odradek_program,
    wait_until_ready,
)
from odradek.config import parse_properties
from tests.needs import need
from tests.scenarios.chaos_cluster import ChaosCluster, Seat
from tests.scenarios.chaos_load import LOAD, PAIRS
from tests.scenarios.chaos_run import (
    ChaosRun,
    kill_and_restart,
    killed_until_others_lead,
    stop_and_restart,
)
from tests.unit.metadata.zookeeper_servers import Ensemble, zookeeper_jars

SESSION_TIMEOUT_S = 6.0


@pytest.fixture(scope="module")
def ensemble(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ensemble]:
    jars = need(zookeeper_jars)
    with Ensemble(jars, tmp_path_factory.mktemp("ensemble"), size=3) as ensemble:
        ensemble.servers[0].kill()
        yield ensemble


@pytest.fixture
def operator(ensemble: Ensemble) -> Iterator[KazooClient]:
    """Any ZooKeeper client."""
    client = KazooClient(ensemble.address)
    client.start(timeout=20)
    client.chroot = "/odradek"  # Nobody has made it yet.
    try:
        yield client
    finally:
        client.stop()
        client.close()


def test_nothing_is_lost_when_the_controller_is_deleted_and_brokers_die(
    ensemble: Ensemble, operator: KazooClient, tmp_path: Path
) -> None:
    with (
        ChaosCluster(tmp_path, zookeeper=f"{ensemble.address}/odradek") as cluster,
        ChaosRun(cluster, partitions=3) as run,
    ):
        assert {LOAD, PAIRS} <= set(operator.get_children("/brokers/topics"))
        assert sorted(operator.get_children("/brokers/ids")) == ["1", "2", "3"]
        deleted = run.suffer("/controller deleted", run.seat_of("controller"), Deleting(operator))
        # The first is a child of `odradek up`, which sees it die; the next one is not.
        watched = run.suffer("kill -9", run.seat_of("leader"), killed_until_others_lead(run))
        killed = run.suffer("kill -9", run.cluster.seats[watched.broker], kill_and_restart)
        run.suffer("clean stop", run.seat_of("controller"), stop_and_restart)
        found = run.judge()
    assert not found, found[:10]
    assert deleted.without_leader_s == 0.0
    # Nobody waits for a session to expire of which somebody knows that it is over.
    assert watched.without_leader_s < SESSION_TIMEOUT_S / 2
    assert killed.silence_s < SESSION_TIMEOUT_S / 2


def test_brokers_of_a_kafka_file_without_an_id_are_given_one_and_keep_it(
    ensemble: Ensemble, tmp_path: Path
) -> None:
    def run(name: str) -> str:
        """Starts the broker on a file, stops it when it is ready; its id."""
        directory = tmp_path / name
        directory.mkdir(exist_ok=True)
        (port,) = free_ports(1)
        file = directory / "server.properties"
        file.write_text(
            f"listeners=PLAINTEXT://127.0.0.1:{port}\nlog.dirs={directory}/data\n"
            f"zookeeper.connect={ensemble.address}/given\n"
        )
        broker = BrokerProcess.start(
            name=name,
            command=[odradek_program(), "broker", str(file)],
            port=port,
            data_directory=directory / "data",
            output=directory / "output",
        )
        try:
            wait_until_ready(broker)
        finally:
            broker.stop()
        return parse_properties((directory / "data" / "meta.properties").read_text())["node.id"]

    assert [run("first"), run("second"), run("first")] == ["1001", "1002", "1001"]


class Deleting:
    """A fault: somebody deletes the controller's node."""

    def __init__(self, operator: KazooClient) -> None:
        self._operator = operator

    def __call__(self, seat: Seat) -> None:
        value, stat = self._operator.get("/controller")
        assert json.loads(value)["brokerid"] == seat.id
        epoch = int(self._operator.get("/controller_epoch")[0])
        self._operator.delete("/controller")
        began_s = time.monotonic()
        while int(self._operator.get("/controller_epoch")[0]) == epoch:
            assert time.monotonic() - began_s < 1, "nobody controls after a second"
            time.sleep(0.005)
        print(f"another controller after {time.monotonic() - began_s:.3f} s")
        value, now = self._operator.get("/controller")
        assert now.czxid > stat.czxid
        assert json.loads(value)["brokerid"] in (1, 2, 3)


def test_doctor_sees_the_dead_server_and_a_broker_whose_clock_is_wrong(
    ensemble: Ensemble, operator: KazooClient, tmp_path: Path
) -> None:
    operator.ensure_path("/brokers/ids")
    ahead_ms = int(time.time() * 1000) + 60_000
    operator.create("/brokers/ids/77", json.dumps({"timestamp": str(ahead_ms)}).encode())
    file = tmp_path / "server.properties"
    file.write_text(f"zookeeper.connect={ensemble.address}/odradek\n")
    flags = ("--config", str(file), "--bootstrap-server", "127.0.0.1:1", "--json")
    done = subprocess.run(
        [sys.executable, "-m", "odradek.cli", "doctor", *flags],
        capture_output=True,
        text=True,
        check=False,
    )
    operator.delete("/brokers/ids/77")
    found = json.loads(done.stdout)["findings"]
    said = [one["text"] for one in found if one["check"] == "zookeeper"]
    dead = ensemble.address.split(",")[0]
    assert said[0] == f"{dead} does not serve: connection refused"
    assert "if one more is lost, no leader, topic or setting can change" in said[1]
    (skew,) = [one["text"] for one in found if one["text"].startswith("that of broker 77 was ")]
    assert skew.startswith(("that of broker 77 was 60.", "that of broker 77 was 59."))
