"""How soon persistent queries of the SQL server begin, how fast they are, and what they cost.

    python -m benchmarks.sql_queries [--engine process|spark] [--lane shared|own] [--queries 20]

Prints when the first query has its first results, when a second one has, and when twenty that were
created at once have; how long a row takes from INSERT until a pull query has it, while all of them
run; the memory of all processes together; and how many records a second a query without state, and
one that counts, take from a topic that is full.
"""

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

import psutil

from odradek.client.sync import Consumer, Producer
from odradek.protocol.types import TopicPartition
from odradek.testing.cluster import Cluster
from tests.scenarios.sql_server import SqlServer, sql_started

_ROWS = 10
_TIMES = 40
_DEADLINE_S = 180.0


class _Bench:
    def __init__(self, server: SqlServer, bootstrap: str) -> None:
        self._server = server
        self._bootstrap = bootstrap

    def ksql(self, text: str) -> None:
        answer = self._server.ksql(text)
        assert isinstance(answer, list), answer

    def first_results(self, names: list[str]) -> None:
        for name in names:
            self._server.rows(f"SELECT * FROM {name} EMIT CHANGES LIMIT {_ROWS};")

    def starts(self, queries: int) -> None:
        self.ksql(
            "CREATE STREAM a (k INT KEY, v INT)"
            " WITH (kafka_topic='a', value_format='JSON', partitions=3);"
        )
        for number in range(_ROWS):
            self.ksql(f"INSERT INTO a (k, v) VALUES ({number % 3}, {number});")
        for what, names in (
            ("the first query", ["n"]), ("a second one", ["m"]),
            (f"{queries} at once", [f"t{number}" for number in range(queries)]),
        ):  # fmt: skip
            begun = time.monotonic()
            self.ksql(
                "".join(
                    f"CREATE TABLE {name} AS SELECT k, COUNT(*) AS c FROM a GROUP BY k;"
                    for name in names
                )
            )
            self.first_results(names)
            print(f"{what}: first results after {time.monotonic() - begun:.1f} s", flush=True)

    def latency(self) -> None:
        times = []
        for number in range(1, _TIMES + 1):
            begun = time.monotonic()
            self.ksql(f"INSERT INTO a (k, v) VALUES (7, {number});")
            while self._server.rows("SELECT c FROM n WHERE k = 7;") != [[number]]:
                assert time.monotonic() < begun + _DEADLINE_S
            times.append((time.monotonic() - begun) * 1000)
        cuts = statistics.quantiles(times, n=20)
        print(f"a row: p50 {statistics.median(times):.0f} ms, p95 {cuts[-1]:.0f} ms", flush=True)

    def memory(self) -> None:
        server = psutil.Process(self._server.process.pid)
        total, count = 0, 0
        for process in [server, *server.children(recursive=True)]:
            try:
                total += process.memory_full_info().pss
                count += 1
            except psutil.Error:
                continue
        print(f"memory: {total >> 20} MB in {count} processes", flush=True)

    def fill(self, records: int) -> None:
        self.ksql(
            "CREATE STREAM big (k BIGINT KEY, name STRING, price DOUBLE)"
            " WITH (kafka_topic='big', value_format='JSON', partitions=4);"
        )
        with Producer({"bootstrap.servers": self._bootstrap, "linger.ms": 50}) as producer:
            for number in range(records):
                row = {"NAME": f"name-{number % 100}", "PRICE": number / 4}
                key = (number % 10_000).to_bytes(8, "big")
                producer.send("big", json.dumps(row).encode(), key)
            producer.flush()

    def speed(self, statement: str, name: str, records: int) -> float:
        """Prints and returns how many records a second a query takes, each of which has a result.
        The ends of transactions are offsets too, which makes it end a little early."""
        begun = time.monotonic()
        self.ksql(statement)
        first = self._reached(name.upper(), 1)
        ended = self._reached(name.upper(), records)
        rate = records / (ended - begun)
        print(
            f"{name}: {records} records in {ended - begun:.1f} s, the first after"
            f" {first - begun:.1f} s: {rate:,.0f} a second", flush=True,
        )  # fmt: skip
        return rate

    def _reached(self, topic: str, count: int) -> float:
        """Waits until a topic has so many committed offsets, and returns when it has."""
        deadline_s = time.monotonic() + _DEADLINE_S
        with Consumer(
            {"bootstrap.servers": self._bootstrap, "isolation.level": "read_committed"}
        ) as consumer:
            partitions = [TopicPartition(topic, one) for one in consumer.partitions_for(topic)]
            while sum(consumer.end_offsets(partitions).values()) < count:
                assert time.monotonic() < deadline_s, f"{topic} has not {count} records"
                time.sleep(0.05)
        return time.monotonic()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--engine", choices=["process", "spark"], default="process")
    parser.add_argument("--lane", choices=["shared", "own"], default="shared")
    parser.add_argument("--queries", type=int, default=20)
    parser.add_argument("--records", type=int, default=200_000)
    given = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as directory,
        Cluster() as cluster,
        sql_started(
            Path(directory), cluster.bootstrap, f"odradek.sql.engine={given.engine}"
        ) as server,
    ):
        bench = _Bench(server, cluster.bootstrap)
        if given.queries:
            bench.starts(given.queries)
            bench.latency()
            bench.memory()
            bench.ksql("TERMINATE ALL;")
        if given.records:
            bench.fill(given.records)
            lane = "SET 'odradek.sql.lane' = 'own'; " if given.lane == "own" else ""
            bench.speed(
                f"{lane}CREATE STREAM flat AS SELECT k, UCASE(name) AS name, price * 2 AS price"
                " FROM big WHERE price >= 0;",
                "flat", given.records,
            )  # fmt: skip
            if given.lane == "shared":
                bench.speed(
                    "CREATE TABLE counted AS SELECT k, COUNT(*) AS n FROM big GROUP BY k;",
                    "counted", given.records,
                )  # fmt: skip


if __name__ == "__main__":
    main()
