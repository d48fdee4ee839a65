"""A database of MariaDB, and tasks that capture it, for tests."""

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pymysql

from odradek.connect.connectors.mysql.connector import MariaDbConnector
from odradek.connect.connectors.mysql.settings import MySqlSettings
from odradek.connect.connectors.mysql.task import MySqlTask
from odradek.connect.connectors.positions import Positions, SourceOffset
from odradek.connect.records import SourceRecord
from tests.database_servers import MariaDb

_MOST_CALLS = 400
DATA = Path(__file__).parents[4] / "data" / "debezium"


class Bench:
    """What a task gives is read with `drain`; `restart` makes a new task, as a new worker does."""

    def __init__(self, server: MariaDb, **properties: str) -> None:
        self.database = server.new_database()
        self.prefix = f"t{uuid.uuid4().hex[:8]}"
        self._properties = {
            "topic.prefix": self.prefix,
            "database.hostname": self.database.host,
            "database.port": str(self.database.port),
            "database.user": self.database.user,
            "database.include.list": self.database.name,
            "poll.interval.ms": "50",
            **{name.replace("_", "."): text for name, text in properties.items()},
        }
        self.connection = self.connect()
        self.task = self.new_task()
        self.positions = Positions()

    def connect(self) -> "pymysql.Connection[Any]":
        return pymysql.connect(
            host=self.database.host,
            port=self.database.port,
            user=self.database.user,
            database=self.database.name,
            autocommit=True,
        )

    @property
    def settings(self) -> MySqlSettings:
        return MySqlSettings.read(self._properties)

    def new_task(self) -> MySqlTask:
        return MariaDbConnector(self.settings).task()

    def restart(self) -> None:
        self.task.close()
        self.task = self.new_task()

    def close(self) -> None:
        self.task.close()
        if self.connection.open:
            self.connection.close()

    def run(self, *statements: str) -> None:
        with self.connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def run_file(self, name: str) -> None:
        self.run(*(DATA / name).read_text().split(";\n"))

    @property
    def offset(self) -> SourceOffset | None:
        return self.positions.of({"server": self.prefix})

    def step(self, max_records: int = 10_000) -> list[SourceRecord] | None:
        """Returns what the next range has, and stores its end; None if there is nothing new."""
        end = self.task.reach(self.positions, max_records)
        if end == self.positions:
            return None
        records = [*self.task.read(self.positions, end)]
        self.task.stored(end)
        self.positions = end
        return records

    def drain(
        self,
        is_enough: Callable[[list[SourceRecord]], bool],
        max_records: Callable[[], int] = lambda: 10_000,
    ) -> list[SourceRecord]:
        found: list[SourceRecord] = []
        for _ in range(_MOST_CALLS):
            found += self.step(max_records()) or ()
            if is_enough(found):
                return found
        raise AssertionError(f"{len(found)} records came: {[event(record) for record in found]}")

    def until(self, table: str, count: int = 1) -> list[SourceRecord]:
        """Drains until so many records of a table have come, and no snapshot is under way."""
        topic = f"{self.prefix}.{self.database.name}.{table}"

        def is_enough(found: list[SourceRecord]) -> bool:
            is_read = "snapshot" not in (self.offset or {})
            return is_read and sum(record.topic == topic for record in found) >= count

        return self.drain(is_enough)


def event(record: SourceRecord) -> tuple[str, str | None, Any, Any]:
    """A record in short: its table, operation, key, and the row after it."""
    value = record.value or {}
    op = value.get("op", "ddl" if "ddl" in value else None)
    return record.topic.rpartition(".")[2], op, record.key, value.get("after")
