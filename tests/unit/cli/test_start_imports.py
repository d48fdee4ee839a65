"""A broker and a tool import what they need, and nothing heavy before somebody asks for it.

Nearly all of the time in which a tool answers is spent on imports. So these tests say which modules
a tool imports: times would depend on the machine (`python -m benchmarks.tool_start` measures them).
"""

import subprocess
import sys
from pathlib import Path

import pytest

from odradek.cli.commands import COMMANDS
from odradek.testing import Cluster

HEAVY = {
    "aiokafka",
    "confluent_kafka",
    "cramjam",
    "fastavro",
    "google.protobuf",
    "jsonschema",
    "kafka",
    "kazoo",
    "lz4",
    "matplotlib",
    "numba",
    "numpy",
    "pandas",
    "psutil",
    "pyarrow",
    "pyspark",
    "msgspec",
    "rich",
    "snappy",
    "starlette",
    "uvicorn",
    "zstandard",
}

PROGRAM = """
import os, sys
from odradek.local.serving import serve, settings_from
properties = {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": sys.argv[1]}

def ready(bootstrap):
    print(*sorted(sys.modules), sep="\\n", flush=True)
    os._exit(0)

serve(settings_from(properties, []), on_ready=ready)
"""


def test_a_started_broker_has_imported_nothing_heavy(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "data")]
    output = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    modules = set(output.split())
    assert "odradek.broker.broker" in modules
    assert not HEAVY & modules
    # Nor what belongs to tools, applications and other kinds of stores.
    for room in ("spark", "recipes", "schemas", "metadata.zookeeper", "metadata.remote"):
        assert f"odradek.{room}" not in modules


RUN_TOOL = """
import sys
from odradek.cli.main import main
try:
    code = main(sys.argv[1:])
except SystemExit as end:
    code = end.code
print(*sys.modules, sep="\\n", file=sys.stderr)
sys.exit(code)
"""

# Rooms of the broker, of Spark, and of tools that do not ask a broker.
ROOMS = (
    "broker",
    "cluster",
    "groups",
    "local",
    "metadata",
    "perf",
    "recipes.environment",
    "replication",
    "schemas",
    "security",
    "spark",
    "statemachine",
    "storage",
    "telemetry",
    "transactions",
)
# What costs time, and no tool needs in order to ask a question.
NEEDLESS = HEAVY | {"importlib.metadata", "importlib.resources", "uvloop", "yaml"}


def modules_of(line: str) -> set[str]:
    """Runs a command and returns the names of the modules that it has imported."""
    command = [sys.executable, "-c", RUN_TOOL, *line.split()]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, timeout=60, stdin=subprocess.DEVNULL
    )
    return set(done.stderr.split("\n"))


CALLS = {
    "topics --list": {"topics", "configs", "brokers"},
    "topics --describe --topic TOPIC": {"topics", "configs", "brokers"},
    "configs --describe --topic TOPIC": {"topics", "configs", "brokers", "groups"},
    "get-offsets --topic TOPIC": {"topics", "records", "brokers"},
    "consumer-groups --list": {"groups", "group_offsets", "records", "topics"},
    "groups --list": {"groups", "group_offsets", "records", "topics"},
    "transactions list": {"transactions", "topics", "brokers"},
    "cluster cluster-id": {"brokers"},
    "broker-api-versions": {"brokers"},
    "log-dirs --describe": {"topics", "records", "brokers"},
    "leader-election --election-type preferred --all-topic-partitions": {"partitions", "topics"},
    "reassign-partitions --list": {"partitions", "topics", "configs", "brokers"},
}
ALL_CALLS = set().union(*CALLS.values()) | {"acls", "admin"}


def needless(modules: set[str]) -> set[str]:
    """Returns which modules a tool that asks a broker should not have imported."""
    return NEEDLESS & modules | {f"odradek.{room}" for room in ROOMS} & modules


@pytest.mark.parametrize(("line", "calls"), CALLS.items(), ids=CALLS)
def test_a_tool_imports_the_admin_calls_that_it_uses(
    odradek_cluster: Cluster, odradek_topic: str, line: str, calls: set[str]
) -> None:
    tool, *words = line.replace("TOPIC", odradek_topic).split()
    address = f"--bootstrap-server {odradek_cluster.bootstrap}"
    modules = modules_of(" ".join([tool, address, *words]))
    assert {call for call in ALL_CALLS if f"odradek.client.admin.{call}" in modules} == calls
    assert not needless(modules)
    # Nor the other clients, with their settings and the records that they read and write.
    for module in (
        "odradek.client.consumer.consumer",
        "odradek.client.producer.producer",
        "odradek.client.settings.producer",
        "odradek.client.group.group",
        "odradek.protocol.records",
        "odradek.world.world",
    ):
        assert module not in modules


def test_the_console_consumer_imports_no_producer_and_no_group(
    odradek_cluster: Cluster, odradek_topic: str
) -> None:
    address = f"--bootstrap-server {odradek_cluster.bootstrap}"
    modules = modules_of(f"console-consumer --topic {odradek_topic} --timeout-ms 1 {address}")
    assert "odradek.client.consumer.consumer" in modules
    for module in ("producer.producer", "settings.producer", "group.group", "admin.admin"):
        assert f"odradek.client.{module}" not in modules
    assert not needless(modules)


def test_the_console_producer_imports_no_consumer(
    odradek_cluster: Cluster, odradek_topic: str
) -> None:
    address = f"--bootstrap-server {odradek_cluster.bootstrap}"
    modules = modules_of(f"console-producer --topic {odradek_topic} {address}")
    assert "odradek.client.producer.producer" in modules
    for module in ("consumer.consumer", "group.group", "admin.admin"):
        assert f"odradek.client.{module}" not in modules
    assert not needless(modules)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_imports_no_work(command: str) -> None:
    modules = modules_of(f"{command} --help")
    assert not needless(modules)
    assert "asyncio" not in modules
    for module in ("client.cluster", "protocol.schema", "world.world", "config.broker_settings"):
        assert f"odradek.{module}" not in modules


@pytest.mark.parametrize("line", ["pipeline list", "sizing --rate 1MB"])
def test_what_asks_no_broker_imports_no_event_loop(line: str) -> None:
    modules = modules_of(line)
    assert "asyncio" not in modules
    assert not HEAVY & modules
