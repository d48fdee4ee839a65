"""Databases for the tests of the JDBC connectors: one that is asked directly, beside a task."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from odradek.connect.connectors.connector import SourceTask
from odradek.connect.connectors.jdbc.dialect import make_dialect
from odradek.connect.connectors.jdbc.settings import JdbcSinkSettings, JdbcSourceSettings
from odradek.connect.connectors.jdbc.sink import JdbcSink, JdbcSinkTask
from odradek.connect.connectors.jdbc.source import JdbcSource
from odradek.connect.connectors.jdbc.source_task import JdbcSourceTask
from odradek.connect.connectors.positions import Positions, SourceOffset
from odradek.connect.records import SourceRecord

KINDS = (
    "sqlite",
    pytest.param("postgres", marks=pytest.mark.xdist_group("postgres")),
    pytest.param("mariadb", marks=pytest.mark.xdist_group("mariadb")),
)
SERVERS = KINDS[1:]


class Db:
    """A database and how it is reached. It has a connection of its own."""

    def __init__(self, kind: str, properties: dict[str, str]) -> None:
        self.kind = kind
        self.properties = properties
        self.dialect = make_dialect(JdbcSinkSettings.read(properties).session())
        self._connection: Any = None

    def run(self, *statements: str) -> None:
        for statement in statements:
            self._own().cursor().execute(statement)

    def rows(self, sql: str) -> list[Any]:
        return self.dialect.rows(self._own(), sql)

    def _own(self) -> Any:
        if self._connection is None:
            if self.kind == "sqlite":
                self._connection = self.dialect.connect(is_sink=True)
            else:
                self._connection = self.dialect.connect(is_sink=False)
        return self._connection

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    @contextmanager
    def connected(self) -> Iterator[Any]:
        with closing(self.dialect.connect(is_sink=True)) as connection:
            yield connection

    def source(self, **more: str) -> JdbcSource:
        defaults = {"topic.prefix": "p-", "poll.interval.ms": "0"}
        given = {**self.properties, **defaults, **dotted(more)}
        return JdbcSource(JdbcSourceSettings.read(given))

    def sink(self, **more: str) -> JdbcSinkTask:
        given = {**self.properties, **dotted(more)}
        return JdbcSink(JdbcSinkSettings.read(given)).task()

    def sql(self, *, sqlite: str, postgres: str, mariadb: str) -> str:
        return {"sqlite": sqlite, "postgres": postgres, "mariadb": mariadb}[self.kind]

    def ago(self, seconds: float) -> str:
        """A time for SQL, before the time of the database."""
        moment = datetime.now(UTC) - timedelta(seconds=seconds)
        return f"'{moment.replace(tzinfo=None).isoformat(' ', 'milliseconds')}'"


def dotted(settings: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "."): value for name, value in settings.items()}


def properties_of(kind: str, request: pytest.FixtureRequest) -> dict[str, str]:
    if kind == "sqlite":
        path = request.getfixturevalue("tmp_path") / "data.db"
        return {"connection.url": f"jdbc:sqlite:{path}"}
    database = request.getfixturevalue(f"{kind}_server").new_database()
    scheme = "postgresql" if kind == "postgres" else kind
    url = f"jdbc:{scheme}://{database.host}:{database.port}/{database.name}"
    return {"connection.url": url, "connection.user": database.user}


def opened(request: pytest.FixtureRequest) -> Iterator[Db]:
    """For a fixture `db`, which has the kind of the database as its parameter."""
    kind = getattr(request, "param", "sqlite")
    with closing(Db(kind, properties_of(kind, request))) as db:
        yield db


class Reader:
    """An engine in small: it reads what is new and remembers how far it came."""

    def __init__(self, task: JdbcSourceTask, positions: Positions | None = None) -> None:
        self.task: SourceTask = task
        self.positions = positions or Positions()

    def read(self, max_records: int = 1000) -> list[SourceRecord]:
        end = self.task.reach(self.positions, max_records)
        records = [*self.task.read(self.positions, end)]
        self.positions = end
        return records

    def values(self, max_records: int = 1000) -> list[Any]:
        return [record.value for record in self.read(max_records)]

    def all(self) -> list[Any]:
        """Reads until there is nothing new."""
        found: list[Any] = []
        while records := self.values():
            found += records
        return found

    def wait_for(self, condition: Callable[[Sequence[Any]], bool]) -> list[Any]:
        """Reads until what was read is what the test waits for."""
        deadline = datetime.now(UTC) + timedelta(seconds=30)
        found: list[Any] = []
        while not condition(found):
            assert datetime.now(UTC) < deadline, found
            found += self.values()
        return found

    @property
    def offset(self) -> SourceOffset:
        ((_, offset),) = self.positions
        return offset
