"""`odradek zookeeper-shell` on a ZooKeeper ensemble; the documents' lines cover our own store."""

import json
import subprocess
import sys
from collections.abc import Iterator

import pytest
from kazoo.client import KazooClient

from tests.needs import need
from tests.unit.metadata.zookeeper_servers import Ensemble, zookeeper_jars


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    jars = need(zookeeper_jars)
    with Ensemble(jars, tmp_path_factory.mktemp("ensemble"), size=1) as ensemble:
        client = KazooClient(ensemble.address)
        client.start(timeout=20)
        client.ensure_path("/cluster-one/brokers/topics/orders")
        client.create("/cluster-one/controller", b'{"brokerid":1}')
        client.stop()
        client.close()
        yield f"{ensemble.address}/cluster-one"


def shell(*words: str, stdin: str = "") -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "odradek.cli", "zookeeper-shell.sh", *words]
    return subprocess.run(
        command, input=stdin, capture_output=True, text=True, check=False, timeout=60
    )


def test_nodes_are_shown_as_json(address: str) -> None:
    listed = json.loads(shell("--json", address, "ls", "/brokers/topics").stdout)
    assert (listed["path"], listed["children"]) == ("/brokers/topics", ["orders"])
    shown = json.loads(shell(address, "get", "/controller", "--json").stdout)
    assert (shown["value"], shown["version"]) == ('{"brokerid":1}', 0)


def test_only_what_looks_is_repeated(address: str) -> None:
    assert "--watch repeats what only looks" in shell("--watch", address, "delete", "/a").stderr
    assert "write --watch first" in shell(address, "get", "/controller", "--watch").stderr


def test_nodes_are_shown(address: str) -> None:
    assert shell(address, "ls", "/brokers/topics").stdout == "[orders]\n"
    assert shell(address, "ls", "-R", "/brokers").stdout.splitlines() == [
        "/brokers",
        "/brokers/topics",
        "/brokers/topics/orders",
    ]
    said = shell(address, stdin="get -s /controller\nget /nowhere\nls /\nquit\n")
    assert said.stdout.startswith('{"brokerid":1}\ncZxid = 0x')
    assert said.stdout.endswith("[brokers, controller]\n")
    assert said.stderr == "/nowhere: there is no such node\n"


def test_only_the_controller_may_be_deleted(address: str) -> None:
    refused = shell(address, "delete", "/brokers/topics/orders")
    assert refused.returncode == 1
    assert "use odradek topics" in refused.stderr
    assert shell(address, "ls", "/brokers/topics").stdout == "[orders]\n"
    assert "elect a new controller" in shell(address, "delete", "/controller").stdout
    assert shell(address, "ls", "/").stdout == "[brokers]\n"
