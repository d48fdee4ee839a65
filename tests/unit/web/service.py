"""A small service for the tests of the HTTP stack, served for real on a free port."""

import asyncio
import http.client
import json
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from odradek.web.application import application
from odradek.web.endpoints import Endpoint, Parameter
from odradek.web.guards import PRINCIPAL, Policy
from odradek.web.problems import Problem, json_response
from odradek.web.serving import Listener, serve


class Order(msgspec.Struct):
    item: str
    count: int


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Service:
    """The endpoints, and a gate that holds `/slow` back until a test opens it."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.entered = asyncio.Event()
        parameters = (Parameter("deep", bool, False), Parameter("ids", int, many=True))
        self.look = Endpoint("GET", "/look", self._look, "Looks.", parameters)
        self.endpoints = [
            self.look,
            Endpoint("POST", "/orders", self._order, "Orders.", changes=True, body=Order),
            Endpoint("DELETE", "/orders/{id:int}", self._look, "Deletes.", changes=True),
            Endpoint("GET", "/slow", self._slow, "Waits."),
            Endpoint("GET", "/broken", self._broken, "Fails."),
        ]

    async def _look(self, request: Request) -> Response:
        return json_response({"who": request.scope[PRINCIPAL], **self.look.query(request)})

    async def _order(self, request: Request) -> Response:
        try:
            order = msgspec.json.decode(await request.body(), type=Order)
        except msgspec.ValidationError as error:
            raise Problem(422, str(error)) from None
        return json_response(order, status=201)

    async def _slow(self, request: Request) -> Response:
        self.entered.set()
        await self.gate.wait()
        return json_response("at last")

    async def _broken(self, request: Request) -> Response:
        raise RuntimeError("a defect")


@dataclass
class Client:
    """Asks a service, each time by a new connection."""

    port: int
    context: ssl.SSLContext | None = None

    async def ask(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        return await asyncio.to_thread(self._ask, method, path, body, headers or {})

    def _ask(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]
    ) -> Answer:
        connection = (
            http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
            if self.context is None
            else http.client.HTTPSConnection(
                "localhost", self.port, timeout=20, context=self.context
            )
        )
        try:
            connection.request(method, path, body, dict(headers))
            response = connection.getresponse()
            found = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, found, response.read())
        finally:
            connection.close()


@asynccontextmanager
async def served(
    service: Service, policy: Policy | None = None, listener: Listener | None = None
) -> AsyncIterator[Client]:
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    app = application("test", "1", service.endpoints, policy or Policy())
    task = asyncio.create_task(serve(app, listener or Listener(), ready.set_result))
    try:
        both: list[asyncio.Future[Any]] = [ready, task]
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()
        yield Client(int(ready.result().rpartition(":")[2]))
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
