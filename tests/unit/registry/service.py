"""A registry on a topic in memory, served for real on a free port."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from odradek.registry.api.schemas import SchemaEndpoints
from odradek.registry.api.settings import SettingEndpoints
from odradek.registry.api.subjects import SubjectEndpoints
from odradek.registry.contexts import ContextPaths
from odradek.registry.election import Elected, Identity
from odradek.registry.errors import Refused
from odradek.registry.judging import Judge
from odradek.registry.primary import Primary
from odradek.registry.registry import Registry
from odradek.registry.state import RegistryState
from odradek.services.forwarding import Forwarder
from odradek.web.application import application
from odradek.web.guards import Policy
from odradek.web.problems import Problem
from odradek.web.serving import Listener, serve
from odradek.world import World
from tests.unit.registry.memory_log import MemoryLog, MemoryTopic
from tests.unit.web.service import Answer, Client

V1 = "application/vnd.schemaregistry.v1+json"


@dataclass
class Instance:
    """One instance, and a client of it."""

    registry: Registry
    client: Client
    identity: Identity

    async def ask(self, method: str, path: str, body: Any = None, accept: str = V1) -> Answer:
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        headers = {"accept": accept} | ({} if data is None else {"content-type": V1})
        return await self.client.ask(method, path, data, headers)

    async def register(self, subject: str, schema: str, kind: str = "AVRO", **more: Any) -> Answer:
        body = {"schema": schema, "schemaType": kind, **more}
        return await self.ask("POST", f"/subjects/{quote(subject, safe='')}/versions", body)

    def elect(self, other: "Instance | None" = None) -> None:
        """Tells this instance who the primary is: itself, or another one."""
        chosen = other or self
        self.registry.note_elected(Elected("member", chosen.identity, chosen is self))


@asynccontextmanager
async def instance(
    topic: MemoryTopic | None = None, *, elected: bool = True
) -> AsyncIterator[Instance]:
    state = RegistryState()
    log = MemoryLog(topic or MemoryTopic(), state)
    primary = Primary(state, log)
    judge, forwarder = Judge(World()), Forwarder()
    registry = Registry(state, log, judge, primary, forwarder, group_id="g", timeout_s=5)
    subjects = SubjectEndpoints(registry)
    endpoints = [
        *subjects.endpoints(),
        *SchemaEndpoints(registry, subjects).endpoints(),
        *SettingEndpoints(registry).endpoints(),
    ]

    def explain(error: Exception) -> Problem | None:
        if isinstance(error, Refused):
            return Problem(error.status, error.message, code=error.code)
        return None

    app = ContextPaths(application("registry", "1", endpoints, Policy(), explain=explain))
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    tasks = [
        asyncio.create_task(serve(app, Listener(), ready.set_result)),
        asyncio.create_task(primary.run()),
    ]
    try:
        port = int((await ready).rpartition(":")[2])
        made = Instance(registry, Client(port), Identity("127.0.0.1", port))
        if elected:
            made.elect()
        yield made
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        forwarder.close()
        await judge.close()
