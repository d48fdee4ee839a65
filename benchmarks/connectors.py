"""How fast connectors for databases and files are: `python -m benchmarks.connectors`.

A real worker (`odradek connect-standalone`) and a real broker run beside this process. Records have
four fields, and their JSON carries its schema. The time is from the start of the worker until the
last row or record is there, less what it takes for one record. The CPU is that of the worker.

    python -m benchmarks.connectors [--records 100000] [NAME ...]

`--apache DIRECTORY` runs the same properties in Apache's Connect. The directory has its jars, those
of Aiven's connector and the drivers.
"""

import argparse
import asyncio
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import psutil
import psycopg
import pyarrow.parquet as pq

from benchmarks.apache_kafka import java_program
from benchmarks.broker_process import free_ports, odradek_broker, odradek_program
from odradek.client import Consumer, Producer
from odradek.client.admin.admin import Admin
from tests.database_servers import Postgres, postgres_programs, running_postgres

_PATIENCE_S: Final = 600.0
_SCHEMA: Final = {
    "type": "struct",
    "optional": False,
    "fields": [
        {"field": "id", "type": "int64", "optional": False},
        {"field": "customer", "type": "string", "optional": True},
        {"field": "amount", "type": "double", "optional": True},
        {
            "field": "at",
            "type": "int64",
            "optional": True,
            "name": "org.apache.kafka.connect.data.Timestamp",
            "version": 1,
        },
    ],
}
_WORKER: Final = {
    "key.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "offset.storage.replication.factor": "1",
    "offset.flush.interval.ms": "1000",
}


_JVM_FLAGS: Final = ("-Xms256M", "-Xmx2G", "-XX:+UseG1GC")  # those of connect-standalone.sh


class Cost(NamedTuple):
    wall_s: float
    cpu_s: float

    def per_record(self, of_one: "Cost", records: int) -> str:
        rate = records / (self.wall_s - of_one.wall_s)
        return (
            f"{rate:>9,.0f} records/s {(self.cpu_s - of_one.cpu_s) / records * 1e6:>6.1f} us of CPU"
        )


class Bench(NamedTuple):
    bootstrap: str
    directory: Path
    records: int
    postgres: Postgres
    apache: Path | None


@contextmanager
def worker(bench: Bench, properties: Mapping[str, str]) -> Iterator[Callable[[], float]]:
    """Runs a worker with one connector. Yields what tells the seconds of CPU that it has used."""
    (port,) = free_ports(1)
    settings = {
        **_WORKER,
        "bootstrap.servers": bench.bootstrap,
        "listeners": f"http://127.0.0.1:{port}",
        "offset.storage.topic": f"offsets-{port}",
        "offset.storage.file.filename": str(bench.directory / f"offsets-{port}"),
    }
    worker_file = _written(bench.directory / "worker.properties", settings)
    connector_file = _written(bench.directory / "connector.properties", properties)
    if bench.apache is None:
        command = [odradek_program(), "connect-standalone"]
    else:
        settings["plugin.discovery"] = "only_scan"
        standalone = "org.apache.kafka.connect.cli.ConnectStandalone"
        command = [java_program(), *_JVM_FLAGS, "-cp", f"{bench.apache}/*", standalone]
    with (bench.directory / "worker.log").open("wb") as log:
        process = subprocess.Popen(
            [*command, str(worker_file), str(connector_file)], stdout=log, stderr=log
        )

    def cpu_s() -> float:
        times = psutil.Process(process.pid).cpu_times()
        return float(times.user + times.system)

    try:
        yield cpu_s
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()


def _written(path: Path, properties: Mapping[str, str]) -> Path:
    path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    return path


def _wait_for(ready: Callable[[], bool]) -> float:
    began_s = time.monotonic()
    while not ready():
        assert time.monotonic() < began_s + _PATIENCE_S, "the worker does not come to the end"
        time.sleep(0.05)
    return time.monotonic() - began_s


