"""SQLite, through Python's own driver.

SQLite does not hold columns to their types. A column of times may have text (in `db.timezone`),
integers (milliseconds since 1970, as JDBC's driver writes them) or numbers of Julian days, and all
three are understood. A whole number has 64 bits here, whatever its column is called.
"""

import re
import sqlite3
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Any, ClassVar, Final
from urllib.parse import quote

from odradek.connect.connectors.jdbc.dialect import (
    Connection,
    Dialect,
    Moments,
    Row,
    SourceColumn,
    TableColumn,
    Trouble,
    number_converter,
    number_schema,
    on_conflict_of_key,
)
from odradek.connect.connectors.jdbc.names import PLACE, TableId
from odradek.connect.data import schemas, values
from odradek.connect.data.schemas import Schema, Type
from odradek.connect.errors import DataError, InvalidConfig

_BUSY_TIMEOUT_S: Final = 5.0
_MS: Final = 1_000
_SECOND_US: Final = 1_000_000
_FIRST_JULIAN_DAY: Final = 2440587.5  # 1970-01-01
_FORMAT: Final = "'%Y-%m-%d %H:%M:%f'"
_SIZES: Final = re.compile(r"\(\s*(\d+)\s*(?:,\s*(-?\d+)\s*)?\)")
_OPTIONS: Final = {"date_class": ("integer", "text"), "date_precision": ("milliseconds",)}
_UNAVAILABLE: Final = (
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_PROTOCOL,
)
_OF_RECORD: Final = (sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_TOOBIG)
# What a declared type means, by the first word that occurs in it.
_TYPES: Final[tuple[tuple[str, Schema], ...]] = (
    ("BOOL", schemas.BOOLEAN),
    ("TINYINT", schemas.INT8),
    ("SMALLINT", schemas.INT16),
    ("INT", schemas.INT64),
    ("CHAR", schemas.STRING),
    ("CLOB", schemas.STRING),
    ("TEXT", schemas.STRING),
    ("JSON", schemas.STRING),
    ("UUID", schemas.STRING),
    ("BLOB", schemas.BYTES),
    ("BINARY", schemas.BYTES),
    ("REAL", schemas.FLOAT64),
    ("FLOA", schemas.FLOAT64),
    ("DOUB", schemas.FLOAT64),
    ("TIMESTAMP", schemas.timestamp()),
    ("DATETIME", schemas.timestamp()),
    ("DATE", schemas.date()),
    ("TIME", schemas.time()),
)
_SQL_TYPES: Final = {
    **dict.fromkeys((Type.BOOLEAN, Type.INT8, Type.INT16, Type.INT32, Type.INT64), "INTEGER"),
    **dict.fromkeys((Type.FLOAT32, Type.FLOAT64), "REAL"),
    Type.STRING: "TEXT",
    Type.BYTES: "BLOB",
}


