"""A broker with an audit log: denials, changes, a topic as the sink; and every API that changes."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from odradek.broker.audit.changes import CHANGES, NO_CHANGES
from odradek.broker.handlers import find_handler, served_apis
from odradek.broker.permissions_reference import needs
from odradek.protocol.acls import Operation, ResourceType
from odradek.protocol.apis import AnyApi
from odradek.protocol.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from odradek.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from odradek.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from odradek.protocol.records import decode_records
from simulation.run import run
from simulation.world import Simulation
from tests.unit.broker.harness import BrokerHost, Client
from tests.unit.broker.test_acls import STANDARD, create, rule
from tests.unit.broker.test_permissions import produced

CHANGING = {
    Operation.ALTER,
    Operation.ALTER_CONFIGS,
    Operation.CREATE,
    Operation.CREATE_TOKENS,
    Operation.DELETE,
}
# Everybody may change what is their own.
BY_OWNERS = {"RenewDelegationToken"}
PROPERTIES = {
    "authorizer.class.name": STANDARD,
    "allow.everyone.if.no.acl.found": "true",
}


@pytest.mark.parametrize("api", served_apis().values(), ids=lambda api: api.name)
def test_every_api_that_changes_something_is_audited(api: AnyApi) -> None:
    handler = find_handler(api.key)
    assert handler is not None
    needed = any(need.operation in CHANGING for need in needs(handler.permission))
    changes = needed or api.name in BY_OWNERS
    assert changes is (api.name in CHANGES or api.name in NO_CHANGES), api.name


def audited(
    test: Callable[[Client, Callable[[], list[dict[str, Any]]]], Awaitable[None]],
    **properties: str,
) -> None:
    """Runs a test on a broker with an audit file, which the test can read."""

    async def main(simulation: Simulation) -> None:
        named = {name.replace("_", "."): text for name, text in properties.items()}
        file = {"odradek.audit.sink": "file", "odradek.audit.file": "/audit/audit.log"}
        host = BrokerHost(simulation, {**PROPERTIES, **file, **named})
        disk = host.host.disk

        def events() -> list[dict[str, Any]]:
            if not disk.exists("/audit/audit.log"):
                return []
            return [json.loads(line) for line in disk.read("/audit/audit.log").splitlines()]

        async with host.running() as connect:
            await test(await connect(), events)

    run(main, seed=1)


async def story(client: Client) -> None:
    await client.create_topic("t", partitions=2)
    await create(client, rule(ResourceType.TOPIC, "t", Operation.READ))
    await produced(client, "t")
    await client.ask(
        IncrementalAlterConfigsRequest(
            resources=[
                AlterConfigsResource(
                    resource_type=4,
                    resource_name="",
                    configs=[AlterableConfig(name="message.max.bytes", value="123456")],
                )
            ]
        ),
        IncrementalAlterConfigsResponse,
    )
    await client.ask(
        DeleteTopicsRequest(topics=[DeleteTopicState(name="gone")]), DeleteTopicsResponse
    )


async def some(events: Callable[[], list[dict[str, Any]]], count: int) -> list[dict[str, Any]]:
    async with asyncio.timeout(30):
        while len(events()) < count:  # noqa: ASYNC110 - a file on the broker's disk
            await asyncio.sleep(0.05)
    return events()


def test_denials_and_changes_are_in_the_file() -> None:
    async def test(client: Client, events: Callable[[], list[dict[str, Any]]]) -> None:
        await story(client)
        found = await some(events, 5)
        shown = [
            (event["event"], event["api"], event["result"], event.get("resource"))
            for event in found
        ]
        assert shown == [
            ("change", "CreateTopics", "success", "t"),
            ("change", "CreateAcls", "success", "t"),
            ("authorization", "Produce", "denied", "t"),
            ("change", "IncrementalAlterConfigs", "success", "all brokers"),
            ("change", "DeleteTopics", "UNKNOWN_TOPIC_OR_PARTITION", "gone"),
        ]
        assert found[1]["detail"] == "ACL added: Allow Read to User:ANONYMOUS from *"
        # Values may be secrets.
        assert found[3]["detail"] == "set message.max.bytes"
        assert "123456" not in json.dumps(found)
        ids = [event["requestId"] for event in found]
        assert ids == sorted(ids)
        assert len(set(ids)) == 5
        assert {event["clientId"] for event in found} == {"test"}
        assert {event["principal"] for event in found} == {"User:ANONYMOUS"}

    audited(test)


def test_events_are_chosen() -> None:
    async def test(client: Client, events: Callable[[], list[dict[str, Any]]]) -> None:
        await story(client)
        found = await some(events, 1)
        assert {event["result"] for event in found} == {"denied"}
        assert [event["api"] for event in found] == ["Produce"]

    audited(test, odradek_audit_events="denied")


def test_a_change_that_is_denied_is_a_denial_and_no_change() -> None:
    async def test(client: Client, events: Callable[[], list[dict[str, Any]]]) -> None:
        await client.ask(
            DeleteTopicsRequest(topics=[DeleteTopicState(name="t")]), DeleteTopicsResponse
        )
        found = await some(events, 1)
        assert [(event["event"], event["result"]) for event in found] == [
            ("authorization", "denied")
        ]

    audited(test, allow_everyone_if_no_acl_found="false")


def test_a_topic_takes_the_events_too() -> None:
    async def main(simulation: Simulation) -> None:
        host = BrokerHost(simulation, {**PROPERTIES, "odradek.audit.sink": "topic"})
        async with host.running() as connect:
            client = await connect()
            await story(client)
            values: list[dict[str, Any]] = []
            async with asyncio.timeout(60):
                while len(values) < 5:
                    await asyncio.sleep(0.2)
                    values = await read_trail(client)
            assert [event["event"] for event in values][:3] == [
                "change",
                "change",
                "authorization",
            ]

    run(main, seed=1)


async def read_trail(client: Client) -> list[dict[str, Any]]:
    response = await client.ask(
        FetchRequest(
            max_bytes=1 << 20,
            topics=[
                FetchTopic(
                    topic="odradek-audit",
                    partitions=[FetchPartition(partition=0, partition_max_bytes=1 << 20)],
                )
            ],
        ),
        FetchResponse,
        version=12,
    )
    partition = response.responses[0].partitions[0]
    records = partition.records
    if partition.error_code or not isinstance(records, bytes | memoryview) or not records:
        return []
    found, rest = [], bytes(records)
    while rest:
        size = 12 + int.from_bytes(rest[8:12], "big")
        found += [json.loads(record.value or b"{}") for record in decode_records(rest[:size])]
        rest = rest[size:]
    return found