async def _fill(bootstrap: str, topic: str, count: int) -> None:
    async with Admin(bootstrap_servers=bootstrap) as admin:
        await admin.create_topic(topic, 1, 1)
    async with Producer(bootstrap_servers=bootstrap, linger_ms=20) as producer:
        pending = []
        for number in range(count):
            value = {
                "id": number,
                "customer": f"customer {number % 1000}",
                "amount": number / 4,
                "at": 1_769_902_200_000 + number,
            }
            data = json.dumps({"schema": _SCHEMA, "payload": value}).encode()
            pending.append(asyncio.ensure_future(producer.send(topic, data)))
            if len(pending) >= 5000:
                await asyncio.gather(*pending)
                pending.clear()
        await asyncio.gather(*pending)


async def _count(bootstrap: str, topic: str, expected: int) -> float:
    """Returns how long it takes until the topic has so many committed records."""
    began_s = time.monotonic()
    options = {
        "bootstrap.servers": bootstrap,
        "auto.offset.reset": "earliest",
        "isolation.level": "read_committed",
    }
    async with Admin(bootstrap_servers=bootstrap) as admin:
        await admin.create_topic(topic, 1, 1)
    found = 0
    async with asyncio.timeout(_PATIENCE_S), Consumer(options) as consumer:
        consumer.assign([(topic, 0)])
        while found < expected:
            found += sum(map(len, (await consumer.poll(timeout_ms=500)).values()))
    return time.monotonic() - began_s


_TABLE_SQL: Final = "(id BIGINT PRIMARY KEY, customer TEXT, amount DOUBLE PRECISION, at TIMESTAMP)"


def _database(bench: Bench, kind: str) -> tuple[dict[str, str], Callable[[], Any]]:
    """Returns the properties of a new database, and what connects to it."""
    if kind == "sqlite":
        (number,) = free_ports(1)
        path = bench.directory / f"{number}.db"
        return {"connection.url": f"jdbc:sqlite:{path}"}, lambda: sqlite3.connect(path)
    database = bench.postgres.new_database()
    url = f"jdbc:postgresql://127.0.0.1:{database.port}/{database.name}"
    dsn = f"host=127.0.0.1 port={database.port} user={database.user} dbname={database.name}"
    return (
        {"connection.url": url, "connection.user": database.user},
        lambda: psycopg.connect(dsn, autocommit=True),
    )


def _jdbc_sink(bench: Bench, kind: str, mode: str) -> str:
    found: list[Cost] = []
    for count in (1, bench.records):
        topic = f"sink-{kind}-{mode}-{count}"
        asyncio.run(_fill(bench.bootstrap, topic, count))
        given, connect = _database(bench, kind)
        with closing(connect()) as connection:
            connection.execute(f"CREATE TABLE rows {_TABLE_SQL}")
            connection.commit()

            def is_full(connection: Any = connection, count: int = count) -> bool:
                ((number,),) = connection.execute("SELECT count(*) FROM rows").fetchall()
                return bool(number >= count)

            properties = {
                "name": topic,
                "connector.class": "io.aiven.connect.jdbc.JdbcSinkConnector",
                "topics": topic,
                **given,
                "insert.mode": mode,
                "pk.mode": "record_value",
                "pk.fields": "id",
                "table.name.format": "rows",
                "consumer.override.max.poll.records": "3000",
            }
            with worker(bench, properties) as cpu_s:
                found.append(Cost(_wait_for(is_full), cpu_s()))
    return found[1].per_record(found[0], bench.records)


def _jdbc_source(bench: Bench, kind: str) -> str:
    found: list[Cost] = []
    for count in (1, bench.records):
        given, connect = _database(bench, kind)
        with closing(connect()) as connection:
            connection.execute(f"CREATE TABLE rows {_TABLE_SQL}")
            connection.commit()
            place = "?, ?, ?, ?" if kind == "sqlite" else "%s, %s, %s, %s"
            cursor = connection.cursor()
            rows = [(n, f"customer {n}", n / 4, "2026-01-31 12:00:00") for n in range(count)]
            cursor.executemany(f"INSERT INTO rows VALUES ({place})", rows)
            connection.commit()
        prefix = f"{kind}-{count}-"
        properties = {
            "name": prefix,
            "connector.class": "io.aiven.connect.jdbc.JdbcSourceConnector",
            **given,
            "mode": "incrementing",
            "incrementing.column.name": "id",
            "validate.non.null": "false",
            "topic.prefix": prefix,
            "table.whitelist": "rows",
        }
        with worker(bench, properties) as cpu_s:
            found.append(
                Cost(asyncio.run(_count(bench.bootstrap, f"{prefix}rows", count)), cpu_s())
            )
    return found[1].per_record(found[0], bench.records)


