"""Settings of consumer groups over the wire: alter, describe, list, and what members hear."""

from collections.abc import Awaitable, Callable

from odradek.broker.config_resources import ConfigResourceType
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from odradek.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from odradek.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from odradek.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from odradek.protocol.messages.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from tests.unit.broker.harness import Client, on_broker

Connect = Callable[[], Awaitable[Client]]

GROUP = "a/group"
SESSION = "consumer.session.timeout.ms"
HEARTBEAT = "consumer.heartbeat.interval.ms"
SET, DELETE = 0, 1


async def alter(
    client: Client, name: str, value: str | None, operation: int = SET, group: str = GROUP
) -> int:
    config = AlterableConfig(name=name, value=value, config_operation=operation)
    resource = AlterConfigsResource(
        resource_type=ConfigResourceType.GROUP, resource_name=group, configs=[config]
    )
    response = await client.ask(
        IncrementalAlterConfigsRequest(resources=[resource]), IncrementalAlterConfigsResponse
    )
    return response.responses[0].error_code


async def described(client: Client) -> dict[str, tuple[str | None, int]]:
    resource = DescribeConfigsResource(
        resource_type=ConfigResourceType.GROUP, resource_name=GROUP, configuration_keys=None
    )
    response = await client.ask(
        DescribeConfigsRequest(resources=[resource]), DescribeConfigsResponse
    )
    (result,) = response.results
    assert result.error_code == 0, result.error_message
    return {one.name: (one.value, one.config_source) for one in result.configs}


async def listed(client: Client) -> list[str]:
    asked = ListConfigResourcesRequest(resource_types=[ConfigResourceType.GROUP])
    response = await client.ask(asked, ListConfigResourcesResponse)
    return [one.resource_name for one in response.config_resources]


@on_broker()
async def test_settings_of_a_group_are_kept_described_listed_and_deleted(connect: Connect) -> None:
    client = await connect()
    assert await described(client) == {SESSION: ("45000", 5), HEARTBEAT: ("5000", 5)}
    assert await listed(client) == []
    assert await alter(client, SESSION, "50000") == ErrorCode.NONE
    assert await described(client) == {SESSION: ("50000", 8), HEARTBEAT: ("5000", 5)}
    assert await listed(client) == [GROUP]
    assert await alter(client, SESSION, None, DELETE) == ErrorCode.NONE
    assert await described(client) == {SESSION: ("45000", 5), HEARTBEAT: ("5000", 5)}
    assert await listed(client) == []


@on_broker()
async def test_what_cannot_be_is_refused(connect: Connect) -> None:
    client = await connect()
    assert await alter(client, SESSION, "1") == ErrorCode.INVALID_CONFIG
    assert await alter(client, "retention.ms", "1") == ErrorCode.INVALID_CONFIG
    assert await alter(client, SESSION, "50000", group="") == ErrorCode.INVALID_REQUEST
    assert await described(client) == {SESSION: ("45000", 5), HEARTBEAT: ("5000", 5)}


@on_broker()
async def test_members_hear_how_often_their_group_reports(connect: Connect) -> None:
    client = await connect()
    await client.create_topic("t")
    find = FindCoordinatorRequest(key=GROUP, coordinator_keys=[GROUP])
    await client.ask(find, FindCoordinatorResponse)
    assert await alter(client, HEARTBEAT, "7000") == ErrorCode.NONE
    joining = ConsumerGroupHeartbeatRequest(
        group_id=GROUP,
        member_id="m",
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=["t"],
        topic_partitions=[],
    )
    answer = await client.ask(joining, ConsumerGroupHeartbeatResponse)
    assert (answer.error_code, answer.heartbeat_interval_ms) == (ErrorCode.NONE, 7_000)
