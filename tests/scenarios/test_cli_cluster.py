"""Several brokers on one machine, as an operator sees them: real processes, real signals."""

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from odradek.testing import Cluster, ClusterFailed

COMMAND = [sys.executable, "-m", "odradek.cli"]
READY = "odradek is ready at "


def run(*words: str, stdin: str = "") -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [*COMMAND, *words], input=stdin, capture_output=True, text=True, check=False, timeout=60
    )


def ok(bootstrap: str, *words: str, stdin: str = "") -> str:
    done = run(*words, "--bootstrap-server", bootstrap, stdin=stdin)
    assert done.returncode == 0, (done.stdout, done.stderr)
    return done.stdout


def eventually(is_so: Callable[[], bool], within_s: float = 20.0) -> None:
    """Looks until it is so; what it waits for has no other way to be noticed."""
    end_s = time.monotonic() + within_s
    while not is_so():
        assert time.monotonic() < end_s, "it did not happen in time"
        time.sleep(0.02)


class Up:
    """`odradek up --brokers N` in the foreground of a test."""

    def __init__(self, data: Path, *words: str, brokers: int = 3) -> None:
        self.data = data
        self.process = subprocess.Popen(
            [*COMMAND, "up", "--brokers", str(brokers), "--data", str(data), *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.lines: list[str] = []
        self.bootstrap = self.line_with(READY).removeprefix(READY).split(" ", 1)[0]

    def line_with(self, words: str) -> str:
        """The next line that has these words in it."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line)
            if words in line:
                return line
        raise AssertionError(f"it ended without {words!r}: {self.lines}")

    def pid(self, broker: int) -> int:
        return int((self.data / f"broker-{broker}" / "broker.pid").read_text())

    def stop(self, number: signal.Signals = signal.SIGINT) -> str:
        self.process.send_signal(number)
        return self.process.communicate(timeout=60)[0]


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Up]:
    started = Up(tmp_path / "data", "--port", "0")
    yield started
    started.process.kill()
    started.process.communicate()


def test_partitions_without_a_leader_or_enough_copies_are_named(up: Up) -> None:
    create = ("topics", "--create", "--replica-assignment")
    ok(up.bootstrap, *create, "1,2,3", "--topic", "alone")
    ok(up.bootstrap, *create, "3:2", "--topic", "pair", "--config", "min.insync.replicas=2")
    for partition in range(3):
        flags = ("verifiable-producer", "--topic", "alone", "--max-messages", "20")
        ok(up.bootstrap, *flags, "--repeating-keys", str(partition + 5))
    os.kill(up.pid(2), signal.SIGKILL)
    up.line_with("broker 2")
    shown = ("--bootstrap-server", up.bootstrap)

    def doctor() -> str:
        return run("doctor", *shown).stdout

    eventually(lambda: " have fewer copies in sync than min.insync.replicas" in doctor())
    said = doctor()
    assert "1 of " in said.partition(" have no leader")[0]
    # `alone` has one replica, so it demands no more, whatever the cluster's minimum is.
    assert "1 of " in said.partition(" have fewer copies in sync")[0].rpartition("partitions")[2]
    offsets = run("get-offsets", "--topic", "alone", *shown)
    assert "alone-1 is left out: It has no leader now" in offsets.stderr
    assert len(offsets.stdout.splitlines()) == 2
    reading = ("--topic", "alone", "--from-beginning", "--timeout-ms", "5000", "--max-messages")
    consumed = run("console-consumer", *reading, "1", *shown)
    assert consumed.stdout
    assert "alone-1 has no leader now; nothing is read there" in consumed.stderr
    key = run("get", "--topic", "alone", "--key", "1", *shown)
    assert "partition 1 has no leader now, so no key can be found there" in key.stderr
    settings = ("delivery.timeout.ms=3000", "request.timeout.ms=1000", "linger.ms=0")
    short = [word for setting in settings for word in ("--command-property", setting)]
    refused = run("console-producer", "--topic", "pair", *short, *shown, stdin="a\n")
    assert refused.returncode == 1
    assert (
        "1 record was not taken, of 1: 1 record for pair-0 was not acknowledged" in refused.stderr
    )
    assert refused.stderr.count("was not acknowledged") == 1
    assert "the last attempt failed: NOT_ENOUGH_REPLICAS: " in refused.stderr


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_from_nothing_to_a_clean_stop(up: Up) -> None:
    assert [line for line in up.lines if line.startswith("broker ")] == up.lines[:3]
    pids = [up.pid(broker) for broker in (1, 2, 3)]
    ok(up.bootstrap, "topics", "--create", "--topic", "t", "--partitions", "3")
    described = ok(up.bootstrap, "topics", "--describe", "--topic", "t")
    assert "ReplicationFactor: 3" in described
    assert "min.insync.replicas=2" in described
    assert up.stop() == "odradek has stopped\n"
    assert up.process.returncode == 0
    assert not any(map(is_alive, pids))
    for broker in (1, 2, 3):
        directory = up.data / f"broker-{broker}"
        assert not (directory / "broker.pid").exists()
        assert (directory / ".kafka_cleanshutdown").exists()
        assert (directory / "server.out").read_text() == ""


def test_a_broker_dies_and_is_brought_back_and_everything_is_kept(up: Up) -> None:
    ok(up.bootstrap, "topics", "--create", "--topic", "t", "--partitions", "3")
    os.kill(up.pid(2), signal.SIGKILL)
    said = up.line_with("broker 2 died")
    assert "killed by SIGKILL" in said
    assert str(up.data / "broker-2" / "server.log") in said
    back = shlex.split(said.split("bring it back with: odradek ")[1])
    ok(up.bootstrap, "console-producer", "--topic", "t", stdin="a\nb\nc\n")
    with subprocess.Popen([*COMMAND, *back], stdout=subprocess.PIPE, text=True) as again:
        assert again.stdout is not None
        assert again.stdout.readline().startswith(READY)
        assert up.pid(2) == again.pid
        said = up.line_with("broker 2 is back")
        assert f"(process {again.pid})" in said

        def all_in_sync() -> bool:
            flags = ("topics", "--describe", "--under-replicated-partitions")
            return ok(up.bootstrap, *flags) == ""

        eventually(all_in_sync)
        assert "The copies of" in ok(up.bootstrap, "replica-verification")
        up.stop()
        assert again.wait(timeout=30) == 0, "what was started by hand ends with the store"


def test_the_metadata_store_is_started_again(up: Up) -> None:
    children = subprocess.run(
        ["pgrep", "-P", str(up.process.pid)], capture_output=True, text=True, check=True
    ).stdout.split()
    brokers = {up.pid(broker) for broker in (1, 2, 3)}
    (store,) = {int(pid) for pid in children} - brokers
    ok(up.bootstrap, "topics", "--create", "--topic", "t", "--partitions", "3")
    os.kill(store, signal.SIGKILL)
    up.line_with("the metadata store ended (killed by SIGKILL); starting it again")
    ok(up.bootstrap, "console-producer", "--topic", "t", stdin="a\n")
    eventually(
        lambda: run("topics", "--create", "--topic", "after", "--if-not-exists",
                    "--bootstrap-server", up.bootstrap).returncode == 0
    )  # fmt: skip
    assert "3 brokers" in "".join(up.lines)
    assert len(json.loads(ok(up.bootstrap, "cluster", "list-endpoints", "--json"))) == 3


def test_the_brokers_end_when_their_parent_is_killed(up: Up) -> None:
    pids = [up.pid(broker) for broker in (1, 2, 3)]
    up.process.kill()
    up.process.communicate()
    eventually(lambda: not any(map(is_alive, pids)))
    again = Up(up.data, "--port", "0")
    again.stop(signal.SIGTERM)
    assert again.process.returncode == 0


class TestRefusals:
    def refused(self, *words: str) -> str:
        done = run("up", *words)
        assert done.returncode in {1, 2}, (done.stdout, done.stderr)
        assert done.stdout == ""
        assert done.stderr.count("\n") == 1, done.stderr
        return done.stderr

    def test_a_busy_port_is_named(self, tmp_path: Path) -> None:
        with socket.socket() as other:
            other.bind(("127.0.0.1", 0))
            other.listen()
            port = other.getsockname()[1]
            said = self.refused(
                "--brokers", "2", "--port", str(port - 1), "--data", str(tmp_path / "d")
            )
        assert f"port {port}" in said or f"port {port - 1}" in said

    def test_bad_settings_are_said_before_anything_starts(self, tmp_path: Path) -> None:
        data = str(tmp_path / "d")
        flags = ("--brokers", "2", "--port", "0", "--data", data, "--override")
        assert "did you mean num.partitions?" in self.refused(*flags, "num.partitons=3")
        assert "same for every broker" in self.refused(*flags, "node.id=3")

    def test_a_directory_of_the_other_kind(self, tmp_path: Path) -> None:
        (tmp_path / "meta.properties").touch()
        assert "single broker" in self.refused("--brokers", "2", "--data", str(tmp_path))
        (tmp_path / "meta.properties").unlink()
        (tmp_path / "broker-1").mkdir()
        (tmp_path / "broker-1" / "server.properties").touch()
        assert "--brokers 1" in self.refused("--data", str(tmp_path))

    def test_a_cluster_that_runs_already(self, up: Up) -> None:
        said = self.refused("--brokers", "3", "--port", "0", "--data", str(up.data))
        assert f"running already (process {up.pid(1)})" in said


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=3) as cluster:
        yield cluster


class TestTools:
    """Against one cluster, which none of them harms."""

    def test_reassignment_from_plan_to_arrival(self, cluster: Cluster, tmp_path: Path) -> None:
        topic = cluster.create_topic(partitions=4, replication_factor=1)
        ok(cluster.bootstrap, "console-producer", "--topic", topic, stdin="a\nb\nc\n")
        shown = ok(
            cluster.bootstrap, "reassign-partitions", "--generate", "--topic", topic,
            "--broker-list", "1,2,3", "--replication-factor", "2", "--json",
        )  # fmt: skip
        plan = tmp_path / "plan.json"
        plan.write_text(shown)  # The whole output, as it was printed.
        file = ("--reassignment-json-file", str(plan))
        said = ok(cluster.bootstrap, "reassign-partitions", "--execute", *file,
                  "--throttle", "100000000")  # fmt: skip
        assert "Successfully started partition reassignments" in said

        def has_arrived() -> bool:
            said = ok(cluster.bootstrap, "reassign-partitions", "--verify", *file)
            return said.count("is completed") == 4

        eventually(has_arrived)
        assert "No partition reassignments" in ok(
            cluster.bootstrap, "reassign-partitions", "--list"
        )
        cancelled = ok(cluster.bootstrap, "reassign-partitions", "--cancel", *file)
        assert "None of the specified" in cancelled
        described = json.loads(
            ok(cluster.bootstrap, "topics", "--describe", "--topic", topic, "--json")
        )
        assert "throttled" not in json.dumps(described)
        assert "same on every broker" in ok(
            cluster.bootstrap, "replica-verification", "--topics-include", topic
        )

    def test_decommission_empties_a_broker(self, cluster: Cluster) -> None:
        topic = cluster.create_topic(partitions=3, replication_factor=2)
        done = run("cluster", "decommission", "--id", "3", "--lower-replication-factor",
                   "--bootstrap-server", cluster.bootstrap)  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert "Broker 3 holds nothing now" in done.stdout
        described = ok(cluster.bootstrap, "topics", "--describe", "--topic", topic)
        assert all("3" not in line.split("Replicas: ")[1].split("\t")[0]
                   for line in described.splitlines()[1:])  # fmt: skip

    def test_elections(self, cluster: Cluster) -> None:
        topic = cluster.create_topic(partitions=1, replication_factor=2)
        flags = ("--election-type", "preferred", "--topic", topic, "--partition", "0")
        said = ok(cluster.bootstrap, "leader-election", *flags)
        assert said == f"Valid replica already elected for partitions {topic}-0\n"
        done = run("leader-election", "--election-type", "unclean", "--topic", "none",
                   "--partition", "0", "--bootstrap-server", cluster.bootstrap)  # fmt: skip
        assert done.returncode == 1
        assert "topic 'none' does not exist" in done.stderr

    def test_doctor_finds_the_brokers(self, cluster: Cluster) -> None:
        done = run("doctor", "--json", "--bootstrap-server", cluster.bootstrap)
        found = {one["check"]: one for one in json.loads(done.stdout)["findings"]}
        assert found["broker 2"]["grade"] == "ok"
        assert "3 brokers" in found["cluster"]["text"]
        assert {"descriptors", "swap", "disk", "clock", "spark"} <= found.keys()

    def test_doctor_says_what_cannot_be_reached(self) -> None:
        done = run("doctor", "--bootstrap-server", "127.0.0.1:1")
        assert done.returncode == 1
        assert "127.0.0.1:1 cannot be reached" in done.stdout

    def test_a_test_can_kill_a_broker_and_have_it_back(self) -> None:
        with Cluster(brokers=2) as cluster:
            topic = cluster.create_topic()
            cluster.kill(2)
            with pytest.raises(ClusterFailed, match="running are 1"):
                cluster.kill(2)
            ok(cluster.bootstrap, "console-producer", "--topic", topic, stdin="a\n")
            cluster.restart(2)
            assert (
                len(json.loads(ok(cluster.bootstrap, "cluster", "list-endpoints", "--json"))) == 2
            )


def test_a_cluster_in_the_background(tmp_path: Path) -> None:
    data = ("--data", str(tmp_path / "data"))
    assert run("local", "status", *data).returncode == 3
    started = run("local", "start", "--brokers", "2", "--port", "0", *data, "--json")
    assert started.returncode == 0, started.stderr
    try:
        bootstrap = json.loads(started.stdout)["bootstrap"]
        assert len(bootstrap.split(",")) == 2
        ok(bootstrap, "topics", "--create", "--topic", "t")
        assert "is running" in run("local", "start", "--brokers", "2", *data).stderr
        status = run("local", "status", *data)
        assert (status.returncode, status.stdout.count("running")) == (0, 2)
        os.kill(json.loads(run("local", "status", "--json", *data).stdout)["brokers"][1]["pid"], 9)
        eventually(lambda: run("local", "status", *data).returncode == 1)
    finally:
        stopped = run("local", "stop", *data)
    assert stopped.returncode == 0, stopped.stderr
    assert "odradek has stopped" in stopped.stdout
    assert run("local", "stop", *data).returncode == 1
