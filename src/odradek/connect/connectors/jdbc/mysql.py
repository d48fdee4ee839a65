"""MySQL and MariaDB, through PyMySQL.

The session has UTC as its time zone. A TIMESTAMP comes in UTC therefore; a DATETIME has no zone
and is one of `db.timezone`.
"""

import logging
import threading
import time as time_module
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, ClassVar, Final

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
)
from odradek.connect.connectors.jdbc.driver_options import driver_options, same
from odradek.connect.connectors.jdbc.names import PLACE, TableId
from odradek.connect.data import schemas
from odradek.connect.data.schemas import Schema, Type
from odradek.connect.errors import DataError, InvalidConfig
from odradek.javatext import numbers
from odradek.world.installing import install_line

try:
    import pymysql
    from pymysql.constants import CR, ER, FIELD_TYPE, FLAG
except ImportError as error:
    raise InvalidConfig(
        f"the driver for MySQL and MariaDB is not installed: {install_line('mysql')}"
    ) from error

_log = logging.getLogger("odradek.connect")
_CONNECT_TIMEOUT_S: Final = 10
_TURN: Final = threading.Lock()
_LIST_AGE_S: Final = 0.11
_BINARY_CHARSET: Final = 63
_DAY_US: Final = 86_400_000_000
_NOT_FIXED: Final = 31
"""The number of decimals that the servers say a FLOAT has that was declared without any."""


def _tls(value: str) -> dict[str, Any]:
    return {"ssl": {}} if value.lower() == "true" else {"ssl_disabled": True}


def _ssl_mode(value: str) -> dict[str, Any]:
    match value.upper().replace("-", "_"):
        case "DISABLED" | "DISABLE":
            return {"ssl_disabled": True}
        case "VERIFY_CA":
            return {"ssl_verify_cert": True}
        case "VERIFY_IDENTITY" | "VERIFY_FULL":
            return {"ssl_verify_cert": True, "ssl_verify_identity": True}
    return {"ssl": {}}


