"""Change data capture from MariaDB: Odradek's connector beside Debezium's, on the same broker.

    python -m benchmarks.change_capture [--changes 60000] [--only odradek|debezium]

Each captures a table whose changes were written while it was stopped, 25 in a transaction, and then
60 single inserts. What is counted: changes a second from the first record to the last, CPU time of
the worker's process for each of them, its memory, the time from its start to the first record, and
how long a reader of committed records waits for a single insert. Debezium runs on Apache Connect in
its default settings but for a `poll.interval.ms` of 50, which makes it faster, and writes at least
once. Odradek's worker runs the engine in its process, and writes in transactions. A busy machine
spoils all but the CPU time.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import confluent_kafka
import psutil
import pymysql

from benchmarks.apache_kafka import KAFKA_VERSION, Artifact, install_jars, java_program
from benchmarks.broker_process import free_ports
from benchmarks.broker_process import odradek_broker as running_odradek
from tests.database_servers import Database, mariadb_program, running_mariadb

DEBEZIUM_VERSION = "3.5.0.Final"
_PATIENCE_S = 300.0
_SINGLE_INSERTS = 60
_TABLE = (
    "CREATE TABLE items (id int PRIMARY KEY, n bigint, name varchar(60), price decimal(12,2),"
    " made datetime(3), changed timestamp(6) NULL, flag tinyint(1), ratio double)"
)
_INSERT = "INSERT INTO items VALUES (%s, %s, 'a name', 12.34, now(3), now(6), 1, 1.5)"


class Capture:
    """A worker with one connector."""

    def __init__(self, which: str, directory: Path, bootstrap: str, database: Database) -> None:
        self._which = which
        self._directory = directory
        self._bootstrap = bootstrap
        self.topic = f"{which}.{database.name}.items"
        directory.mkdir()
        json = "org.apache.kafka.connect.json.JsonConverter"
        self._write("worker", {
            "bootstrap.servers": bootstrap,
            "key.converter": json, "key.converter.schemas.enable": "false",
            "value.converter": json, "value.converter.schemas.enable": "false",
            "offset.storage.file.filename": str(directory / "offsets"),
            "offset.storage.topic": f"{which}-offsets", "offset.storage.replication.factor": "1",
            "odradek.engine": "process",
            "listeners": f"http://127.0.0.1:{free_ports(1)[0]}",
        })  # fmt: skip
        self._write("connector", {
            "name": which,
            "connector.class": "io.debezium.connector.mariadb.MariaDbConnector",
            "database.hostname": database.host, "database.port": str(database.port),
            "database.user": database.user, "database.server.id": "5501",
            "database.include.list": database.name,
            "topic.prefix": which, "poll.interval.ms": "500" if which == "odradek" else "50",
            "schema.history.internal.kafka.bootstrap.servers": bootstrap,
            "schema.history.internal.kafka.topic": f"{which}-history",
        })  # fmt: skip

    def _write(self, name: str, properties: dict[str, str]) -> None:
        lines = (f"{key}={value}\n" for key, value in properties.items())
        (self._directory / f"{name}.properties").write_text("".join(lines))

    @contextmanager
    def running(self) -> Iterator[psutil.Process]:
        with (self._directory / "log").open("ab") as log:
            process = psutil.Popen(
                [
                    *self._program(),
                    str(self._directory / "worker.properties"),
                    str(self._directory / "connector.properties"),
                ],
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        try:
            yield process
        finally:
            process.terminate()
            process.wait()

    def _program(self) -> list[str]:
        if self._which == "odradek":
            return [sys.executable, "-m", "odradek.cli", "connect-standalone"]
        jars = install_jars(
            "debezium-mariadb",
            [
                Artifact("io.debezium", "debezium-connector-mariadb", DEBEZIUM_VERSION),
                Artifact("org.apache.kafka", "connect-runtime", KAFKA_VERSION),
                Artifact("org.apache.kafka", "connect-json", KAFKA_VERSION),
            ],
        )
        main = "org.apache.kafka.connect.cli.ConnectStandalone"
        return [java_program(), "-Xmx1g", "-cp", f"{jars}/*", main]


class Measurement:
    def __init__(self, bootstrap: str, capture: Capture, database: Database) -> None:
        self._bootstrap = bootstrap
        self._capture = capture
        self._counter = confluent_kafka.Consumer(
            {"bootstrap.servers": bootstrap, "group.id": "counter", "log_level": 0}
        )
        self._connection = pymysql.connect(
            host=database.host, port=database.port, user=database.user, database=database.name
        )

    def run(self, changes: int) -> str:
        with self._connection.cursor() as cursor:
            cursor.execute(_TABLE)
            cursor.execute(_INSERT, (0, 0))
        self._connection.commit()
        with self._capture.running():
            self._wait(lambda: self._count() >= 1)
            time.sleep(3)  # Apache Connect stores offsets at an interval.
        self._write(changes)
        before = self._count()
        started_s = time.monotonic()
        with self._capture.running() as process:
            self._wait(lambda: self._count() > before)
            first_s, first, first_cpu_s = time.monotonic(), self._count(), _cpu_s(process)
            self._wait(lambda: self._count() >= before + changes)
            took_s, cpu_s = time.monotonic() - first_s, _cpu_s(process) - first_cpu_s
            memory = process.memory_info().rss >> 20
            waits_ms = self._single_inserts()
        rest = before + changes - first
        return (
            f"{rest / took_s:,.0f} changes/s, {cpu_s / rest * 1e6:.0f} us of CPU for each,"
            f" {memory} MB, {first_s - started_s:.1f} s to the first record, a single insert"
            f" {statistics.median(waits_ms):.1f} ms"
        )

    def _write(self, changes: int) -> None:
        with self._connection.cursor() as cursor:
            for number in range(1, changes + 1):
                cursor.execute(_INSERT, (number, number))
                if number % 25 == 0:
                    self._connection.commit()
        self._connection.commit()

    def _single_inserts(self) -> list[float]:
        reader = confluent_kafka.Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": "reader",
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": 5,
                "log_level": 0,
            }
        )
        end = confluent_kafka.OFFSET_END
        reader.assign([confluent_kafka.TopicPartition(self._capture.topic, 0, end)])
        reader.poll(1.0)
        found = []
        with self._connection.cursor() as cursor:
            for number in range(_SINGLE_INSERTS):
                started_s = time.monotonic()
                cursor.execute(_INSERT, (100_000_000 + number, 0))
                self._connection.commit()
                message = reader.poll(10.0)
                assert message is not None
                assert message.error() is None
                found.append((time.monotonic() - started_s) * 1000)
                time.sleep(0.05)
        reader.close()
        return found

    def _count(self) -> int:
        partition = confluent_kafka.TopicPartition(self._capture.topic, 0)
        try:
            return int(self._counter.get_watermark_offsets(partition, timeout=10)[1])
        except confluent_kafka.KafkaException:
            return 0  # There is no topic yet.

    @staticmethod
    def _wait(condition: Callable[[], bool]) -> None:
        deadline_s = time.monotonic() + _PATIENCE_S
        while not condition():
            assert time.monotonic() < deadline_s
            time.sleep(0.02)


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--changes", type=int, default=60_000)
    parser.add_argument("--only", choices=("odradek", "debezium"))
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        with (
            running_mariadb(mariadb_program()) as server,
            running_odradek(directory / "broker") as broker,
        ):
            for which in ("odradek", "debezium"):
                if arguments.only in {None, which}:
                    database = server.new_database()
                    capture = Capture(which, directory / which, broker.bootstrap, database)
                    measurement = Measurement(broker.bootstrap, capture, database)
                    print(f"{which}: {measurement.run(arguments.changes)}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
