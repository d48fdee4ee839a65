"""Every API declares who may use it, and a new API is two files: its messages and its handler."""

import sys
from collections.abc import Awaitable, Callable, Iterator
from importlib import import_module
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from odradek.broker import handlers
from odradek.broker.handlers import Handler, find_handler, served_apis
from odradek.broker.permissions import CheckedByHandler, OpenToAll, Required
from odradek.client.connection import Connection
from odradek.protocol import apis, messages
from odradek.protocol.apis import AnyApi, all_apis
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages import heartbeat
from odradek.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tests.unit.broker.harness import Client, on_broker, serving_on_sockets
from tests.unit.broker.test_acls import STANDARD

Connect = Callable[[], Awaitable[Client]]

OPEN_TO_ALL = {
    "ApiVersions",
    "DescribeCluster",
    "GetTelemetrySubscriptions",
    "PushTelemetry",
    "RenewDelegationToken",
    "SaslAuthenticate",
    "SaslHandshake",
}


@pytest.mark.parametrize("api", served_apis().values(), ids=lambda api: api.name)
def test_every_api_declares_a_permission(api: AnyApi) -> None:
    handler = find_handler(api.key)
    assert handler is not None
    permission = handler.permission
    assert isinstance(permission, Required | CheckedByHandler | OpenToAll)
    assert isinstance(permission, OpenToAll) == (api.name in OPEN_TO_ALL)
    assert permission.description.removeprefix("none: ")


def test_a_handler_without_a_permission_cannot_be_made() -> None:
    handle: Any = None
    with pytest.raises(TypeError, match="permission"):
        Handler(heartbeat.API, handle)  # type: ignore[call-arg]


@pytest.mark.parametrize("api", served_apis().values(), ids=lambda api: api.name)
def test_the_handler_module_is_about_its_api(api: AnyApi) -> None:
    handler = find_handler(api.key)
    assert handler is not None
    assert handler.api is api
    first, last = api.min_version, api.max_version
    versions = f"v{first}-v{last}" if first != last else f"v{first}"
    module = import_module(f"{handlers.__name__}.{api.module_name}")
    assert (module.__doc__ or "").startswith(f"{api.name} ({versions}): ")


def test_every_declared_api_is_served_and_no_other() -> None:
    assert {api.name for api in all_apis().values() if api.key not in served_apis()} == set()
    assert find_handler(24_999) is None


ECHO_MESSAGES = '''
    """EchoTexts: the broker answers with what it was sent."""

    from typing import Final

    from odradek.protocol.apis import Api
    from odradek.protocol.schema import Request, Response, array, int16, string


    class EchoTextsRequest(Request):
        texts: list[str] = array(string)
        suffix: str = string("1+")


    class EchoTextsResponse(Response):
        error_code: int = int16()
        texts: list[str] = array(string)


    API: Final = Api(25_999, EchoTextsRequest, EchoTextsResponse, flexible_from=1)
'''

ECHO_HANDLER = '''
    """EchoTexts (v0-v1): answers with what it was sent; from version 1 with a suffix."""

    from typing import Final

    from odradek.broker.handlers import Handler
    from odradek.broker.permissions import required_on_cluster
    from odradek.broker.request_splitting import Splitting
    from odradek.broker.services import RequestContext, Services
    from odradek.protocol.acls import Operation
    from odradek.protocol.errors import ErrorCode
    from odradek.protocol.messages.echo_texts import API, EchoTextsRequest, EchoTextsResponse


    async def handle(
        services: Services, context: RequestContext, request: EchoTextsRequest
    ) -> EchoTextsResponse:
        calls.append(len(request.texts))
        return EchoTextsResponse(texts=[text + request.suffix for text in request.texts])


    def _error_response(request: EchoTextsRequest, error: ErrorCode) -> EchoTextsResponse:
        return EchoTextsResponse(error_code=error)


    calls: list[int] = []
    HANDLER: Final = Handler(
        API,
        handle,
        permission=required_on_cluster(Operation.DESCRIBE, _error_response),
        splitting=[Splitting("texts", "texts")],
    )
'''


@pytest.fixture
def echo_texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Adds the two files of an API to their packages, and takes them away again."""
    monkeypatch.setattr(apis, "_declared", dict(all_apis()))
    monkeypatch.setattr(apis, "_has_declared_all", False)
    for package, source in ((messages, ECHO_MESSAGES), (handlers, ECHO_HANDLER)):
        directory = tmp_path / package.__name__
        directory.mkdir()
        (directory / "echo_texts.py").write_text(dedent(source))
        monkeypatch.setattr(package, "__path__", [*package.__path__, str(directory)])
    served_apis.cache_clear()
    _forget_advertised()
    yield
    for package in (messages, handlers):
        sys.modules.pop(f"{package.__name__}.echo_texts", None)
        if hasattr(package, "echo_texts"):
            delattr(package, "echo_texts")
    served_apis.cache_clear()
    _forget_advertised()


def _forget_advertised() -> None:
    import_module("odradek.broker.handlers.api_versions").make_response.cache_clear()


@pytest.mark.usefixtures("echo_texts")
@on_broker()
async def test_two_files_are_a_new_api(connect: Connect) -> None:
    client = await connect()
    advertised = await client.ask(ApiVersionsRequest(), ApiVersionsResponse, version=2)
    versions = [
        (api.min_version, api.max_version) for api in advertised.api_keys if api.api_key == 25_999
    ]
    assert versions == [(0, 1)]
    module = import_module("odradek.protocol.messages.echo_texts")
    request = module.EchoTextsRequest(texts=["a", "b"], suffix="!")
    for version, texts in ((0, ["a", "b"]), (1, ["a!", "b!"])):
        response = await client.ask(request, module.EchoTextsResponse, version=version)
        assert response.texts == texts
    many = module.EchoTextsRequest(texts=[str(number) for number in range(120)])
    response = await client.ask(many, module.EchoTextsResponse)
    assert response.texts == many.texts
    calls = import_module("odradek.broker.handlers.echo_texts").calls
    assert calls == [2, 2, 50, 50, 20]


@pytest.mark.usefixtures("echo_texts")
async def test_a_new_api_is_served_over_a_socket() -> None:
    async with serving_on_sockets() as broker:
        host, port = broker.bootstrap.split(":")
        connection = await Connection.open(host, int(port), client_id="test")
        module = import_module("odradek.protocol.messages.echo_texts")
        response = await connection.request(
            module.EchoTextsRequest(texts=["a"], suffix="?"), module.EchoTextsResponse
        )
        connection.close()
    assert response.texts == ["a?"]


@pytest.mark.usefixtures("echo_texts")
@on_broker(authorizer_class_name=STANDARD, super_users="User:admin")
async def test_a_new_api_is_denied_without_its_permission(connect: Connect) -> None:
    client = await connect()
    module = import_module("odradek.protocol.messages.echo_texts")
    response = await client.ask(module.EchoTextsRequest(texts=["a"]), module.EchoTextsResponse)
    assert response.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert response.texts == []
