"""Requests to the instances of a schema registry, from any number of threads.

Connections are kept open and used again. An instance that cannot be reached, or answers that it is
not able to (429, 502, 503, 504), is followed by the next one; when all have failed, the request is
sent again after a pause that doubles with each round. A request may therefore arrive twice. That
changes nothing: registering is idempotent, and so are the others but deletions, which are repeated
only if no connection could be made.
"""

import base64
import http.client
import json
import ssl
import threading
import weakref
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlencode

from odradek.schemas.errors import NotRegistered, RegistryFailed, RegistryUnreachable
from odradek.schemas.registry_settings import Address, RegistrySettings
from odradek.world.process_id import process_id
from odradek.world.randomness import Randomness

_TYPE: Final = "application/vnd.schemaregistry.v1+json"
_NOT_NOW: Final = frozenset({429, 502, 503, 504})
_NOT_FOUND: Final = 404
_MAX_IDLE: Final = 8
_MAX_ANSWER_BYTES: Final = 64 * 1024 * 1024

# What a connection raises on the way; ssl.SSLError is an OSError.
_BROKEN: Final = (OSError, http.client.HTTPException)


class RegistryHttp:
    """Sends requests and returns decoded JSON. Raises `RegistryFailed` with the words of the
    registry, or `RegistryUnreachable` with the last reason."""

    def __init__(self, settings: RegistrySettings) -> None:
        self._settings = settings
        self._idle: dict[Address, list[http.client.HTTPConnection]] = {
            address: [] for address in settings.addresses
        }
        self._lock = threading.Lock()
        self._first = 0  # The index of the address that answered last.
        self._context: ssl.SSLContext | None = None
        self._randomness = Randomness()
        self._closed = threading.Event()
        self._process_id = process_id()
        # Programs rarely close a client.
        weakref.finalize(self, _close_all, self._idle)

    @property
    def url(self) -> str:
        return ",".join(address.url for address in self._settings.addresses)

    def close(self) -> None:
        """Closes idle connections and ends pauses; a request under way may still be answered."""
        self._closed.set()
        with self._lock:
            _close_all(self._idle)

    def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        query: Mapping[str, str] | list[tuple[str, str]] | None = None,
    ) -> Any:
        target = f"{path}?{urlencode(query)}" if query else path
        data = None if body is None else json.dumps(body).encode()
        settings = self._settings
        failure: RegistryUnreachable | None = None
        for attempt in range(settings.retries + 1):
            if attempt and self._closed.wait(self._pause_s(attempt)):
                break
            for index in self._order():
                try:
                    answer = self._ask_one(settings.addresses[index], method, target, data)
                except RegistryUnreachable as error:
                    failure = error
                    if method == "DELETE" and not error.was_not_sent:
                        raise
                else:
                    self._first = index
                    return answer
        if failure is None:
            raise RegistryUnreachable("the client of the schema registry is closed")
        raise failure

    def _order(self) -> list[int]:
        count = len(self._settings.addresses)
        return [(self._first + index) % count for index in range(count)]

    def _pause_s(self, attempt: int) -> float:
        doubled_s = self._settings.first_backoff_s * 2.0 ** (attempt - 1)
        return min(doubled_s, self._settings.max_backoff_s) * (0.5 + self._randomness.fraction())

    # One instance

    def _ask_one(self, address: Address, method: str, target: str, data: bytes | None) -> Any:
        status, content = self._send(address, method, target, data)
        where = f"{address.url}{target}"
        if status < 300:
            if not content:
                return None
            try:
                return json.loads(content)
            except (ValueError, RecursionError):
                raise RegistryFailed(f"{where} did not answer as a registry does", status) from None
        if status in _NOT_NOW:
            raise RegistryUnreachable(f"{where}: {_message(status, content)[0]}", status)
        message, code = _message(status, content)
        kind = NotRegistered if status == _NOT_FOUND else RegistryFailed
        raise kind(f"{where}: {message}", status, code)

    def _send(
        self, address: Address, method: str, target: str, data: bytes | None
    ) -> tuple[int, bytes]:
        """Sends a request on an idle connection, if there is one, or on a new one. A registry may
        have closed an idle one in the meantime, so a failure there is no failure yet."""
        while (idle := self._take_idle(address)) is not None:
            try:
                return self._exchange(idle, address, method, target, data)
            except TimeoutError as error:
                raise self._unreachable(address, error) from None
            except _BROKEN:
                if method == "DELETE":
                    # Whether it was done is unknown.
                    raise self._unreachable(
                        address, ConnectionError("the connection was closed")
                    ) from None
        connection = self._connection(address)
        try:
            connection.connect()
        except _BROKEN as error:
            connection.close()
            raise self._unreachable(address, error, was_not_sent=True) from None
        try:
            return self._exchange(connection, address, method, target, data)
        except _BROKEN as error:
            raise self._unreachable(address, error) from None

    def _connection(self, address: Address) -> http.client.HTTPConnection:
        timeout_s = self._settings.timeout_s
        if not address.is_tls:
            return http.client.HTTPConnection(address.host, address.port, timeout=timeout_s)
        with self._lock:
            if self._context is None:
                self._context = self._settings.tls_context()
        return http.client.HTTPSConnection(
            address.host, address.port, timeout=timeout_s, context=self._context
        )

    def _exchange(
        self,
        connection: http.client.HTTPConnection,
        address: Address,
        method: str,
        target: str,
        data: bytes | None,
    ) -> tuple[int, bytes]:
        is_kept = False
        try:
            connection.request(method, address.path + target, data, self._headers(address))
            response = connection.getresponse()
            content = response.read(_MAX_ANSWER_BYTES + 1)
            if len(content) > _MAX_ANSWER_BYTES:
                raise http.client.HTTPException("its answer is too large")
            is_kept = not response.will_close and response.isclosed()
            return response.status, content
        finally:
            if is_kept:
                self._put_back(address, connection)
            else:
                connection.close()

    def _headers(self, address: Address) -> dict[str, str]:
        headers = {"Accept": f"{_TYPE}, application/json", "Content-Type": _TYPE}
        settings = self._settings
        credentials = settings.user_and_password or address.credentials
        if settings.authorization:
            headers["Authorization"] = settings.authorization
        elif settings.token is not None:
            headers["Authorization"] = f"Bearer {settings.token()}"
        elif credentials is not None:
            text = f"{credentials[0]}:{credentials[1]}".encode()
            headers["Authorization"] = f"Basic {base64.b64encode(text).decode()}"
        return headers

    def _take_idle(self, address: Address) -> http.client.HTTPConnection | None:
        with self._lock:
            if process_id() != self._process_id:
                # This process was forked: the connections are its parent's.
                self._process_id = process_id()
                _close_all(self._idle)
            idle = self._idle[address]
            return idle.pop() if idle else None

    def _put_back(self, address: Address, connection: http.client.HTTPConnection) -> None:
        with self._lock:
            idle = self._idle[address]
            if len(idle) < _MAX_IDLE and not self._closed.is_set():
                idle.append(connection)
                return
        connection.close()

    def _unreachable(
        self, address: Address, error: BaseException, *, was_not_sent: bool = False
    ) -> RegistryUnreachable:
        if isinstance(error, TimeoutError):
            reason = f"no answer within {self._settings.timeout_s:g} s"
        elif isinstance(error, ssl.SSLCertVerificationError):
            reason = (
                f"its certificate is not trusted: {error.verify_message} (set"
                " schema.registry.ssl.truststore.location)"
            )
        else:
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        fault = RegistryUnreachable(f"the registry at {address.url} cannot be asked: {reason}")
        fault.was_not_sent = was_not_sent
        return fault


def _close_all(idle: Mapping[Address, list[http.client.HTTPConnection]]) -> None:
    for connections in idle.values():
        while connections:
            connections.pop().close()


def _message(status: int, content: bytes) -> tuple[str, int]:
    """Returns the words of an answer that is an error, and its code."""
    hint = ""
    if status == 401:
        hint = " (set basic.auth.user.info=user:password, or bearer.auth.token)"
    try:
        answer = json.loads(content)
        return f"{answer['message']}{hint}", int(answer.get("error_code", status))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return f"HTTP {status}{hint}", status
