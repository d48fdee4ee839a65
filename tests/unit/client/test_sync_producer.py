"""The producer without asyncio, with brokers that listen on a port of this machine."""

import asyncio
import concurrent.futures
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from odradek.client.sync import LoopThread, Producer
from tests.unit.client.mini_cluster import MiniCluster
from tests.unit.client.producer.producing import values


@pytest.fixture
def brokers() -> Iterator[MiniCluster]:
    """One broker with the topic `t`."""
    thread = LoopThread("brokers")

    async def start() -> MiniCluster:
        cluster = MiniCluster()
        cluster.ports = {1: await _free_port()}
        cluster.create("t")
        return await cluster.start()

    made = thread.call(start())
    yield made
    thread.call(made.stop())
    thread.stop()


async def _free_port() -> int:
    server = await asyncio.get_running_loop().create_server(asyncio.Protocol, "127.0.0.1", 0)
    port: int = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    return port


def run_program(text: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, timeout=60, check=True
    )


def test_an_interceptor_that_raises_does_not_keep_result_from_returning(
    brokers: MiniCluster,
) -> None:
    class Broken:
        def on_send(self, record: Any) -> Any:
            return record

        def on_acknowledgement(self, metadata: object, error: BaseException | None) -> None:
            raise RuntimeError("the metrics server is down")

    with Producer(bootstrap_servers=brokers.bootstrap, interceptors=[Broken()]) as producer:
        assert producer.send("t", b"v").result(timeout=30).offset == 0


def test_a_callback_that_calls_the_client_is_told_why_not(brokers: MiniCluster) -> None:
    told: concurrent.futures.Future[list[str]] = concurrent.futures.Future()
    with Producer(bootstrap_servers=brokers.bootstrap) as producer:

        def call_again(*_: object) -> None:
            errors = []
            for call in (lambda: producer.send("t", b"w"), producer.close):
                try:
                    call()
                except RuntimeError as error:
                    errors.append(str(error))
            told.set_result(errors)

        producer.send("t", b"v", on_delivery=call_again)
        errors = told.result(30)
        assert len(errors) == 2
        assert all("hand the call to another thread" in error for error in errors)
        assert producer.send("t", b"x").result(30).offset == 1, "the client goes on"


def test_records_that_are_left_at_the_end_of_the_program_are_sent_with_a_warning(
    brokers: MiniCluster,
) -> None:
    ended = run_program(
        "from odradek.client.sync import Producer\n"
        f"producer = Producer(bootstrap_servers={brokers.bootstrap!r}, linger_ms=30_000)\n"
        "for number in range(3): producer.send('t', b'%d' % number)\n"
    )
    assert values(brokers) == [b"0", b"1", b"2"]
    assert ended.stderr == (
        "the program ends and has not closed a producer: waiting up to 5 s for 3 records;"
        " call close(), or use `with`\n"
    )


def test_a_program_that_closes_its_producer_ends_in_silence(brokers: MiniCluster) -> None:
    ended = run_program(
        "from odradek.client.sync import Producer\n"
        f"with Producer(bootstrap_servers={brokers.bootstrap!r}) as producer:\n"
        "    producer.send('t', b'0')\n"
        f"idle = Producer(bootstrap_servers={brokers.bootstrap!r})\n"
        "idle.send_and_wait('t', b'1')\n"
    )
    assert (values(brokers), ended.stderr) == ([b"0", b"1"], "")


def test_a_client_that_was_made_before_a_fork_says_so() -> None:
    ended = run_program(
        "import os\n"
        "from odradek.client.errors import ClientClosed\n"
        "from odradek.client.sync import Producer\n"
        "producer = Producer(bootstrap_servers='127.0.0.1:1')\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    try: producer.send('t', b'v')\n"
        "    except ClientClosed as error: print(error)\n"
        "    producer.close()\n"
        "    raise SystemExit\n"
        "os.waitpid(child, 0)\n"
        "producer.close()\n"
    )
    assert ended.stdout == (
        "the client was made before this process was forked: make one in each process\n"
    )
    assert ended.stderr == ""


def test_habits_of_other_futures_and_wrong_arguments_are_answered(brokers: MiniCluster) -> None:
    with Producer(bootstrap_servers=brokers.bootstrap) as producer:
        delivery: Any = producer.send("t", b"v")
        with pytest.raises(AttributeError, match=r"'get': write result\(timeout=10\), in seconds"):
            delivery.get(timeout=5)
        with pytest.raises(AttributeError, match=r"'offset': write result\(\).offset"):
            _ = delivery.offset
        anything: Any = producer
        with pytest.raises(TypeError, match="'callback': write on_delivery=function"):
            anything.send("t", b"v", callback=print)
        with pytest.raises(TypeError, match="on_delivery must be a function"):
            anything.send("t", b"v", on_delivery=5)
        with pytest.raises(TypeError, match=r"'on_delivery': write send\(..., on_delivery=functio"):
            anything.send_and_wait("t", b"v", on_delivery=print)
        assert delivery.result(30).offset == 0
        assert producer.undelivered == 0


def test_many_threads_may_send(brokers: MiniCluster) -> None:
    with Producer(bootstrap_servers=brokers.bootstrap, batch_size=0) as producer:

        def send() -> None:
            for _ in range(20):
                producer.send("t", b"v")

        threads = [threading.Thread(target=send) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        producer.flush()
    assert len(values(brokers)) == 80
