"""A worker of Connect as users meet it: files, the REST interface, and the command line.

The tests share a worker, and each of them is true whichever ran before it: pytest may give them to
several processes, and then each process has a worker of its own.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from odradek.client.sync import Consumer, Producer
from odradek.testing import Cluster
from tests.scenarios.connect_process import SINK, SOURCE, Worker, running, until

HOIST = "org.apache.kafka.connect.transforms.HoistField$Value"
FILES = "org.apache.kafka.common.config.provider.FileConfigProvider"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as made:
        yield made


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("connect")


@pytest.fixture(scope="module")
def worker(cluster: Cluster, directory: Path) -> Iterator[Worker]:
    """A worker with a source and a sink from two properties files, as in the walk of the docs."""
    (directory / "in.txt").write_text("one\ntwo\n")
    files = [directory / "source.properties", directory / "sink.properties"]
    files[0].write_text(
        f"name=walk-source\nconnector.class=FileStreamSource\nfile={directory}/in.txt\ntopic=walk\n"
    )
    files[1].write_text(
        f"name=walk-sink\nconnector.class=FileStreamSink\nfile={directory}/out.txt\ntopics=walk\n"
    )
    settings = {
        "odradek.connector.logs.dir": str(directory / "logs"),
        "config.providers": "file",
        "config.providers.file.class": FILES,
        "config.providers.file.param.allowed.paths": str(directory / "secrets"),
    }
    with running(directory / "worker", "standalone", cluster.bootstrap, files, **settings) as made:
        yield made


def command(worker: Worker, *words: str, bootstrap: str = "") -> "subprocess.CompletedProcess[str]":
    more = ["--bootstrap-server", bootstrap] if bootstrap else []
    return subprocess.run(
        [sys.executable, "-m", "odradek.cli", "connect", *words, *more,
         "--worker", f"http://127.0.0.1:{worker.port}"],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip


def source(name: str, path: Path, **more: str) -> dict[str, Any]:
    return {"connector.class": SOURCE, "file": str(path), "topic": name, **more}


def records(cluster: Cluster, topic: str, count: int) -> list[Any]:
    with Consumer(bootstrap_servers=cluster.bootstrap) as consumer:
        consumer.assign([(topic, 0)])
        consumer.seek_to_beginning([(topic, 0)])
        found: list[Any] = []

        def are_there() -> bool:
            for read in consumer.poll(200).values():
                found.extend(read)
            return len(found) >= count

        until(are_there)
        return found


def test_the_walk_of_two_files(worker: Worker, directory: Path) -> None:
    out = directory / "out.txt"
    until(lambda: out.exists() and out.read_text() == "one\ntwo\n")
    with (directory / "in.txt").open("a") as file:
        file.write("three\n")
    until(lambda: out.read_text() == "one\ntwo\nthree\n")
    listed = command(worker, "list")
    assert "walk-sink    sink    RUNNING  1 RUNNING" in listed.stdout


def test_wrong_bodies_are_the_callers_errors(worker: Worker) -> None:
    bodies: list[Any] = [
        b"{", b"[]", {}, {"name": 1, "config": {}}, {"name": "x"}, {"name": "x", "config": []},
        {"name": "x", "config": {"a": {}}}, {"name": "x", "config": {}, "more": 1},
        {"name": "x", "config": {}, "initial_state": "ASLEEP"}, {"name": "", "config": {}},
        {"name": "x", "config": {"name": "y", "connector.class": SOURCE, "topic": "t"}},
    ]  # fmt: skip
    for body in bodies:
        status, answer = worker.ask("POST", "/connectors", body)
        assert (status, answer["error_code"]) == (400, 400), (body, answer)
    for method, path, wanted in (
        ("GET", "/nope", 404), ("DELETE", "/connectors", 405), ("PUT", "/connectors/no/pause", 404),
        ("POST", "/connectors/no/tasks/0/restart", 404), ("GET", "/admin/loggers/no.such", 404),
        ("GET", "/connectors/walk-source/tasks/7/status", 404),
        ("POST", "/connectors/walk-source/restart?includeTasks=perhaps", 400),
        ("GET", "/connector-plugins/NoSuch/config", 404),
    ):  # fmt: skip
        status, answer = worker.ask(method, path)
        assert (status, answer["error_code"]) == (wanted, wanted), (method, path, answer)


def test_words_of_refusals_are_those_of_kafka_connect(worker: Worker) -> None:
    path = "/connectors/walk-source"
    for method, where, body, status, words in (
        ("POST", "/connectors", {"config": {}}, 400, "{name=} contains no connector type"),
        ("POST", "/connectors", {"name": None, "config": {}}, 400, "contains no connector type"),
        ("PATCH", f"{path}/config", {"name": None}, 400, 'required configuration "name"'),
        ("PATCH", f"{path}/offsets", {"offsets": [{}]}, 400, "must be in the STOPPED state"),
        ("GET", "/connectors/no/tasks/0/status", None, 404, "No status found for task no-0"),
    ):
        found, answer = worker.ask(method, where, body)
        assert (found, words in answer["message"]) == (status, True), answer


def test_a_plugin_without_settings_has_none(worker: Worker) -> None:
    name = "org.apache.kafka.connect.storage.SimpleHeaderConverter"
    assert worker.ask("GET", f"/connector-plugins/{name}/config") == (200, [])


def test_a_connector_is_changed_paused_and_stopped(worker: Worker, directory: Path) -> None:
    (directory / "life").write_text("a\n")
    config = source("life", directory / "life")
    body = {"name": "life", "config": config, "initial_state": "PAUSED"}
    assert worker.ask("POST", "/connectors", body)[0] == 201
    worker.becomes("life", "PAUSED", tasks=0)
    typo = {**config, "bach.size": "7"}
    assert worker.ask("PUT", "/connectors/life/config", typo)[0] == 200
    (line,) = worker.ask("GET", "/connectors/life/logs")[1]
    assert line["text"].endswith("has no such setting; did you mean batch.size?")
    version = {**config, "connector.plugin.version": "99.1"}
    assert worker.ask("PUT", "/connectors/life/config", version)[0] == 400
    assert worker.ask("PUT", "/connectors/life/config", config)[0] == 200
    assert worker.ask("PUT", "/connectors/life/resume")[0] == 202
    worker.becomes("life", "RUNNING")
    patch = {"batch.size": 7, "errors.log.enable": True}
    status, answer = worker.ask("PATCH", "/connectors/life/config", patch)
    assert status == 200
    assert answer["config"] == {
        **config, "name": "life", "batch.size": "7", "errors.log.enable": "true",
    }  # fmt: skip
    assert worker.ask("PATCH", "/connectors/life/config", {"topic": None})[0] == 400
    status, answer = worker.ask("POST", "/connectors/life/restart?includeTasks=true")
    assert (status, answer["tasks"][0]["state"]) == (202, "RESTARTING")
    worker.becomes("life", "RUNNING")
    assert worker.ask("POST", "/connectors/life/tasks/0/restart")[0] == 204
    worker.becomes("life", "RUNNING")
    assert worker.ask("PUT", "/connectors/life/pause")[0] == 202
    worker.becomes("life", "PAUSED")
    assert worker.ask("PUT", "/connectors/life/stop")[0] == 204
    worker.becomes("life", "STOPPED", tasks=0)
    assert worker.ask("DELETE", "/connectors/life")[0] == 204
    assert worker.ask("GET", "/connectors/life/status")[0] == 404


def test_offsets_are_set_and_reset_while_stopped(
    worker: Worker, cluster: Cluster, directory: Path
) -> None:
    path = directory / "offsets"
    path.write_text("a\nb\n")
    worker.create("offsets", **source("offsets", path))
    records(cluster, "offsets", 2)
    at = {"partition": {"filename": str(path)}, "offset": {"position": 2}}
    status, answer = worker.ask("PATCH", "/connectors/offsets/offsets", {"offsets": [at]})
    assert status == 400
    assert "must be in the STOPPED state" in answer["message"]
    worker.ask("PUT", "/connectors/offsets/stop")
    bad: list[Any] = [
        {"offsets": []}, {"offsets": [{**at, "offset": {"position": -1}}]}, {},
        {"offsets": [{**at, "partition": {}}]},
    ]  # fmt: skip
    for wrong in bad:
        assert worker.ask("PATCH", "/connectors/offsets/offsets", wrong)[0] == 400, wrong
    assert worker.ask("PATCH", "/connectors/offsets/offsets", {"offsets": [at]})[0] == 200
    assert worker.ask("GET", "/connectors/offsets/offsets")[1] == {"offsets": [at]}
    worker.ask("PUT", "/connectors/offsets/resume")
    assert [one.value for one in records(cluster, "offsets", 3)] == [b"a", b"b", b"b"]
    assert command(worker, "stop", "offsets").returncode == 0
    assert command(worker, "offsets", "offsets", "--reset").returncode == 0
    assert worker.ask("GET", "/connectors/offsets/offsets")[1] == {"offsets": []}
    worker.ask("DELETE", "/connectors/offsets")


def test_offsets_of_a_sink_are_those_of_its_group(
    worker: Worker, cluster: Cluster, directory: Path
) -> None:
    at = {"kafka_topic": "numbers", "kafka_partition": 0}
    with Producer(bootstrap_servers=cluster.bootstrap) as producer:
        for value in (b"one", b"two", b"three"):
            producer.send("numbers", value)
        producer.flush()
    worker.create("again", connector_class=SINK, file=str(directory / "again"), topics="numbers")
    out = directory / "again"
    until(lambda: out.exists() and out.read_text() == "one\ntwo\nthree\n")
    path = "/connectors/again/offsets"
    written = {"offsets": [{"partition": at, "offset": {"kafka_offset": 3}}]}
    until(lambda: worker.ask("GET", path)[1] == written)
    worker.ask("PUT", "/connectors/again/stop")
    body = {"offsets": [{"partition": {**at, "kafka_partition": "0"},
                         "offset": {"kafka_offset": "1"}}]}  # fmt: skip
    status, answer = worker.ask("PATCH", path, body)
    assert status == 200, answer
    found = worker.ask("GET", path)[1]
    assert found == {"offsets": [{"partition": at, "offset": {"kafka_offset": 1}}]}
    worker.ask("PUT", "/connectors/again/resume")
    until(lambda: out.read_text().startswith("one\ntwo\nthree\ntwo\nthree\n"))
    worker.ask("DELETE", "/connectors/again")


def test_secrets_are_used_and_not_shown(worker: Worker, directory: Path) -> None:
    (directory / "secrets").write_text(f"path={directory}/hidden-path.txt\n")
    (directory / "hidden-path.txt").write_text("x\n")
    reference = f"${{file:{directory}/secrets:path}}"
    config = {"connector.class": SOURCE, "topic": "secret", "file": reference,
              "producer.override.sasl.jaas.config": "x required password=\"in-the-clear\";",
              "producer.override.security.protocol": "PLAINTEXT"}  # fmt: skip
    worker.create("secret", **config)
    worker.becomes("secret", "RUNNING")
    for path in ("", "/config", "/tasks", "/status"):
        shown = str(worker.ask("GET", f"/connectors/secret{path}")[1])
        assert "hidden-path" not in shown
        assert "in-the-clear" not in shown
    config["producer.override.sasl.jaas.config"] = "[hidden]"
    assert worker.ask("PUT", "/connectors/secret/config", config)[0] == 200
    worker.becomes("secret", "RUNNING")
    worker.ask("DELETE", "/connectors/secret")
    wrong = {**config, "file": "${file:/etc/passwd:root}"}
    status, answer = worker.ask("POST", "/connectors", {"name": "wrong", "config": wrong})
    assert status == 400
    assert "does not allow /etc/passwd" in answer["message"]
    assert "in-the-clear" not in worker.said()


# What Strimzi's dashboard of Kafka Connect asks for.
OF_DASHBOARDS = {
    "connector_status", "connector_task_status", "coordinator_assigned_connectors",
    "coordinator_assigned_tasks", "task_error_total_record_failures", "worker_connector_count",
    "worker_task_count", "worker_rebalance_rebalancing", "worker_connector_running_task_count",
    "worker_connector_paused_task_count", "worker_connector_failed_task_count",
    "worker_connector_unassigned_task_count", "worker_connector_destroyed_task_count",
}  # fmt: skip


def test_figures_have_the_names_of_dashboards(worker: Worker, directory: Path) -> None:
    (directory / "figures").write_text("one\ntwo\nthree\n")
    worker.create("figures", **source("figures", directory / "figures"))
    worker.becomes("figures", "RUNNING")
    labels = 'connector="figures",task="0"'
    written = f"kafka_connect_source_task_source_record_write_total{{{labels}}} 3\n"
    text = until(lambda: written in (text := worker.ask("GET", "/metrics")[1]) and text)
    names = {line.partition("{")[0].partition(" ")[0] for line in text.splitlines()}
    assert {f"kafka_connect_{name}" for name in OF_DASHBOARDS} <= names
    assert f'kafka_connect_connector_task_status{{{labels},status="running"}} 1' in text
    worker.ask("DELETE", "/connectors/figures")


def test_levels_of_loggers(worker: Worker) -> None:
    status, changed = worker.ask("PUT", "/admin/loggers/odradek.connect", {"level": "DEBUG"})
    assert (status, "odradek.connect" in changed) == (200, True)
    assert worker.ask("GET", "/admin/loggers/odradek.connect")[1]["level"] == "DEBUG"
    path = "/admin/loggers/odradek.connect?scope=cluster"
    assert worker.ask("PUT", path, {"level": "INFO"})[0] == 204
    until(lambda: worker.ask("GET", "/admin/loggers/odradek.connect")[1]["level"] == "INFO")
    of_apache = "org.apache.kafka.connect.runtime.WorkerSinkTask"
    status, changed = worker.ask("PUT", f"/admin/loggers/{of_apache}", {"level": "INFO"})
    assert (status, changed[:2]) == (200, [of_apache, "odradek.connect"])
    assert worker.ask("PUT", "/admin/loggers/root", {"level": "LOUD"})[0] == 404
    assert worker.ask("PUT", "/admin/loggers/root", {})[0] == 400


def test_the_command_line(worker: Worker, cluster: Cluster, directory: Path) -> None:
    (directory / "tool").write_text("a\n")
    file = directory / "tool.json"
    config = source("tool", directory / "tool", transforms="h", **{
        "transforms.h.type": HOIST, "transforms.h.field": "line",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false"})  # fmt: skip
    file.write_text(json.dumps({"name": "tool", "config": {**config, "tasks.max": 0}}))
    refused = command(worker, "validate", str(file))
    assert (refused.returncode, "tasks.max: Invalid value 0" in refused.stdout) == (1, True)
    file.write_text(json.dumps({"name": "tool", "config": config}))
    preview = command(worker, "preview", str(file))
    assert json.loads(preview.stdout)["value"] == '{"line":"a"}'
    assert "tool" not in worker.ask("GET", "/connectors")[1]
    assert command(worker, "create", str(file)).stdout == "tool is made\n"
    assert records(cluster, "tool", 1)[0].value == b'{"line":"a"}'
    assert command(worker, "config", "tool", "batch.size=9").returncode == 0
    assert "batch.size=9" in command(worker, "config", "tool").stdout
    shown = command(worker, "status", "tool", "--json")
    assert json.loads(shown.stdout)["connector"]["state"] == "RUNNING"
    assert command(worker, "topics", "tool").stdout == "tool\n"
    assert SOURCE in command(worker, "plugins").stdout
    wrong = command(worker, "status", "tol")
    assert "Connector tol not found; did you mean tool?" in wrong.stderr
    moved = command(worker, "offsets", "tool", "--reset")
    assert moved.stderr.endswith("when it is stopped: odradek connect stop tool\n")
    changed = command(worker, "config", "tool", "batch.sise=9")
    assert "batch.sise: no setting of" in changed.stderr
    assert "did you mean batch.size?" in changed.stderr
    wrong = command(worker, "plugins", "FileStreamSorce")
    assert "Unknown plugin FileStreamSorce; did you mean FileStreamSource?" in wrong.stderr
    assert command(worker, "delete", "tool").returncode == 0
    gone = command(worker, "status", "tool")
    assert gone.returncode == 1
    assert gone.stderr.endswith(": Connector tool not found; odradek connect list shows all\n")


def test_the_command_line_says_what_to_do(worker: Worker, directory: Path) -> None:
    file = directory / "wrong.json"
    config = source("wrong", directory / "not-there")
    file.write_text(
        json.dumps({"name": "wrong", "config": {**config, "connector.class": "FileStreamSurce"}})
    )
    told = command(worker, "create", str(file))
    assert told.stderr.endswith("matches FileStreamSurce; did you mean FileStreamSource?\n")
    file.write_text(json.dumps({"name": "wrong", "config": {**config, "tasks.max": "x"}}))
    told = command(worker, "create", str(file))
    assert told.stderr.endswith("must be a whole number from 1 to 1000\n")
    file.write_text(json.dumps({"name": "wrong", "config": {**config, "tasks.max": "1001"}}))
    told = command(worker, "create", str(file))
    assert told.stderr.endswith("tasks.max: must be a whole number from 1 to 1000\n")
    file.write_text(json.dumps({"name": "wrong", "config": {**config, "fil": "a"}}))
    made = command(worker, "create", str(file))
    assert made.stdout == "wrong is made\n"
    assert "did you mean file?" in made.stderr
    missing = f"there is no file {directory / 'not-there'} yet"
    until(lambda: missing in command(worker, "logs", "wrong").stdout)
    del config["file"]
    file.write_text(json.dumps({"name": "wrong", "config": config}))
    assert command(worker, "create", str(file)).returncode == 0
    until(lambda: command(worker, "status", "wrong").returncode == 1)
    shown = command(worker, "status", "wrong").stdout
    assert "task 0: file is not set: name the file to read\n" in shown
    assert "Traceback" not in shown
    assert shown.endswith("odradek connect status wrong --json shows where it failed\n")
    assert command(worker, "delete", "wrong").returncode == 0


def test_standalone_worker_takes_no_topic_of_distributed_ones(
    cluster: Cluster, directory: Path
) -> None:
    tool = [sys.executable, "-m", "odradek.cli"]
    subprocess.run(
        [*tool, "topics", "--create", "--topic", "shared-offsets", "--partitions", "2",
         "--bootstrap-server", cluster.bootstrap], check=True, timeout=60,
    )  # fmt: skip
    file = directory / "second.properties"
    file.write_text(
        f"bootstrap.servers={cluster.bootstrap}\nlisteners=http://127.0.0.1:0\n"
        "offset.storage.topic=shared-offsets\nodradek.engine=process\n"
    )
    told = subprocess.run(
        [*tool, "connect-standalone", str(file)],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert told.returncode == 1
    assert "worker's file: offset.storage.topic for a standalone worker" in told.stderr


def test_dead_letters_go_back(worker: Worker, cluster: Cluster, directory: Path) -> None:
    out = directory / "letters.txt"
    with Producer(bootstrap_servers=cluster.bootstrap) as producer:
        producer.send("poison", b"{bad", headers=[("own", b"1")])
        producer.send("poison", b'"good"')
        producer.flush()
    worker.create(
        "poison", connector_class=SINK, file=str(out), topics="poison", errors_tolerance="all",
        value_converter="org.apache.kafka.connect.json.JsonConverter",
        **{"value.converter.schemas.enable": "false",
           "errors.deadletterqueue.topic.name": "letters",
           "errors.deadletterqueue.topic.replication.factor": "1",
           "errors.deadletterqueue.context.headers.enable": "true"},
    )  # fmt: skip
    until(lambda: out.exists() and out.read_text() == "good\n")
    (letter,) = records(cluster, "letters", 1)
    headers = dict(letter.headers)
    assert headers["__connect.errors.stage"] == b"VALUE_CONVERTER"
    assert headers["__connect.errors.class.name"].endswith(b"JsonConverter")
    assert (letter.value, headers["own"]) == (b"{bad", b"1")
    worker.ask("PATCH", "/connectors/poison/config",
               {"value.converter": "org.apache.kafka.connect.storage.StringConverter"})  # fmt: skip
    for written in (1, 0):
        done = command(worker, "dlq", "redrive", "poison", "--json", bootstrap=cluster.bootstrap)
        assert json.loads(done.stdout)["written"] == written, done.stderr
    until(lambda: out.read_text() == "good\n{bad\n")
    headers = dict(records(cluster, "poison", 3)[2].headers)
    assert headers == {"own": b"1", "odradek.redriven": b"1"}
    worker.ask("DELETE", "/connectors/poison")


def test_a_task_that_fails_is_shown_and_comes_back(worker: Worker, directory: Path) -> None:
    path = directory / "late"
    path.mkdir()
    worker.create("late", **source("late", path / "."))
    failed = until(
        lambda: [one for one in worker.status("late")["tasks"] if one["state"] == "FAILED"]
    )
    assert "cannot be read" in failed[0]["trace"]
    assert command(worker, "status", "late").returncode == 1
    worker.becomes("walk-source", "RUNNING")
    assert any("failed" in line["text"] for line in worker.ask("GET", "/connectors/late/logs")[1])
    assert "late-0 has failed" in command(worker, "logs", "late").stdout
    assert "late-0 has failed" in (directory / "logs" / "late.log").read_text()
    path.rmdir()
    path.write_text("x\n")
    worker.ask("PUT", "/connectors/late/config", source("late", path))
    worker.becomes("late", "RUNNING")
    worker.ask("DELETE", "/connectors/late")


def test_a_template_works_as_it_is_written(worker: Worker, directory: Path) -> None:
    made = subprocess.run(
        [sys.executable, "-m", "odradek.cli", "connect", "new", "weather"],
        cwd=directory, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    tested = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"],
        cwd=directory / "weather", env={"PYTHONPATH": "src", "PATH": ""},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert tested.returncode == 0, tested.stdout
