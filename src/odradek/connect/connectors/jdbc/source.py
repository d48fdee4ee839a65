"""Rows of tables as records: io.aiven.connect.jdbc.JdbcSourceConnector.

The connector looks which tables there are, again and again, and divides them among its tasks. The
topic of a record is `topic.prefix` with the name of the table, its value a struct with a field for
each column, and it has no key; the transform ValueToKey makes one.
"""

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import ClassVar, Final

from odradek.connect.connectors.connector import SourceConnector
from odradek.connect.connectors.jdbc.bulk_reader import AFTER_FIELD, ROUND_FIELD
from odradek.connect.connectors.jdbc.connection import Database
from odradek.connect.connectors.jdbc.dialect import Connection, Dialect, make_dialect
from odradek.connect.connectors.jdbc.names import TableId, split_list
from odradek.connect.connectors.jdbc.range_reader import (
    INCREMENTING_FIELD,
    NANOS_FIELD,
    TIMESTAMP_FIELD,
    Place,
)
from odradek.connect.connectors.jdbc.settings import (
    BOTH,
    BULK,
    INCREMENTING,
    TIMESTAMP,
    JdbcSourceSettings,
)
from odradek.connect.connectors.jdbc.source_task import JdbcSourceTask
from odradek.connect.connectors.positions import SourceOffset, SourcePartition
from odradek.connect.errors import DataError, InvalidConfig, Unavailable
from odradek.connect.transforms.java_patterns import java_pattern

_TABLES: Final = "tables"
_MOST_NAMES: Final = 20
_OFFSET_FIELDS: Final = frozenset(
    (INCREMENTING_FIELD, TIMESTAMP_FIELD, NANOS_FIELD, ROUND_FIELD, AFTER_FIELD)
)