_OPTIONS: Final = {
    "useSSL": _tls,
    "useSsl": _tls,
    "sslMode": _ssl_mode,
    "serverSslCert": same("ssl_ca"),
    "connectTimeout": lambda value: {"connect_timeout": max(1, int(value) // 1000)},
    "socketTimeout": lambda value: {"read_timeout": max(1, int(value) // 1000) or None},
    "allowPublicKeyRetrieval": lambda value: {},
    "sessionVariables": lambda value: {"init_command": f"SET {value}"},
}
_ONLY_TUNING: Final = frozenset(
    ["rewriteBatchedStatements", "useServerPrepStmts", "cachePrepStmts", "prepStmtCacheSize",
     "prepStmtCacheSqlLimit", "useUnicode", "characterEncoding", "autoReconnect", "tcpKeepAlive",
     "useLegacyDatetimeCode", "serverTimezone", "useCursorFetch", "defaultFetchSize",
     "useBulkStmts", "nullDatabaseMeansCurrent", "permitMysqlScheme"]
)  # fmt: skip
_INTEGERS: Final = {
    FIELD_TYPE.TINY: (schemas.INT8, schemas.INT16),
    FIELD_TYPE.SHORT: (schemas.INT16, schemas.INT32),
    FIELD_TYPE.INT24: (schemas.INT32, schemas.INT32),
    FIELD_TYPE.LONG: (schemas.INT32, schemas.INT64),
    FIELD_TYPE.LONGLONG: (schemas.INT64, schemas.INT64),
}
_TEXTS: Final = {
    FIELD_TYPE.VARCHAR, FIELD_TYPE.VAR_STRING, FIELD_TYPE.STRING, FIELD_TYPE.TINY_BLOB,
    FIELD_TYPE.MEDIUM_BLOB, FIELD_TYPE.LONG_BLOB, FIELD_TYPE.BLOB,
}  # fmt: skip
_TYPES: Final = {
    FIELD_TYPE.FLOAT: schemas.FLOAT32,
    FIELD_TYPE.DOUBLE: schemas.FLOAT64,
    FIELD_TYPE.DATE: schemas.date(),
    FIELD_TYPE.NEWDATE: schemas.date(),
    FIELD_TYPE.YEAR: schemas.date(),
    FIELD_TYPE.TIME: schemas.time(),
    FIELD_TYPE.DATETIME: schemas.timestamp(),
    FIELD_TYPE.TIMESTAMP: schemas.timestamp(),
    FIELD_TYPE.JSON: schemas.STRING,
    FIELD_TYPE.ENUM: schemas.STRING,
    FIELD_TYPE.SET: schemas.STRING,
}
_NAMES: Final = {value: name for name, value in vars(FIELD_TYPE).items() if isinstance(value, int)}
_SQL_TYPES: Final = {
    schemas.DATE: "DATE",
    schemas.TIME: "TIME(3)",
    schemas.TIMESTAMP: "DATETIME(3)",
    Type.INT8: "TINYINT",
    Type.INT16: "SMALLINT",
    Type.INT32: "INT",
    Type.INT64: "BIGINT",
    Type.FLOAT32: "FLOAT",
    Type.FLOAT64: "DOUBLE",
    Type.BOOLEAN: "TINYINT",
    Type.STRING: "MEDIUMTEXT",
    Type.BYTES: "MEDIUMBLOB",
}
# A key is in an index, and an index takes only types of a bounded length.
_KEY_TYPES: Final = {Type.STRING: "VARCHAR(256)", Type.BYTES: "VARBINARY(1024)"}
_UNAVAILABLE: Final = {
    CR.CR_SERVER_GONE_ERROR, CR.CR_SERVER_LOST, CR.CR_CONN_HOST_ERROR, CR.CR_CONNECTION_ERROR,
    CR.CR_SERVER_LOST_EXTENDED, ER.LOCK_WAIT_TIMEOUT, ER.LOCK_DEADLOCK, ER.CON_COUNT_ERROR,
    ER.SERVER_SHUTDOWN, ER.TOO_MANY_USER_CONNECTIONS, ER.NEW_ABORTING_CONNECTION,
    ER.OPTION_PREVENTS_STATEMENT, ER.DISK_FULL, ER.RECORD_FILE_FULL,
}  # fmt: skip

# The last one is that of MariaDB for a CHECK that fails.
_OF_RECORD: Final = {ER.TRUNCATED_WRONG_VALUE_FOR_FIELD, ER.NO_DEFAULT_FOR_FIELD, 4025}


class MySql(Dialect):
    name: ClassVar = "MySqlDatabaseDialect"
    quote: ClassVar = "`"
    error = pymysql.MySQLError
    tells_of_writers = True

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        options = self.session.url.options
        self._options = driver_options(options, _OPTIONS, _ONLY_TUNING, "MySQL and MariaDB")
        self._sees_transactions = True

    def connect(self, *, is_sink: bool) -> Connection:
        url = self.session.url
        connection = pymysql.connect(
            host=url.host,
            port=url.port,
            database=url.database or None,
            user=self.session.user or url.user,
            password=self.session.password or url.password or "",
            charset="utf8mb4",
            autocommit=not is_sink,
            **{"connect_timeout": _CONNECT_TIMEOUT_S, **self._options},
        )
        with connection.cursor() as cursor:
            cursor.execute("SET time_zone = '+00:00'")
            if is_sink:
                # Without it, a server that is set up so cuts values off and says nothing.
                cursor.execute("SET sql_mode = CONCAT(@@sql_mode, ',STRICT_TRANS_TABLES')")
        return connection

    def trouble(self, error: Exception) -> Trouble:
        code = error.args[0] if error.args else 0
        if code in _UNAVAILABLE or isinstance(error, pymysql.InterfaceError):
            return Trouble.UNAVAILABLE
        is_refused = isinstance(error, pymysql.IntegrityError | pymysql.DataError)
        is_invalid = code in _OF_RECORD or "can not be used with MySQL" in str(error)
        return Trouble.RECORD if is_refused or is_invalid else Trouble.OTHER

    def text(self, sql: str, *, has_values: bool) -> str:
        return sql.replace("%", "%%").replace(PLACE, "%s") if has_values else sql

    def _table_of(self, parts: list[str]) -> TableId:
        """A table is in a database, which JDBC calls a catalog. There are no schemas."""
        if len(parts) > 2:
            raise DataError(f"{'.'.join(parts)} has too many parts: write DATABASE.TABLE")
        return TableId(parts[-1], None, parts[0] if len(parts) == 2 else None)

    # Questions of a source

    def tables(self, connection: Connection, types: Sequence[str]) -> list[TableId]:
        kinds = {"TABLE": "BASE TABLE", "VIEW": "VIEW"}
        wanted = [kinds[kind.upper()] for kind in types if kind.upper() in kinds]
        found = self.rows(
            connection,
            "SELECT table_schema, table_name, table_type FROM information_schema.tables WHERE"
            f" table_schema = {PLACE} OR ({PLACE} = '' AND table_schema NOT IN ('mysql', 'sys',"
            " 'information_schema', 'performance_schema')) ORDER BY 1, 2",
            (self.session.url.database, self.session.url.database),
        )
        return [TableId(name, None, catalog) for catalog, name, kind in found if kind in wanted]

    def describe(
        self,
        connection: Connection,
        cursor: Any,
        rows: Sequence[Row],
        table: TableId | None,
        sql: str,
    ) -> list[SourceColumn]:
        # What PEP 249 says of a column leaves out its flags.
        return [self._column(described) for described in cursor._result.fields]

    def _column(self, described: Any) -> SourceColumn:
        code, flags = described.type_code, described.flags
        schema = self._schema_of(described)
        convert = None if schema is None else self._converter(code, schema)
        if schema is not None and not flags & FLAG.NOT_NULL:
            schema = schema.optional()
        is_counter = bool(flags & FLAG.AUTO_INCREMENT)
        # A FLOAT comes as text with six digits, and may have nine. FLOAT(M,D) comes as it is.
        is_cut = code == FIELD_TYPE.FLOAT and described.scale == _NOT_FIXED
        name = _NAMES.get(code, "?")
        return SourceColumn(described.name, schema, convert, name, is_counter, is_cut)

    def exact(self, name: str) -> str:
        return f"found.{self.identifier(name)} + 0e0"

    def _schema_of(self, described: Any) -> Schema | None:
        code, flags = described.type_code, described.flags
        if code in _INTEGERS:
            return _INTEGERS[code][bool(flags & FLAG.UNSIGNED)]
        if code in {FIELD_TYPE.DECIMAL, FIELD_TYPE.NEWDECIMAL}:
            # The length counts the sign and the point.
            signs = (0 if flags & FLAG.UNSIGNED else 1) + (1 if described.scale else 0)
            mapping = self.session.numeric_mapping
            return number_schema(mapping, described.length - signs, described.scale)
        if code == FIELD_TYPE.BIT:
            return schemas.INT8 if described.length == 1 else schemas.BYTES
        if code in _TEXTS:
            is_binary = described.charsetnr == _BINARY_CHARSET
            return schemas.BYTES if is_binary else schemas.STRING
        return _TYPES.get(code)

    def _converter(self, code: int, schema: Schema) -> Callable[[Any], Any] | None:
        if code in {FIELD_TYPE.DECIMAL, FIELD_TYPE.NEWDECIMAL}:
            return number_converter(schema)
        if code == FIELD_TYPE.LONGLONG:
            return _long
        if code == FIELD_TYPE.BIT and schema.type is Type.INT8:
            return lambda value: int.from_bytes(value, "big")
        return self._local if code == FIELD_TYPE.DATETIME else _CONVERTERS.get(code)

    def _local(self, value: Any) -> datetime:
        return self.to_utc(_datetime(value))

    def now(self, connection: Connection) -> datetime:
        ((found,),) = self.rows(connection, "SELECT UTC_TIMESTAMP(6)")
        return _utc(found)

    def moments(self, connection: Connection, table: TableId | None, column: str) -> Moments:
        name = self.identifier(column)
        if table is None:
            return Moments(name, 1_000_000, self.to_local, self._local)
        found = self.rows(
            connection,
            "SELECT data_type, datetime_precision FROM information_schema.columns WHERE"
            f" table_schema = coalesce({PLACE}, database()) AND table_name = {PLACE} AND"
            f" column_name = {PLACE}",
            (table.catalog, table.name, column),
        )
        if not found:
            raise DataError(f"table {table} has no column {column}")
        kind, digits = found[0]
        if kind.lower() == "date":
            return Moments(name, _DAY_US, self.to_local, self._day)
        resolution_us = 10 ** (6 - int(digits or 0))
        if kind.lower() == "timestamp":
            return Moments(name, resolution_us, _without_zone, _utc)
        return Moments(name, resolution_us, self.to_local, self._local)

    def _day(self, value: date) -> datetime:
        return self.to_utc(datetime.combine(value, time()))

    def writers(self, connection: Connection, table: TableId) -> frozenset[str]:
        """InnoDB does not say which table a transaction has written to, so all count. It makes its
        list again if nobody has read it for 0.1 seconds, so the tasks of a process take turns."""
        if not self._sees_transactions:
            return frozenset()
        try:
            with _TURN:
                time_module.sleep(_LIST_AGE_S)
                found = self.rows(
                    connection,
                    "SELECT concat(trx_mysql_thread_id, ' ', trx_started) FROM"
                    " information_schema.innodb_trx WHERE trx_lock_structs > 0 AND"
                    " trx_mysql_thread_id <> connection_id()",
                )
        except pymysql.MySQLError as error:
            if self.trouble(error) is Trouble.UNAVAILABLE:
                raise
            self._sees_transactions = False
            _log.warning(
                "open transactions are not waited for, so rows that are committed late may be"
                " missed: the user needs the privilege PROCESS (%s)", error,
            )  # fmt: skip
            return frozenset()
        return frozenset(str(name) for (name,) in found)

    def key_columns(self, connection: Connection, table: TableId) -> list[str]:
        found = self.rows(
            connection,
            "SELECT column_name FROM information_schema.key_column_usage WHERE constraint_name ="
            f" 'PRIMARY' AND table_schema = coalesce({PLACE}, database()) AND table_name ="
            f" {PLACE} ORDER BY ordinal_position",
            (table.catalog, table.name),
        )
        return [name for (name,) in found]

    # Statements of a sink

    def table_columns(self, connection: Connection, table: TableId) -> list[TableColumn] | None:
        found = self.rows(
            connection,
            "SELECT column_name, is_nullable, column_default, column_key, extra FROM"
            f" information_schema.columns WHERE table_schema = coalesce({PLACE}, database()) AND"
            f" table_name = {PLACE} ORDER BY ordinal_position",
            (table.catalog, table.name),
        )
        return [
            TableColumn(name, nullable == "YES", default is not None or bool(extra), key == "PRI")
            for name, nullable, default, key, extra in found
        ] or None

    def sql_type(self, schema: Schema, *, is_key: bool) -> str | None:
        if schema.name == schemas.DECIMAL:
            return f"DECIMAL(65,{schema.scale})"
        if is_key and schema.type in _KEY_TYPES:
            return _KEY_TYPES[schema.type]
        return _SQL_TYPES.get(schema.name or "") or _SQL_TYPES.get(schema.type)

    def bound(self, schema: Schema) -> Callable[[Any], Any] | None:
        return self.to_local if schema.name == schemas.TIMESTAMP else None

    def on_conflict(self, keys: Sequence[str], changed: Sequence[str]) -> str:
        """MySQL does not say of which unique index a row is there already. If nothing is to be
        changed, another row with another key is an error: the key of a table is never null."""
        names = [self.identifier(name) for name in changed or keys]
        changes = ",".join(f"{name}=VALUES({name})" for name in names)
        if not changed:
            is_same = " AND ".join(f"{name}=VALUES({name})" for name in names)
            changes = f"{names[0]}=IF({is_same},{names[0]},NULL)"
        return f" ON DUPLICATE KEY UPDATE {changes}"


def _datetime(value: Any) -> datetime:
    if isinstance(value, datetime):
        return value
    raise DataError(f"{value!r} is not a time that a record can hold")


def _utc(value: Any) -> datetime:
    return _datetime(value).replace(tzinfo=UTC)


def _without_zone(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(tzinfo=None)


def _date(value: Any) -> date:
    if isinstance(value, date):
        return value
    raise DataError(f"{value!r} is not a date that a record can hold")


def _time_of_day(value: timedelta) -> time:
    if not timedelta(0) <= value < timedelta(days=1):
        raise DataError(f"{value} is not a time of day")
    return (datetime.combine(date.min, time.min) + value).time()


def _long(value: int) -> int:
    if value >= 1 << 63:
        raise DataError(f"{value} is beyond an int64: select CAST(... AS CHAR) or a DECIMAL")
    return value


_CONVERTERS: Final[dict[int, Callable[[Any], Any]]] = {
    FIELD_TYPE.FLOAT: lambda value: float(numbers.float_text(value)),
    FIELD_TYPE.TIMESTAMP: _utc,
    FIELD_TYPE.YEAR: lambda value: date(int(value), 1, 1),
    FIELD_TYPE.TIME: _time_of_day,
    FIELD_TYPE.DATE: _date,
    FIELD_TYPE.NEWDATE: _date,
}
