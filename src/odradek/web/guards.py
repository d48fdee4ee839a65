"""What is checked before an endpoint is called, and the access log.

A browser that visits a foreign page can be made to send requests to a service on this machine. Two
checks prevent that they do anything: the host that the request names must be one of this service
(against DNS rebinding, where a foreign name resolves to 127.0.0.1), and a request that a page of
another origin sends is refused. No header allows other origins (CORS), and bodies must be JSON,
which a form cannot send.
"""

import asyncio
import logging
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.routing import compile_path
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from odradek.web.endpoints import Endpoint
from odradek.web.login import PEER, Login
from odradek.web.problems import Problem

access_log = logging.getLogger("odradek.web.access")

PRINCIPAL: Final = "odradek.principal"
ANONYMOUS: Final = "ANONYMOUS"
LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})


@dataclass(frozen=True, slots=True)
class Limits:
    """What a client may use of a service."""

    max_body_bytes: int = 1_000_000
    max_requests: int = 100
    """How many requests are answered at once; others get 503."""
    timeout_s: float = 60.0
    """How long an endpoint may take."""


@dataclass(slots=True)
class Policy:
    """How a service is protected. `hosts` are the names by which clients may call it, beside those
    of this machine."""

    is_loopback: bool = True
    """Whether only this machine can reach the service."""
    hosts: frozenset[str] = frozenset()
    login: Login = field(default_factory=Login)
    limits: Limits = field(default_factory=Limits)
    open_paths: frozenset[str] = frozenset()
    """Paths that need no log-in, such as those of health checks."""

    def allows_host(self, host: str) -> bool:
        return host in LOOPBACK or host in self.hosts


def host_of(address: str) -> str:
    """Returns the host of a `Host` header: without port and brackets, in small letters."""
    try:
        return (urlsplit(f"//{address}").hostname or "").rstrip(".")
    except ValueError:
        return ""


class Guards:
    """ASGI middleware around all endpoints."""

    def __init__(self, app: ASGIApp, policy: Policy, endpoints: tuple[Endpoint, ...]) -> None:
        self._app = app
        self._policy = policy
        self._patterns = [(endpoint, compile_path(endpoint.path)[0]) for endpoint in endpoints]
        self._active = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began_s = asyncio.get_running_loop().time()
        exchange = _Exchange(receive, send, self._policy.limits.max_body_bytes)
        self._active += 1
        try:
            await self._answer(scope, exchange)
        finally:
            self._active -= 1
            _log(scope, exchange, asyncio.get_running_loop().time() - began_s)

    async def _answer(self, scope: Scope, exchange: "_Exchange") -> None:
        limits = self._policy.limits
        try:
            if self._active > limits.max_requests:
                raise Problem(503, "too many requests at once; try again", {"retry-after": "1"})
            await self._check(scope, Headers(scope=scope))
            async with asyncio.timeout(limits.timeout_s):
                await self._app(scope, exchange.receive, exchange.send)
        except TimeoutError:
            if exchange.status:
                raise
            problem = Problem(504, f"no answer within {limits.timeout_s:.0f} s")
            await problem.response()(scope, exchange.receive, exchange.send)
        except Problem as problem:
            if exchange.status:
                raise
            await problem.response()(scope, exchange.receive, exchange.send)

    async def _check(self, scope: Scope, headers: Headers) -> None:
        policy = self._policy
        host = host_of(headers.get("host", ""))
        if not policy.allows_host(host):
            raise Problem(
                421,
                f"this service is not {host!r}; call it by a name that it knows, or add the name"
                " to its allowed hosts",
            )
        origin = headers.get("origin")
        if origin is not None and not policy.allows_host(urlsplit(origin).hostname or ""):
            raise Problem(403, f"pages of {origin} may not call this service")
        if headers.get("sec-fetch-site") == "cross-site":
            raise Problem(403, "pages of other sites may not call this service")
        await self._log_in(scope, headers)
        self._check_endpoint(scope, headers)

    async def _log_in(self, scope: Scope, headers: Headers) -> None:
        login = self._policy.login
        scope[PRINCIPAL] = ANONYMOUS
        if not login.is_required or scope["path"] in self._policy.open_paths:
            return
        name = await login.principal(headers.get("authorization"), scope.get(PEER))
        if name is None:
            raise Problem(
                401, "log in with a user or token of this service",
                {"www-authenticate": login.challenge},
            )  # fmt: skip
        scope[PRINCIPAL] = name

    def _endpoint(self, scope: Scope) -> Endpoint | None:
        for endpoint, pattern in self._patterns:
            if endpoint.method == scope["method"] and pattern.match(scope["path"]):
                return endpoint
        return None

    def _check_endpoint(self, scope: Scope, headers: Headers) -> None:
        endpoint = self._endpoint(scope)
        changes = endpoint.changes if endpoint is not None else scope["method"] not in _SAFE
        policy = self._policy
        if changes and not policy.is_loopback and not policy.login.is_required:
            raise Problem(
                403,
                "this would change something, and the service can be reached from other machines"
                " without a log-in; give it users, tokens or certificates, or let it listen on"
                " 127.0.0.1",
            )
        length = headers.get("content-length", "0")
        if not length.isdecimal():
            raise Problem(400, "content-length is not a number")
        if int(length) > policy.limits.max_body_bytes:
            raise _too_large(policy.limits.max_body_bytes)
        has_body = int(length) > 0 or "transfer-encoding" in headers
        allowed = endpoint.media_types if endpoint is not None else _JSON_ONLY
        given = headers.get("content-type", "").partition(";")[0].strip().lower()
        if has_body and given not in allowed:
            raise Problem(415, f"the content type must be {' or '.join(allowed)}, not {given!r}")


_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_JSON_ONLY: Final = ("application/json",)


def _too_large(limit: int) -> Problem:
    return Problem(413, f"a request may have {limit:,} bytes")


class _Exchange:
    """Counts the bytes of a request and a response, and notes the status."""

    def __init__(self, receive: Receive, send: Send, max_body_bytes: int) -> None:
        self._receive = receive
        self._send = send
        self._max_body_bytes = max_body_bytes
        self._received = 0
        self.status = 0
        self.sent = 0

    async def receive(self) -> Message:
        message = await self._receive()
        self._received += len(message.get("body", b""))
        if self._received > self._max_body_bytes:
            raise _too_large(self._max_body_bytes)
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        else:
            self.sent += len(message.get("body", b""))
        await self._send(message)


def _log(scope: Scope, exchange: _Exchange, took_s: float) -> None:
    client = scope.get("client") or ("-", 0)
    access_log.info(
        "%s %s %s %s %d %d bytes %.1f ms",
        client[0],
        scope.get(PRINCIPAL, "-"),
        scope["method"],
        # The query is left out: it may carry what should not be kept.
        scope["path"].encode("unicode_escape").decode(),
        exchange.status or 500,
        exchange.sent,
        took_s * 1000,
    )
