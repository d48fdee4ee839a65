"""`odradek up --platform` and `odradek local start --platform`: one command for all processes."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from tests.scenarios.rest_server import V2, Rest
from tests.scenarios.sql_server import SqlClient
from tests.scenarios.test_real_principals import free_ports

DEADLINE_S = 60


def until(condition: Callable[[], Any], what: str) -> Any:
    end = time.monotonic() + DEADLINE_S
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError(what)


def asked(url: str) -> Any:
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return json.loads(answer.read())
    except OSError:
        return None


def answers(url: str) -> bool:
    return asked(url) is not None


def odradek(*words: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "odradek.cli", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def test_one_command_starts_watches_and_stops_everything(tmp_path: Path) -> None:
    broker, registry, rest, connect, sql, console = free_ports(6)
    data = str(tmp_path / "data")
    flags = ["--data", data, "--platform", "--port", str(broker), "--brokers", "1"]
    flags += ["--registry-port", str(registry), "--rest-port", str(rest)]
    flags += ["--connect-port", str(connect), "--sql-port", str(sql)]
    flags += ["--console-port", str(console)]
    started = odradek("local", "start", *flags)
    assert started.returncode == 0, started.stderr
    rest_url, registry_url = f"http://127.0.0.1:{rest}", f"http://127.0.0.1:{registry}"
    try:
        assert asked(f"{rest_url}/brokers") == {"brokers": [1]}
        assert asked(f"{registry_url}/subjects") == []
        assert asked(f"http://127.0.0.1:{connect}/connectors") == []
        assert asked(f"http://127.0.0.1:{sql}/healthcheck")["isHealthy"]
        with urllib.request.urlopen(f"http://127.0.0.1:{console}/c/local/topics") as page:
            assert b"connect-configs" in page.read()
        state = json.loads(odradek("local", "status", "--data", data, "--json").stdout)
        services = {one["name"]: one for one in state["services"]}
        assert services["REST proxy"]["url"] == rest_url
        assert services["schema registry"]["url"] == registry_url
        shown = odradek("local", "status", "--data", data)
        assert shown.returncode == 0
        assert rest_url in shown.stdout
        schemas_by_rest(Rest(rest, Path(data, "rest-proxy.log")))
        connectors_by_sql(sql, tmp_path)
        # A service that dies is started again.
        for name, url in (("REST proxy", f"{rest_url}/brokers"),
                          ("schema registry", f"{registry_url}/subjects"),
                          ("Connect worker", f"http://127.0.0.1:{connect}/"),
                          ("SQL server", f"http://127.0.0.1:{sql}/info")):  # fmt: skip
            os.kill(services[name]["pid"], signal.SIGKILL)
            until(partial(answers, url), f"the {name} did not come back")
        log = Path(data, "up.log").read_text()
        assert "the REST proxy ended (killed by SIGKILL); starting it again" in log
    finally:
        stopped = odradek("local", "stop", "--data", data)
    assert stopped.returncode == 0, stopped.stderr
    assert asked(f"{rest_url}/brokers") is None


AVRO = json.dumps(
    {"type": "record", "name": "Order", "fields": [
        {"name": "item", "type": "string"}, {"name": "note", "type": ["null", "string"]},
    ]}
)  # fmt: skip
JSON_SCHEMA = json.dumps({"type": "object", "properties": {"item": {"type": "string"}}})
PROTOBUF = 'syntax = "proto3"; message Order { string item = 1; int32 count_of = 2; }'


def schemas_by_rest(rest: Rest) -> None:
    """Produces with each format and version, and reads what the registry knows."""
    new = {"topic_name": "orders", "partitions_count": 1, "replication_factor": 1}
    assert rest("POST", rest.v3("/topics"), new).status == 201
    avro = {"item": "book", "note": {"string": "blue"}}
    kind = "application/vnd.kafka.avro.v2+json"
    body = {"value_schema": AVRO, "records": [{"value": avro}, {"value": avro}]}
    first = rest("POST", "/topics/orders", body, kind=kind)
    assert first.status == 200, first.body
    schema_id = first.json["value_schema_id"]
    by_id = {"value_schema_id": schema_id, "records": [{"value": avro}]}
    assert rest("POST", "/topics/orders", by_id, kind=kind).json["value_schema_id"] == schema_id
    for wrong, code in [
        ({"records": [{"value": avro}]}, 42202),
        ({**body, "records": [{"key": "k", "value": avro}]}, 42201),
        ({"value_schema": "{", "records": [{"value": avro}]}, 42205),
        ({**by_id, "records": [{"value": {"item": 3}}]}, 42203),
    ]:
        answer = rest("POST", "/topics/orders", wrong, kind=kind)
        assert (answer.status, answer.code) == (422, code), answer.body
    for subject, type_, schema, value in [
        ("j", "JSONSCHEMA", JSON_SCHEMA, {"item": "pen"}),
        ("p", "PROTOBUF", PROTOBUF, {"item": "ink", "countOf": 3}),
    ]:
        data = {"type": type_, "subject": subject, "schema": schema, "data": value}
        answer = rest("POST", rest.v3("/topics/orders/records"), {"value": data}).json
        assert answer["error_code"] == 200, answer
        assert answer["value"]["subject"] == subject
        assert answer["value"]["schema_version"] == 1
        latest = {"value": {"subject": subject, "data": value}}
        assert rest("POST", rest.v3("/topics/orders/records"), latest).json["error_code"] == 200
    found = rest.get(rest.v3("/topics/orders/partitions/0/records")).json["data"]
    shown = [(one["value"]["type"], one["value"]["data"]) for one in found]
    assert shown == [
        *[("AVRO", avro)] * 3,
        *[("JSONSCHEMA", {"item": "pen"})] * 2,
        *[("PROTOBUF", {"item": "ink", "countOf": 3})] * 2,
    ]
    settings: dict[str, Any] = {"format": "avro", "auto.offset.reset": "earliest", "name": "a"}
    with rest.consumer("readers", **settings) as path:
        rest("POST", f"{path}/subscription", {"topics": ["orders"]}, kind=V2)
        records = until(
            lambda: rest("GET", f"{path}/records", None, {"Accept": kind}).json, "no records"
        )
        assert records[0]["value"] == avro


def connectors_by_sql(port: int, directory: Path) -> None:
    """The SQL server makes connectors by the worker of the platform."""
    server = SqlClient(port)
    (directory / "lines").write_text("one\n")
    with_ = (
        f"WITH ('connector.class'='FileStreamSource', 'file'='{directory}/lines', 'topic'='lines')"
    )
    (wrong,) = server.ksql(f"CREATE SINK CONNECTOR lines {with_};")["message"].splitlines()
    assert "LINES is a SOURCE connector" in wrong
    (created,) = server.ksql(f"CREATE SOURCE CONNECTOR `lines` {with_};")
    assert created["info"]["name"] == "lines"
    assert "already exists" in server.ksql(f"CREATE SOURCE CONNECTOR `lines` {with_};")["message"]
    (skipped,) = server.ksql(f"CREATE SOURCE CONNECTOR IF NOT EXISTS `lines` {with_};")
    assert skipped["@type"] == "warning_entity"
    until(
        lambda: "RUNNING (1/1 tasks" in server.ksql("SHOW SOURCE CONNECTORS;")[0]["connectors"][0]
        ["state"], "the connector does not run",
    )  # fmt: skip
    assert server.ksql("SHOW SINK CONNECTORS;")[0]["connectors"] == []
    (described,) = server.ksql("DESCRIBE CONNECTOR `lines`;")
    assert described["connectorClass"] == "FileStreamSource"
    assert described["status"]["connector"]["state"] == "RUNNING"
    (plugins,) = server.ksql("SHOW CONNECTOR PLUGINS;")
    assert any("FileStream" in one["class"] for one in plugins["connectorsPlugins"])
    (dropped,) = server.ksql("DROP CONNECTOR `lines`;")
    assert dropped["connectorName"] == "lines"
    assert "does not exist" in server.ksql("DROP CONNECTOR `lines`;")["message"]
    (skipped,) = server.ksql("DROP CONNECTOR IF EXISTS `lines`;")
    assert skipped["@type"] == "warning_entity"


def test_a_file_of_its_output_has_all_lines(tmp_path: Path) -> None:
    """Brokers and their parent write into one file, as with `odradek up --platform > up.log`."""
    broker, registry, rest, connect, sql, console = free_ports(6)
    log = tmp_path / "up.log"
    command = [sys.executable, "-m", "odradek.cli", "up", "--platform", "--until-input-closes"]
    command += ["--data", str(tmp_path / "data"), "--port", str(broker)]
    command += ["--registry-port", str(registry), "--rest-port", str(rest)]
    command += ["--connect-port", str(connect), "--sql-port", str(sql)]
    command += ["--console-port", str(console)]
    with (
        log.open("wb") as file,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=file) as up,
    ):
        assert up.stdin is not None
        until(lambda: "the platform is ready" in log.read_text(), "it did not start")
        up.stdin.close()
    said = log.read_text()
    assert f"odradek is ready at 127.0.0.1:{broker} " in said
    assert said.index("odradek is ready at") < said.index("the REST proxy is ready")


def test_a_port_in_use_ends_it_with_one_line(tmp_path: Path) -> None:
    import socket

    broker, registry, connect, sql, console = free_ports(5)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = odradek(
            "up", "--platform", "--data", str(tmp_path / "data"), "--port", str(broker),
            "--registry-port", str(registry), "--rest-port", str(port),
            "--connect-port", str(connect), "--sql-port", str(sql),
            "--console-port", str(console),
        )  # fmt: skip
    assert ended.returncode == 1
    (line,) = ended.stderr.splitlines()
    assert f"cannot listen at 127.0.0.1:{port}" in line
    assert line.endswith("choose another address or port with --rest-port PORT")
    assert "unexpected" not in line


def test_a_directory_of_a_cluster_is_refused_without_a_traceback(tmp_path: Path) -> None:
    (tmp_path / "data" / "broker-1").mkdir(parents=True)
    (tmp_path / "data" / "broker-1" / "server.properties").write_text("broker.id=1\n")
    ended = odradek("up", "--platform", "--data", str(tmp_path / "data"))
    assert ended.returncode == 1
    (line,) = ended.stderr.splitlines()
    assert "holds a cluster of 1 broker" in line


def test_what_it_cannot_do_is_said(tmp_path: Path) -> None:
    ended = odradek("up", "--platform", "--port", "0", "--data", str(tmp_path / "data"))
    assert ended.returncode == 2
    assert "--platform needs the port of the brokers" in ended.stderr
