"""Change data capture from PostgreSQL, while the worker is killed in snapshot and stream.

    python -m tests.scenarios.cdc_postgres [--changes 100000] [--kills 10] [--runs 1] [--seed N]

A table has a fifth of the rows before the connector starts. Then rows are inserted, updated and
deleted, while the worker dies by kill -9 again and again and is started again: the first times in
the snapshot, then in the stream. At the end a read-committed reader of the topics must have exactly
the rows of the table, no change twice and no row of the snapshot twice. A table without a key,
whose rows are never changed, must come row by row exactly once.
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from benchmarks.broker_process import (
    BrokerProcess,
    free_ports,
    odradek_broker,
    odradek_program,
)
from tests.database_servers import Database, Postgres, postgres_programs, running_postgres

PATIENCE_S = 300.0
QUIET = {"log_level": 0}
COMPLETE = "the snapshot is complete"
TOPICS = ("shop.public.orders", "shop.public.notes")
SETUP = (
    "CREATE TABLE orders (id int PRIMARY KEY, version int, note text, amount bigint, paid boolean)",
    "CREATE TABLE notes (id int, note text)",
)
CONNECTOR = """name=shop
connector.class=io.debezium.connector.postgresql.PostgresConnector
topic.prefix=shop
database.hostname={host}
database.port={port}
database.user={user}
database.password={password}
database.dbname={database}
slot.name={database}
publication.autocreate.mode=filtered
table.include.list=public.orders,public.notes
snapshot.fetch.size=500
max.batch.size=500
poll.interval.ms=20
key.converter=org.apache.kafka.connect.json.JsonConverter
key.converter.schemas.enable=false
value.converter=org.apache.kafka.connect.json.JsonConverter
value.converter.schemas.enable=false
"""


@dataclass
class Tally:
    """What the run saw, for people."""

    changes: int = 0
    kills_in_snapshot: int = 0
    kills_in_stream: int = 0
    rows: int = 0
    records: int = 0
    seconds: float = 0.0
    operations: "Counter[str]" = field(default_factory=Counter)

    def __str__(self) -> str:
        operations = ", ".join(f"{count} {op}" for op, count in sorted(self.operations.items()))
        return (
            f"{self.changes} changes, {self.kills_in_snapshot} kills in the snapshot and"
            f" {self.kills_in_stream} in the stream; {self.records} records ({operations}) are"
            f" exactly the {self.rows} rows, none twice, {self.seconds:.0f} s"
        )


class CdcPostgres:
    def __init__(self, directory: Path, server: Postgres, seed: int, changes: int, kills: int):
        self._directory = directory
        self._database = server.new_database()
        self._dice = random.Random(seed)
        self._changes = changes
        self._kills = kills
        self._notes = 0
        self.tally = Tally()

    def run(self) -> Tally:
        started = time.monotonic()
        with odradek_broker(self._directory / "broker") as broker, self._connection() as sql:
            for statement in SETUP:
                sql.execute(statement)
            first = self._changes // 5
            sql.execute(
                "INSERT INTO orders SELECT g, 0, 'old', g, true FROM generate_series(1, %s) g",
                (first,),
            )
            self._write_notes(sql, first // 10)
            worker = self._worker(broker)
            for number in range(self._kills):
                process = worker.start()
                working = threading.Thread(target=self._work, args=(self._changes // self._kills,))
                working.start()
                self._wait_for_progress(broker, process, in_stream=2 * number >= self._kills)
                process.kill()
                process.wait()
                working.join()
                self._note_kill()
            process = worker.start()
            sql.execute("INSERT INTO orders VALUES (-1)")
            try:
                self._check(sql, self._read(broker))
            finally:
                process.terminate()
                process.wait()
            sql.execute("SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots")
        self.tally.seconds = time.monotonic() - started
        return self.tally

    def _connection(self) -> "psycopg.Connection[tuple[Any, ...]]":
        found = self._database
        return psycopg.connect(
            host=found.host, port=found.port, user=found.user, dbname=found.name, autocommit=True,
            options="-c synchronous_commit=on",
        )  # fmt: skip

    def _worker(self, broker: BrokerProcess) -> "Worker":
        path = self._directory / "connector.properties"
        path.write_text(CONNECTOR.format(database=self._database.name, **_parts(self._database)))
        return Worker(self._directory, broker.bootstrap, path)

    # The load

    def _work(self, changes: int) -> None:
        with self._connection() as sql:
            while changes > 0:
                changed = self._change(sql)
                self.tally.changes += changed
                changes -= max(changed, 1)
                if self._dice.random() < 0.05:
                    self._write_notes(sql, 5)

    def _change(self, sql: "psycopg.Connection[tuple[Any, ...]]") -> int:
        dice = self._dice
        first = dice.randrange(1, self._changes)
        last = first + dice.randrange(1, 60)
        version = dice.randrange(1_000_000)
        kind = dice.random()
        if kind < 0.5:
            statement = (
                "INSERT INTO orders SELECT g, %(v)s, 'note ' || g, g * 3, g %% 2 = 0"
                " FROM generate_series(%(a)s::int, %(b)s::int) g"
                " ON CONFLICT (id) DO UPDATE SET version = EXCLUDED.version"
            )
        elif kind < 0.8:
            statement = (
                "UPDATE orders SET version = %(v)s, note = NULL WHERE id BETWEEN %(a)s AND %(b)s"
            )
        else:
            statement = "DELETE FROM orders WHERE id BETWEEN %(a)s AND %(b)s"
        return sql.execute(statement, {"a": first, "b": last, "v": version}).rowcount

    def _write_notes(self, sql: "psycopg.Connection[tuple[Any, ...]]", count: int) -> None:
        sql.execute(
            "INSERT INTO notes SELECT g, 'n' || g FROM generate_series(%s::int, %s::int) g",
            (self._notes + 1, self._notes + count),
        )
        self._notes += count

    # Kills

    def _wait_for_progress(
        self, broker: BrokerProcess, process: "subprocess.Popen[bytes]", *, in_stream: bool
    ) -> None:
        """Returns at a random moment after the worker has written something new."""
        before = self._ends(broker)
        wanted = self._dice.randrange(1, max(2, self._changes // self._kills // 4))
        deadline = time.monotonic() + PATIENCE_S
        while self._ends(broker) < before + wanted or (in_stream and not self._is_complete()):
            assert process.poll() is None, f"the worker has ended:\n{self._said()}"
            assert time.monotonic() < deadline, f"no progress:\n{self._said()}"
            time.sleep(0.02)
        time.sleep(self._dice.random() * 0.1)

    def _ends(self, broker: BrokerProcess) -> int:
        consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "ends", **QUIET})
        try:
            there = consumer.list_topics(timeout=30).topics
            partitions = [TopicPartition(topic, 0) for topic in TOPICS if topic in there]
            return sum(
                consumer.get_watermark_offsets(partition, timeout=30)[1] for partition in partitions
            )
        finally:
            consumer.close()

    def _note_kill(self) -> None:
        if self._is_complete():
            self.tally.kills_in_stream += 1
        else:
            self.tally.kills_in_snapshot += 1

    def _is_complete(self) -> bool:
        return COMPLETE in (self._directory / "worker.log").read_text(errors="replace")

    def _said(self) -> str:
        return (self._directory / "worker.log").read_text(errors="replace")[-4000:]

    # The end

    def _read(self, broker: BrokerProcess) -> "dict[str, list[tuple[Any, Any]]]":
        """Reads all committed records, up to the last change."""
        consumer = Consumer(
            {
                "bootstrap.servers": broker.bootstrap,
                "group.id": "reader",
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                **QUIET,
            }
        )
        consumer.assign([TopicPartition(topic, 0, 0) for topic in TOPICS])
        found: dict[str, list[tuple[Any, Any]]] = {topic: [] for topic in TOPICS}
        deadline = time.monotonic() + PATIENCE_S
        notes: set[int] = set()
        is_over = False
        while not (is_over and len(notes) == self._notes):
            assert time.monotonic() < deadline, f"the last change does not come:\n{self._said()}"
            for message in consumer.consume(5_000, 0.2):
                error = message.error()
                if error is not None:
                    if error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                        continue
                    raise KafkaException(error)
                key, value = _json(message.key()), _json(message.value())
                topic = str(message.topic())
                found[topic].append((key, value))
                is_over = is_over or key == {"id": -1}
                if topic == TOPICS[1]:
                    notes.add(value["after"]["id"])
        consumer.close()
        return found

    def _check(
        self,
        sql: "psycopg.Connection[tuple[Any, ...]]",
        records: "dict[str, list[tuple[Any, Any]]]",
    ) -> None:
        orders, notes = (records[topic] for topic in TOPICS)
        rows: dict[int, Any] = {}
        for key, value in orders:
            after = None if value is None else value["after"]
            if after is None:
                rows.pop(key["id"], None)
            else:
                rows[key["id"]] = after
        there = {
            row["id"]: row for (row,) in sql.execute("SELECT to_jsonb(o) FROM orders o").fetchall()
        }
        wrong = {key for key in rows.keys() | there.keys() if rows.get(key) != there.get(key)}
        assert not wrong, f"{len(wrong)} rows differ, such as {min(wrong)}"
        twice = [found for found, count in Counter(_identities(orders)).items() if count > 1]
        assert not twice, f"{len(twice)} changes came twice, such as {twice[0]}"
        ids = Counter(value["after"]["id"] for _, value in notes)
        assert ids == Counter(range(1, self._notes + 1)), "the rows without a key differ"
        tally = self.tally
        tally.rows, tally.records = len(there), len(orders) + len(notes)
        tally.operations = Counter(
            "tombstones" if value is None else value["op"] for _, value in orders + notes
        )


class Worker:
    """A standalone worker, with its output in a file."""

    def __init__(self, directory: Path, bootstrap: str, connector: Path) -> None:
        self._log = directory / "worker.log"
        self._command = [
            odradek_program(),
            "connect-standalone",
            str(Path(__file__).parents[2] / "config" / "connect-standalone.properties"),
            str(connector),
            *("--override", f"bootstrap.servers={bootstrap}"),
            *("--override", f"listeners=http://127.0.0.1:{free_ports(1)[0]}"),
            *("--override", "odradek.engine=process"),
        ]

    def start(self) -> "subprocess.Popen[bytes]":
        with self._log.open("ab") as log:
            return subprocess.Popen(self._command, stdout=log, stderr=subprocess.STDOUT)


def _identities(records: list[tuple[Any, Any]]) -> Iterator[tuple[Any, ...]]:
    """Returns what a change or a row of the snapshot has for itself alone."""
    for key, value in records:
        if value is not None:
            source = value["source"]
            place = 0 if value["op"] == "r" else source["lsn"]
            yield key["id"], value["op"], place


def _json(data: Any) -> Any:
    return None if data is None else json.loads(data)


def _parts(database: Database) -> dict[str, str]:
    return {
        "host": database.host,
        "port": str(database.port),
        "user": database.user,
        "password": database.password,
    }


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--changes", type=int, default=100_000)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    with running_postgres(postgres_programs()) as server:
        for number in range(options.runs):
            seed = options.seed + number
            with tempfile.TemporaryDirectory() as directory:
                run = CdcPostgres(Path(directory), server, seed, options.changes, options.kills)
                print(f"seed {seed}: {run.run()}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
