"""A small HTTP/1.1 server for the management port: GET and HEAD, and nothing but the standard
library.

Every limit is there because the port has no log-in: the size of a request, the time in which it
must arrive, and the number of connections. A request must name a host that is allowed (`HostRule`).
Otherwise a web page could let its own name resolve to 127.0.0.1 and read the port with the browser
of somebody on this machine (DNS rebinding). There are no CORS headers, so a page of another origin
cannot read a response either.
"""

import asyncio
import contextlib
import ipaddress
import json
import logging
from collections.abc import Awaitable, Callable, Iterable
from http import HTTPStatus
from typing import Final, NamedTuple
from urllib.parse import unquote

logger = logging.getLogger("odradek.server")

_MAX_HEAD_BYTES: Final = 8 * 1024
_MAX_CONNECTIONS: Final = 64
# How long a client may take for its next request, and to read a response.
_IDLE_S: Final = 30.0
_JSON: Final = "application/json; charset=utf-8"


class HttpRequest(NamedTuple):
    """What an endpoint may ask about a request. `path` is decoded, and has no query."""

    path: str
    query: str
    accept: str


class HttpResponse(NamedTuple):
    status: HTTPStatus
    content_type: str
    body: bytes


def json_response(content: object, status: HTTPStatus = HTTPStatus.OK) -> HttpResponse:
    return HttpResponse(status, _JSON, json.dumps(content, indent=2).encode() + b"\n")


def text_response(text: str, status: HTTPStatus = HTTPStatus.OK) -> HttpResponse:
    return HttpResponse(status, "text/plain; charset=utf-8", text.encode())


Answer = Callable[[HttpRequest], Awaitable[HttpResponse]]


class HostRule:
    """Which values of the Host header are allowed: IP addresses, which no name server can forge,
    localhost, and the names that the settings know."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = frozenset(name.lower() for name in names) | {"localhost"}

    def allows(self, host: str) -> bool:
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
        name = name.strip("[]").lower()
        if name in self._names:
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True


class BadRequest(Exception):
    """A request that is refused before an endpoint sees it."""

    def __init__(self, status: HTTPStatus, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class HttpServer:
    """`open` listens; `close` ends every connection. The broker owns one (`management.port`)."""

    def __init__(self, answer: Answer, hosts: HostRule) -> None:
        self._answer = answer
        self._hosts = hosts
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def open(self, host: str, port: int) -> int:
        """Listens, and returns the port; raises OSError if the address cannot be had."""
        self._server = await asyncio.start_server(
            self._connected, host or None, port, limit=_MAX_HEAD_BYTES
        )
        return int(self._server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for connection in self._connections:
            connection.cancel()
        if self._connections:
            await asyncio.wait(self._connections)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None  # asyncio calls this in a task of its own.
        if len(self._connections) >= _MAX_CONNECTIONS:
            writer.transport.abort()
            return
        self._connections.add(task)
        try:
            while await self._serve(reader, writer):
                pass
        except (OSError, TimeoutError, asyncio.IncompleteReadError):
            pass  # The client is gone, or too slow.
        except asyncio.CancelledError:
            if self._server is not None and self._server.is_serving():
                raise
        finally:
            self._connections.discard(task)
            writer.transport.abort() if writer.transport.get_write_buffer_size() else writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Serves one request; returns whether the connection stays open for another."""
        async with asyncio.timeout(_IDLE_S):
            try:
                head = await reader.readuntil(b"\r\n\r\n")
            except asyncio.LimitOverrunError:
                head = b""
        is_head, keeps = False, False
        try:
            method, request, keeps = self._parse(head)
            is_head = method == "HEAD"
            response = await self._answer(request)
        except BadRequest as refusal:
            keeps = False
            response = text_response(f"{refusal}\n", refusal.status)
        except Exception:  # A defect in a page must not end the broker.
            logger.exception("a request to the management port failed unexpectedly")
            keeps = False
            response = text_response(
                "unexpected error; see server.log\n", HTTPStatus.INTERNAL_SERVER_ERROR
            )
        lines = [
            f"HTTP/1.1 {response.status.value} {response.status.phrase}",
            f"Content-Type: {response.content_type}",
            f"Content-Length: {len(response.body)}",
            "Cache-Control: no-store",
            "X-Content-Type-Options: nosniff",
            f"Connection: {'keep-alive' if keeps else 'close'}",
        ]
        if response.status is HTTPStatus.METHOD_NOT_ALLOWED:
            lines.append("Allow: GET, HEAD")
        writer.write("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n")
        if not is_head:
            writer.write(response.body)
        async with asyncio.timeout(_IDLE_S):
            await writer.drain()
        return keeps

    def _parse(self, head: bytes) -> tuple[str, HttpRequest, bool]:
        if not head:
            raise BadRequest(
                HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
                f"a request may have {_MAX_HEAD_BYTES} bytes",
            )
        first, *rest = head.decode("latin-1").split("\r\n")
        words = first.split(" ")
        if len(words) != 3 or not words[2].startswith("HTTP/1."):
            raise BadRequest(HTTPStatus.BAD_REQUEST, "this is not a request of HTTP/1.1")
        method, target, version = words
        headers = {
            name.strip().lower(): value.strip()
            for name, colon, value in (line.partition(":") for line in rest if line)
            if colon
        }
        if not self._hosts.allows(headers.get("host", "")):
            raise BadRequest(
                HTTPStatus.MISDIRECTED_REQUEST,
                f"the host {headers.get('host', '')!r} is not allowed; use an IP address or"
                " localhost, or add the name to odradek.management.allowed.hosts",
            )
        if method not in ("GET", "HEAD"):
            raise BadRequest(HTTPStatus.METHOD_NOT_ALLOWED, "only GET is served here")
        if headers.get("content-length", "0") != "0" or "transfer-encoding" in headers:
            raise BadRequest(HTTPStatus.BAD_REQUEST, "a GET request has no body")
        path, _, query = target.partition("?")
        keeps = version != "HTTP/1.0" and headers.get("connection", "").lower() != "close"
        return method, HttpRequest(unquote(path), query, headers.get("accept", "")), keeps
