"""Passes a request on to the leader over HTTP, with the log-in that it came with.

Connections are kept and used again. A request over a kept connection that the leader has closed
meanwhile is sent once more over a new one, because nothing of it was carried out.
"""

import asyncio
import ssl
from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import httptools

FORWARDED: Final = "x-forward"
"""The header of a request that another instance has passed on, as Confluent's registry has it."""
OFFSET: Final = "x-odradek-offset"
"""The header of an answer that says from which record on a state has the change."""
_CONNECT_TIMEOUT_S: Final = 3.0
_READ_BYTES: Final = 1 << 16
_MAX_ANSWER_BYTES: Final = 1 << 26
_MAX_IDLE: Final = 16


class Unreachable(Exception):
    """The leader did not answer. `is_dead` says that its machine refused the connection, so that
    no process listens there; `is_unknown` that the request may have been carried out."""

    def __init__(self, message: str, *, is_dead: bool, is_unknown: bool) -> None:
        super().__init__(message)
        self.is_dead = is_dead
        self.is_unknown = is_unknown


class Answer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: bytes


class _Connection(NamedTuple):
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


class Forwarder:
    """Keeps connections to other instances."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self._tls = tls
        self._idle: dict[str, list[_Connection]] = {}

    async def send(
        self, url: str, method: str, target: str, headers: Mapping[str, str], body: bytes
    ) -> Answer:
        """Sends a request and returns the answer, however long that takes."""
        parts = urlsplit(url)
        head = f"{method} {target} HTTP/1.1\r\nhost: {parts.netloc}\r\n"
        head += "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        message = f"{head}content-length: {len(body)}\r\n\r\n".encode("latin-1") + body
        idle = self._idle.setdefault(url, [])
        while idle:
            try:
                return await self._exchange(url, idle.pop(), message)
            except Unreachable as error:
                if error.is_unknown:
                    raise
        return await self._exchange(url, await self._connect(url), message)

    async def _connect(self, url: str) -> _Connection:
        parts = urlsplit(url)
        try:
            async with asyncio.timeout(_CONNECT_TIMEOUT_S):
                tls: Any = None
                if parts.scheme == "https":
                    tls = self._tls or ssl.create_default_context()
                return _Connection(
                    *await asyncio.open_connection(parts.hostname, parts.port, ssl=tls)
                )
        except ConnectionRefusedError as error:
            raise Unreachable(str(error), is_dead=True, is_unknown=False) from None
        except (OSError, TimeoutError) as error:
            text = str(error) or "no answer"
            raise Unreachable(text, is_dead=False, is_unknown=False) from None

    async def _exchange(self, url: str, connection: _Connection, message: bytes) -> Answer:
        parsed = _Parsed()
        is_sound = False
        try:
            connection.writer.write(message)
            await connection.writer.drain()
            while not parsed.is_complete:
                data = await connection.reader.read(_READ_BYTES)
                if not data:
                    raise Unreachable(
                        "the connection was closed", is_dead=False, is_unknown=parsed.has_begun
                    )
                parsed.feed(data)
            is_sound = parsed.is_kept
        except (OSError, httptools.HttpParserError) as error:
            raise Unreachable(str(error), is_dead=False, is_unknown=parsed.has_begun) from None
        finally:
            idle = self._idle.setdefault(url, [])
            if is_sound and len(idle) < _MAX_IDLE:
                idle.append(connection)
            else:
                connection.writer.close()
        return Answer(parsed.status, parsed.headers, bytes(parsed.body))

    def close(self) -> None:
        for connections in self._idle.values():
            for connection in connections:
                connection.writer.close()
        self._idle.clear()


class _Parsed:
    """An answer as it arrives."""

    def __init__(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self.status = 0
        self.headers: dict[str, str] = {}
        self.body = bytearray()
        self.has_begun = self.is_complete = self.is_kept = False

    def feed(self, data: bytes) -> None:
        self.has_begun = True
        if len(self.body) + len(data) > _MAX_ANSWER_BYTES:
            raise OSError("the answer is too long")
        self._parser.feed_data(data)

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        self.status = self._parser.get_status_code()

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        self.is_complete = True
        self.is_kept = self._parser.should_keep_alive()
