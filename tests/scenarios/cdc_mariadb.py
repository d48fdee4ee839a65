"""Change data capture from MariaDB, with the worker killed again and again.

    python -m tests.scenarios.cdc_mariadb [--changes 100000] [--kills 10] [--seed N]

A program writes to a table, while a worker of Connect captures it: rows that were there before (a
snapshot in chunks), inserts, updates, deletes, and changed keys. The worker is killed (SIGKILL) in
the snapshot and in the stream. At the end

1. replaying the topic gives exactly the table: the newest value of each key, tombstones removed;
2. a reader of committed records sees no change twice: no two records have the same place in the
   binary log, row and operation, and no row of the snapshot is there twice.
"""

import argparse
import base64
import json
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import confluent_kafka
import pymysql

from benchmarks.broker_process import free_ports
from benchmarks.broker_process import odradek_broker as running_odradek
from tests.database_servers import Database, MariaDb, mariadb_program, running_mariadb
from tests.scenarios.connect_worker import ConnectWorker

PREFIX = "shop"
PATIENCE_S = 240.0
_SIZE_OF_A_TRANSACTION = 25


@dataclass
class Tally:
    """What the run saw, for people."""

    changes: int = 0
    kills_in_snapshot: int = 0
    kills_in_stream: int = 0
    records: int = 0
    operations: Counter[str] = field(default_factory=Counter)
    doubled: int = 0
    rows: int = 0
    seconds: float = 0.0

    def __str__(self) -> str:
        operations = ", ".join(f"{count} {op}" for op, count in sorted(self.operations.items()))
        return (
            f"{self.changes} changes, {self.kills_in_snapshot} kills in the snapshot and"
            f" {self.kills_in_stream} in the stream: {self.records} records ({operations}),"
            f" {self.doubled} doubled, and the replay is the table of {self.rows} rows;"
            f" {self.seconds:.0f} s"
        )


class Writer:
    """Writes to the table in a thread of its own."""

    def __init__(self, database: Database, seed: int) -> None:
        self._random = random.Random(seed)
        self._connection = pymysql.connect(
            host=database.host, port=database.port, user=database.user, database=database.name
        )
        self._cursor = self._connection.cursor()
        self._keys: list[int] = []
        self._next_key = 0

    def make_table(self, rows: int) -> None:
        self._cursor.execute(
            "CREATE TABLE items (id int PRIMARY KEY, n bigint NOT NULL, name varchar(60),"
            " price decimal(12,2), changed timestamp(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6)"
            " ON UPDATE CURRENT_TIMESTAMP(6))"
        )
        self._cursor.execute("CREATE TABLE finish (id int PRIMARY KEY)")
        self._insert(rows)
        self._connection.commit()

    def write(self, changes: int) -> None:
        done = 0
        while done < changes:
            count = min(_SIZE_OF_A_TRANSACTION, changes - done)
            for _ in range(count):
                self._change()
            if self._random.random() < 0.05:
                self._connection.rollback()
                self._reload_keys()
            else:
                self._connection.commit()
                done += count

    def finish(self) -> None:
        self._cursor.execute("INSERT INTO finish VALUES (1)")
        self._connection.commit()

    def table(self) -> dict[int, dict[str, Any]]:
        self._cursor.execute("SELECT id, n, name, price FROM items")
        return {
            key: {"n": n, "name": name, "price": price}
            for key, n, name, price in self._cursor.fetchall()
        }

    def _change(self) -> None:
        kind = self._random.random()
        if kind < 0.4 or not self._keys:
            self._insert(1)
        elif kind < 0.75:
            self._cursor.execute(
                "UPDATE items SET n = n + 1, name = %s WHERE id = %s", (self._text(), self._any())
            )
        elif kind < 0.95:
            self._cursor.execute("DELETE FROM items WHERE id = %s", (self._take(),))
        else:
            self._next_key += 1
            self._cursor.execute(
                "UPDATE items SET id = %s WHERE id = %s", (self._next_key, self._take())
            )
            self._keys.append(self._next_key)

    def _insert(self, count: int) -> None:
        rows = []
        for _ in range(count):
            self._next_key += 1
            self._keys.append(self._next_key)
            rows.append((self._next_key, 0, self._text(), Decimal(self._next_key) / 100))
        self._cursor.executemany(
            "INSERT INTO items (id, n, name, price) VALUES (%s, %s, %s, %s)", rows
        )

    def _text(self) -> str | None:
        return None if self._random.random() < 0.1 else f"näme {self._random.random()}"

    def _any(self) -> int:
        return self._random.choice(self._keys)

    def _take(self) -> int:
        place = self._random.randrange(len(self._keys))
        self._keys[place], self._keys[-1] = self._keys[-1], self._keys[place]
        return self._keys.pop()

    def _reload_keys(self) -> None:
        self._cursor.execute("SELECT id FROM items")
        self._keys = [key for (key,) in self._cursor.fetchall()]
        self._connection.rollback()


