"""What needs the right to change connectors: all that runs a connector's code or gives its secrets
to another host, checks and previews too."""

from typing import Any

import pytest
from starlette.requests import Request

from odradek.connect.api.plugins import PluginEndpoints
from odradek.connect.api.surface import Surface
from odradek.connect.worker.server import ConnectService
from odradek.connect.worker.settings import StandaloneSettings
from odradek.web.endpoints import Endpoint
from odradek.web.problems import Problem
from odradek.world import World


@pytest.fixture
def service() -> ConnectService:
    lines = {"bootstrap.servers": "127.0.0.1:1", "offset.storage.file.filename": "offsets"}
    return ConnectService(StandaloneSettings.from_file(lines), World())


def test_everything_but_questions_is_refused_from_elsewhere_without_a_log_in(
    service: ConnectService,
) -> None:
    """The guards refuse what `changes`."""
    open_to_all = {
        one.path
        for one in service.endpoints()
        if not one.changes and (one.method != "GET" or "preview" in one.path)
    }
    assert open_to_all == set()


@pytest.mark.parametrize("path", ["validate", "preview"])
async def test_who_may_not_make_a_connector_may_not_try_one(
    service: ConnectService, path: str
) -> None:
    async def refuse(request: Request) -> None:
        raise Problem(403, "bob may not change connectors")

    surface = Surface(
        service.operations, service.surface.preview, service.forwarder, 1.0, refuse
    )  # fmt: skip
    endpoint = _endpoint(surface, path)
    plugin = "FileStreamSinkConnector"
    body = b'{"connector.class":"FileStreamSinkConnector","topics":"a"}'

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    scope = {
        "type": "http", "method": "PUT", "path": "/", "headers": [], "query_string": b"",
        "path_params": {"plugin": plugin},
    }  # fmt: skip
    with pytest.raises(Problem, match="bob may not change connectors"):
        await endpoint.handler(Request(scope, receive))


def _endpoint(surface: Surface, path: str) -> Endpoint:
    return next(one for one in PluginEndpoints(surface).endpoints() if one.path.endswith(path))
