"""A connection to a MySQL or MariaDB server, and the questions that the connectors ask it."""

import logging
import ssl
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from odradek.connect.connectors.mysql.settings import MySqlSettings
from odradek.connect.errors import ConnectError, DataError, InvalidConfig, Unavailable
from odradek.world.installing import install_line

try:
    import pymysql
    from pymysql import converters, cursors
except ModuleNotFoundError as missing:  # pragma: no cover - the extra is installed in tests
    raise InvalidConfig(
        f"connectors for MySQL and MariaDB need the package pymysql: {install_line('mysql')}"
    ) from missing

_log = logging.getLogger("odradek.connect")

# Error codes for missing rights. A retry does not help, so the task fails.
_REFUSALS: Final = {
    1044: "the user has no rights to this database",
    1045: "the password is wrong, or the user does not exist",
    1142: "the user may not do this",
    1143: "the user may not do this",
    1227: "the user lacks a privilege",
    1698: "the server does not let this user log in with a password",
}
GRANTS: Final = "GRANT SELECT, LOCK TABLES, SHOW DATABASES, REPLICATION SLAVE, REPLICATION CLIENT"
_ENCODERS: Final[dict[Any, Any]] = dict(converters.encoders)
"""The encoders of PyMySQL without its decoders, so that it returns values as text."""
_CHARSETS: Final = {
    "utf8mb4": "utf-8", "utf8mb3": "utf-8", "utf8": "utf-8", "latin1": "cp1252",
    "ascii": "ascii", "binary": "latin-1", "ucs2": "utf-16-be", "utf16": "utf-16-be",
    "utf16le": "utf-16-le", "utf32": "utf-32-be", "latin2": "iso8859-2", "latin5": "iso8859-9",
    "latin7": "iso8859-13", "greek": "iso8859-7", "hebrew": "iso8859-8", "cp1250": "cp1250",
    "cp1251": "cp1251", "cp1256": "cp1256", "cp1257": "cp1257", "cp850": "cp850",
    "cp852": "cp852", "cp866": "cp866", "koi8r": "koi8-r", "koi8u": "koi8-u",
    "macroman": "mac-roman", "macce": "mac-latin2", "big5": "big5", "gbk": "gbk",
    "gb2312": "gb2312", "gb18030": "gb18030", "sjis": "shift_jis", "cp932": "cp932",
    "ujis": "euc_jp", "eucjpms": "euc_jp", "euckr": "euc_kr", "tis620": "tis-620",
}  # fmt: skip
"""Python's codecs for the servers' character sets. Their `latin1` is Windows' code page 1252."""

_NEEDED: Final = {
    "log_bin": ("ON", "start the server with log-bin (log_bin=binlog in its configuration file)"),
    "binlog_format": ("ROW", "run SET GLOBAL binlog_format='ROW'"),
    "binlog_row_image": ("FULL", "run SET GLOBAL binlog_row_image='FULL'"),
    "binlog_row_metadata": ("FULL", "run SET GLOBAL binlog_row_metadata='FULL'"),
}


class LogPlace(NamedTuple):
    """A position in the binary log: a file, and a byte in it."""

    file: str
    position: int


class LogEnd(NamedTuple):
    """The end of the binary log. `gtids` are the GTIDs of the transactions before it, if MySQL's
    gtid_mode is on."""

    place: LogPlace
    gtids: str | None = None


