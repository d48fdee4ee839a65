"""Requests of connectors to HTTP servers: blocking, on a connection that is kept open.

A client belongs to one task, whose calls come one at a time. An error on the way is `Unavailable`;
any answer is returned, whatever its status, for only the connector knows what a status means.
"""

import base64
import http.client
import ssl
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import unquote, urlsplit

from odradek.config.setting import InvalidSetting
from odradek.connect.errors import InvalidConfig, Unavailable
from odradek.connect.settings import PluginSettings

_MAX_ANSWER_BYTES: Final = 64 << 20
_BROKEN: Final = (OSError, http.client.HTTPException)


class Address(NamedTuple):
    """A URL in its parts. `target` is path and query; `credentials` is user and password."""

    is_tls: bool
    host: str
    port: int
    target: str
    credentials: str | None

    @property
    def origin(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.is_tls else 'http'}://{host}:{self.port}"


class Answer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        """The beginning of the body, for messages."""
        return " ".join(self.body[:400].decode("utf-8", "replace").split())


def parse_url(url: str) -> Address:
    """Raises `InvalidConfig`, without the password that the URL may have."""
    try:
        parts = urlsplit(url.strip())
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        shown = url.rpartition("@")[2]
        raise InvalidConfig(f"{shown!r} is not a URL, such as http://localhost:9200")
    is_tls = parts.scheme == "https"
    credentials = None
    if parts.username is not None:
        credentials = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    target = parts.path + (f"?{parts.query}" if parts.query else "")
    return Address(is_tls, parts.hostname, port or (443 if is_tls else 80), target, credentials)


def basic(credentials: str) -> str:
    """Returns the header for `user:password`."""
    return f"Basic {base64.b64encode(credentials.encode()).decode()}"


def tls_context(settings: PluginSettings, prefix: str, *, trusts_all: bool) -> ssl.SSLContext:
    """Returns the context for the settings that are named `prefix` + Kafka's `ssl.*`. Raises
    `InvalidConfig`."""
    from odradek.security.tls.contexts import client_context  # noqa: PLC0415 - only with TLS
    from odradek.security.tls.settings import TlsSettings  # noqa: PLC0415
    from odradek.world.disk import OsDisk  # noqa: PLC0415

    given: dict[str, str] = {}
    for setting in settings.declared.values():
        value: Any = getattr(settings, setting.attribute)
        if setting.name.startswith(f"{prefix}ssl.") and value not in (None, "", ()):
            name = setting.name.removeprefix(prefix)
            given[name] = ",".join(value) if isinstance(value, tuple) else str(value)
    try:
        context = client_context(TlsSettings.from_properties(given), OsDisk().read)
    except InvalidSetting as error:
        raise InvalidConfig(f"{prefix}{error}") from None
    if trusts_all:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


class HttpClient:
    """Asks the first of the addresses that can be reached, and stays with it."""

    def __init__(
        self,
        addresses: Sequence[Address],
        *,
        timeout_s: float,
        connect_timeout_s: float | None = None,
        context: ssl.SSLContext | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self._addresses = list(addresses)
        self._timeout_s = timeout_s
        self._connect_timeout_s = connect_timeout_s or timeout_s
        self._context = context
        self.headers = dict(headers or {})
        self._open: http.client.HTTPConnection | None = None

    @property
    def address(self) -> Address:
        """The address that is asked first."""
        return self._addresses[0]

    def close(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None

    def send(
        self,
        method: str,
        target: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Sends a request. A connection that was kept may have been closed by the other side in the
        meantime, so that a request may be sent twice: it must be one that can be."""
        if self._open is not None:
            try:
                return self._exchange(self._open, method, target, body, headers)
            except TimeoutError as error:
                self.close()
                raise self._unavailable(self.address, error) from None
            except _BROKEN:
                self.close()
        reason: Unavailable | None = None
        for _ in self._addresses:
            connection = self._connection(self.address)
            try:
                connection.connect()
                if connection.sock is not None:
                    connection.sock.settimeout(self._timeout_s)
                self._open = connection
                return self._exchange(connection, method, target, body, headers)
            except _BROKEN as error:
                self._open = None
                connection.close()
                reason = self._unavailable(self.address, error)
                self._addresses.append(self._addresses.pop(0))
        assert reason is not None
        raise reason

    def _connection(self, address: Address) -> http.client.HTTPConnection:
        timeout_s = self._connect_timeout_s
        if not address.is_tls:
            return http.client.HTTPConnection(address.host, address.port, timeout=timeout_s)
        context = self._context or ssl.create_default_context()
        return http.client.HTTPSConnection(
            address.host, address.port, timeout=timeout_s, context=context
        )

    def _exchange(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        target: str,
        body: bytes | None,
        headers: Mapping[str, str] | None,
    ) -> Answer:
        given = {**self.headers, **(headers or {})}
        if "Authorization" not in given and self.address.credentials is not None:
            given["Authorization"] = basic(self.address.credentials)
        connection.request(method, target or "/", body, given)
        response = connection.getresponse()
        content = response.read(_MAX_ANSWER_BYTES + 1)
        if len(content) > _MAX_ANSWER_BYTES:
            raise http.client.HTTPException(f"the answer has more than {_MAX_ANSWER_BYTES} bytes")
        if response.will_close:
            self.close()
        return Answer(response.status, dict(response.getheaders()), content)

    def _unavailable(self, address: Address, error: BaseException) -> Unavailable:
        if isinstance(error, TimeoutError):
            reason = f"no answer within {self._timeout_s:g} s"
        elif isinstance(error, ssl.SSLCertVerificationError):
            reason = f"its certificate is not trusted: {error.verify_message}"
        else:
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        return Unavailable(f"{address.origin} cannot be asked: {reason}")
