"""A broker imports what it needs to serve, and nothing heavy before somebody asks for it."""

import subprocess
import sys
from pathlib import Path

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
    "rich",
    "snappy",
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
