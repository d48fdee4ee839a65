"""A connection to PostgreSQL on the layer of libpq, for queries and for replication.

Values are text in both directions, because the stream of changes has text too: a row of a snapshot
and a change of it are then made into values by the same code. The session's formats are fixed in
`_OPTIONS`. psycopg is imported when the first connection is made.
"""

import select
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from odradek.connect.connectors.postgres.failures import error_of
from odradek.connect.errors import DataError, Unavailable
from odradek.world.installing import install_line

if TYPE_CHECKING:
    from psycopg.pq.abc import PGconn, PGresult

_FORMATS: Final = {
    "datestyle": "ISO",
    "intervalstyle": "postgres",
    "extra_float_digits": "3",
    "timezone": "UTC",
    "bytea_output": "hex",
    "lc_monetary": "C",
    "idle_in_transaction_session_timeout": "0",
}
_CONNECT_TIMEOUT_S: Final = 10

Row = tuple[str | None, ...]


class Rows(NamedTuple):
    names: tuple[str, ...]
    rows: list[Row]


class Address(NamedTuple):
    """Where a database is, and how it is reached. `parameters` are those of libpq."""

    host: str
    port: int
    user: str
    password: str | None
    database: str
    parameters: tuple[tuple[str, str], ...] = ()

    def connection_string(self, **more: str) -> bytes:
        given: dict[str, Any] = {
            "host": self.host,
            "port": self.port,
            "user": self.user,
            "dbname": self.database,
            "connect_timeout": _CONNECT_TIMEOUT_S,
            "client_encoding": "UTF8",
            **dict(self.parameters),
            **more,
        }
        if self.password is not None:
            given["password"] = self.password
        return " ".join(f"{name}={_quoted(str(value))}" for name, value in given.items()).encode()


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def literal(text: str) -> str:
    """Returns a text for SQL where parameters are not possible."""
    return "'" + text.replace("'", "''") + "'"


def identifier(*parts: str) -> str:
    """Returns a name for SQL, as in "public"."orders"."""
    return ".".join('"' + part.replace('"', '""') + '"' for part in parts)


def _libpq() -> Any:
    try:
        return import_module("psycopg.pq")
    except ImportError:
        raise DataError(
            f"PostgreSQL needs psycopg, which is not installed: {install_line('postgres')}"
        ) from None


class Database:
    """One session. Raises `Unavailable` if the server does not answer, `DataError` with advice if
    it refuses."""

    def __init__(self, address: Address, *, statement_timeout_ms: int = 0, **more: str) -> None:
        self._pq = _libpq()
        formats = {**_FORMATS, "statement_timeout": str(statement_timeout_ms)}
        options = " ".join(f"-c {name}={value}" for name, value in formats.items())
        self.address = address
        self._connection: PGconn = self._pq.PGconn.connect(
            address.connection_string(options=options, **more)
        )
        if self._connection.status != self._pq.ConnStatus.OK:
            message = self._message()
            self._connection.finish()
            raise error_of(message, None, address.host, address.port)

    @property
    def version(self) -> int:
        """As in 150012 for 15.12."""
        return self._connection.server_version

    def query(self, sql: str, *parameters: str | None) -> Rows:
        given = [None if value is None else value.encode() for value in parameters]
        with self._lost_connections():
            found = self._connection.exec_params(sql.encode(), given)
        return self._rows(found)

    def run(self, sql: str) -> None:
        """Runs statements without parameters and without rows."""
        with self._lost_connections():
            found = self._connection.exec_(sql.encode())
        self._rows(found)

    def value(self, sql: str, *parameters: str | None) -> str | None:
        """Returns the only value of a query; None without a row."""
        rows = self.query(sql, *parameters).rows
        return rows[0][0] if rows else None

    def _rows(self, result: "PGresult") -> Rows:
        if result.status not in (self._pq.ExecStatus.TUPLES_OK, self._pq.ExecStatus.COMMAND_OK):
            raise self._error(result)
        names = tuple((result.fname(index) or b"").decode() for index in range(result.nfields))
        width = range(result.nfields)
        get = result.get_value
        rows = []
        for number in range(result.ntuples):
            values = [get(number, index) for index in width]
            rows.append(tuple(None if value is None else value.decode() for value in values))
        return Rows(names, rows)

    def _error(self, result: "PGresult") -> Exception:
        state = result.error_field(self._pq.DiagnosticField.SQLSTATE)
        message = result.error_field(self._pq.DiagnosticField.MESSAGE_PRIMARY)
        text = self._message() if message is None else message.decode("utf-8", "replace")
        if self._connection.status != self._pq.ConnStatus.OK:
            return Unavailable(f"the connection to PostgreSQL was lost: {text}")
        host, port = self.address.host, self.address.port
        return error_of(text, None if state is None else state.decode(), host, port)

    def _message(self) -> str:
        return self._connection.error_message.decode("utf-8", "replace").strip()

    def cancel(self) -> None:
        """Ends the query that another thread is waiting for."""
        if self._connection.status == self._pq.ConnStatus.OK:
            self._connection.get_cancel().cancel()

    def close(self) -> None:
        self._connection.finish()

    # Replication

    def begin_copy(self, command: str) -> None:
        result = self._connection.exec_(command.encode())
        if result.status != self._pq.ExecStatus.COPY_BOTH:
            raise self._error(result)

    def receive(self) -> bytes | None:
        """Returns the next message of a copy that has arrived; None if there is none. Raises
        `Unavailable` when the server ends the copy."""
        with self._lost_connections():
            length, data = self._connection.get_copy_data(1)
            if length == 0:
                self._connection.consume_input()
                length, data = self._connection.get_copy_data(1)
            if length > 0:
                return bytes(data)
            if length == 0:
                return None
            result = self._connection.get_result()
        if result is not None and result.status == self._pq.ExecStatus.FATAL_ERROR:
            raise self._error(result)
        raise Unavailable("PostgreSQL has ended the stream of changes")

    @contextmanager
    def _lost_connections(self) -> Iterator[None]:
        try:
            yield
        except import_module("psycopg").OperationalError as error:
            raise Unavailable(f"the connection to PostgreSQL was lost: {error}") from error

    def wait(self, timeout_s: float) -> None:
        """Returns when something may have arrived."""
        select.select([self._connection.socket], [], [], timeout_s)

    def send(self, data: bytes) -> None:
        with self._lost_connections():
            self._connection.put_copy_data(data)
            self._connection.flush()