class Server:
    """One connection for statements. It is opened by the first statement, and again by the next one
    after it was lost."""

    def __init__(self, settings: MySqlSettings) -> None:
        self._settings = settings
        self._connection: Any = None
        self._variables: dict[str, str] | None = None

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            end(connection)

    # Statements

    def rows(self, sql: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Returns all rows of a statement. Their values are text or bytes."""
        with self._cursor(cursors.Cursor) as cursor:
            cursor.execute(sql, values or None)
            return list(cursor.fetchall())

    def stream(self, sql: str) -> Iterator[tuple[Any, ...]]:
        """Returns the rows of a statement one by one, as the server sends them."""
        with self._cursor(cursors.SSCursor) as cursor:
            cursor.execute(sql)
            yield from cursor.fetchall_unbuffered()

    def execute(self, *statements: str) -> None:
        with self._cursor(cursors.Cursor) as cursor:
            for sql in statements:
                cursor.execute(sql)

    @contextmanager
    def _cursor(self, kind: type[Any]) -> Iterator[Any]:
        connection = self._connected()
        try:
            with connection.cursor(kind) as cursor:
                yield cursor
        except pymysql.MySQLError as error:
            raise self._translated(error) from error

    def _connected(self) -> Any:
        if self._connection is None:
            self._connection = connect(self._settings)
        return self._connection

    def _translated(self, error: Exception) -> ConnectError:
        """Returns our error for one of PyMySQL's. Closes a connection that was lost, so that the
        next statement opens another one."""
        found = translated(error, self._settings)
        if isinstance(found, Unavailable):
            self.close()
        return found

    # Properties of the server

    @property
    def variables(self) -> Mapping[str, str]:
        if self._variables is None:
            found = self.rows("SHOW GLOBAL VARIABLES")
            self._variables = {str(name).lower(): str(value) for name, value in found}
        return self._variables

    @property
    def is_mariadb(self) -> bool:
        return "mariadb" in self.variables["version"].lower()

    @property
    def has_gtids(self) -> bool:
        """Whether transactions have GTIDs. In MariaDB they always do."""
        return self.is_mariadb or self.variables.get("gtid_mode", "OFF") == "ON"

    def wrong_variables(self) -> list[str]:
        """Returns a message for each variable with a wrong value, which says how to set it."""
        found = []
        for name, (wanted, advice) in _NEEDED.items():
            value = self.variables.get(name)
            if value is None:
                found.append(
                    f"the server has no {name}: at least MySQL 8.0 or MariaDB 10.5 is needed"
                )
            elif value.upper() not in {wanted, "1" if wanted == "ON" else wanted}:
                found.append(
                    f"{name} is {value}, but must be {wanted}: {advice}, and set it in the"
                    " server's configuration file too"
                )
        return found

    def charsets(self) -> dict[int, str]:
        """Returns a map from the numbers of collations to Python's codecs."""
        found: dict[int, str] = {}
        for collation, name in self._collations():
            codec = _CHARSETS.get(name)
            if collation is not None and codec is not None:
                found[int(collation)] = codec
        return found

    def _collations(self) -> list[tuple[Any, ...]]:
        if self.is_mariadb and "ID" in self._columns_of("COLLATION_CHARACTER_SET_APPLICABILITY"):
            return self.rows(
                "SELECT ID, CHARACTER_SET_NAME"
                " FROM information_schema.COLLATION_CHARACTER_SET_APPLICABILITY"
            )
        return self.rows("SELECT ID, CHARACTER_SET_NAME FROM information_schema.COLLATIONS")

    def _columns_of(self, table: str) -> set[str]:
        found = self.rows(
            "SELECT COLUMN_NAME FROM information_schema.COLUMNS"
            " WHERE TABLE_SCHEMA = 'information_schema' AND TABLE_NAME = %s",
            (table,),
        )
        return {str(row[0]).upper() for row in found}

    # The binary log

    def log_end(self) -> LogEnd:
        """Returns the position at which the next transaction will be written."""
        found = self.rows(self._log_status)
        if not found:
            raise DataError("the server has no binary log: start it with log_bin=binlog")
        place = LogPlace(str(found[0][0]), int(found[0][1]))
        if self.is_mariadb or not self.has_gtids:
            return LogEnd(place)
        return LogEnd(place, str(found[0][4]).replace("\n", ""))

    @property
    def _log_status(self) -> str:
        version = self.variables["version"].split(".")
        is_new = not self.is_mariadb and (int(version[0]), int(version[1])) >= (8, 2)
        return "SHOW BINARY LOG STATUS" if is_new else "SHOW MASTER STATUS"

    def gtids_before(self, place: LogPlace) -> str:
        """Returns the GTIDs of the transactions before a position. Only MariaDB knows this."""
        found = self.rows("SELECT BINLOG_GTID_POS(%s, %s)", (place.file, place.position))
        return str(found[0][0] or "")


def connect(settings: MySqlSettings) -> Any:
    """Opens a connection that returns values as text, because the connectors convert them by their
    own rules. Raises `Unavailable`, `DataError` or `InvalidConfig`."""
    try:
        connection = pymysql.connect(
            host=settings.database_hostname,
            port=settings.database_port,
            user=settings.database_user,
            password=settings.database_password or "",
            charset="utf8mb4",
            autocommit=True,
            connect_timeout=max(settings.connect_timeout_ms // 1000, 1),
            conv=_ENCODERS,
            **_encryption(settings),
        )
        with connection.cursor() as cursor:
            cursor.execute("SET SESSION time_zone='+00:00', sql_mode='', net_write_timeout=600")
            for statement in _statements(settings.database_initial_statements):
                cursor.execute(statement)
    except pymysql.MySQLError as error:
        raise translated(error, settings) from error
    except OSError as error:
        raise Unavailable(f"{_address(settings)} does not answer: {error}") from error
    return connection


def translated(error: Exception, settings: MySqlSettings) -> ConnectError:
    """Returns our error for one of PyMySQL's: `Unavailable` if a retry may help, or `DataError`."""
    number = error.args[0] if error.args and isinstance(error.args[0], int) else 0
    said = str(error.args[-1]) if error.args else type(error).__name__
    where = _address(settings)
    if number in _REFUSALS:
        return DataError(
            f"{where} refuses {settings.database_user}: {_REFUSALS[number]} ({said}). The connector"
            f" needs {GRANTS} ON *.* TO {settings.database_user}"
        )
    is_lost = isinstance(error, pymysql.OperationalError | pymysql.InterfaceError)
    if is_lost and number not in {1049, 1054, 1064}:
        return Unavailable(f"{where}: {said}")
    return DataError(f"{where}: {said}")


def _encryption(settings: MySqlSettings) -> dict[str, Any]:
    """Returns PyMySQL's arguments for encryption. Without any, it encrypts if the server can."""
    mode = settings.database_ssl_mode.replace("-", "_")
    if mode in {"disabled", "disable"}:
        return {"ssl_disabled": True}
    if mode == "preferred":
        return {}
    try:
        context = ssl.create_default_context(cafile=settings.database_ssl_truststore or None)
        if settings.database_ssl_keystore:
            context.load_cert_chain(settings.database_ssl_keystore)
    except (OSError, ssl.SSLError) as error:
        raise InvalidConfig(
            f"the certificates in database.ssl.truststore and database.ssl.keystore cannot be read:"
            f" {error}"
        ) from error
    context.check_hostname = mode in {"verify_identity", "verify_full"}
    if mode not in {"verify_ca", "verify_identity", "verify_full"}:
        context.verify_mode = ssl.CERT_NONE
    return {"ssl": context}


def _statements(text: str) -> list[str]:
    parts = text.replace(";;", "\0").split(";")
    return [part.strip().replace("\0", ";") for part in parts if part.strip()]


def _address(settings: MySqlSettings) -> str:
    return f"{settings.database_hostname}:{settings.database_port}"


def end(connection: Any) -> None:
    """Closes a connection without telling the server, which may not answer any more."""
    try:
        connection._force_close()
    except (OSError, pymysql.MySQLError):
        _log.debug("a connection could not be closed", exc_info=True)
