"""Clients that a program does not close end without noise, and a consumer leaves its group."""

import asyncio
import gc
import subprocess
import sys
import threading
import time

import pytest

from odradek.client.sync import Admin, Consumer, Producer
from odradek.protocol.types import TopicPartition
from odradek.testing.cluster import Cluster
from tests.unit.client.group_cluster import GroupCluster, with_groups

WARNING = (
    "a consumer of group g was not closed; it leaves the group and commits nothing. Call close(),"
    " or use `with` (`async with` with asyncio)"
)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_consumer_whose_tasks_are_cancelled_leaves_its_group(
    protocol: str, said: list[str]
) -> None:
    """The end of asyncio.run() cancels all tasks."""

    async def test(cluster: GroupCluster) -> None:
        await cluster.client.create_topic("t")
        await cluster.fill("t", 3)
        first = cluster.consumer(group_protocol=protocol)
        first.subscribe(["t"])
        assert len((await first.poll(60_000))[TopicPartition("t", 0)]) == 3
        for task in asyncio.all_tasks():
            if task.get_name() == "odradek-group":
                task.cancel()
                await asyncio.wait([task])
        assert said == [WARNING]
        before_s = cluster.simulation.loop.time()
        second = cluster.consumer(group_protocol=protocol)
        second.subscribe(["t"])
        polled = await second.poll(60_000)
        assert len(polled[TopicPartition("t", 0)]) == 3, "the first has committed nothing"
        assert cluster.simulation.loop.time() - before_s < 6, "no session had to time out"

    with_groups(test)
    assert said == [WARNING], "those that are closed say nothing"


@pytest.mark.parametrize("kind", [Producer, Consumer, Admin])
def test_the_thread_of_a_client_that_nothing_refers_to_ends(kind: type) -> None:
    before = set(threading.enumerate())
    client = kind(bootstrap_servers="127.0.0.1:1")
    (thread,) = set(threading.enumerate()) - before
    if kind is Producer:
        client.close()  # It may still have records to send, so it is kept until it is closed.
    del client
    gc.collect()
    thread.join(30)
    assert not thread.is_alive()


_FORGETTING = """\
import asyncio, gc
from odradek.client import Producer

async def main():
    producer = await Producer(bootstrap_servers="127.0.0.1:1").start()
    (task,) = asyncio.all_tasks() - {asyncio.current_task()}
    await asyncio.sleep(0)
    name = task.get_name()
    del producer, task
    gc.collect()
    assert [name] == [task.get_name() for task in asyncio.all_tasks() - {asyncio.current_task()}]

asyncio.run(main())
"""


def test_an_asyncio_producer_that_nothing_refers_to_is_kept_until_the_loop_ends() -> None:
    command = [sys.executable, "-c", _FORGETTING]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")


_FAILING = """\
import sys, threading
from odradek.client.sync import Admin, Consumer, Producer
servers = sys.argv[1]
admin = Admin(bootstrap_servers=servers)
admin.list_topics()
producer = Producer(bootstrap_servers=servers)
producer.send_and_wait("t", b"v")
alone = Consumer(bootstrap_servers=servers)
alone.assign([("t", 0)])
alone.poll(100)
consumer = Consumer("t", bootstrap_servers=servers, group_id="g", auto_offset_reset="earliest")
waiting = Consumer("t", bootstrap_servers=servers, group_id="other")
threading.Thread(target=waiting.poll, args=(600_000,), daemon=True).start()
while not consumer.poll(timeout_ms=1_000):
    pass
raise SystemExit("the program failed")
"""


def test_a_program_that_fails_leaves_one_line_and_the_next_need_not_wait() -> None:
    with Cluster() as cluster:
        cluster.create_topic("t")
        command = [sys.executable, "-c", _FAILING, cluster.bootstrap]
        for _ in range(2):
            start_s = time.monotonic()
            ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
            assert time.monotonic() - start_s < 30, "its predecessor has left the group"
            lines = ended.stderr.splitlines()
            assert lines[0] == "the program failed"
            # The one that waits may not be a member yet.
            assert {WARNING} <= set(lines[1:]) <= {WARNING, WARNING.replace(" g ", " other ")}
