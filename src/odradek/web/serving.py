"""Runs an application over HTTP/1.1, or HTTP/2 too, with or without TLS, until it is told to stop.

Stopping drains: no new connection is accepted, requests in progress are answered, and after
`drain_s` the rest is cut off. The certificate of a client (mutual TLS) is put into the scope of its
requests, where the log-in finds it; ASGI servers have no common way to do that.
"""

import asyncio
import signal
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from odradek.web.guards import LOOPBACK
from odradek.web.login import PEER
from odradek.world.installing import install_line


class CannotServe(Exception):
    """The service cannot listen as it was told; the message says why."""


class CannotListen(CannotServe):
    """The address or the port cannot be had."""


@dataclass(frozen=True, slots=True)
class Tls:
    """Files in PEM. With `client_ca`, clients need a certificate of it (mutual TLS)."""

    certificate: str
    key: str | None = None
    client_ca: str | None = None

    def context(self, *, http2: bool) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            context.load_cert_chain(self.certificate, self.key)
            if self.client_ca is not None:
                context.verify_mode = ssl.CERT_REQUIRED
                context.load_verify_locations(self.client_ca)
        except (ssl.SSLError, OSError) as error:
            raise CannotServe(f"the certificate or key cannot be read: {error}") from error
        context.set_alpn_protocols(["h2", "http/1.1"] if http2 else ["http/1.1"])
        return context


@dataclass(frozen=True, slots=True)
class Listener:
    """Where and how a service listens."""

    host: str = "127.0.0.1"
    port: int = 0
    tls: Tls | None = None
    context: ssl.SSLContext | None = None
    """TLS as a context that is made already, in place of `tls`."""
    http2: bool = False
    web_sockets: bool = False
    drain_s: float = 10.0

    @property
    def is_loopback(self) -> bool:
        return self.host in LOOPBACK

    @property
    def uses_tls(self) -> bool:
        return self.tls is not None or self.context is not None

    def bind(self) -> socket.socket:
        """Returns the socket. With port 0 the system chooses a free one."""
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        listening = socket.socket(family, socket.SOCK_STREAM)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((self.host, self.port))
        except OSError as error:
            listening.close()
            raise CannotListen(
                f"cannot listen at {self.host}:{self.port}: {error.strerror or error}; choose"
                " another address or port"
            ) from error
        return listening


Ready = Callable[[str], None]


async def serve(app: ASGIApp, listener: Listener, on_ready: Ready) -> None:
    """Serves until SIGINT or SIGTERM, or until it is cancelled. `on_ready` gets the URL when the
    service answers."""
    listening = listener.bind()
    try:
        host, port = listening.getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        scheme = "https" if listener.uses_tls else "http"
        server = _Server(_config(app, listener), lambda: on_ready(f"{scheme}://{shown}:{port}"))
        try:
            await server.serve(sockets=[listening])
        except asyncio.CancelledError:
            server.should_exit = True
            await server.shutdown(sockets=[listening])
            raise
    finally:
        listening.close()


def _config(app: ASGIApp, listener: Listener) -> uvicorn.Config:
    options: dict[str, Any] = {}
    context = listener.context
    if listener.tls is not None:
        context = listener.tls.context(http2=listener.http2)
    if context is not None:
        options["ssl_context_factory"] = lambda config, default: context
    return uvicorn.Config(
        app,
        http=_protocol(listener),
        ws="wsproto" if listener.web_sockets else "none",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=max(1, round(listener.drain_s)),
        **options,
    )


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, on_ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_ready = on_ready

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Lets SIGINT and SIGTERM end the service in order; the second one at once. uvicorn's own
        way sends the signal again at the end, which would kill a process that has more to do."""
        loop = asyncio.get_running_loop()
        is_main = threading.current_thread() is threading.main_thread()
        numbers = (signal.SIGINT, signal.SIGTERM) if is_main else ()
        for number in numbers:
            loop.add_signal_handler(number, self.handle_exit, number, None)
        try:
            yield
        finally:
            for number in numbers:
                loop.remove_signal_handler(number)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._on_ready()


class _WithPeer:
    """The application of one connection, whose client showed a certificate."""

    def __init__(self, app: Any, certificate: Mapping[str, Any]) -> None:
        self._app = app
        self._certificate = certificate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope[PEER] = self._certificate
        await self._app(scope, receive, send)


def _peer(transport: asyncio.BaseTransport) -> Mapping[str, Any] | None:
    ssl_object = transport.get_extra_info("ssl_object")
    return ssl_object.getpeercert() if ssl_object is not None else None


class _Http1(HttpToolsProtocol):
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if certificate := _peer(transport):
            self.app = _WithPeer(self.app, certificate)


def _protocol(listener: Listener) -> type[asyncio.Protocol]:
    if not listener.http2:
        return _Http1
    try:
        from odradek.web.http2 import Http2OrHttp1  # noqa: PLC0415 - another extra
    except ImportError:
        raise CannotServe(f"HTTP/2 needs zttp: {install_line('http2')}") from None
    return Http2OrHttp1
