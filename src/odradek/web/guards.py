"""What is checked before an endpoint is called, and the access log.

A browser that visits a foreign page can be made to send requests to a service on this machine. Two
checks prevent that they do anything: the host that the request names must be one of this service
(against DNS rebinding, where a foreign name resolves to 127.0.0.1), and a request that a page of
another origin sends is refused. No header allows other origins (CORS), and bodies must be JSON,
which a form cannot send.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import Message, Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect

from odradek.web.endpoints import Endpoint
from odradek.web.login import PEER, LogIn, Login
from odradek.web.media import JSON, MEDIA_TYPE, given_type, negotiated
from odradek.web.problems import Problem
from odradek.web.routing import Found, Routes

logger = logging.getLogger("odradek.web")
access_log = logging.getLogger("odradek.web.access")

OPENAPI_PATH: Final = "/openapi.json"
PRINCIPAL: Final = "odradek.principal"
ANONYMOUS: Final = "ANONYMOUS"
LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})


Explain = Callable[[Exception], Problem | None]
"""Makes a `Problem` of an error that an endpoint raised, or None of one it does not know."""
Observe = Callable[[Endpoint | None, int, float], None]
Show = Callable[[Problem, Scope], Response]
"""Makes the answer of a problem, for services whose answers are pages."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a client may use of a service."""

    max_body_bytes: int = 1_000_000
    max_requests: int = 100
    """How many requests are answered at once; others get 503."""
    max_streams: int = 1000
    """How many streams (`Endpoint.is_stream`) may be open beside them."""
    timeout_s: float = 60.0
    """How long an endpoint may take."""


@dataclass(slots=True)
class Policy:
    """How a service is protected. `hosts` are the names by which clients may call it, beside those
    of this machine."""

    is_loopback: bool = True
    """Whether only this machine can reach the service."""
    hosts: frozenset[str] = frozenset()
    login: LogIn = field(default_factory=Login)
    limits: Limits = field(default_factory=Limits)
    open_paths: frozenset[str] = frozenset()
    """Paths that need no log-in, such as those of health checks."""
    lets_anonymous_change: bool = False
    """Whether everybody who can reach the service from elsewhere may change something."""
    observe: "Observe" = lambda endpoint, status, took_s: None
    """Is told of every answer, for metrics."""
    show: Show | None = None
    """Shows problems; unset, they are JSON."""
    lets_links_in: bool = False
    """Whether a link on another site may open a page of this one, by GET in a tab of its own."""

    def allows_host(self, host: str) -> bool:
        return host in LOOPBACK or host in self.hosts


def host_of(address: str) -> str:
    """Returns the host of a `Host` header: without port and brackets, in lower case."""
    try:
        return (urlsplit(f"//{address}").hostname or "").rstrip(".")
    except ValueError:
        return ""


def _host_of_origin(origin: str) -> str:
    try:
        return urlsplit(origin).hostname or ""
    except ValueError:
        return ""


