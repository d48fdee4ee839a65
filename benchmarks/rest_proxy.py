"""Our REST proxy beside Karapace's, on the same broker and machine: requests and records a second.

    python -m benchmarks.rest_proxy --karapace DIR/bin/karapace_rest_proxy

Both are one process. Each scenario runs by turns, `--rounds` times, and the better round of each
counts. Karapace (https://github.com/Aiven-Open/karapace) is installed from its sources into an
environment of its own; without the flag only ours is measured.

    one       a request with one JSON record, by 8 connections
    hundred   a request with 100 JSON records, by 8 connections
    read      all records of a topic by a consumer instance, by 1 connection
"""

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from odradek.testing import Cluster

V2 = "application/vnd.kafka.v2+json"
JSON_V2 = "application/vnd.kafka.json.v2+json"
CONNECTIONS = 8


class Connection:
    """A connection that asks one request after the other, with as little of its own as possible."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def ask(self, method: str, path: str, body: bytes = b"", **headers: str) -> Any:
        if self._writer is None:
            self._reader, self._writer = await asyncio.open_connection(
                "127.0.0.1", self._port, limit=1 << 26
            )
        assert self._reader is not None
        lines = [f"{method} {path} HTTP/1.1", f"host: 127.0.0.1:{self._port}"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        lines += [f"content-length: {len(body)}", "", ""]
        self._writer.write("\r\n".join(lines).encode() + body)
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = 0
        for line in head.split("\r\n"):
            if line.startswith("content-length:"):
                length = int(line.partition(":")[2])
        answer = await self._reader.readexactly(length)
        status = int(head.split(" ")[1])
        if status >= 300:
            raise SystemExit(f"{method} {path}: {status} {answer[:300]!r}")
        return json.loads(answer) if answer else None

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()


async def produce(port: int, topic: str, records: int, seconds: float) -> float:
    """Returns records a second."""
    value = {"item": "book", "count": 3, "text": "x" * 60}
    body = json.dumps({"records": [{"value": value}] * records}).encode()
    done = 0
    end = time.perf_counter() + seconds

    async def one() -> None:
        nonlocal done
        connection = Connection(port)
        while time.perf_counter() < end:
            await connection.ask("POST", f"/topics/{topic}", body, content_type=JSON_V2, accept=V2)
            done += records
        connection.close()

    await asyncio.gather(*(one() for _ in range(CONNECTIONS)))
    return done / seconds


async def read(port: int, topic: str, count: int, group: str) -> float:
    """Returns records a second, from the first request to the last record. The partition is
    assigned by hand, so the time that a group takes is not measured."""
    connection = Connection(port)
    at = {"topic": topic, "partition": 0}
    path = f"/consumers/{group}/instances/i"
    for where, body in (
        (f"/consumers/{group}", {"format": "json", "auto.offset.reset": "earliest", "name": "i"}),
        (f"{path}/assignments", {"partitions": [at]}),
        (f"{path}/positions/beginning", {"partitions": [at]}),
    ):
        await connection.ask("POST", where, json.dumps(body).encode(), content_type=V2, accept=V2)
    found, began = 0, time.perf_counter()
    while found < count:
        found += len(await connection.ask("GET", f"{path}/records", accept=JSON_V2))
    took = time.perf_counter() - began
    await connection.ask("DELETE", path, accept=V2)
    connection.close()
    return found / took


def memory_mb(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1000
    return 0.0


@contextmanager
def odradek_proxy(bootstrap: str, port: int) -> Iterator[int]:
    command = [sys.executable, "-m", "odradek.cli", "rest-start", "--log-level", "WARN"]
    command += ["--override", f"bootstrap.servers={bootstrap}"]
    command += ["--override", f"listeners=http://127.0.0.1:{port}"]
    with running(command, {}) as pid:
        yield pid


@contextmanager
def karapace_proxy(program: str, bootstrap: str, port: int) -> Iterator[int]:
    settings = {
        "KARAPACE_HOST": "127.0.0.1", "KARAPACE_PORT": str(port), "KARAPACE_KARAPACE_REST": "true",
        "KARAPACE_KARAPACE_REGISTRY": "false", "KARAPACE_BOOTSTRAP_URI": bootstrap,
        "KARAPACE_LOG_LEVEL": "WARNING", "KARAPACE_ADMIN_METADATA_MAX_AGE": "0",
    }  # fmt: skip
    with running([program], settings) as pid:
        yield pid


@contextmanager
def running(command: list[str], settings: dict[str, str]) -> Iterator[int]:
    with tempfile.TemporaryFile() as log:
        environment = {**os.environ, **settings}
        process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
        try:
            yield process.pid
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


async def until_ready(port: int) -> None:
    for _ in range(300):
        try:
            connection = Connection(port)
            await connection.ask("GET", "/topics", accept=V2)
            connection.close()
            return
        except OSError:
            await asyncio.sleep(0.1)
    raise SystemExit("the proxy did not start")


async def measure(port: int, pid: int, cluster: Cluster, seconds: float) -> dict[str, float]:
    await until_ready(port)
    topic = await asyncio.to_thread(cluster.create_topic, partitions=1)
    await produce(port, topic, 1, 0.5)
    figures = {
        "one": await produce(port, topic, 1, seconds),
        "hundred": await produce(port, topic, 100, seconds),
    }
    full = await asyncio.to_thread(cluster.create_topic, partitions=1)
    body = json.dumps({"records": [{"value": {"n": n, "text": "x" * 80}} for n in range(500)]})
    connection = Connection(port)
    for _ in range(100):
        await connection.ask("POST", f"/topics/{full}", body.encode(), content_type=JSON_V2,
                             accept=V2)  # fmt: skip
    connection.close()
    figures["read"] = await read(port, full, 50_000, f"g{time.time_ns()}")
    figures["memory MB"] = memory_mb(pid)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--karapace")
    parser.add_argument("--port", type=int, default=34450)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--rounds", type=int, default=2)
    arguments = parser.parse_args()
    best: dict[str, dict[str, float]] = {}
    with Cluster() as cluster:
        for turn in range(arguments.rounds):
            proxies = {"odradek": odradek_proxy(cluster.bootstrap, arguments.port + 2 * turn)}
            if arguments.karapace:
                proxies["karapace"] = karapace_proxy(
                    arguments.karapace, cluster.bootstrap, arguments.port + 2 * turn + 1
                )
            for name, proxy in proxies.items():
                port = arguments.port + 2 * turn + (name == "karapace")
                with proxy as pid:
                    figures = asyncio.run(measure(port, pid, cluster, arguments.seconds))
                known = best.setdefault(name, figures)
                best[name] = {key: max(known[key], value) for key, value in figures.items()}
                print(name, {key: round(value) for key, value in figures.items()}, flush=True)
    if "karapace" in best:
        for key, value in best["odradek"].items():
            print(f"{key}: {value:,.0f} beside {best['karapace'][key]:,.0f},"
                  f" {value / max(best['karapace'][key], 1):.1f}x")  # fmt: skip


if __name__ == "__main__":
    main()
