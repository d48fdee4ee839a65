"""How soon the SQL server answers: pull queries by key and by condition, and push queries.

    python -m benchmarks.sql_requests [--rows 10000] [--times 1000]

Prints the time of a pull query over a connection that is kept; the time from an INSERT that was
answered until a push query has the row; and the same while 50 push queries run at once, 40 without
state and 10 that count.
"""

import argparse
import http.client
import json
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from odradek.testing.cluster import Cluster
from tests.scenarios.sql_server import SqlServer, sql_started

_LATEST = {"auto.offset.reset": "latest"}


class _Client:
    """A connection that is kept."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def post(self, path: str, body: dict[str, Any]) -> bytes:
        headers = {"Content-Type": "application/json"}
        self._connection.request("POST", path, json.dumps(body), headers)
        answer = self._connection.getresponse().read()
        assert b"error" not in answer, answer
        return answer


def _shown(what: str, times_s: list[float]) -> None:
    cuts = statistics.quantiles(times_s, n=100)
    print(f"{what}: p50 {cuts[49] * 1000:.2f} ms, p99 {cuts[98] * 1000:.2f} ms", flush=True)


def _timed(call: Callable[[], object]) -> float:
    begun = time.perf_counter()
    call()
    return time.perf_counter() - begun


def _pulls(server: SqlServer, rows: int, times: int) -> None:
    client = _Client(server.port)
    for what, where in (("by key", "k = {}"), ("by another column", "v = {} AND k >= 0")):
        for number in range(50):
            client.post("/query-stream", {"sql": f"SELECT * FROM t WHERE {where.format(number)};"})
        taken = []
        process = psutil.Process(server.process.pid)
        before_s = sum(process.cpu_times()[:2])
        for number in range(times):
            text = f"SELECT * FROM t WHERE {where.format(number * 7919 % rows)};"

            taken.append(_timed(partial(client.post, "/query-stream", {"sql": text})))
        used_s = sum(process.cpu_times()[:2]) - before_s
        _shown(f"pull query {what}, of {rows:,} rows", taken)
        print(f"  processor time of the server: {used_s / times * 1000:.2f} ms", flush=True)


def _follow(lines: Iterator[Any], arrived: list[float], count: int) -> None:
    for _ in range(count):
        next(lines)
        arrived.append(time.perf_counter())


def _pushes(server: SqlServer, texts: list[str], times: int, what: str) -> None:
    """Measures the first query, while the others run too."""
    client = _Client(server.port)
    with ExitStack() as stack:
        streams = [stack.enter_context(server.stream(text, _LATEST)) for text in texts]
        for lines in streams:
            next(lines)
        arrived: list[list[float]] = [[] for _ in streams]
        threads = [
            threading.Thread(target=_follow, args=(lines, found, times))
            for lines, found in zip(streams, arrived, strict=True)
        ]
        for thread in threads:
            thread.start()
        inserted = []
        for number in range(times):
            inserted.append(time.perf_counter())
            client.post("/ksql", {"ksql": f"INSERT INTO s VALUES ({number % 10}, {number});"})
            time.sleep(0.01)
        for thread in threads:
            thread.join()
    late = [[there - begun for begun, there in zip(inserted, found, strict=True)]
            for found in arrived]  # fmt: skip
    _shown(f"{what}: from INSERT to the row of the first", late[0])
    if len(late) > 1:
        _shown(f"{what}: ... of all", [one for found in late for one in found])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--times", type=int, default=1000)
    arguments = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as directory,
        Cluster(brokers=1) as cluster,
        sql_started(Path(directory), cluster.bootstrap) as server,
    ):
        server.ksql(
            "CREATE TABLE t (k INT PRIMARY KEY, v INT) WITH (kafka_topic='t', value_format='JSON',"
            " partitions=3); CREATE STREAM s (k INT KEY, v INT) WITH (kafka_topic='s',"
            " value_format='JSON', partitions=1);"
        )
        for begin in range(0, arguments.rows, 500):
            rows = range(begin, min(begin + 500, arguments.rows))
            server.ksql("".join(f"INSERT INTO t VALUES ({n}, {n});" for n in rows))
        _pulls(server, arguments.rows, arguments.times)
        plain = "SELECT * FROM s EMIT CHANGES;"
        _pushes(server, [plain], 300, "1 push query")
        counting = "SELECT k, COUNT(*) AS n FROM s GROUP BY k EMIT CHANGES;"
        _pushes(server, [plain] * 40 + [counting] * 10, 100, "50 push queries")
        memory = psutil.Process(server.process.pid).memory_info().rss
        print(f"memory of the server: {memory / 2**20:.0f} MiB", flush=True)


if __name__ == "__main__":
    main()