class CdcUnderKills:
    def __init__(self, directory: Path, bootstrap: str, server: MariaDb, seed: int) -> None:
        self._directory = directory
        self._bootstrap = bootstrap
        self._database = server.new_database()
        self._random = random.Random(seed)
        self._writer = Writer(self._database, seed)
        self._prefix = f"{PREFIX}-{self._database.name}"
        self._worker = ConnectWorker(
            directory / "worker", bootstrap, free_ports(1)[0], self._properties()
        )

    def run(self, changes: int, kills: int) -> Tally:
        started_s = time.monotonic()
        tally = Tally(changes=changes)
        before = changes // 4
        self._writer.make_table(before)
        writing = self._writing((changes - before) // 2)
        try:
            for number in range(kills):
                if number == 1:
                    writing.start()
                if number == kills // 2:  # The others come in the stream.
                    self._start()
                    writing.join()
                    self._wait(self._snapshot_is_done)
                    self._worker.kill()
                    writing = self._writing(changes - before - (changes - before) // 2)
                    writing.start()
                self._start()
                self._wait(self._next_moment())
                if self._snapshot_is_done():
                    tally.kills_in_stream += 1
                else:
                    tally.kills_in_snapshot += 1
                self._worker.kill()
            self._start()
            writing.join()
            self._writer.finish()
            self._wait(lambda: self._count(f"{self._prefix}.{self._database.name}.finish") > 0)
        finally:
            self._worker.kill()
        self._check(tally)
        tally.seconds = time.monotonic() - started_s
        return tally

    def _writing(self, changes: int) -> threading.Thread:
        return threading.Thread(target=self._writer.write, args=(changes,))

    def _start(self) -> None:
        self._worker.start()
        self._worker.wait_until_running()

    def _properties(self) -> dict[str, str]:
        return {
            "name": self._prefix,
            "connector.class": "io.debezium.connector.mariadb.MariaDbConnector",
            "database.hostname": self._database.host,
            "database.port": str(self._database.port),
            "database.user": self._database.user,
            "database.include.list": self._database.name,
            "topic.prefix": self._prefix,
            "snapshot.fetch.size": "1000",
            "poll.interval.ms": "100",
        }

    @property
    def _topic(self) -> str:
        return f"{self._prefix}.{self._database.name}.items"

    def _next_moment(self) -> Callable[[], bool]:
        """A kill comes when so many more records are there, or after a while if none come."""
        wanted = self._count(self._topic) + self._random.randint(1, 4000)
        latest_s = time.monotonic() + self._random.uniform(1.0, 3.0)
        return lambda: self._count(self._topic) >= wanted or time.monotonic() > latest_s

    def _snapshot_is_done(self) -> bool:
        offset = self._worker.offset()
        return offset is not None and "snapshot" not in offset

    def _check(self, tally: Tally) -> None:
        replayed: dict[int, dict[str, Any]] = {}
        seen: Counter[tuple[Any, ...]] = Counter()
        for key, value in self._records(self._topic):
            tally.records += 1
            if value is None:
                replayed.pop(key["id"], None)
                continue
            source, op = value["source"], value["op"]
            tally.operations[op] += 1
            place = (key["id"],) if op == "r" else (source["file"], source["pos"], source["row"])
            seen[op, *place] += 1
            if op == "d":
                replayed.pop(key["id"], None)
            else:
                after = value["after"]
                replayed[key["id"]] = {name: after[name] for name in ("n", "name", "price")}
        tally.doubled = sum(count - 1 for count in seen.values())
        table = self._writer.table()
        tally.rows = len(table)
        assert tally.doubled == 0, [place for place, count in seen.items() if count > 1][:10]
        wrong = [key for key in table.keys() | replayed.keys() if _differs(table, replayed, key)]
        assert not wrong, f"{len(wrong)} rows differ, such as {wrong[:5]}"

    def _records(self, topic: str) -> list[tuple[Any, Any]]:
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": "reader",
                "log_level": 0,
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
            }
        )
        found: list[tuple[Any, Any]] = []
        try:
            consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
            deadline_s = time.monotonic() + PATIENCE_S
            while time.monotonic() < deadline_s:
                for message in consumer.consume(10_000, timeout=1.0):
                    error = message.error()
                    if error is None:
                        key, value = message.key(), message.value()
                        found.append((json.loads(key), value and json.loads(value)))
                    elif error.code() == confluent_kafka.KafkaError._PARTITION_EOF:
                        return found
            raise AssertionError(f"{topic} has no end")
        finally:
            consumer.close()

    def _count(self, topic: str) -> int:
        consumer = confluent_kafka.Consumer(
            {"bootstrap.servers": self._bootstrap, "group.id": "counter", "log_level": 0}
        )
        try:
            partition = confluent_kafka.TopicPartition(topic, 0)
            return int(consumer.get_watermark_offsets(partition, timeout=10)[1])
        except confluent_kafka.KafkaException:
            return 0  # There is no topic yet.
        finally:
            consumer.close()

    @staticmethod
    def _wait(condition: Callable[[], bool]) -> None:
        deadline_s = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < deadline_s
            time.sleep(0.05)


def _differs(
    table: dict[int, dict[str, Any]], replayed: dict[int, dict[str, Any]], key: int
) -> bool:
    row, found = table.get(key), replayed.get(key)
    if row is None or found is None:
        return row is not found
    return {**row, "price": _decimal_text(row["price"])} != found


def _decimal_text(value: Decimal) -> str:
    """A decimal as Kafka Connect's JSON has it: the unscaled number in base64."""
    unscaled = int(value.scaleb(2))
    size = (unscaled if unscaled >= 0 else ~unscaled).bit_length() // 8 + 1
    return base64.b64encode(unscaled.to_bytes(size, "big", signed=True)).decode()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--changes", type=int, default=100_000)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        with (
            running_mariadb(mariadb_program()) as server,
            running_odradek(directory / "broker") as broker,
        ):
            run = CdcUnderKills(directory, broker.bootstrap, server, arguments.seed)
            print(run.run(arguments.changes, arguments.kills))
    return 0


if __name__ == "__main__":
    sys.exit(main())