class Guards:
    """Checks a request, calls its endpoint, and answers with a `Problem` if something is wrong."""

    def __init__(self, routes: Routes, policy: Policy, explain: Explain) -> None:
        self._routes = routes
        self._policy = policy
        self._explain = explain
        self._active = 0
        self._streams = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        found = self._routes.find(scope.get("raw_path", b"").decode("latin-1") or scope["path"])
        endpoint = None if found is None else found.endpoint(scope["method"])
        scope["path_params"] = {} if found is None else found.parameters
        limits = self._policy.limits
        exchange = _Exchange(receive, send, _max_body_bytes(endpoint, limits))
        is_stream = endpoint is not None and endpoint.is_stream
        if is_stream:
            self._streams += 1
        else:
            self._active += 1
        try:
            if self._active > limits.max_requests or self._streams > limits.max_streams:
                raise Problem(503, "too many requests at once; try again", {"retry-after": "1"})
            await self._answer(scope, exchange, found, endpoint)
        except Problem as problem:
            if exchange.status:
                raise
            await self._show(problem, scope)(scope, exchange.receive, exchange.send)
        except asyncio.CancelledError:
            # uvicorn cancels what is left when the time to stop is over, and prints a traceback
            # for a task that does not end by itself.
            if not exchange.status:
                stopping = Problem(503, "the service is stopping; ask again", {"retry-after": "1"})
                await self._show(stopping, scope)(scope, exchange.receive, exchange.send)
        finally:
            if is_stream:
                self._streams -= 1
            else:
                self._active -= 1
            took_s = loop.time() - began_s
            _log(scope, exchange, took_s)
            self._policy.observe(endpoint, exchange.status or 500, took_s)

    async def web_socket(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Checks a client that asks for a web socket as any other request, and lets its endpoint
        talk to it. Whoever is refused gets an answer over HTTP."""
        began_s = asyncio.get_running_loop().time()
        scope["method"] = "GET"
        found = self._routes.find(scope.get("raw_path", b"").decode("latin-1") or scope["path"])
        endpoint = None if found is None else found.endpoint("GET")
        talk = None if endpoint is None else endpoint.web_socket
        exchange = _Exchange(receive, send, None)
        self._streams += 1
        try:
            if self._streams > self._policy.limits.max_streams:
                raise Problem(503, "too many requests at once; try again", {"retry-after": "1"})
            headers = Headers(scope=scope)
            await self._check(scope, headers)
            self._check_endpoint(scope, headers, endpoint)
            if talk is None:
                raise Problem(404, f"there is no web socket at {_shown_path(scope)}")
            exchange.status = _SWITCHED
            await talk(WebSocket(scope, exchange.receive, exchange.send))
        except Problem as problem:
            exchange.status = problem.status
            response = self._show(problem, scope)
            await WebSocket(scope, receive, send).send_denial_response(response)
        except WebSocketDisconnect:
            pass
        finally:
            self._streams -= 1
            took_s = asyncio.get_running_loop().time() - began_s
            _log(scope, exchange, took_s)
            self._policy.observe(endpoint, exchange.status, took_s)

    def _show(self, problem: Problem, scope: Scope) -> Response:
        if self._policy.show is not None:
            return self._policy.show(problem, scope)
        return problem.response(scope.get(MEDIA_TYPE, JSON))

    async def _answer(
        self, scope: Scope, exchange: "_Exchange", found: Found | None, endpoint: Endpoint | None
    ) -> None:
        """Answers with the endpoint's response. Raises a `Problem` for everything else."""
        headers = Headers(scope=scope)
        timeout_s = self._policy.limits.timeout_s
        try:
            await self._check(scope, headers)
            self._check_endpoint(scope, headers, endpoint)
            if found is not None and scope["method"] == "OPTIONS":
                await _options(found)(scope, exchange.receive, exchange.send)
                return
            if found is None or endpoint is None:
                raise _nothing_there(scope, found)
            _negotiate(scope, headers, endpoint)
            if endpoint.is_stream:
                await self._call(scope, exchange, endpoint)
                return
            async with asyncio.timeout(timeout_s):
                await self._call(scope, exchange, endpoint)
        except TimeoutError as error:
            explained = self._explain(error)
            if exchange.status:
                raise
            raise explained or Problem(504, f"no answer within {timeout_s:.0f} s") from None
        except ClientDisconnect:
            exchange.status = exchange.status or _CLIENT_WENT
        except Problem:
            raise
        except Exception as error:
            explained = self._explain(error)
            if explained is None:
                logger.exception("%s %s failed", scope["method"], _shown_path(scope))
                explained = Problem(500, "an unexpected error; the log of the service has it")
            if exchange.status:
                # The answer has begun: all that is left is to cut the connection.
                raise _Broken(explained.message) from None
            raise explained from None

    async def _call(self, scope: Scope, exchange: "_Exchange", endpoint: Endpoint) -> None:
        response = await endpoint.handler(Request(scope, exchange.receive, exchange.send))
        await response(scope, exchange.receive, exchange.send)

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
        if origin is not None and not policy.allows_host(_host_of_origin(origin)):
            raise Problem(403, f"pages of {origin[:200]} may not call this service")
        if headers.get("sec-fetch-site") == "cross-site" and not (
            policy.lets_links_in and _opens_page(scope, headers)
        ):
            raise Problem(403, "pages of other sites may not call this service")
        await self._log_in(scope, headers)

    async def _log_in(self, scope: Scope, headers: Headers) -> None:
        login = self._policy.login
        scope[PRINCIPAL] = ANONYMOUS
        if not login.is_required or scope["path"] in self._policy.open_paths:
            return
        name = await login.principal(headers.get("authorization"), scope.get(PEER))
        if name is None:
            raise Problem(
                401,
                "log in with a user or token of this service",
                {"www-authenticate": login.challenge},
                code=login.error_code,
            )
        scope[PRINCIPAL] = name

    def _check_endpoint(self, scope: Scope, headers: Headers, endpoint: Endpoint | None) -> None:
        changes = endpoint.changes if endpoint is not None else scope["method"] not in _SAFE
        policy = self._policy
        if changes and not (
            policy.is_loopback or policy.login.is_required or policy.lets_anonymous_change
        ):
            raise Problem(
                403,
                "this would change something, and the service can be reached from other machines"
                " without a log-in; give it users, tokens or certificates, or let it listen on"
                " 127.0.0.1",
            )
        limit = _max_body_bytes(endpoint, policy.limits)
        length = headers.get("content-length", "0")
        if not length.isdecimal():
            raise Problem(400, "content-length is not a number")
        if limit is not None and int(length) > limit:
            raise _too_large(limit)
        has_body = int(length) > 0 or "transfer-encoding" in headers
        if not has_body or endpoint is None:
            return  # Where there is nothing, no content type is right.
        allowed = endpoint.media_types
        given = given_type(headers.get("content-type", ""))
        if given not in allowed:
            raise Problem(415, f"the content type must be {' or '.join(allowed)}, not {given!r}")


def _opens_page(scope: Scope, headers: Headers) -> bool:
    """Returns whether a browser opens a page for its user, rather than a part of another page."""
    return scope["method"] == "GET" and headers.get("sec-fetch-dest") == "document"


class _Broken(Exception):
    """An answer that had begun when something failed; uvicorn closes the connection."""


_SWITCHED: Final = 101
_CLIENT_WENT: Final = 499
"""What the access log says, as nginx's does, when the client left before it had its answer."""


def _options(found: Found) -> Response:
    """Returns what a path takes, for those who ask before they call."""
    methods = {*found.methods, "OPTIONS", *(["HEAD"] if "GET" in found.methods else [])}
    shown = ", ".join(sorted(methods))
    return PlainTextResponse(shown, headers={"allow": shown})


def _nothing_there(scope: Scope, found: Found | None) -> Problem:
    if found is None:
        shown = _shown_path(scope)
        return Problem(404, f"there is no {shown} here; {OPENAPI_PATH} lists what there is")
    methods = ", ".join(sorted(found.methods))
    return Problem(
        405,
        f"{_shown_path(scope)} does not take {scope['method']}; it takes {methods}",
        {"allow": methods},
    )


def _negotiate(scope: Scope, headers: Headers, endpoint: Endpoint) -> None:
    accept = headers.get("accept", "")
    media_type = negotiated(accept, endpoint.produces)
    if media_type is None:
        raise Problem(406, f"the answer is {' or '.join(endpoint.produces)}, not {accept[:200]!r}")
    scope[MEDIA_TYPE] = media_type


def _max_body_bytes(endpoint: Endpoint | None, limits: Limits) -> int | None:
    if endpoint is None:
        return limits.max_body_bytes
    if endpoint.max_body_bytes is not None:
        return endpoint.max_body_bytes
    return None if endpoint.is_stream else limits.max_body_bytes


def _shown_path(scope: Scope) -> str:
    path: str = scope["path"]
    return path.encode("unicode_escape").decode()


_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})


def _too_large(limit: int) -> Problem:
    return Problem(413, f"a request may have {limit:,} bytes")


class _Exchange:
    """Counts the bytes of a request and a response, and notes the status."""

    def __init__(self, receive: Receive, send: Send, max_body_bytes: int | None) -> None:
        self._receive = receive
        self._send = send
        self._max_body_bytes = max_body_bytes
        self._received = 0
        self.status = 0
        self.sent = 0

    async def receive(self) -> Message:
        message = await self._receive()
        self._received += len(message.get("body") or b"")
        if self._max_body_bytes is not None and self._received > self._max_body_bytes:
            raise _too_large(self._max_body_bytes)
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        else:
            self.sent += len(message.get("body") or message.get("text") or b"")
        await self._send(message)


def _log(scope: Scope, exchange: _Exchange, took_s: float) -> None:
    client = scope.get("client") or ("-", 0)
    access_log.info(
        "%s %s %s %s %d %d bytes %.1f ms",
        client[0],
        scope.get(PRINCIPAL, "-"),
        scope["method"],
        # The query is left out: it may carry what should not be kept.
        _shown_path(scope),
        exchange.status or 500,
        exchange.sent,
        took_s * 1000,
    )
