"""DescribeClientQuotas and AlterClientQuotas: what is stored, found and refused."""

from collections.abc import Awaitable, Callable

import pytest

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    EntryData,
    OpData,
)
from odradek.protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from simulation.run import run
from simulation.world import Simulation
from tests.unit.broker.harness import BrokerHost, Client, on_broker
from tests.unit.broker.limits.quota_requests import Parts, alter, described
from tests.unit.broker.test_scram_credentials import alter as alter_scram
from tests.unit.broker.test_scram_credentials import describe as describe_scram
from tests.unit.broker.test_scram_credentials import upsertion

Connect = Callable[[], Awaitable[Client]]
EXACT, DEFAULT, ANY = 0, 1, 2

ENTITIES: list[Parts] = [
    {"client-id": None},
    {"client-id": "app"},
    {"user": None},
    {"user": None, "client-id": "app"},
    {"user": "ada"},
    {"user": "ada", "client-id": None},
    {"user": "ada", "client-id": "app"},
    {"user": "bob"},
]


@on_broker()
async def test_filters_select_entities(connect: Connect) -> None:
    client = await connect()
    for number, parts in enumerate(ENTITIES, start=1):
        assert await alter(client, parts, producer_byte_rate=number) == (0, None)
    assert await alter(client, {"ip": None}, connection_creation_rate=7) == (0, None)
    assert await alter(client, {"ip": "192.0.2.1"}, connection_creation_rate=9) == (0, None)

    async def found(*components: tuple[str, int, str | None], strict: bool = False) -> list[Parts]:
        return [parts for parts, _ in await described(client, *components, strict=strict)]

    def those(*numbers: int) -> list[Parts]:
        return [ENTITIES[number] for number in numbers]

    assert len(await found()) == len(ENTITIES) + 2
    assert await found(strict=True) == []
    assert await found(("user", EXACT, "ada")) == those(4, 5, 6)
    assert await found(("user", EXACT, "ada"), strict=True) == those(4)
    assert await found(("user", DEFAULT, None)) == those(2, 3)
    assert await found(("user", ANY, None), strict=True) == those(2, 4, 7)
    assert await found(("client-id", ANY, None), strict=True) == those(0, 1)
    assert await found(("client-id", EXACT, "app")) == those(1, 3, 6)
    assert await found(("user", ANY, None), ("client-id", DEFAULT, None)) == those(5)
    assert await found(("ip", EXACT, "192.0.2.1")) == [{"ip": "192.0.2.1"}]
    assert await found(("ip", ANY, None)) == [{"ip": None}, {"ip": "192.0.2.1"}]


@on_broker()
async def test_quotas_are_changed_one_by_one_and_removed(connect: Connect) -> None:
    client = await connect()
    ada: Parts = {"user": "ada"}
    await alter(client, ada, producer_byte_rate=1024, request_percentage=12.5)
    await alter(client, ada, consumer_byte_rate=2048, request_percentage=None)
    await alter(client, ada, controller_mutation_rate=5, validate_only=True)
    assert await described(client) == [
        (ada, {"consumer_byte_rate": 2048.0, "producer_byte_rate": 1024.0})
    ]
    await alter(client, ada, consumer_byte_rate=None, producer_byte_rate=None)
    assert await described(client) == []
    # What is not there can be removed.
    assert await alter(client, ada, consumer_byte_rate=None) == (0, None)


@on_broker()
async def test_credentials_and_quotas_of_a_user_do_not_disturb_each_other(
    connect: Connect,
) -> None:
    client = await connect()
    await alter(client, {"user": "ada", "client-id": "app"}, producer_byte_rate=5)
    await alter_scram(client, upsertion("ada"))
    await alter(client, {"user": "ada"}, producer_byte_rate=7)
    assert (await describe_scram(client))["ada"] == (0, [(1, 4096)])
    assert [values for _, values in await described(client, ("user", EXACT, "ada"))] == [
        {"producer_byte_rate": 7.0},
        {"producer_byte_rate": 5.0},
    ]
    await alter(client, {"user": "ada"}, producer_byte_rate=None)
    assert (await describe_scram(client))["ada"] == (0, [(1, 4096)])


@pytest.mark.parametrize(
    ("parts", "quotas", "told"),
    [
        ({}, {"producer_byte_rate": 1.0}, "needs a user"),
        ({"user": ""}, {"producer_byte_rate": 1.0}, "empty"),
        ({"ip": "localhost"}, {"connection_creation_rate": 1.0}, "not an IP address"),
        ({"user": "ada"}, {"producer_byte_rate": -1.0}, "greater than 0"),
        ({"user": "ada"}, {"bytes": 1.0}, "there is producer_byte_rate"),
    ],
)
@on_broker()
async def test_what_cannot_be_is_refused_and_changes_nothing(
    connect: Connect, parts: Parts, quotas: dict[str, float], told: str
) -> None:
    client = await connect()
    code, message = await alter(client, parts, validate_only=False, **quotas)
    assert code == ErrorCode.INVALID_REQUEST
    assert told in (message or "")
    assert await described(client) == []


@on_broker()
async def test_the_entries_of_a_request_are_independent(connect: Connect) -> None:
    client = await connect()
    users = [f"user-{number}" for number in range(120)]
    response = await client.ask(
        AlterClientQuotasRequest(
            entries=[
                EntryData(
                    entity=[EntityData(entity_type="user", entity_name=user)],
                    ops=[OpData(key="producer_byte_rate", value=float(number))],
                )
                for number, user in enumerate(users)
            ]
        ),
        AlterClientQuotasResponse,
    )
    assert [entry.error_code for entry in response.entries] == [ErrorCode.INVALID_REQUEST] + [
        0
    ] * 119
    assert len(await described(client)) == 119


@pytest.mark.parametrize(
    ("component", "code"),
    [
        (ComponentData(entity_type="topic", match_type=ANY), ErrorCode.UNSUPPORTED_VERSION),
        (ComponentData(entity_type="user", match_type=7, match=None), ErrorCode.INVALID_REQUEST),
        (
            ComponentData(entity_type="user", match_type=EXACT, match=None),
            ErrorCode.INVALID_REQUEST,
        ),
        (ComponentData(entity_type="user", match_type=ANY, match="x"), ErrorCode.INVALID_REQUEST),
    ],
)
@on_broker()
async def test_a_filter_that_cannot_be_is_refused(
    connect: Connect, component: ComponentData, code: ErrorCode
) -> None:
    client = await connect()
    response = await client.ask(
        DescribeClientQuotasRequest(components=[component]), DescribeClientQuotasResponse
    )
    assert response.error_code == code
    assert response.entries is None


def test_quotas_outlive_the_broker() -> None:
    async def main(simulation: Simulation) -> None:
        host = BrokerHost(simulation, {})
        async with host.running() as connect:
            await alter(await connect(), {"user": "a/b"}, producer_byte_rate=1024)
        async with host.running() as connect:
            client = await connect()
            assert await described(client) == [({"user": "a/b"}, {"producer_byte_rate": 1024.0})]

    run(main, seed=1)
