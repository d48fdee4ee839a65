"""Where a database is: `connection.url` in the form of JDBC.

    jdbc:sqlite:/path/to/file.db
    jdbc:postgresql://host:5432/database?user=me&sslmode=require
    jdbc:mysql://host:3306/database?useSSL=true
    jdbc:mariadb://host/database

No driver of Java is behind it. Options that change how a connection is made are translated to those
of the driver for Python, those that only tune a driver of Java are skipped with a line in the
log, and any other one is an error.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qsl, unquote

from odradek.config.spelling import did_you_mean
from odradek.connect.errors import InvalidConfig

SQLITE: Final = "sqlite"
POSTGRES: Final = "postgresql"
MYSQL: Final = "mysql"
MARIADB: Final = "mariadb"
_PORTS: Final = {POSTGRES: 5432, MYSQL: 3306, MARIADB: 3306}
_KINDS: Final = (SQLITE, *_PORTS)
_SERVER: Final = re.compile(
    r"//(?:(?P<user>[^:@/]+)(?::(?P<password>[^@/]*))?@)?"
    r"(?P<host>\[[^\]]+\]|[^:/?,]+)?(?::(?P<port>\d+))?(?:/(?P<database>[^?]*))?(?:\?(?P<query>.*))?"
)


@dataclass(frozen=True, slots=True)
class DatabaseUrl:
    kind: str
    database: str
    host: str = ""
    port: int = 0
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def shown(self) -> str:
        """The URL without what may be secret."""
        place = f"//{self.host}:{self.port}/" if self.host else ""
        return f"jdbc:{self.kind}:{place}{self.database}"


def parse_url(text: str) -> DatabaseUrl:
    """Raises `InvalidConfig`."""
    scheme, _, rest = text.partition(":")
    kind, _, place = rest.partition(":")
    if scheme != "jdbc" or not place:
        raise InvalidConfig(
            "a URL of a database begins with jdbc:sqlite:, jdbc:postgresql:, jdbc:mysql: or"
            " jdbc:mariadb:, as in jdbc:postgresql://host:5432/database"
        )
    if kind not in _KINDS:
        raise InvalidConfig(
            f"there is no connector for databases of the kind {kind}: known are"
            f" {', '.join(_KINDS)}{did_you_mean(kind, _KINDS)}"
        )
    if kind == SQLITE:
        path, _, query = place.partition("?")
        return DatabaseUrl(kind, path.removeprefix("file:"), options=dict(parse_qsl(query)))
    return _server(kind, place)


def _server(kind: str, place: str) -> DatabaseUrl:
    match = _SERVER.fullmatch(place)
    if match is None:
        raise InvalidConfig(
            f"the URL has no form like jdbc:{kind}://host:{_PORTS[kind]}/database"
            " (one host; several are not supported)"
        )
    options = dict(parse_qsl(match["query"] or "", keep_blank_values=True))
    user = options.pop("user", None) or _plain(match["user"])
    password = options.pop("password", None) or _plain(match["password"])
    database = unquote(match["database"] or "")
    if not database and kind == POSTGRES:
        raise InvalidConfig("the URL does not name the database: add /NAME after the host")
    return DatabaseUrl(
        kind,
        database,
        (match["host"] or "localhost").strip("[]"),
        int(match["port"] or _PORTS[kind]),
        user,
        password,
        options,
    )


def _plain(text: str | None) -> str | None:
    return None if text is None else unquote(text)