class Sqlite(Dialect):
    name: ClassVar = "SqliteDatabaseDialect"
    error = sqlite3.Error

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        for option, given in self.session.url.options.items():
            if option not in _OPTIONS:
                raise InvalidConfig(
                    f"SQLite's option {option} is not supported here; known are"
                    f" {', '.join(_OPTIONS)}"
                )
            if given.lower() not in _OPTIONS[option]:
                raise InvalidConfig(f"{option} must be one of {', '.join(_OPTIONS[option])}")
        given = self.session.url.options.get("date_class", "integer")
        writes_text = given.lower() == "text"
        self._bound: dict[str, Callable[[Any], Any]] = {
            schemas.DECIMAL: str,
            schemas.TIMESTAMP: self._moment_text if writes_text else values.timestamp_to_ms,
            schemas.DATE: date.isoformat if writes_text else _day_ms,
            schemas.TIME: time.isoformat if writes_text else values.time_to_ms,
        }

    def connect(self, *, is_sink: bool) -> Connection:
        path = Path(self.session.url.database)
        # A source that made the file would hide that its name is wrong.
        mode = "rwc" if is_sink else "rw"
        try:
            return sqlite3.connect(
                f"file:{quote(str(path))}?mode={mode}",
                uri=True,
                timeout=_BUSY_TIMEOUT_S,
                isolation_level=None,
                check_same_thread=False,
            )
        except sqlite3.OperationalError as error:
            if not is_sink and not path.exists():
                raise DataError(f"there is no file {path}") from error
            raise DataError(f"{path} cannot be opened: {error}") from error

    def begin(self, connection: Connection) -> None:
        connection.execute("BEGIN IMMEDIATE")

    def trouble(self, error: Exception) -> Trouble:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in _UNAVAILABLE:
            return Trouble.UNAVAILABLE
        is_refused = isinstance(error, sqlite3.IntegrityError | sqlite3.DataError)
        if is_refused or code in _OF_RECORD or ("type" in str(error) and "bind" in str(error)):
            return Trouble.RECORD
        return Trouble.OTHER

    def text(self, sql: str, *, has_values: bool) -> str:
        return sql.replace(PLACE, "?")

    # Questions of a source

    def tables(self, connection: Connection, types: Sequence[str]) -> list[TableId]:
        wanted = [kind.lower() for kind in types if kind.upper() in {"TABLE", "VIEW"}]
        found = connection.execute("SELECT name, type FROM sqlite_master ORDER BY name")
        return [
            TableId(name)
            for name, kind in found
            if kind in wanted and not name.startswith("sqlite_")
        ]

    def describe(
        self,
        connection: Connection,
        cursor: Any,
        rows: Sequence[Row],
        table: TableId | None,
        sql: str,
    ) -> list[SourceColumn]:
        shape = self._shape(connection, table) if table else self._shape_of_query(connection, sql)
        return [
            self._column(described[0], shape.get(described[0]), [row[at] for row in rows])
            for at, described in enumerate(cursor.description)
        ]

    def _shape(self, connection: Connection, table: TableId) -> dict[str, Any]:
        question = f"PRAGMA {self._schema(table)}table_info({self.identifier(table.name)})"
        return {row[1]: row for row in connection.execute(question)}

    def _shape_of_query(self, connection: Connection, sql: str) -> dict[str, Any]:
        """A temporary view knows the declared types of what the query selects."""
        try:
            connection.execute(f"CREATE TEMP VIEW odradek_query AS {sql}")
        except sqlite3.Error:
            return {}
        try:
            return {row[1]: row for row in connection.execute("PRAGMA table_info(odradek_query)")}
        finally:
            connection.execute("DROP VIEW odradek_query")

    def _column(self, name: str, shape: Any, found: Sequence[Any]) -> SourceColumn:
        declared = (shape[2] if shape else "").upper()
        schema = self._schema_of(declared) if declared else _guessed(found)
        is_row_number = bool(shape) and shape[5] == 1 and declared == "INTEGER"
        is_required = bool(shape) and (shape[3] or is_row_number)
        return SourceColumn(
            name,
            schema if is_required else schema.optional(),
            self._converter(schema),
            declared or "no type",
            is_row_number,
        )

    def _schema_of(self, declared: str) -> Schema:
        for word, schema in _TYPES:
            if word in declared:
                return schema
        sizes = _SIZES.search(declared)
        if sizes is None:
            return schemas.FLOAT64
        mapping = self.session.numeric_mapping
        return number_schema(mapping, int(sizes[1]), int(sizes[2] or 0))

    def _converter(self, schema: Schema) -> Callable[[Any], Any]:
        match schema.name:
            case schemas.TIMESTAMP:
                return self._moment_of_any
            case schemas.DATE:
                return lambda value: self._moment_of_any(value, self.session.zone).date()
            case schemas.TIME:
                return _time_of
            case schemas.DECIMAL:
                return number_converter(schema)
        return _CONVERTERS[schema.type]

    def _moment_of_any(self, value: Any, zone: Any = UTC) -> datetime:
        if isinstance(value, str):
            try:
                return self.to_utc(datetime.fromisoformat(value.strip())).astimezone(zone)
            except ValueError:
                raise DataError(f"{value!r} is not a time such as 2026-01-31 12:00:00") from None
        if isinstance(value, float):
            milliseconds = round((value - _FIRST_JULIAN_DAY) * 86_400_000)
            return values.ms_to_timestamp(milliseconds)
        if isinstance(value, int):
            return values.ms_to_timestamp(value)
        raise DataError(f"{value!r} is not a time")

    def now(self, connection: Connection) -> datetime:
        ((text,),) = connection.execute(f"SELECT strftime({_FORMAT}, 'now')")
        return datetime.fromisoformat(text).replace(tzinfo=UTC)

    def moments(self, connection: Connection, table: TableId | None, column: str) -> Moments:
        """Times are compared as text. CURRENT_TIMESTAMP has whole seconds, and no column says how
        fine its times are, so a second is taken for all."""
        name = self.identifier(column)
        expression = (
            f"CASE typeof({name}) WHEN 'integer' THEN strftime({_FORMAT}, {name}/1000.0,"
            f" 'unixepoch') ELSE strftime({_FORMAT}, {name}) END"
        )
        if table is not None:
            self._check_moments(connection, table, name, expression)
        return Moments(expression, _SECOND_US, self._moment_text, self._moment_of_any)

    def _check_moments(
        self, connection: Connection, table: TableId, name: str, expression: str
    ) -> None:
        bad = connection.execute(
            f"SELECT {name} FROM {self.table(table)}"
            f" WHERE {name} IS NOT NULL AND {expression} IS NULL LIMIT 1"
        ).fetchone()
        if bad is not None:
            raise DataError(
                f"column {name} of table {table} has {bad[0]!r}, which SQLite cannot read as a"
                " time: write times such as 2026-01-31 12:00:00"
            )

    def _moment_text(self, moment: datetime) -> str:
        return self.to_local(moment).isoformat(" ", "milliseconds")

    def key_columns(self, connection: Connection, table: TableId) -> list[str]:
        shape = self._shape(connection, table).values()
        return [row[1] for row in sorted(shape, key=lambda row: row[5]) if row[5]]

    # Statements of a sink

    def table_columns(self, connection: Connection, table: TableId) -> list[TableColumn] | None:
        shape = self._shape(connection, table)
        if not shape:
            return None
        return [
            TableColumn(row[1], not row[3], row[4] is not None, bool(row[5]))
            for row in shape.values()
        ]

    def _schema(self, table: TableId) -> str:
        return f"{self.identifier(table.schema)}." if table.schema else ""

    def sql_type(self, schema: Schema, *, is_key: bool) -> str | None:
        if schema.name in {schemas.DECIMAL, schemas.DATE, schemas.TIME, schemas.TIMESTAMP}:
            return "NUMERIC"
        return _SQL_TYPES.get(schema.type)

    def bound(self, schema: Schema) -> Callable[[Any], Any] | None:
        if schema.name in self._bound:
            return self._bound[schema.name or ""]
        return int if schema.type is Type.BOOLEAN else None

    def on_conflict(self, keys: Sequence[str], changed: Sequence[str]) -> str:
        return on_conflict_of_key(self, keys, changed)


