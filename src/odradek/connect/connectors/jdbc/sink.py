"""Records as rows of tables: io.aiven.connect.jdbc.JdbcSinkConnector.

The records of a call are written in one transaction. A row that the database refuses is found by
halving: each part is written after a savepoint, so the others stay written.

After a failure records come again, so what is written twice must be harmless. It is with `upsert`,
`update` and deletions, and with `insert` and `pk.mode=kafka`, where the key is the place of the
record in its topic and a row that is there already is skipped. Other inserts may be doubled by
a failure, or be refused then.
"""

import re
import threading
import time
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, ClassVar, Final, NamedTuple

from odradek.connect.connectors.connector import FailedRecord, SinkConnector, SinkTask
from odradek.connect.connectors.jdbc.connection import Database, error_text
from odradek.connect.connectors.jdbc.dialect import (
    Connection,
    Dialect,
    Put,
    Trouble,
    make_dialect,
)
from odradek.connect.connectors.jdbc.names import TableId
from odradek.connect.connectors.jdbc.rows import RowPlan, RowPlanner
from odradek.connect.connectors.jdbc.settings import JdbcSinkSettings
from odradek.connect.connectors.jdbc.tables import Tables
from odradek.connect.errors import DataError, InvalidConfig, Unavailable
from odradek.connect.records import SinkRecord

_NOT_NORMAL: Final = re.compile(r"[^a-zA-Z0-9_]")


class JdbcSink(SinkConnector):
    settings_class: ClassVar = JdbcSinkSettings

    def __init__(self, settings: JdbcSinkSettings) -> None:
        self._settings = settings

    def task(self) -> "JdbcSinkTask":
        settings = self._settings
        return JdbcSinkTask(make_dialect(settings.session(), settings.dialect_name), settings)

    def wrong_outside(self) -> dict[str, list[str]]:
        try:
            settings = self._settings
            dialect = make_dialect(settings.session(), settings.dialect_name)
            database = Database(dialect, is_sink=True)
            try:
                with database.use():
                    pass
            finally:
                database.close()
        except (InvalidConfig, Unavailable, DataError) as error:
            return {"connection.url": [str(error)]}
        return {}


class Job(NamedTuple):
    """A record with what is to be written for it."""

    record: SinkRecord
    plan: RowPlan
    is_delete: bool
    row: Sequence[Any]


