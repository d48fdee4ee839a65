"""Change data capture from PostgreSQL: events a second, CPU, latency; of any Connect worker.

    python -m benchmarks.cdc_postgres --worker URL=PID [--worker URL=PID] --bootstrap HOST:PORT \
        --postgres HOST:PORT [--events 100000] [--seconds 20]

Each worker captures a database of its own with the same connector class and settings, so that
Odradek's worker and Apache Connect with Debezium can stand beside each other. First a backlog of
inserts waits in the slot of a stopped connector, and the time from its first record in the topic to
its last is taken, with the CPU time of the worker's processes. Then one row after the other is
inserted, 20 a second, and the time from its commit to its arrival at a consumer is taken.
"""

import argparse
import json
import statistics
import sys
import time
import urllib.request
import uuid
from collections.abc import Iterator
from typing import Any, NamedTuple

import psutil
import psycopg
from confluent_kafka import Consumer, TopicPartition

PATIENCE_S = 300.0
TABLE = (
    "CREATE TABLE orders (id int PRIMARY KEY, customer int, name text, price numeric(10,2),"
    " at timestamp, paid boolean, doc jsonb, note varchar(50))"
)
ROWS = (
    "INSERT INTO orders SELECT g, g %% 100, 'name ' || g, g / 7.0, now(), g %% 2 = 0,"
    " '{\"a\": [1, 2]}', 'a note of ' || g FROM generate_series(%s::int, %s::int) g"
)
JSON = "org.apache.kafka.connect.json.JsonConverter"
ROWS_OF_A_TRANSACTION = 1000
ROWS_A_SECOND = 20


class Figures(NamedTuple):
    events_a_second: float
    cpu_s_per_million: float
    p50_ms: float
    p99_ms: float


class Subject:
    """A worker that captures a database of its own."""

    def __init__(self, url: str, pid: int, bootstrap: str, postgres: str) -> None:
        self._url = url
        self._process = psutil.Process(pid)
        self._name = f"cdc_{uuid.uuid4().hex[:8]}"
        self._topic = f"{self._name}.public.orders"
        host, _, port = postgres.partition(":")
        address: dict[str, Any] = {"host": host, "port": int(port), "user": "postgres"}
        with psycopg.connect(dbname="postgres", autocommit=True, **address) as admin:
            admin.execute(f"CREATE DATABASE {self._name}")
        self._sql = psycopg.connect(dbname=self._name, autocommit=True, **address)
        self._sql.execute(TABLE)
        self._address = address
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": self._name,
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "fetch.wait.max.ms": 5,
                "allow.auto.create.topics": True,
                "log_level": 0,
            }
        )

    def measure(self, events: int, seconds: float) -> Figures:
        self._call("POST", "/connectors", {"name": self._name, "config": self._config()})
        self._wait_for_slot(active=True)
        self._insert(1, 1)
        records = self._records()
        next(records)
        self._call("PUT", f"/connectors/{self._name}/stop")
        self._wait_for_slot(active=False)
        for first in range(2, events + 2, ROWS_OF_A_TRANSACTION):
            self._insert(first, first + ROWS_OF_A_TRANSACTION - 1)
        self._call("PUT", f"/connectors/{self._name}/resume")
        next(records)
        started, used = time.monotonic(), self._cpu_s()
        for _ in range(events - 1):
            next(records)
        took, used = time.monotonic() - started, self._cpu_s() - used
        latencies = self._latencies(records, events + ROWS_OF_A_TRANSACTION + 2, seconds)
        return Figures(
            events / took,
            used / events * 1e6,
            statistics.median(latencies) * 1000,
            statistics.quantiles(latencies, n=100)[98] * 1000,
        )

    def _latencies(
        self, records: "Iterator[dict[str, Any]]", first: int, seconds: float
    ) -> list[float]:
        found = []
        for number in range(first, first + int(seconds * ROWS_A_SECOND)):
            self._insert(number, number)
            committed = time.monotonic()
            while next(records)["after"]["id"] != number:
                pass
            found.append(time.monotonic() - committed)
            time.sleep(max(0.0, 1 / ROWS_A_SECOND - found[-1]))
        return found

    def _config(self) -> dict[str, str]:
        return {
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            "topic.prefix": self._name,
            "plugin.name": "pgoutput",
            "database.hostname": self._address["host"],
            "database.port": str(self._address["port"]),
            "database.user": "postgres",
            "database.password": "x",
            "database.dbname": self._name,
            "slot.name": self._name,
            "publication.name": self._name,
            "snapshot.mode": "no_data",
            "poll.interval.ms": "10",
            "key.converter": JSON,
            "value.converter": JSON,
            "key.converter.schemas.enable": "false",
            "value.converter.schemas.enable": "false",
        }

    def _records(self) -> "Iterator[dict[str, Any]]":
        self._consumer.assign([TopicPartition(self._topic, 0, 0)])
        deadline = time.monotonic() + PATIENCE_S
        while True:
            first = self._consumer.poll(0.05)
            more = [] if first is None else self._consumer.consume(5000, 0)
            for message in [*([] if first is None else [first]), *more]:
                value = message.value()
                if message.error() is None and value is not None:
                    deadline = time.monotonic() + PATIENCE_S
                    yield json.loads(value)
            if time.monotonic() > deadline:
                raise TimeoutError(f"no more records of {self._topic}")

    def _insert(self, first: int, last: int) -> None:
        self._sql.execute(ROWS, (first, last))

    def _cpu_s(self) -> float:
        """The CPU time of the worker and the processes that it has started."""
        family = [self._process, *self._process.children(recursive=True)]
        times = [process.cpu_times() for process in family]
        return float(sum(used.user + used.system for used in times))

    def _wait_for_slot(self, *, active: bool) -> None:
        deadline = time.monotonic() + PATIENCE_S
        query = "SELECT active FROM pg_replication_slots WHERE slot_name = %s"
        while self._sql.execute(query, (self._name,)).fetchone() != (active,):
            if time.monotonic() > deadline:
                raise TimeoutError(f"slot {self._name} does not become active={active}")
            time.sleep(0.05)

    def _call(self, method: str, path: str, body: Any = None) -> None:
        request = urllib.request.Request(
            self._url + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        urllib.request.urlopen(request, timeout=60).close()

    def close(self) -> None:
        self._call("DELETE", f"/connectors/{self._name}")
        self._wait_for_slot(active=False)
        self._sql.execute("SELECT pg_drop_replication_slot(%s)", (self._name,))
        self._sql.close()
        self._consumer.close()
        with psycopg.connect(dbname="postgres", autocommit=True, **self._address) as admin:
            admin.execute(f"DROP DATABASE {self._name} WITH (FORCE)")


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--worker", action="append", required=True, metavar="URL=PID")
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--postgres", required=True, metavar="HOST:PORT")
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=20.0)
    options = parser.parse_args(arguments)
    for worker in options.worker:
        url, _, pid = worker.partition("=")
        subject = Subject(url, int(pid), options.bootstrap, options.postgres)
        try:
            figures = subject.measure(options.events, options.seconds)
        finally:
            subject.close()
        print(
            f"{url}: {figures.events_a_second:,.0f} events/s,"
            f" {figures.cpu_s_per_million:.0f} s of CPU per million,"
            f" latency p50 {figures.p50_ms:.0f} ms, p99 {figures.p99_ms:.0f} ms",
            flush=True,
        )


if __name__ == "__main__":
    main(sys.argv[1:])
