"""A task of the PostgreSQL connector on a real server, driven as an engine would drive it."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg

from odradek.connect.connectors.positions import Positions
from odradek.connect.connectors.postgres.connector import PostgresConnector
from odradek.connect.connectors.postgres.settings import PostgresSettings
from odradek.connect.connectors.postgres.task import PostgresTask
from odradek.connect.records import SourceRecord
from tests.database_servers import Database

PATIENCE_S = 60.0
ORDERS = "CREATE TABLE orders (id int PRIMARY KEY, what text NOT NULL DEFAULT 'x', price int)"


class Capture:
    """`records` are those whose position is stored, `stored` that position."""

    def __init__(self, database: Database, **properties: str) -> None:
        self.properties = {
            "name": "capture",
            "topic.prefix": "shop",
            "database.hostname": database.host,
            "database.port": str(database.port),
            "database.user": database.user,
            "database.password": database.password,
            "database.dbname": database.name,
            "slot.name": database.name,
            "publication.autocreate.mode": "filtered",
            "table.include.list": r"public\\..*".replace("\\\\", "\\"),
            "poll.interval.ms": "20",
            "extended.headers.enabled": "false",
            **{name.replace("_", "."): text for name, text in properties.items()},
        }
        self.sql = psycopg.connect(
            host=database.host,
            port=database.port,
            user=database.user,
            dbname=database.name,
            autocommit=True,
            # The server of the tests writes its log late, and streams what it has written.
            options="-c synchronous_commit=on",
        )
        self.records: list[SourceRecord] = []
        self.stored = Positions()
        self._task: PostgresTask | None = None

    def run(self, *statements: str) -> None:
        for statement in statements:
            self.sql.execute(statement)

    @property
    def task(self) -> PostgresTask:
        if self._task is None:
            self._task = PostgresConnector(PostgresSettings.read(self.properties)).task()
        return self._task

    def step(self, max_records: int = 10_000) -> int:
        """Reads and stores what is there. Returns the number of records."""
        end = self.task.reach(self.stored, max_records)
        found = [*self.task.read(self.stored, end)]
        assert [*self.task.read(self.stored, end)] == found, "a range was read differently"
        self.records += found
        self.stored = end
        self.task.stored(end)
        return len(found)

    def lose_step(self, max_records: int = 10_000) -> None:
        """Reads what is there, and is killed before it is stored."""
        end = self.task.reach(self.stored, max_records)
        list(self.task.read(self.stored, end))
        self.kill()

    def kill(self) -> None:
        """Ends the task; the next step is that of another one, from the stored position."""
        if self._task is not None:
            self._task.close()
            self._task = None

    def until(self, condition: Callable[[], object]) -> None:
        deadline_s = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < deadline_s, f"{len(self.records)} records came"
            self.step()

    def until_count(self, count: int) -> None:
        self.until(lambda: len(self.records) >= count)

    def events(self, table: str | None = None) -> list[tuple[Any, str, Any]]:
        """Returns key, operation and row of the records; a tombstone is `-`."""
        found = []
        for record in self.records:
            if table is not None and not record.topic.endswith(f".{table}"):
                continue
            key = None if record.key is None else tuple(record.key.values())
            key = key[0] if key is not None and len(key) == 1 else key
            if record.value is None:
                found.append((key, "-", None))
            else:
                row = record.value.get("after") or record.value.get("before")
                found.append((key, record.value["op"], row))
        return found

    def replayed(self, table: str) -> dict[Any, Any]:
        """Returns the rows that a reader of the topic would have."""
        rows: dict[Any, Any] = {}
        for key, operation, row in self.events(table):
            if operation in {"r", "c", "u"}:
                rows[key] = row
            else:
                rows.pop(key, None)
        return rows

    def rows(self, table: str) -> dict[Any, Any]:
        """Returns the rows of a table by `id`, as the table has them."""
        found = self.sql.execute(f"SELECT to_jsonb(t) FROM {table} t").fetchall()
        return {row["id"]: row for (row,) in found}

    def slot(self) -> int:
        """Returns how far the server may forget its log."""
        found = self.sql.execute(
            "SELECT confirmed_flush_lsn - '0/0' FROM pg_replication_slots WHERE slot_name = %s",
            (self.properties["slot.name"],),
        ).fetchone()
        assert found is not None
        return int(found[0])

    def offset(self) -> dict[str, Any]:
        ((_, offset),) = self.stored
        return dict(offset)

    def progress(self) -> Any:
        text = self.offset().get("odradek_snapshot")
        return None if text is None else json.loads(text)

    def drop_slot(self) -> None:
        """Ends the task, and drops its slot when the server has seen that it is gone."""
        self.kill()
        name = self.properties["slot.name"]
        deadline_s = time.monotonic() + PATIENCE_S
        while self.is_slot():
            assert time.monotonic() < deadline_s, f"slot {name} stays in use"
            self.sql.execute(
                "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots"
                " WHERE slot_name = %s AND NOT active",
                (name,),
            )

    def is_slot(self) -> bool:
        query = "SELECT 1 FROM pg_replication_slots WHERE slot_name = %s"
        return self.sql.execute(query, (self.properties["slot.name"],)).fetchone() is not None

    def close(self) -> None:
        self.drop_slot()
        self.sql.close()


@contextmanager
def capturing(database: Database, *setup: str, **properties: str) -> Iterator[Capture]:
    capture = Capture(database, **properties)
    try:
        capture.run(*setup)
        yield capture
    finally:
        capture.close()


def configured(**properties: str) -> PostgresSettings:
    return PostgresSettings.read(
        {
            "topic.prefix": "shop",
            "database.hostname": "h",
            "database.user": "u",
            "database.dbname": "d",
            "snapshot.mode": "configuration_based",
            **properties,
        }
    )