class JdbcSource(SourceConnector):
    settings_class: ClassVar = JdbcSourceSettings

    def __init__(self, settings: JdbcSourceSettings) -> None:
        self._settings = settings
        self.replan_s = None if settings.query else settings.table_poll_interval_ms / 1000

    def _dialect(self) -> Dialect:
        session = self._settings.session(self._settings.numbers)
        return make_dialect(session, self._settings.dialect_name)

    def task_properties(
        self, properties: Mapping[str, str], max_tasks: int
    ) -> list[dict[str, str]]:
        if self._settings.query:
            return [dict(properties)]
        dialect = self._dialect()
        names = [dialect.table(table) for table in self._tables(dialect)]
        count = min(max_tasks, len(names))
        bounds = [len(names) * number // count for number in range(count + 1)] if count else []
        return [
            {**properties, _TABLES: ",".join(names[first:last])} for first, last in pairwise(bounds)
        ]

    def task(self) -> JdbcSourceTask:
        settings = self._settings
        dialect = self._dialect()
        tables: Sequence[TableId | None] = [None]
        if settings.tables is not None:
            tables = [dialect.parse_table(name) for name in split_list(settings.tables, '"`')]
        elif not settings.query:
            tables = self._tables(dialect)
        if settings.validate_non_null and not settings.query:
            self._check_columns(dialect, [table for table in tables if table is not None])
        return JdbcSourceTask(dialect, settings, tables)

    def check_offset(self, partition: SourcePartition, offset: SourceOffset | None) -> None:
        names = set(partition)
        if names not in ({"query"}, {"table"}, {"table", "protocol"}):
            raise DataError(
                'the partition of a table is {"protocol":"1","table":"..."}, that of a query'
                ' {"query":"query"}'
            )
        if offset is None:
            return
        unknown = offset.keys() - _OFFSET_FIELDS
        if unknown:
            raise DataError(
                f"an offset has no field {sorted(unknown)[0]}: it is"
                f' {{"{INCREMENTING_FIELD}":N,"{TIMESTAMP_FIELD}":MS,"{NANOS_FIELD}":NS}}'
            )
        Place.of(offset)

    def wrong_outside(self) -> dict[str, list[str]]:
        settings = self._settings
        try:
            dialect = self._dialect()
        except InvalidConfig as error:
            return {"connection.url": [str(error)]}
        database = Database(dialect, is_sink=False)
        try:
            with database.use() as connection:
                tables = [] if settings.query else self._found(dialect, connection)
                if settings.query:
                    self._try_query(dialect, connection)
        except (Unavailable, DataError) as error:
            name = "query" if settings.query and "syntax" in str(error) else "connection.url"
            return {name: [str(error)]}
        finally:
            database.close()
        missing = [
            name
            for name in settings.table_whitelist
            if not any(name in _names_of(dialect, table) for table in tables)
        ]
        if missing:
            known = ", ".join(map(str, tables[:_MOST_NAMES])) or "none"
            reason = f"there is no table {missing[0]} in the database; there are: {known}"
            return {"table.whitelist": [reason]}
        return self._wrong_columns(dialect, self._wanted(dialect, tables))

    def _try_query(self, dialect: Dialect, connection: Connection) -> None:
        query = self._settings.query.strip().rstrip(";")
        dialect.rows(connection, f"SELECT found.* FROM ({query}) AS found WHERE 1=0")

    def _wrong_columns(self, dialect: Dialect, tables: Sequence[TableId]) -> dict[str, list[str]]:
        try:
            if self._settings.validate_non_null:
                self._check_columns(dialect, tables)
        except WrongColumn as error:
            return {error.setting: [str(error)]}
        except (DataError, Unavailable) as error:
            return {"connection.url": [str(error)]}
        return {}

    def _tables(self, dialect: Dialect) -> list[TableId]:
        database = Database(dialect, is_sink=False)
        try:
            with database.use() as connection:
                found = self._found(dialect, connection)
        finally:
            database.close()
        return self._wanted(dialect, found)

    def _found(self, dialect: Dialect, connection: Connection) -> list[TableId]:
        settings = self._settings
        return [
            table
            for table in dialect.tables(connection, settings.table_types)
            if _is_like(table.schema, settings.schema_pattern)
            and _is_like(table.catalog, settings.catalog_pattern)
        ]

    def _wanted(self, dialect: Dialect, tables: Sequence[TableId]) -> list[TableId]:
        settings = self._settings
        included = [java_pattern(pattern) for pattern in settings.table_include_list]
        excluded = [java_pattern(pattern) for pattern in settings.table_exclude_list]
        wanted = []
        for table in tables:
            names = _names_of(dialect, table)
            if settings.table_whitelist and not names & set(settings.table_whitelist):
                continue
            if names & set(settings.table_blacklist):
                continue
            if included and not any(pattern.fullmatch(str(table)) for pattern in included):
                continue
            if any(pattern.fullmatch(str(table)) for pattern in excluded):
                continue
            wanted.append(table if settings.table_names_qualify else TableId(table.name))
        self._check_topics(wanted)
        return wanted

    def _check_topics(self, tables: Sequence[TableId]) -> None:
        if self._settings.topic_format != "${prefix}${table}":
            return
        seen: dict[str, TableId] = {}
        for table in tables:
            if table.name in seen:
                raise DataError(
                    f"{seen[table.name]} and {table} would go to one topic: choose tables with"
                    " table.whitelist or schema.pattern, or set"
                    " odradek.topic.format=${prefix}${schema}.${table}"
                )
            seen[table.name] = table

    def _check_columns(self, dialect: Dialect, tables: Sequence[TableId]) -> None:
        """Raises `WrongColumn` if rows could be missed because a column may be null."""
        database = Database(dialect, is_sink=False)
        try:
            with database.use() as connection:
                for table in tables:
                    self._check_table(dialect, connection, table)
        finally:
            database.close()

    def _check_table(self, dialect: Dialect, connection: Connection, table: TableId) -> None:
        settings = self._settings
        mode = settings.mode_of(table.name, str(table))
        if mode == BULK:
            return
        nullable = {
            column.name.lower(): column.is_nullable and not column.is_key
            for column in dialect.table_columns(connection, table) or ()
        }
        number = settings.incrementing_column_name
        times = settings.timestamp_column_name if mode in {TIMESTAMP, BOTH} else ()
        wanted = [number] if number and mode in {INCREMENTING, BOTH} else []
        for setting, names in (
            ("incrementing.column.name", wanted),
            ("timestamp.column.name", times),
        ):
            for name in names:
                if name.lower() not in nullable:
                    raise WrongColumn(setting, f"table {table} has no column {name}")
            if names and all(nullable[name.lower()] for name in names):
                raise WrongColumn(
                    setting,
                    f"{', '.join(names)} of table {table} may be null, so rows could be missed:"
                    " make the column NOT NULL, or set validate.non.null=false",
                )


class WrongColumn(DataError):
    """A column that cannot find new rows; `setting` has named it."""

    def __init__(self, setting: str, message: str) -> None:
        super().__init__(message)
        self.setting = setting


def _is_like(name: str | None, pattern: str | None) -> bool:
    """Whether a name is like a pattern of SQL, with % and _; without a pattern, any is."""
    if pattern is None:
        return True
    parts = {"%": ".*", "_": "."}
    expression = "".join(parts.get(sign, re.escape(sign)) for sign in pattern)
    return re.fullmatch(expression, name or "") is not None


def _names_of(dialect: Dialect, table: TableId) -> set[str]:
    """The names by which a user may mean a table."""
    return {table.name, str(table), dialect.table(table)}
