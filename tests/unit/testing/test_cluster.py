"""A broker for tests: starts soon, leaves no trace, and does not get in anyone's way."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from odradek.client.admin.admin import Admin
from odradek.testing import Cluster, ClusterFailed


def is_listening(bootstrap: str) -> bool:
    host, port = bootstrap.split(":")
    try:
        socket.create_connection((host, int(port)), timeout=10).close()
    except ConnectionRefusedError:
        return False
    return True


async def partitions(bootstrap: str, topic: str) -> int:
    async with Admin(bootstrap_servers=bootstrap) as admin:
        return len((await admin.list_topics())[topic].partitions)


def test_the_fixture_gives_a_real_broker(odradek_cluster: Cluster, odradek_topic: str) -> None:
    assert is_listening(odradek_cluster.bootstrap)
    assert odradek_topic.startswith("test_the_fixture_gives_a_real_broker-")
    assert asyncio.run(partitions(odradek_cluster.bootstrap, odradek_topic)) == 1


def test_topics_by_name_with_settings(odradek_cluster: Cluster) -> None:
    name = odradek_cluster.create_topic("by-name", partitions=3, config={"retention.ms": "1000"})
    assert name == "by-name"
    assert asyncio.run(partitions(odradek_cluster.bootstrap, name)) == 3


async def test_it_works_where_a_loop_is_running(odradek_cluster: Cluster) -> None:
    one = odradek_cluster.create_topic()
    other = await odradek_cluster.create_topic_async(partitions=2)
    assert await partitions(odradek_cluster.bootstrap, one) == 1
    assert await partitions(odradek_cluster.bootstrap, other) == 2


async def test_async_with() -> None:
    async with Cluster(settings={"num.partitions": "4"}) as cluster:
        bootstrap = cluster.bootstrap
        topic = cluster.create_topic(partitions=-1)
        assert await partitions(bootstrap, topic) == 4
    assert not is_listening(bootstrap)
    with pytest.raises(ClusterFailed, match="not running"):
        _ = cluster.bootstrap


def test_data_can_be_kept(tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    with Cluster(data=data) as cluster:
        topic = cluster.create_topic()
    with Cluster(data=data) as cluster:
        assert asyncio.run(partitions(cluster.bootstrap, topic)) == 1


def test_a_broker_that_does_not_start_says_why() -> None:
    with (
        pytest.raises(ClusterFailed, match=r"num\.partitions"),
        Cluster(settings={"num.partitions": "many"}),
    ):
        pass


def test_it_cannot_be_started_twice() -> None:
    with Cluster() as cluster, pytest.raises(ClusterFailed, match="already running"):
        cluster.start()


def test_the_plugin_costs_other_peoples_tests_nothing() -> None:
    code = (
        "import sys, pytest, re; before = set(sys.modules)\n"
        "import odradek.testing.pytest_plugin\n"
        "print(sorted(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert eval(done.stdout) == ["odradek", "odradek.testing", "odradek.testing.pytest_plugin"]


def test_ctrl_c_is_for_the_program_and_not_for_its_broker() -> None:
    """A terminal sends Ctrl-C to all processes of a command. Without its broker a consumer waited
    for half a minute, when it was closed, to commit."""
    program = (
        "import time\n"
        "from odradek.testing import Cluster\n"
        "with Cluster() as cluster:\n"
        "    try:\n"
        "        print('ready', flush=True)\n"
        "        time.sleep(60)\n"
        "    except KeyboardInterrupt:\n"
        "        time.sleep(0.5)\n"
        "        print(cluster.create_topic('afterwards'))\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
    ) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "ready\n"
        os.killpg(running.pid, signal.SIGINT)
        try:
            said, _ = running.communicate(timeout=30)
        finally:
            running.kill()
    assert (said, running.returncode) == ("afterwards\n", 0)


def test_a_single_broker_is_not_killed(odradek_cluster: Cluster) -> None:
    with pytest.raises(ClusterFailed, match=r"a single broker is not killed: use .*brokers=3"):
        odradek_cluster.kill(1)
