"""A connection that is made when it is needed, and made again when it was lost."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from odradek.connect.connectors.jdbc.dialect import Connection, Dialect, Trouble
from odradek.connect.errors import DataError, Unavailable


class Database:
    """The connection of one task. Errors of the driver become those of `odradek.connect`."""

    def __init__(self, dialect: Dialect, *, is_sink: bool) -> None:
        self.dialect = dialect
        self._is_sink = is_sink
        self._connection: Connection | None = None

    @contextmanager
    def use(self) -> Iterator[Connection]:
        """Raises `Unavailable` or `DataError` for errors of the driver in its block. After an
        error the connection is closed, and with it the transaction."""
        try:
            if self._connection is None:
                self._connection = self.dialect.connect(is_sink=self._is_sink)
            yield self._connection
        except self.dialect.error as error:
            self.close()
            where = self.dialect.session.url.shown
            message = f"{where}: {error_text(error)}"
            if self.dialect.trouble(error) is Trouble.UNAVAILABLE:
                raise Unavailable(message) from error
            raise DataError(message) from error
        except BaseException:
            # A transaction that was begun must not go on with the next call.
            if self._is_sink:
                self.close()
            raise

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(self.dialect.error):
                connection.close()


def error_text(error: Exception) -> str:
    """Returns what the database says, in one line."""
    text = str(error.args[1]) if len(error.args) > 1 else str(error)
    return " ".join(text.split()) or type(error).__name__
