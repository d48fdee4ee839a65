"""`odradek archive` and `odradek restore` as they are typed, each with a Spark of its own."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from odradek.testing import Cluster
from tests.spark.topics import fill, values_in

pytestmark = pytest.mark.xdist_group("spark")


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "odradek.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=200)


def test_a_topic_is_archived_and_restored_by_command(brokers: Cluster, tmp_path: Path) -> None:
    topic = brokers.create_topic()
    fill(brokers, topic, [b"%d" % index for index in range(100)])
    at = ("--bootstrap-server", brokers.bootstrap, "--master", "local[1]")
    archived = _run("archive", "--topic", topic, "--to", str(tmp_path), "--json", *at)
    assert archived.returncode == 0, archived.stderr
    said = json.loads(archived.stdout)
    assert (said["records"], said["files"], said["fewer_files"]) == (100, 1, 0)
    copy = brokers.create_topic()
    restored = _run(
        "restore", "--from", str(tmp_path), "--topic", topic, "--to-topic", copy, "--json", *at
    )
    assert restored.returncode == 0, restored.stderr
    assert json.loads(restored.stdout)["records"] == 100
    assert values_in(brokers, copy, 1) == values_in(brokers, topic, 1)
