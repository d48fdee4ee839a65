"""`odradek balance serve` on three real brokers, driven by Cruise Control's own Python client."""

import http.client
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from cruisecontrolclient.client import Endpoint
from cruisecontrolclient.client.Responder import CruiseControlResponder

from odradek.client.admin.topic_types import NewTopic
from odradek.client.sync import Admin
from tests.scenarios.grow_load import PATIENCE_S
from tests.scenarios.up_process import COMMAND, three_free_ports, wait_for_line

TOPIC = "orders"


class Running:
    """The cluster and the service."""

    def __init__(self, bootstrap: str, address: str, process: "subprocess.Popen[str]") -> None:
        self.bootstrap = bootstrap
        self.address = address
        self.process = process

    def ask(self, endpoint: Any, **parameters: object) -> Any:
        """Asks by Cruise Control's client. Returns its response."""
        endpoint.add_param("json", True)
        for name, value in parameters.items():
            endpoint.add_param(name, value)
        responder = CruiseControlResponder()
        with responder:
            return responder.retrieve_response_from_Endpoint(self.address, endpoint)

    def replicas(self) -> list[list[int]]:
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        topic = admin.list_topics(TOPIC, timeout=PATIENCE_S).topics[TOPIC]
        return [topic.partitions[index].replicas for index in sorted(topic.partitions)]

    def tasks(self) -> dict[str, str]:
        rows = self.ask(Endpoint.UserTasksEndpoint()).json()["userTasks"]
        return {row["UserTaskId"]: row["Status"] for row in rows}

    def wait_until(self, is_so: Callable[[], bool]) -> None:
        end_s = time.monotonic() + PATIENCE_S
        while not is_so():
            assert time.monotonic() < end_s, self.tasks()
            time.sleep(0.1)


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    port = three_free_ports()
    bootstrap = f"127.0.0.1:{port}"
    words = ["up", "--brokers", "3", "--port", str(port), "--data", str(tmp_path / "data")]
    with subprocess.Popen([*COMMAND, *words], stdout=subprocess.PIPE, text=True) as cluster:
        try:
            wait_for_line(cluster, "odradek is ready at ")
            _fill(bootstrap)
            serve = ["balance", "serve", "--port", "0", "--bootstrap-server", bootstrap]
            serve += ["--measure", "0s", "--journal", str(tmp_path / "journal.json")]
            with subprocess.Popen([*COMMAND, *serve], stdout=subprocess.PIPE, text=True) as service:
                try:
                    line = wait_for_line(service, "balance is ready at http://")
                    address = line.split("http://")[1].split("/")[0]
                    yield Running(bootstrap, address, service)
                finally:
                    service.terminate()
                    service.wait(PATIENCE_S)
        finally:
            cluster.terminate()
            cluster.wait(PATIENCE_S)


def _fill(bootstrap: str) -> None:
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic(TOPIC, assignments={index: [1] for index in range(6)})])
    producer = Producer({"bootstrap.servers": bootstrap})
    for index in range(60):
        producer.produce(TOPIC, b"x" * 100_000, partition=index % 6)
    assert producer.flush(PATIENCE_S) == 0


def throttles(bootstrap: str) -> str:
    words = ["configs", "--describe", "--topic", TOPIC, "--bootstrap-server", bootstrap]
    return subprocess.run([*COMMAND, *words], capture_output=True, text=True, check=True).stdout


