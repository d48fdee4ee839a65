"""PostgreSQL, through psycopg 3.

The session has the time zone `db.timezone`, so the server itself converts between times with and
without a zone.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, time
from typing import Any, ClassVar, Final

from odradek.connect.connectors.jdbc.dialect import (
    Connection,
    Dialect,
    Moments,
    Put,
    Row,
    SourceColumn,
    TableColumn,
    Trouble,
    number_converter,
    number_schema,
    on_conflict_of_key,
)
from odradek.connect.connectors.jdbc.driver_options import driver_options, same, seconds
from odradek.connect.connectors.jdbc.names import PLACE, TableId
from odradek.connect.data import schemas
from odradek.connect.data.schemas import Schema, Type
from odradek.connect.errors import DataError, InvalidConfig
from odradek.world.installing import install_line

try:
    import psycopg
    from psycopg.types.string import TextLoader
except ImportError as error:
    raise InvalidConfig(
        f"the driver for PostgreSQL is not installed: {install_line('postgres')}"
    ) from error

_CONNECT_TIMEOUT_S: Final = 10
_SESSIONS: Final = {"primary": "read-write", "secondary": "standby", "master": "read-write"}
_OPTIONS: Final = {
    "ssl": lambda value: {"sslmode": "require"} if value in {"true", ""} else {},
    "sslmode": same("sslmode"),
    "sslrootcert": same("sslrootcert"),
    "sslcert": same("sslcert"),
    "sslkey": same("sslkey"),
    "sslpassword": same("sslpassword"),
    "ApplicationName": same("application_name"),
    "currentSchema": lambda value: {"search_path": value},
    "options": same("options"),
    "connectTimeout": seconds("connect_timeout"),
    "loginTimeout": seconds("connect_timeout"),
    "targetServerType": lambda value: {"target_session_attrs": _SESSIONS.get(value, "any")},
    "gssEncMode": same("gssencmode"),
    "channelBinding": same("channel_binding"),
}
_ONLY_TUNING: Final = frozenset(
    ["reWriteBatchedInserts", "prepareThreshold", "defaultRowFetchSize", "tcpKeepAlive",
     "stringtype", "binaryTransfer", "preparedStatementCacheQueries", "loggerLevel",
     "socketTimeout", "readOnly", "assumeMinServerVersion", "preferQueryMode"]
)  # fmt: skip
_TYPES: Final = {
    "bool": schemas.BOOLEAN,
    "int2": schemas.INT16,
    "int4": schemas.INT32,
    "int8": schemas.INT64,
    "oid": schemas.INT64,
    "float4": schemas.FLOAT32,
    "float8": schemas.FLOAT64,
    "money": schemas.FLOAT64,
    **dict.fromkeys(
        ("text", "varchar", "bpchar", "name", "char", "citext", "json", "jsonb", "uuid", "xml"),
        schemas.STRING,
    ),
    "bytea": schemas.BYTES,
    "date": schemas.date(),
    "time": schemas.time(),
    "timetz": schemas.time(),
    "timestamp": schemas.timestamp(),
    "timestamptz": schemas.timestamp(),
}
_SQL_TYPES: Final = {
    schemas.DECIMAL: "DECIMAL",
    schemas.DATE: "DATE",
    schemas.TIME: "TIME",
    schemas.TIMESTAMP: "TIMESTAMP",
    Type.INT8: "SMALLINT",
    Type.INT16: "SMALLINT",
    Type.INT32: "INT",
    Type.INT64: "BIGINT",
    Type.FLOAT32: "REAL",
    Type.FLOAT64: "DOUBLE PRECISION",
    Type.BOOLEAN: "BOOLEAN",
    Type.STRING: "TEXT",
    Type.BYTES: "BYTEA",
}
_RELATION_KINDS: Final = {
    "TABLE": "r", "PARTITIONED TABLE": "p", "VIEW": "v", "MATERIALIZED VIEW": "m",
    "FOREIGN TABLE": "f",
}  # fmt: skip
_STAGE: Final = "odradek_stage"
_LEAST_TO_COPY: Final = 20
_DAY_US: Final = 86_400_000_000
# The classes of SQLSTATE: https://www.postgresql.org/docs/current/errcodes-appendix.html
_UNAVAILABLE: Final = ("08", "40", "53", "57", "55P03", "58")
_OF_RECORD: Final = ("22", "23", "42804")


class Postgres(Dialect):
    name: ClassVar = "PostgreSqlDatabaseDialect"
    error = psycopg.Error
    tells_of_writers = True

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        options = self.session.url.options
        self._options = driver_options(options, _OPTIONS, _ONLY_TUNING, "PostgreSQL")
        self._uncopied: set[TableId] = set()

    def connect(self, *, is_sink: bool) -> Connection:
        url = self.session.url
        options = {"connect_timeout": _CONNECT_TIMEOUT_S, "application_name": "odradek-connect"}
        options |= self._options
        search_path = options.pop("search_path", None)
        connection = psycopg.connect(
            host=url.host,
            port=url.port,
            dbname=url.database,
            user=self.session.user or url.user,
            password=self.session.password or url.password,
            autocommit=True,
            **options,  # type: ignore[arg-type]
        )
        for kind in ("json", "jsonb", "uuid", "money"):
            connection.adapters.register_loader(kind, TextLoader)
        settings = {"timezone": _zone_name(self.session.zone), "search_path": search_path}
        for name, value in settings.items():
            if value is not None:
                connection.execute("SELECT set_config(%s, %s, false)", (name, value))
        connection.autocommit = not is_sink
        return connection

    def trouble(self, error: Exception) -> Trouble:
        state = getattr(error, "sqlstate", None)
        if state is None:
            is_lost = isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
            return Trouble.UNAVAILABLE if is_lost else Trouble.RECORD
        if state.startswith(_UNAVAILABLE):
            return Trouble.UNAVAILABLE
        return Trouble.RECORD if state.startswith(_OF_RECORD) else Trouble.OTHER

    def text(self, sql: str, *, has_values: bool) -> str:
        return sql.replace("%", "%%").replace(PLACE, "%s") if has_values else sql

    def _table_of(self, parts: list[str]) -> TableId:
        found = super()._table_of(parts)
        if found.catalog not in {None, self.session.url.database}:
            raise DataError(
                f"{found} is a table of the database {found.catalog}, and the connection is one to"
                f" {self.session.url.database}: set table.name.format or topics.to.tables.mapping,"
                " or rename the topic with the transform RegexRouter"
            )
        return found._replace(catalog=None)

    # Questions of a source

    def tables(self, connection: Connection, types: Sequence[str]) -> list[TableId]:
        kinds = [_RELATION_KINDS[kind.upper()] for kind in types if kind.upper() in _RELATION_KINDS]
        if "r" in kinds:
            kinds.append("p")
        found = connection.execute(
            "SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid ="
            " c.relnamespace WHERE c.relkind = ANY(%s) AND NOT c.relispartition AND n.nspname NOT"
            " IN ('pg_catalog', 'information_schema') AND n.nspname !~ '^pg_' ORDER BY 1, 2",
            (kinds,),
        )
        return [TableId(name, schema) for schema, name in found]

    def describe(
        self,
        connection: Connection,
        cursor: Any,
        rows: Sequence[Row],
        table: TableId | None,
        sql: str,
    ) -> list[SourceColumn]:
        result = cursor.pgresult
        places = [(result.ftable(at), result.ftablecol(at)) for at in range(result.nfields)]
        flags = self._flags(connection, {found for found, _ in places if found})
        kinds = self._kinds(connection, {column.type_code for column in cursor.description})
        found = []
        for described, place in zip(cursor.description, places, strict=True):
            is_required, is_serial = flags.get(place, (False, False))
            type_name, type_kind = kinds[described.type_code]
            schema = self._schema_of(described, type_name, type_kind)
            if schema is not None and not is_required:
                schema = schema.optional()
            convert = None if schema is None else self._converter(type_name, schema)
            found.append(SourceColumn(described.name, schema, convert, type_name, is_serial))
        return found

    def _flags(
        self, connection: Connection, tables: set[int]
    ) -> dict[tuple[int, int], tuple[bool, bool]]:
        """Returns whether columns are NOT NULL, and whether they count up by themselves."""
        found = connection.execute(
            "SELECT a.attrelid, a.attnum, a.attnotnull, a.attidentity <> '' OR"
            " coalesce(pg_get_expr(d.adbin, d.adrelid), '') LIKE 'nextval(%%' FROM pg_attribute a"
            " LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum"
            " WHERE a.attrelid = ANY(%s) AND a.attnum > 0",
            (list(tables),),
        )
        return {(table, number): (bool(nn), bool(serial)) for table, number, nn, serial in found}

    def _kinds(self, connection: Connection, types: set[int]) -> dict[int, tuple[str, str]]:
        found = connection.execute(
            "SELECT oid, typname, typtype FROM pg_type WHERE oid = ANY(%s)", (list(types),)
        )
        return {oid: (name, _character(kind)) for oid, name, kind in found}

    def _schema_of(self, described: Any, type_name: str, type_kind: str) -> Schema | None:
        if type_kind == "e":
            return schemas.STRING
        if type_name == "numeric":
            mapping = self.session.numeric_mapping
            return number_schema(mapping, described.precision, described.scale)
        if type_name in {"bit", "varbit"}:
            length = described.display_size or 0
            if type_name == "bit" and length <= 1:
                return schemas.BOOLEAN
            return schemas.INT8 if 0 < length <= 8 else schemas.BYTES
        return _TYPES.get(type_name)

    def _converter(self, type_name: str, schema: Schema) -> Callable[[Any], Any] | None:
        if type_name == "numeric":
            return number_converter(schema)
        if type_name in {"timestamp", "timestamptz"}:
            return self.to_utc
        if type_name == "timetz":
            return _time_in_utc
        if type_name == "money":
            return lambda value: float("".join(sign for sign in value if sign in "-.0123456789"))
        if type_name in {"bit", "varbit"}:
            return _BITS[schema.type]
        return None

    def now(self, connection: Connection) -> datetime:
        ((found,),) = connection.execute("SELECT clock_timestamp()")
        return self.to_utc(found)

    def moments(self, connection: Connection, table: TableId | None, column: str) -> Moments:
        """The server compares times with and without a zone, and finds both in an index."""
        resolution_us = 1
        if table is not None:
            found = connection.execute(
                "SELECT a.atttypid::regtype::text, a.atttypmod FROM pg_attribute a WHERE"
                " a.attrelid = to_regclass(%s) AND a.attname = %s",
                (self._regclass(table), column),
            ).fetchone()
            if found is None:
                raise DataError(f"table {table} has no column {column}")
            type_name, size = found
            resolution_us = _DAY_US if type_name == "date" else _resolution_us(size)
        return Moments(self.identifier(column), resolution_us, lambda moment: moment, self._moment)

    def _moment(self, value: Any) -> datetime:
        if isinstance(value, datetime):
            return self.to_utc(value)
        if isinstance(value, date):
            return self.to_utc(datetime.combine(value, time()))
        raise DataError(f"{value!r} is not a time: timestamp.column.name needs columns of times")

    def writers(self, connection: Connection, table: TableId) -> frozenset[str]:
        """Whoever inserts takes this lock before its row gets a number from a sequence."""
        found = connection.execute(
            "WITH RECURSIVE family(id) AS (SELECT to_regclass(%s)::oid UNION SELECT i.inhrelid"
            " FROM pg_inherits i JOIN family ON i.inhparent = family.id)"
            " SELECT DISTINCT l.virtualtransaction FROM pg_locks l JOIN family ON l.relation ="
            " family.id WHERE l.locktype = 'relation' AND l.database = (SELECT oid FROM"
            " pg_database WHERE datname = current_database()) AND l.granted AND l.mode IN"
            " ('RowExclusiveLock', 'ShareRowExclusiveLock', 'ExclusiveLock',"
            " 'AccessExclusiveLock') AND l.pid IS DISTINCT FROM pg_backend_pid()",
            (self._regclass(table),),
        )
        return frozenset(name for (name,) in found)

    def _regclass(self, table: TableId) -> str:
        """The name as `to_regclass` wants it: in quotes if SQL has quotes, without a catalog."""
        return self.table(table._replace(catalog=None))

    def key_columns(self, connection: Connection, table: TableId) -> list[str]:
        found = connection.execute(
            "SELECT a.attname FROM pg_index i CROSS JOIN LATERAL unnest(i.indkey) WITH ORDINALITY"
            " AS k(number, place) JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum ="
            " k.number WHERE i.indisprimary AND i.indrelid = to_regclass(%s) ORDER BY k.place",
            (self._regclass(table),),
        )
        return [name for (name,) in found]

    # Statements of a sink

    def table_columns(self, connection: Connection, table: TableId) -> list[TableColumn] | None:
        keys = self.key_columns(connection, table)
        found = connection.execute(
            "SELECT attname, attnotnull, atthasdef OR attidentity <> '' FROM pg_attribute"
            " WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped"
            " ORDER BY attnum",
            (self._regclass(table),),
        ).fetchall()
        return [
            TableColumn(name, not is_required, bool(has_default), name in keys)
            for name, is_required, has_default in found
        ] or None

    def sql_type(self, schema: Schema, *, is_key: bool) -> str | None:
        if schema.type is Type.ARRAY:
            of_items = self.sql_type(schema.elements, is_key=False)
            return None if of_items is None else f"{of_items}[]"
        return _SQL_TYPES.get(schema.name or "") or _SQL_TYPES.get(schema.type)

    def bound(self, schema: Schema) -> Callable[[Any], Any] | None:
        if schema.name == schemas.TIMESTAMP:
            return self.to_local
        if schema.type is Type.ARRAY:
            of_item = self.bound(schema.elements)
            if of_item is not None:
                return lambda value: [None if one is None else of_item(one) for one in value]
        return None

    def on_conflict(self, keys: Sequence[str], changed: Sequence[str]) -> str:
        return on_conflict_of_key(self, keys, changed)

    def put(self, cursor: Any, put: Put) -> None:
        """Many rows are copied, which takes a third of the time of their statements."""
        if put.is_update or len(put.rows) < _LEAST_TO_COPY or put.table in self._uncopied:
            super().put(cursor, put)
            return
        cursor.execute("SAVEPOINT copy")
        try:
            self._copy(cursor, put)
            cursor.execute("RELEASE SAVEPOINT copy")
        except psycopg.Error as error:
            if self.trouble(error) is not Trouble.OTHER:
                raise
            # Some tables take no copy: those with policies for rows, and views.
            cursor.execute("ROLLBACK TO SAVEPOINT copy")
            super().put(cursor, put)
            self._uncopied.add(put.table)

    def _copy(self, cursor: Any, put: Put) -> None:
        columns = ",".join(map(self.identifier, put.columns))
        table, rows = self.table(put.table), put.rows
        if put.replaced is None:
            target = f"{table} ({columns})"
        else:
            cursor.execute(
                f"CREATE TEMP TABLE {_STAGE} ON COMMIT DROP AS SELECT {columns} FROM {table}"
                " WITH NO DATA"
            )
            target = _STAGE
            # A statement changes a row only once: the last record of a key wins, as it would if
            # each had its own statement. Where rows are not changed the first one wins.
            in_order = rows if put.replaced else reversed(rows)
            rows = list({tuple(row[: len(put.keys)]): row for row in in_order}.values())
        with cursor.copy(f"COPY {target} FROM STDIN") as copy:
            for row in rows:
                copy.write_row(row)
        if put.replaced is not None:
            cursor.execute(
                f"INSERT INTO {table} ({columns}) SELECT {columns} FROM {_STAGE}"
                + self.on_conflict(put.keys, put.replaced)
            )
            cursor.execute(f"DROP TABLE {_STAGE}")


def _zone_name(zone: Any) -> str:
    if zone is UTC:
        return "UTC"
    key = getattr(zone, "key", None)
    if key is not None:
        return str(key)
    # In the names of POSIX, which PostgreSQL reads, hours east of Greenwich are negative.
    minutes = int(zone.utcoffset(None).total_seconds()) // 60
    hours, rest = divmod(abs(minutes), 60)
    return f"<own>{'-' if minutes >= 0 else '+'}{hours:02}:{rest:02}"


def _character(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _resolution_us(size: int) -> int:
    return 1 if size < 0 else int(10 ** (6 - size))


def _time_in_utc(value: time) -> time:
    moment = datetime.combine(date(2000, 1, 2), value)
    return moment.astimezone(UTC).time() if moment.tzinfo else value


def _bits_to_bytes(text: str) -> bytes:
    return int(text or "0", 2).to_bytes((len(text) + 7) // 8, "big")


def _bits_to_int8(text: str) -> int:
    number = int(text, 2)
    return number - 256 if number > 127 else number


_BITS: Final[dict[Type, Callable[[Any], Any]]] = {
    Type.BOOLEAN: lambda text: text == "1",
    Type.INT8: _bits_to_int8,
    Type.BYTES: _bits_to_bytes,
}