class JdbcSinkTask(SinkTask):
    def __init__(self, dialect: Dialect, settings: JdbcSinkSettings) -> None:
        self._dialect = dialect
        self._settings = settings
        self._database = Database(dialect, is_sink=True)
        self._planner = RowPlanner(dialect, settings)
        self._tables = Tables(dialect, settings)
        self._table_of_topic: dict[str, TableId] = {}
        self._failures = 0
        self._not_before_s = 0.0
        self._closed = threading.Event()

    def write(self, records: Sequence[SinkRecord]) -> Sequence[FailedRecord]:
        self._closed.wait(max(0.0, self._not_before_s - time.monotonic()))
        try:
            with self._database.use() as connection:
                failed = self._write(connection, records)
        except Unavailable as error:
            self._tables.forget()
            self._failures += 1
            self._not_before_s = time.monotonic() + self._settings.retry_backoff_ms / 1000
            if self._failures > self._settings.max_retries:
                raise DataError(f"{error} (tried {self._failures} times: max.retries)") from error
            raise
        except DataError:
            # Somebody may change the tables before the task is started again.
            self._tables.forget()
            raise
        self._failures = 0
        return failed

    def close(self) -> None:
        self._closed.set()
        self._database.close()

    def _write(self, connection: Connection, records: Sequence[SinkRecord]) -> list[FailedRecord]:
        failed: list[FailedRecord] = []
        by_table: dict[TableId, list[Job]] = {}
        for record in records:
            table = self._table(record.topic)
            try:
                job = self._job(table, record)
            except DataError as error:
                failed.append(FailedRecord(record, error))
                continue
            by_table.setdefault(table, []).append(job)
        if not by_table:
            return failed
        self._dialect.begin(connection)
        # Tables are made and changed before the first row is written, because what fails of that
        # is rolled back, and what is done is committed.
        plans = {id(job.plan): job.plan for jobs in by_table.values() for job in jobs}
        for plan in plans.values():
            self._tables.target(connection, plan)
        for jobs in by_table.values():
            for run in _runs(jobs, self._settings.batch_size or 1):
                failed += self._put_or_halve(connection, run)
        connection.commit()
        return failed

    def _job(self, table: TableId, record: SinkRecord) -> Job:
        is_delete = record.value is None
        if is_delete and not self._settings.delete_enabled:
            raise DataError(
                "the value of the record is null: set delete.enabled=true with"
                " pk.mode=record_key to delete the row of its key, or drop such records with the"
                " transform Filter and the predicate RecordIsTombstone"
            )
        plan = self._planner.plan(table, record)
        row = plan.key_of(record) if is_delete else plan.row(record)
        return Job(record, plan, is_delete, row)

    def _put_or_halve(self, connection: Connection, jobs: Sequence[Job]) -> list[FailedRecord]:
        """Writes records of one plan, and returns those that the database refuses."""
        cursor = connection.cursor()
        try:
            cursor.execute("SAVEPOINT odradek")
            try:
                self._put(connection, cursor, jobs)
                cursor.execute("RELEASE SAVEPOINT odradek")
                return []
            except self._dialect.error as error:
                if self._dialect.trouble(error) is not Trouble.RECORD:
                    raise
                cursor.execute("ROLLBACK TO SAVEPOINT odradek")
                if len(jobs) == 1:
                    text = error_text(error)
                    refused = DataError(f"table {jobs[0].plan.table} refuses the row: {text}")
                    return [FailedRecord(jobs[0].record, refused)]
        finally:
            cursor.close()
        middle = len(jobs) // 2
        return [
            *self._put_or_halve(connection, jobs[:middle]),
            *self._put_or_halve(connection, jobs[middle:]),
        ]

    def _put(self, connection: Connection, cursor: Any, jobs: Sequence[Job]) -> None:
        plan = jobs[0].plan
        target = self._tables.target(connection, plan)
        rows = [job.row for job in jobs]
        if jobs[0].is_delete:
            sql = self._dialect.delete(plan.table, target.keys)
            cursor.executemany(self._dialect.text(sql, has_values=True), rows)
            return
        mode = self._settings.insert_mode
        replaced: Sequence[str] | None = None
        if mode == "upsert":
            replaced = target.others
        elif self._settings.pk_mode == "kafka" and target.is_primary:
            replaced = ()
        is_update = mode == "update"
        if is_update and not target.others:
            return
        put = Put(plan.table, target.keys, target.others, rows, replaced, is_update)
        self._dialect.put(cursor, put)

    def _table(self, topic: str) -> TableId:
        found = self._table_of_topic.get(topic)
        if found is None:
            found = self._dialect.parse_table(self._table_name(topic))
            self._table_of_topic[topic] = found
        return found

    def _table_name(self, topic: str) -> str:
        settings = self._settings
        mapped = settings.tables_of_topics.get(topic)
        if mapped is not None:
            return mapped
        if not settings.table_name_normalize:
            return settings.table_name_format.replace("${topic}", topic)
        # A point in the format is one between a schema and a table.
        return ".".join(
            _NOT_NORMAL.sub("_", part.replace("${topic}", topic))
            for part in settings.table_name_format.split(".")
        )


def _runs(jobs: Sequence[Job], most: int) -> Iterator[Sequence[Job]]:
    """Divides jobs into those that one statement can do, in their order."""
    for _, group in groupby(jobs, key=lambda job: (id(job.plan), job.is_delete)):
        run = list(group)
        for at in range(0, len(run), most):
            yield run[at : at + most]