def test_cruise_controls_client_balances_a_cluster(running: Running) -> None:
    state = running.ask(Endpoint.StateEndpoint()).json()
    assert state["ExecutorState"] == {"state": "NO_TASK_IN_PROGRESS"}
    brokers = running.ask(Endpoint.LoadEndpoint()).json()["brokers"]
    assert [row["Replicas"] for row in brokers] == [6, 0, 0]
    proposed = running.ask(Endpoint.ProposalsEndpoint(), verbose=True)
    assert proposed.headers["User-Task-ID"] in running.tasks()
    assert proposed.json()["summary"]["numReplicaMovements"] == 4
    assert len(proposed.json()["proposals"]) == 4

    # Without dryrun=false nothing moves.
    assert running.ask(Endpoint.RebalanceEndpoint()).status_code == 200
    assert running.replicas() == [[1]] * 6

    # A slow run: a second one is refused, plans are not, and it can be stopped.
    begun = running.ask(Endpoint.RebalanceEndpoint(), dryrun=False, replication_throttle=20_000)
    assert begun.status_code == 200, begun.text
    task = begun.headers["User-Task-ID"]
    assert running.tasks()[task] == "InExecution"
    assert "throttled" in throttles(running.bootstrap)
    refused = running.ask(Endpoint.RemoveBrokerEndpoint("1"), dryrun=False)
    assert refused.status_code == 409
    assert "stop_proposal_execution" in refused.json()["errorMessage"]
    assert running.ask(Endpoint.RemoveBrokerEndpoint("1")).status_code == 200
    executor = running.ask(Endpoint.StateEndpoint()).json()["ExecutorState"]
    assert executor["state"] == "INTER_BROKER_REPLICA_MOVEMENT_TASK_IN_PROGRESS"
    assert executor["triggeredUserTaskId"] == task
    stopped = running.ask(Endpoint.StopProposalExecutionEndpoint())
    assert "stopped" in stopped.json()["message"]
    running.wait_until(lambda: running.tasks()[task] == "CompletedWithError")
    assert "throttled" not in throttles(running.bootstrap)
    assert running.replicas() == [[1]] * 6

    # A whole run.
    task = running.ask(Endpoint.RebalanceEndpoint(), dryrun=False).headers["User-Task-ID"]
    running.wait_until(lambda: running.tasks()[task] == "Completed")
    brokers = running.ask(Endpoint.LoadEndpoint()).json()["brokers"]
    assert [row["Replicas"] for row in brokers] == [2, 2, 2]
    task = running.ask(Endpoint.RemoveBrokerEndpoint("3"), dryrun=False).headers["User-Task-ID"]
    running.wait_until(lambda: running.tasks()[task] == "Completed")
    assert not any(3 in replicas for replicas in running.replicas())
    added = running.ask(Endpoint.AddBrokerEndpoint("3")).json()
    assert added["summary"]["numReplicaMovements"] == 2
    assert running.ask(Endpoint.DemoteBrokerEndpoint("1")).status_code == 200

    done = subprocess.run(
        [str(Path(sys.executable).parent / "cccli"), "-a", running.address, "state"],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert "NO_TASK_IN_PROGRESS" in done.stdout, done.stderr

    running.process.send_signal(signal.SIGTERM)
    assert running.process.wait(PATIENCE_S) == 0


def test_mistakes_and_foreign_pages_are_refused(running: Running) -> None:
    def ask(method: str, path: str, headers: dict[str, str] | None = None) -> tuple[int, Any]:
        connection = http.client.HTTPConnection(running.address, timeout=60)
        try:
            connection.request(method, f"/kafkacruisecontrol/{path}", headers=headers or {})
            response = connection.getresponse()
            return response.status, json.loads(response.read())
        finally:
            connection.close()

    for path, words in [
        ("rebalance?dryrn=false", "did you mean dryrun?"),
        ("rebalance?goals=RackAwareGoal&json=true", "goals"),
        ("rebalance?replication_throttle=5", "1000 or more"),
        ("rebalance?excluded_topics=(", "regular expression"),
        ("remove_broker?json=true", "brokerid is needed"),
        ("remove_broker?brokerid=9", "there is no broker 9"),
        ("remove_broker?brokerid=1,2,3", "no broker would be left"),
    ]:
        status, content = ask("POST", path)
        assert (status, words in content["errorMessage"]) == (400, True), content
    assert ask("POST", "rebalance", {"host": "attacker.example"})[0] == 421
    assert ask("POST", "rebalance", {"origin": "http://attacker.example"})[0] == 403
    assert ask("GET", "rebalance")[0] == 405
    assert ask("POST", "stop_proposal_execution?json=true")[1]["message"] == (
        "Nothing is being carried out."
    )
    assert running.replicas() == [[1]] * 6
