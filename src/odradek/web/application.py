"""Makes an ASGI application of endpoints: routes, errors as JSON, OpenAPI, and the guards."""

import logging
from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager
from typing import Any, Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from odradek.web.endpoints import Endpoint, openapi
from odradek.web.guards import Guards, Policy
from odradek.web.problems import Problem, json_response

logger = logging.getLogger("odradek.web")

OPENAPI_PATH: Final = "/openapi.json"

Lifespan = Callable[[Starlette], AbstractAsyncContextManager[Any]]


def application(
    title: str,
    version: str,
    endpoints: Iterable[Endpoint],
    policy: Policy,
    *,
    lifespan: Lifespan | None = None,
) -> Starlette:
    """Returns the application. `GET /openapi.json` describes it."""
    endpoints = tuple(endpoints)
    described = openapi(title, version, endpoints)

    async def describe(request: Request) -> Response:
        return json_response(described)

    routes = [
        Route(endpoint.path, endpoint.handler, methods=[endpoint.method]) for endpoint in endpoints
    ]
    routes.append(Route(OPENAPI_PATH, describe, methods=["GET"]))
    return Starlette(
        routes=_merged(routes),
        middleware=[Middleware(Guards, policy=policy, endpoints=endpoints)],
        exception_handlers={
            Problem: _problem,
            HTTPException: _http_exception,
            Exception: _unexpected,
        },
        lifespan=lifespan,
    )


def _merged(routes: list[Route]) -> list[Route]:
    """Starlette answers 405 by the first route of a path, so routes of one path that differ by
    method follow each other."""
    return sorted(routes, key=lambda route: route.path)


async def _problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, Problem)
    return error.response()


async def _http_exception(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == 404:
        message = f"there is no {request.url.path} here; {OPENAPI_PATH} lists what there is"
    elif error.status_code == 405:
        message = f"{request.url.path} does not take {request.method}"
    else:
        message = error.detail
    return Problem(error.status_code, message, error.headers).response()


async def _unexpected(request: Request, error: Exception) -> Response:
    """Starlette logs nothing itself, and raises the error again afterwards: uvicorn logs it."""
    return Problem(500, "an unexpected error; the log of the service has it").response()
