"""The page of permissions is current, and what it says is what handlers ask for."""

import re
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from odradek.broker.handlers import find_handler, served_apis
from odradek.broker.permissions import CheckedByHandler, OpenToAll
from odradek.broker.permissions_reference import Need, needs, reference
from odradek.config import BrokerSettings
from odradek.protocol.acls import Operation, ResourceType
from odradek.protocol.apis import AnyApi, all_apis
from odradek.security.authorizer import Authorizer
from odradek.security.principals import Principal
from odradek.security.roles import Area
from tests.unit.broker.harness import Client, on_broker
from tests.unit.broker.test_permissions import _ASKED

Connect = Callable[[], Awaitable[Client]]

# It asks the authorizer what it was asked to explain.
EXPLAINS = "ExplainAccess"
# Without a request of its own that asks: ids of topics are unknown, or nothing is there to list.
ASKS_NOTHING_ALONE = {"ListTransactions", "Produce", "Fetch"}


class Recorder(Authorizer):
    """Denies everything, and remembers what it was asked."""

    asked: set[Need]

    def __init__(self, settings: BrokerSettings) -> None:
        super().__init__(settings)
        Recorder.asked = set()

    def allows(
        self, principal: Principal, host: str, operation: Operation, kind: ResourceType, name: str
    ) -> bool:
        Recorder.asked.add(Need(operation, kind))
        return False

    def allows_on_cluster(
        self, principal: Principal, host: str, operation: Operation, area: Area
    ) -> bool:
        Recorder.asked.add(Need(operation, ResourceType.CLUSTER, area))
        return False


class Obliging(Recorder):
    """Allows everything and remembers what it was asked: a handler goes on to its next question."""

    def allows(
        self, principal: Principal, host: str, operation: Operation, kind: ResourceType, name: str
    ) -> bool:
        super().allows(principal, host, operation, kind, name)
        return True

    def allows_on_cluster(
        self, principal: Principal, host: str, operation: Operation, area: Area
    ) -> bool:
        super().allows_on_cluster(principal, host, operation, area)
        return True


def test_the_reference_page_is_current() -> None:
    page = Path(__file__).parents[3] / "docs" / "reference" / "permissions.md"
    assert page.read_text() == reference(), (
        "run: python -m odradek.broker.permissions_reference docs/reference/permissions.md"
    )


@pytest.mark.parametrize("api", served_apis().values(), ids=lambda api: api.name)
def test_every_api_is_in_the_table_with_its_permissions(api: AnyApi) -> None:
    handler = find_handler(api.key)
    assert handler is not None
    found = needs(handler.permission)
    assert bool(found) is not isinstance(handler.permission, OpenToAll)
    if isinstance(handler.permission, CheckedByHandler):
        # Every operation that the words name was understood.
        words = set(re.findall(r"[A-Z_]+", handler.permission.description))
        assert words & set(Operation.__members__) == {need.operation.name for need in found}
    assert f"| {api.name} |" in reference()


async def _send(connect: Connect, key: int) -> set[Need]:
    client = await connect()
    Recorder.asked.clear()
    await client.ask(_ASKED[key], all_apis()[key].response)
    return set(Recorder.asked)


def _declared(key: int) -> set[Need]:
    handler = find_handler(key)
    assert handler is not None
    return set(needs(handler.permission))


@pytest.mark.parametrize("key", sorted(_ASKED), ids=lambda key: served_apis()[key].name)
@on_broker(authorizer_class_name=f"{__name__}:Recorder")
async def test_handlers_ask_for_what_is_declared(connect: Connect, key: int) -> None:
    asked = await _send(connect, key)
    declared = _declared(key)
    if declared:
        assert asked <= declared
        assert asked or served_apis()[key].name in ASKS_NOTHING_ALONE


@pytest.mark.parametrize("key", sorted(_ASKED), ids=lambda key: served_apis()[key].name)
@on_broker(authorizer_class_name=f"{__name__}:Obliging")
async def test_handlers_ask_for_nothing_else_when_they_go_on(connect: Connect, key: int) -> None:
    declared = _declared(key)
    if declared and served_apis()[key].name != EXPLAINS:
        assert await _send(connect, key) <= declared
