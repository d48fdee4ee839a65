"""One connection to a directory: it binds and searches, one request at a time.

The messages are made and read by sansldap, which does no I/O; asyncio and OpenSSL do that. So no
thread waits for a slow directory.
"""

import asyncio
import ssl
from collections.abc import Sequence
from typing import Final, NamedTuple, TypeVar
from urllib.parse import urlsplit

from sansldap import (
    BindResponse,
    ExtendedOperations,
    ExtendedResponse,
    LDAPClient,
    LDAPError,
    LDAPFilter,
    LDAPMessage,
    LDAPResult,
    LDAPResultCode,
    SearchResultDone,
    SearchResultEntry,
    SearchScope,
)

from odradek.world.timeslice import Timeslice

T = TypeVar("T", bound=LDAPMessage)

_CHUNK_BYTES: Final = 65_536
_MAX_ANSWER_BYTES: Final = 8 << 20
# What sansldap raises for bytes that are no answer; not all of it is an `LDAPError`.
_MALFORMED: Final = (
    LDAPError,
    ValueError,
    LookupError,
    TypeError,
    OverflowError,
    NotImplementedError,
    RecursionError,
)
_DEFAULT_PORTS: Final = {"ldap": 389, "ldaps": 636}


class DirectoryFailed(Exception):
    """The directory does not answer as it should: nobody can say whether a password is right. The
    text is for the log and has no secret."""


class Server(NamedTuple):
    """Where a directory is. With `starts_tls` TLS begins on a connection that is open."""

    url: str
    host: str
    port: int
    is_tls: bool
    starts_tls: bool

    @classmethod
    def parse(cls, url: str, *, starts_tls: bool) -> "Server":
        """Raises `ValueError`, with what is wrong."""
        parts = urlsplit(url)
        if parts.scheme not in _DEFAULT_PORTS or not parts.hostname:
            raise ValueError("must begin with ldaps:// or ldap:// and name a host")
        if parts.path.strip("/") or parts.query or parts.username:
            raise ValueError("write only the host and the port; other settings say the rest")
        is_tls = parts.scheme == "ldaps"
        port = parts.port or _DEFAULT_PORTS[parts.scheme]
        return cls(url, parts.hostname, port, is_tls, starts_tls and not is_tls)


class Entry(NamedTuple):
    dn: str
    # By the name of the attribute in lower case.
    attributes: dict[str, tuple[str, ...]]

    def values(self, attribute: str | None) -> tuple[str, ...]:
        return self.attributes.get((attribute or "").lower(), ())


class DirectoryConnection:
    """Every method raises `DirectoryFailed`. The caller limits the time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._client = LDAPClient()
        self._received_bytes = 0
        self._before_tls: asyncio.StreamWriter | None = None

    @classmethod
    async def open(cls, server: Server, tls: ssl.SSLContext | None) -> "DirectoryConnection":
        try:
            reader, writer = await asyncio.open_connection(
                server.host, server.port, ssl=tls if server.is_tls else None
            )
        except (OSError, ssl.SSLError) as error:
            raise DirectoryFailed(f"{server.url}: {_reason(error)}") from error
        connection = cls(reader, writer)
        if server.starts_tls:
            assert tls is not None
            try:
                await connection._start_tls(tls, server.host)
            except (OSError, ssl.SSLError) as error:
                connection.close()
                raise DirectoryFailed(f"{server.url}: {_reason(error)}") from error
            except BaseException:
                connection.close()
                raise
        return connection

    def close(self) -> None:
        """Ends the connection without waiting for the other side."""
        self._writer.transport.abort()

    async def _start_tls(self, tls: ssl.SSLContext, host: str) -> None:
        self._client.extended_request(ExtendedOperations.LDAP_START_TLS.value)
        answer, _ = await self._answer(ExtendedResponse)
        _require(answer.result, "StartTLS")
        # A new reader and a new session: what came before TLS may have been sent by anybody.
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=_CHUNK_BYTES)
        protocol = asyncio.StreamReaderProtocol(reader)
        transport = await loop.start_tls(
            self._writer.transport, protocol, tls, server_hostname=host
        )
        if transport is None:
            raise DirectoryFailed("the directory has closed the connection")
        protocol.connection_made(transport)
        self._reader, self._client = reader, LDAPClient()
        # A writer that is dropped closes its transport, on which TLS runs now.
        self._before_tls = self._writer
        self._writer = asyncio.StreamWriter(transport, protocol, reader, loop)

    async def bind(self, dn: str, password: str) -> LDAPResult:
        """Returns what the directory says to a name and a password. Both are not empty: an empty
        one would be a log-in as nobody, which succeeds."""
        assert dn
        assert password
        self._client.bind_simple(dn, password)
        answer, _ = await self._answer(BindResponse)
        return answer.result

    async def search(
        self,
        base: str,
        wanted: LDAPFilter,
        attributes: Sequence[str],
        *,
        scope: SearchScope = SearchScope.SUBTREE,
        size_limit: int = 0,
    ) -> list[Entry]:
        """Returns the entries that are found; none if `base` does not exist."""
        self._client.search_request(
            base,
            scope=scope,
            filter=wanted,
            # 1.1 asks for no attributes; an empty list would ask for all.
            attributes=[*attributes] or ["1.1"],
            size_limit=size_limit,
        )
        done, messages = await self._answer(SearchResultDone)
        code = done.result.result_code
        if code not in (LDAPResultCode.NO_SUCH_OBJECT, LDAPResultCode.SIZE_LIMIT_EXCEEDED):
            _require(done.result, f"a search below {base}")
        return [_entry(found) for found in messages if isinstance(found, SearchResultEntry)]

    async def _answer(self, kind: type[T]) -> tuple[T, list[LDAPMessage]]:
        """Sends what is to be sent; returns the first message of a kind and those before it."""
        others: list[LDAPMessage] = []
        timeslice = Timeslice.of_running_loop()
        try:
            self._writer.write(self._client.data_to_send())
            while True:
                data = await self._reader.read(_CHUNK_BYTES)
                if not data:
                    raise DirectoryFailed("the directory has closed the connection")
                self._received_bytes += len(data)
                if self._received_bytes > _MAX_ANSWER_BYTES:
                    raise DirectoryFailed(f"it answers with more than {_MAX_ANSWER_BYTES} bytes")
                if timeslice.is_over():
                    await timeslice.next_turn()
                for message in self._client.receive(data):
                    if isinstance(message, kind):
                        return message, others
                    others.append(message)
        except (OSError, ssl.SSLError) as error:
            raise DirectoryFailed(_reason(error)) from error
        except _MALFORMED as error:
            raise DirectoryFailed(f"it does not speak LDAP: {_reason(error)}") from error


def _entry(found: SearchResultEntry) -> Entry:
    return Entry(
        found.object_name,
        {
            attribute.name.lower(): tuple(
                value.decode(errors="replace") for value in attribute.values
            )
            for attribute in found.attributes
        },
    )


def _require(result: LDAPResult, what: str) -> None:
    if result.result_code is not LDAPResultCode.SUCCESS:
        raise DirectoryFailed(f"{what} failed: {described(result)}")


def described(result: LDAPResult) -> str:
    message = result.diagnostics_message
    name = result.result_code.name.replace("_", " ").lower()
    return f"{name} ({message})" if message else name


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}"
    return str(error) or type(error).__name__
