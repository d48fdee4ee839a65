"""Makes an ASGI application of endpoints: the guards around them, OpenAPI, and a life span."""

from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Router
from starlette.types import Receive, Scope, Send

from odradek.web.endpoints import Endpoint
from odradek.web.guards import OPENAPI_PATH, Explain, Guards, Policy
from odradek.web.openapi import openapi
from odradek.web.problems import Problem, json_response
from odradek.web.routing import Routes

Lifespan = Callable[[Starlette], AbstractAsyncContextManager[Any]]


class Application:
    """An ASGI application. Every request goes through the guards to its endpoint, and nothing
    else is between: each layer would cost every request."""

    def __init__(self, guards: Guards, lifespan: Lifespan | None) -> None:
        self._guards = guards
        self._lifespan = Router(lifespan=lifespan)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._guards(scope, receive, send)
        elif scope["type"] == "websocket":
            await self._guards.web_socket(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self._lifespan.lifespan(scope, receive, send)


def application(
    title: str,
    version: str,
    endpoints: Iterable[Endpoint],
    policy: Policy,
    *,
    lifespan: Lifespan | None = None,
    explain: Explain | None = None,
) -> Application:
    """Returns the application. `GET /openapi.json` describes it. `explain` makes problems of the
    errors that its endpoints raise."""
    endpoints = tuple(endpoints)
    described: list[Any] = []

    async def describe(request: Request) -> Response:
        # Made when it is first asked for: it takes longer than the start of a service should.
        if not described:
            described.append(openapi(title, version, endpoints))
        return json_response(described[0])

    routes = Routes((*endpoints, Endpoint("GET", OPENAPI_PATH, describe, "This description.")))
    return Application(Guards(routes, policy, explain or _unexplained), lifespan)


def _unexplained(error: Exception) -> Problem | None:
    return None
