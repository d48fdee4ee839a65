"""What a connector asks of a database: the interface, and which database a URL means.

A dialect makes connections of its driver and knows its SQL. It keeps no state of its own, so tasks
may share one. Values go both ways in the types that Kafka Connect has; a time without a zone in the
database is one of `db.timezone`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from decimal import Decimal, localcontext
from enum import StrEnum
from importlib import import_module
from typing import Any, ClassVar, Final, NamedTuple, cast

from odradek.connect.connectors.jdbc import names, urls
from odradek.connect.connectors.jdbc.names import PLACE, TableId
from odradek.connect.connectors.jdbc.urls import DatabaseUrl
from odradek.connect.data import schemas
from odradek.connect.data.schemas import Schema
from odradek.connect.errors import DataError

Connection = Any
"""A connection of a driver, as PEP 249 describes it."""
Row = Sequence[Any]


class NumericMapping(StrEnum):
    """What becomes of numbers with a precision and a scale."""

    NONE = "none"
    PRECISION_ONLY = "precision_only"
    BEST_FIT = "best_fit"


@dataclass(frozen=True, slots=True)
class Session:
    """How a connector wants to see a database."""

    url: DatabaseUrl
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    zone: tzinfo = UTC
    quotes_names: bool = True
    numeric_mapping: NumericMapping = NumericMapping.NONE


class SourceColumn(NamedTuple):
    """A column of a result. `schema` is None if the connector has no type for it. `convert` makes
    the value that fits the schema from that of the driver; it is never called with None."""

    name: str
    schema: Schema | None
    convert: Callable[[Any], Any] | None
    type_name: str
    is_incrementing: bool = False
    is_cut: bool = False
    """Whether the server shortens the values of the column on their way; see `Dialect.exact`."""


class Moments(NamedTuple):
    """A column of times. `expression` can be compared with what `value` makes of a time in UTC,
    and `moment` makes a time in UTC of what it gives. Two times differ by `resolution_us`
    microseconds at the least."""

    expression: str
    resolution_us: int
    value: Callable[[datetime], Any]
    moment: Callable[[Any], datetime]


class TableColumn(NamedTuple):
    """A column of a table, as a sink needs to know it."""

    name: str
    is_nullable: bool
    has_default: bool
    is_key: bool


class Put(NamedTuple):
    """Rows to write: the values of the columns of the key, then of the others. `replaced` are the
    columns that are changed if there is a row with this key; None if that is an error."""

    table: TableId
    keys: Sequence[str]
    others: Sequence[str]
    rows: Sequence[Row]
    replaced: Sequence[str] | None = None
    is_update: bool = False

    @property
    def columns(self) -> list[str]:
        return [*self.keys, *self.others]


class Trouble(StrEnum):
    """What an error of a driver means for a sink or source."""

    UNAVAILABLE = "unavailable"  # It may go away by itself: a lost connection, a lock.
    RECORD = "record"  # The database refuses a value.
    OTHER = "other"  # A right is missing, a statement is wrong.


class Dialect(ABC):
    name: ClassVar[str]
    quote: ClassVar[str] = '"'
    # Whether `writers` can know anything.
    tells_of_writers: ClassVar[bool] = False

    def __init__(self, session: Session) -> None:
        self.session = session

    def exact(self, name: str) -> str:
        """Returns an expression with the whole value of a column that `describe` says is cut. Its
        values are converted as those of the column are."""
        raise NotImplementedError(f"{self.name} cuts no column, so not {name} either")

    # Connections

    @property
    @abstractmethod
    def error(self) -> type[Exception]:
        """The exception that is above all others of the driver."""

    @abstractmethod
    def connect(self, *, is_sink: bool) -> Connection:
        """Makes a connection. Each statement of a source is a transaction of its own."""

    def begin(self, connection: Connection) -> None:  # noqa: B027 - most drivers do it themselves
        """Begins a transaction of a sink."""

    @abstractmethod
    def trouble(self, error: Exception) -> Trouble: ...

    @abstractmethod
    def text(self, sql: str, *, has_values: bool) -> str:
        """Returns the SQL as the driver takes it. `PLACE` stands for a value."""

    def execute(self, cursor: Any, sql: str, values: Sequence[Any] = ()) -> None:
        if values:
            cursor.execute(self.text(sql, has_values=True), tuple(values))
        else:
            cursor.execute(self.text(sql, has_values=False))

    def rows(self, connection: Connection, sql: str, values: Sequence[Any] = ()) -> list[Any]:
        """Returns all rows of a question."""
        cursor = connection.cursor()
        try:
            self.execute(cursor, sql, values)
            return list(cursor.fetchall())
        finally:
            cursor.close()

    # Names

    def identifier(self, name: str) -> str:
        return names.quoted(name, self.quote) if self.session.quotes_names else name

    def table(self, table: TableId) -> str:
        return ".".join(self.identifier(part) for part in table.parts)

    def parse_table(self, text: str) -> TableId:
        """Returns the table of a name such as a user writes it. Raises `DataError`."""
        parts = names.split_identifiers(text.strip(), '"`', ".")
        if not parts or len(parts) > 3:
            raise DataError(f"{text!r} is not the name of a table")
        return self._table_of(parts)

    def _table_of(self, parts: list[str]) -> TableId:
        name, schema, catalog = [*reversed(parts), None, None][:3]
        return TableId(name or "", schema, catalog)

    # Questions of a source

    @abstractmethod
    def tables(self, connection: Connection, types: Sequence[str]) -> list[TableId]:
        """Returns the tables of the database, by the types of JDBC (TABLE, VIEW ...)."""

    @abstractmethod
    def describe(
        self,
        connection: Connection,
        cursor: Any,
        rows: Sequence[Row],
        table: TableId | None,
        sql: str,
    ) -> list[SourceColumn]:
        """Returns the columns of a result, whose rows have been fetched. `table` is what it is of,
        or None for the query `sql`."""

    @abstractmethod
    def now(self, connection: Connection) -> datetime:
        """Returns the time of the database, in UTC."""

    @abstractmethod
    def moments(self, connection: Connection, table: TableId | None, column: str) -> "Moments":
        """Returns how a column of times is compared. `table` is None for a query."""

    def writers(self, connection: Connection, table: TableId) -> frozenset[str]:
        """Returns names of the transactions that may have written to the table and have not ended.
        A database where that cannot be known returns none."""
        return frozenset()

    @abstractmethod
    def key_columns(self, connection: Connection, table: TableId) -> list[str]:
        """Returns the columns of the primary key, in its order."""

    # Statements of a sink

    @abstractmethod
    def table_columns(self, connection: Connection, table: TableId) -> list[TableColumn] | None:
        """Returns the columns of a table; None if there is no such table."""

    @abstractmethod
    def sql_type(self, schema: Schema, *, is_key: bool) -> str | None:
        """Returns the type of a column for values of a schema; None if there is none."""

    @abstractmethod
    def bound(self, schema: Schema) -> Callable[[Any], Any] | None:
        """Returns what makes a value of the schema one for the driver; None if it is one already.
        The function is never called with None."""

    def insert(self, table: TableId, columns: Sequence[str]) -> str:
        listed = ",".join(map(self.identifier, columns))
        places = ",".join([PLACE] * len(columns))
        return f"INSERT INTO {self.table(table)} ({listed}) VALUES ({places})"

    @abstractmethod
    def on_conflict(self, keys: Sequence[str], changed: Sequence[str]) -> str:
        """Returns what stands after an INSERT so that a row with the same key is changed in these
        columns, or stays as it is if there are none."""

    def put(self, cursor: Any, put: "Put") -> None:
        """Writes rows."""
        if put.is_update:
            sql = self.update(put.table, put.keys, put.others)
            count = len(put.keys)
            rows: Sequence[Row] = [(*row[count:], *row[:count]) for row in put.rows]
        else:
            sql = self.insert(put.table, put.columns)
            rows = put.rows
            if put.replaced is not None:
                sql += self.on_conflict(put.keys, put.replaced)
        cursor.executemany(self.text(sql, has_values=True), rows)

    def update(self, table: TableId, keys: Sequence[str], others: Sequence[str]) -> str:
        changes = ", ".join(f"{self.identifier(name)} = {PLACE}" for name in others)
        return f"UPDATE {self.table(table)} SET {changes}{self._where(keys)}"

    def delete(self, table: TableId, keys: Sequence[str]) -> str:
        return f"DELETE FROM {self.table(table)}{self._where(keys)}"

    def _where(self, keys: Sequence[str]) -> str:
        if not keys:
            return ""
        return " WHERE " + " AND ".join(f"{self.identifier(name)} = {PLACE}" for name in keys)

    # Times without a zone

    def to_utc(self, moment: datetime) -> datetime:
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=self.session.zone)
        return moment.astimezone(UTC)

    def to_local(self, moment: datetime) -> datetime:
        """Returns a time as the clock in `db.timezone` shows it, without a zone."""
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return moment.astimezone(self.session.zone).replace(tzinfo=None)


_SCALE_IF_UNSET: Final = 38
_MOST_DIGITS_OF_LONG: Final = 19


def number_schema(mapping: NumericMapping, precision: int | None, scale: int | None) -> Schema:
    """Returns the schema of a NUMERIC column. A column without a scale may have any: it becomes a
    Decimal with 38 digits after the decimal point, or a double if `best_fit` was asked for."""
    if scale is None:
        if mapping is NumericMapping.BEST_FIT:
            return schemas.FLOAT64
        return schemas.decimal(_SCALE_IF_UNSET)
    fits = precision is not None and precision < _MOST_DIGITS_OF_LONG
    if mapping is NumericMapping.NONE or not fits:
        return schemas.decimal(scale)
    assert precision is not None
    if scale <= 0 and (scale == 0 or mapping is NumericMapping.BEST_FIT):
        for most, schema in ((2, schemas.INT8), (4, schemas.INT16), (9, schemas.INT32)):
            if precision <= most:
                return schema
        return schemas.INT64
    return schemas.FLOAT64 if mapping is NumericMapping.BEST_FIT else schemas.decimal(scale)


def number_converter(schema: Schema) -> Callable[[Any], Any]:
    """Returns what makes a number fit the schema of `number_schema`."""
    if schema.name == schemas.DECIMAL:
        scale = schema.scale
        return lambda value: _scaled(value, scale)
    return float if schema.type is schemas.Type.FLOAT64 else int


def _scaled(value: Any, scale: int) -> Any:
    found = value if isinstance(value, Decimal) else Decimal(str(value))
    if not found.is_finite():
        raise DataError(f"{found} is not a number that a Decimal can hold")
    with localcontext() as context:
        context.prec = 1000
        shown = found.quantize(Decimal((0, (1,), -scale)))
    if shown != found:
        raise DataError(f"{found} has more than {scale} digits after the decimal point")
    return shown


def on_conflict_of_key(dialect: Dialect, keys: Sequence[str], changed: Sequence[str]) -> str:
    """Returns ON CONFLICT as PostgreSQL and SQLite have it."""
    listed = ",".join(map(dialect.identifier, keys))
    changes = ",".join(
        f"{dialect.identifier(name)}=excluded.{dialect.identifier(name)}" for name in changed
    )
    action = f"UPDATE SET {changes}" if changes else "NOTHING"
    return f" ON CONFLICT ({listed}) DO {action}"


_DIALECTS: Final = {
    urls.SQLITE: ("sqlite", "Sqlite"),
    urls.POSTGRES: ("postgres", "Postgres"),
    urls.MYSQL: ("mysql", "MySql"),
    urls.MARIADB: ("mysql", "MySql"),
}
_BY_NAME: Final = {
    "SqliteDatabaseDialect": urls.SQLITE,
    "PostgreSqlDatabaseDialect": urls.POSTGRES,
    "MySqlDatabaseDialect": urls.MYSQL,
}
DIALECT_NAMES: Final = ("", *_BY_NAME)


def make_dialect(session: Session, name: str = "") -> Dialect:
    """Returns the dialect of a URL, or the one of a name. Raises `InvalidConfig`."""
    module, class_name = _DIALECTS[_BY_NAME.get(name, session.url.kind)]
    found = import_module(f"odradek.connect.connectors.jdbc.{module}")
    return cast("Dialect", getattr(found, class_name)(session))
