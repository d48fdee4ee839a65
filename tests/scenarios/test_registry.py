"""The schema registry as users start it: a process with a properties file, on a real broker."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from odradek.client.sync import Producer
from odradek.testing import Cluster
from tests.scenarios.registry_process import command, running


def own(name: str) -> dict[str, str]:
    """Returns settings of a registry with a topic and a group of its own."""
    return {"kafkastore_topic": name, "schema_registry_group_id": name}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as started:
        yield started


def test_what_is_registered_survives_a_kill(cluster: Cluster, tmp_path: Path) -> None:
    with running(
        tmp_path, cluster.bootstrap, kafkastore_topic="kill", schema_registry_group_id="kill"
    ) as registry:
        first = registry.register("a-value")
        assert (first["id"], first["version"]) == (1, 1)
        registry.process.send_signal(signal.SIGKILL)
        registry.process.wait()
    # At the same address, the member that was killed is not waited for.
    settings = {
        "kafkastore_topic": "kill",
        "schema_registry_group_id": "kill",
        "listeners": f"http://127.0.0.1:{registry.port}",
    }
    with running(tmp_path, cluster.bootstrap, **settings) as registry:
        assert registry.register("a-value")["id"] == 1
        assert registry.register("b-value", '"string"')["id"] == 2
        assert "of kill: 1 subject, 1 version" in registry.said()


def test_sigterm_ends_it_in_order(cluster: Cluster, tmp_path: Path) -> None:
    with running(
        tmp_path, cluster.bootstrap, kafkastore_topic="term", schema_registry_group_id="term"
    ) as registry:
        registry.register("a-value")
        registry.process.terminate()
        assert registry.process.wait(timeout=20) == 0


def test_health_and_metrics(cluster: Cluster, tmp_path: Path) -> None:
    with running(
        tmp_path, cluster.bootstrap, kafkastore_topic="health", schema_registry_group_id="health"
    ) as registry:
        registry.register("a-value")
        assert registry.ask("GET", "/healthz")[0] == 200
        assert registry.ask("GET", "/readyz")[0] == 200
        text = registry.ask("GET", "/metrics")[1]
        assert "odradek_registry_subjects 1" in text
        assert "odradek_registry_is_primary 1" in text


def test_foreign_records_are_passed_over_and_named(cluster: Cluster, tmp_path: Path) -> None:
    topic = cluster.create_topic("foreign", config={"cleanup.policy": "compact"})
    with running(
        tmp_path, cluster.bootstrap, kafkastore_topic=topic, schema_registry_group_id=topic
    ) as registry:
        registry.register("a-value")
        with Producer(bootstrap_servers=cluster.bootstrap) as producer:
            producer.send(topic, b"\xff", key=b"garbage")
            producer.send(topic, b"{}", key=b'{"keytype":"SCHEMA"}')
            producer.flush()
        deadline_s = time.monotonic() + 20
        while "odradek_registry_bad_records_total 2" not in registry.ask("GET", "/metrics")[1]:
            assert time.monotonic() < deadline_s
        assert registry.register("b-value", '"int"')["id"] == 2
        assert "is skipped: its key is not JSON" in registry.said()


@pytest.mark.parametrize(
    ("policy", "partitions", "words"),
    [("delete", 1, "cleanup.policy=delete"), ("compact", 2, "2 partitions and must have one")],
)
def test_a_topic_that_would_lose_schemas_is_refused(
    cluster: Cluster, tmp_path: Path, policy: str, partitions: int, words: str
) -> None:
    topic = cluster.create_topic(
        prefix="wrong", partitions=partitions, config={"cleanup.policy": policy}
    )
    done = subprocess.run(
        command(tmp_path, cluster.bootstrap, {"kafkastore.topic": topic}),
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_brokers_that_are_away_are_named(tmp_path: Path) -> None:
    settings = {"kafkastore.init.timeout.ms": "1000"}
    done = subprocess.run(
        command(tmp_path, "127.0.0.1:1", settings),
        capture_output=True, text=True, timeout=120, check=False,
        env={**os.environ, "PYTHONWARNINGS": "error"},
    )  # fmt: skip
    assert done.returncode == 1
    assert "127.0.0.1:1" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_next_instance_takes_over(cluster: Cluster, tmp_path: Path) -> None:
    settings = own("two")
    with (
        running(tmp_path / "a", cluster.bootstrap, **settings) as first,
        running(tmp_path / "b", cluster.bootstrap, **settings) as second,
    ):
        assert second.register("s")["id"] == 1
        assert second.ask("GET", "/subjects")[1] == ["s"]
        first.process.kill()
        first.process.wait()
        assert second.register("t", '"string"')["id"] == 2
        assert second.ask("GET", "/schemas/ids/1")[0] == 200