def _day_ms(value: date) -> int:
    return values.date_to_days(value) * 86_400_000


def _guessed(found: Sequence[Any]) -> Schema:
    """A column of an expression has no type: its values say what it is."""
    kinds = {type(value) for value in found if value is not None}
    if kinds == {int}:
        return schemas.INT64
    if kinds and kinds <= {int, float}:
        return schemas.FLOAT64
    return schemas.BYTES if kinds == {bytes} else schemas.STRING


def _time_of(value: Any) -> time:
    if isinstance(value, str):
        try:
            return time.fromisoformat(value.strip())
        except ValueError:
            raise DataError(f"{value!r} is not a time of day such as 12:00:00") from None
    return (datetime.combine(date.min, time.min) + timedelta(milliseconds=int(value))).time()


def _whole(value: Any) -> int:
    if isinstance(value, int):
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    raise DataError(f"{value!r} is not a whole number")


def _double(value: Any) -> float:
    if isinstance(value, int | float):
        return float(value)
    raise DataError(f"{value!r} is not a number")


def _text(value: Any) -> str:
    return value if isinstance(value, str) else _bytes(value).decode("utf-8", "replace")


def _bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


_CONVERTERS: Final[dict[Type, Callable[[Any], Any]]] = {
    Type.BOOLEAN: lambda value: str(value).lower() not in {"0", "false", "f", "0.0"},
    Type.INT8: _whole,
    Type.INT16: _whole,
    Type.INT32: _whole,
    Type.INT64: _whole,
    Type.FLOAT64: _double,
    Type.STRING: _text,
    Type.BYTES: _bytes,
}
