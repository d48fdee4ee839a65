"""Asks an HTTP service beside the brokers, and reads its answer as it comes.

The SQL server's answer to a push query goes on until somebody stops it, so an answer is read piece
by piece, and leaving the block closes the connection, which ends the query at the server.
"""

import asyncio
import os
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

import httptools

CONNECT_S: Final = 5.0
_READ_BYTES: Final = 1 << 16


class ServiceAway(Exception):
    """The service did not answer; the message is the reason of the operating system."""


class TooLong(Exception):
    """An answer was longer than the caller accepts."""


@dataclass(frozen=True, slots=True)
class HttpService:
    """Where a service is, what it is shown as a log-in, and whose certificates are trusted."""

    url: str
    authorization: str = field(default="", repr=False)
    tls: Callable[[], ssl.SSLContext] = ssl.create_default_context


class HttpAnswer:
    """An answer that arrives. `status` is known from the beginning."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self.status = 0
        self._reader = reader
        self._parser = httptools.HttpResponseParser(self)
        self._pieces: list[bytes] = []
        self._has_head = self._is_complete = False

    async def begin(self) -> None:
        """Returns when the status and the headers are there."""
        while not self._has_head:
            await self._feed()

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yields the body as it comes, until the service has said everything."""
        while True:
            pieces, self._pieces = self._pieces, []
            for piece in pieces:
                yield piece
            if self._is_complete:
                return
            await self._feed()

    async def body(self, at_most: int) -> bytes:
        """Returns the whole body. Raises `TooLong`."""
        content = bytearray()
        async for piece in self.pieces():
            content += piece
            if len(content) > at_most:
                raise TooLong(f"the answer is longer than {at_most:,} bytes")
        return bytes(content)

    async def _feed(self) -> None:
        try:
            data = await self._reader.read(_READ_BYTES)
            if not data:
                raise ServiceAway("it closed the connection before its answer was complete")
            self._parser.feed_data(data)
        except (OSError, httptools.HttpParserError) as error:
            raise ServiceAway(str(error)) from None

    # Called by the parser.

    def on_headers_complete(self) -> None:
        self._has_head = True
        self.status = self._parser.get_status_code()

    def on_body(self, body: bytes) -> None:
        self._pieces.append(body)

    def on_message_complete(self) -> None:
        self._is_complete = True


@asynccontextmanager
async def asked(
    service: HttpService,
    method: str,
    target: str,
    body: bytes = b"",
    *,
    media_type: str,
    timeout_s: float,
) -> AsyncIterator[HttpAnswer]:
    """Sends a request and yields the answer once its head is there. The connection is closed at
    the end. Raises `ServiceAway`, also after `timeout_s` without the head."""
    url = service.url
    parts = urlsplit(url)
    head = (
        f"{method} {parts.path.rstrip('/')}{target} HTTP/1.1\r\nhost: {parts.netloc}\r\n"
        f"accept: {media_type}\r\ncontent-type: {media_type}\r\nconnection: close\r\n"
        f"content-length: {len(body)}\r\n"
    )
    if service.authorization:
        head += f"authorization: {service.authorization}\r\n"
    head += "\r\n"
    tls: Any = None
    if parts.scheme == "https":
        tls = await asyncio.to_thread(service.tls)
    try:
        async with asyncio.timeout(CONNECT_S):
            reader, writer = await asyncio.open_connection(
                parts.hostname, parts.port or (443 if tls else 80), ssl=tls
            )
    except TimeoutError:
        raise ServiceAway(f"it takes no connection within {CONNECT_S:.0f} s") from None
    except OSError as error:
        raise ServiceAway(_reason(error)) from None
    try:
        answer = HttpAnswer(reader)
        try:
            async with asyncio.timeout(timeout_s):
                writer.write(head.encode("latin-1") + body)
                await writer.drain()
                await answer.begin()
        except TimeoutError:
            raise ServiceAway(f"it does not answer within {timeout_s:.0f} s") from None
        except OSError as error:
            raise ServiceAway(_reason(error)) from None
        yield answer
    finally:
        writer.close()
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(CONNECT_S):
                await writer.wait_closed()


def _reason(error: OSError) -> str:
    """Returns what the operating system says; asyncio says only that a call failed."""
    if isinstance(error, ssl.SSLError) or not error.errno or error.errno < 0:
        return str(error)
    return os.strerror(error.errno).lower()
