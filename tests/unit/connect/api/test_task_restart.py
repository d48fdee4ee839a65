"""What a worker answers to the restart of a task, by what it knows of it."""

from typing import Any

import pytest
from starlette.requests import Request

from odradek.connect.api.connectors import ConnectorEndpoints
from odradek.connect.api.surface import Surface
from odradek.connect.engine.engine import TaskId
from odradek.connect.worker.operations import NotFound
from odradek.connect.worker.server import ConnectService
from odradek.connect.worker.settings import StandaloneSettings
from odradek.connect.worker.worker import Shares
from odradek.services.forwarding import FORWARDED
from odradek.web.problems import Problem
from odradek.world import World

HERE, OTHER = "http://127.0.0.1:1", "http://127.0.0.1:2"


@pytest.fixture
def surface() -> Surface:
    lines = {"bootstrap.servers": "127.0.0.1:1", "offset.storage.file.filename": "offsets"}
    service = ConnectService(StandaloneSettings.from_file(lines), World())
    service.worker.url = HERE
    service.worker.configs.connectors["files"] = {}
    service.worker.configs.tasks["files"] = [{}]

    async def allow(request: Request) -> None:
        return

    return Surface(service.operations, service.surface.preview, service.forwarder, 1.0, allow)


async def restart(surface: Surface, task: int, *, is_forwarded: bool = False) -> int:
    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    path = "/connectors/{name}/tasks/{task:int}/restart"
    endpoint = next(one for one in ConnectorEndpoints(surface).endpoints() if one.path == path)
    headers = [(FORWARDED.lower().encode(), b"true")] if is_forwarded else []
    scope = {
        "type": "http", "method": "POST", "path": "/", "headers": headers, "query_string": b"",
        "path_params": {"name": "files", "task": task},
    }  # fmt: skip
    return (await endpoint.handler(Request(scope, receive))).status_code


def shared(owner: str | None) -> Shares:
    tasks = {HERE: (), OTHER: ()} | ({} if owner is None else {owner: (TaskId("files", 0),)})
    return Shares(1, HERE, is_leader=True, position=0, tasks=tasks)


async def test_a_task_that_does_not_exist(surface: Surface) -> None:
    surface.worker.shares = shared(None)
    with pytest.raises(NotFound, match="Unknown task: files-1"):
        await restart(surface, 1)


async def test_a_task_that_is_about_to_start_here(surface: Surface) -> None:
    surface.worker.shares = shared(HERE)
    assert await restart(surface, 0) == 204


@pytest.mark.parametrize(
    ("shares", "is_forwarded"), [(None, False), (shared(None), False), (shared(OTHER), True)]
)
async def test_a_task_that_moves_is_asked_for_again(
    surface: Surface, shares: Shares | None, is_forwarded: bool
) -> None:
    """Clients, as those of Kafka Connect, try again after 409 with the word rebalance."""
    surface.worker.shares = shares
    with pytest.raises(Problem, match=r"files-0 has no worker .* rebalance") as raised:
        await restart(surface, 0, is_forwarded=is_forwarded)
    assert raised.value.status == 409