def _spool_dir(bench: Bench) -> str:
    found: list[Cost] = []
    for count in (1, bench.records):
        directories = [bench.directory / f"{name}-{count}" for name in ("in", "done", "bad")]
        for directory in directories:
            directory.mkdir()
        with (directories[0] / "a.csv").open("w") as file:
            file.write("id,customer,amount,at\n")
            file.writelines(f"{n},customer {n},{n / 4},2026-01-31\n" for n in range(count))
        topic = f"csv-{count}"
        properties = {
            "name": topic,
            "connector.class": "SpoolDirCsvSource",
            "topic": topic,
            "input.path": str(directories[0]),
            "finished.path": str(directories[1]),
            "error.path": str(directories[2]),
            "input.file.pattern": ".*",
            "csv.first.row.as.header": "true",
            "schema.generation.enabled": "true",
            "batch.size": "5000",
        }
        with worker(bench, properties) as cpu_s:
            found.append(Cost(asyncio.run(_count(bench.bootstrap, topic, count)), cpu_s()))
    return found[1].per_record(found[0], bench.records)


def _objects(bench: Bench, format_: str) -> str:
    found: list[Cost] = []
    for count in (1, bench.records):
        topic = f"objects-{format_}-{count}"
        asyncio.run(_fill(bench.bootstrap, topic, count))
        root = bench.directory / topic
        properties = {
            "name": topic,
            "connector.class": "ObjectSink",
            "topics": topic,
            "store.url": f"file:{root}",
            "format.class": format_,
            "flush.size": "10000",
            "rotate.interval.ms": "1000",
        }

        def is_full(root: Path = root, count: int = count) -> bool:
            return _rows_of(root, format_) >= count

        with worker(bench, properties) as cpu_s:
            found.append(Cost(_wait_for(is_full), cpu_s()))
    return found[1].per_record(found[0], bench.records)


def _rows_of(root: Path, format_: str) -> int:
    paths = [path for path in root.rglob("*") if path.is_file() and path.name[0] != "."]
    if format_ == "parquet":
        return sum(pq.ParquetFile(path).metadata.num_rows for path in paths)
    return sum(path.read_bytes().count(b"\n") for path in paths)


_SCENARIOS: Final[Mapping[str, Callable[[Bench], str]]] = {
    "jdbc-sink-sqlite-insert": lambda bench: _jdbc_sink(bench, "sqlite", "insert"),
    "jdbc-sink-sqlite-upsert": lambda bench: _jdbc_sink(bench, "sqlite", "upsert"),
    "jdbc-sink-postgres-insert": lambda bench: _jdbc_sink(bench, "postgres", "insert"),
    "jdbc-sink-postgres-upsert": lambda bench: _jdbc_sink(bench, "postgres", "upsert"),
    "jdbc-source-sqlite": lambda bench: _jdbc_source(bench, "sqlite"),
    "jdbc-source-postgres": lambda bench: _jdbc_source(bench, "postgres"),
    "spool-dir-csv": _spool_dir,
    "objects-json": lambda bench: _objects(bench, "json"),
    "objects-parquet": lambda bench: _objects(bench, "parquet"),
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.connectors")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(_SCENARIOS))
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--apache", type=Path, help="a directory with the jars of connectors")
    options = parser.parse_args()
    with ExitStack() as stack:
        directory = Path(tempfile.mkdtemp(prefix="odradek-connectors-"))
        stack.callback(shutil.rmtree, directory, ignore_errors=True)
        postgres = stack.enter_context(running_postgres(postgres_programs()))
        broker = stack.enter_context(odradek_broker(directory / "broker", in_memory=True))
        bench = Bench(broker.bootstrap, directory, options.records, postgres, options.apache)
        for name in options.names or _SCENARIOS:
            print(f"{name:<28} {_SCENARIOS[name](bench)}", flush=True)


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    main()
