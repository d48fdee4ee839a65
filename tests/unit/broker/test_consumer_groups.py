"""Consumer groups over the wire, in every version: join, share, describe, leave."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from odradek.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)
from odradek.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from odradek.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from odradek.protocol.messages.describe_groups import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from odradek.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from odradek.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from odradek.protocol.types import TopicId
from tests.unit.broker.harness import Client, on_broker

Connect = Callable[[], Awaitable[Client]]

GROUP = "g"


async def beat(client: Client, version: int, **fields: object) -> ConsumerGroupHeartbeatResponse:
    request = ConsumerGroupHeartbeatRequest(group_id=GROUP, **fields)  # type: ignore[arg-type]
    return await client.ask(request, ConsumerGroupHeartbeatResponse, version=version)


async def join(client: Client, version: int, member_id: str) -> ConsumerGroupHeartbeatResponse:
    return await beat(
        client,
        version,
        member_id=member_id,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=["t"],
        topic_partitions=[],
    )


def partitions(answer: ConsumerGroupHeartbeatResponse) -> list[int] | None:
    assert answer.error_code == ErrorCode.NONE, answer.error_message
    if answer.assignment is None:
        return None
    return [each for topic in answer.assignment.topic_partitions for each in topic.partitions]


async def described(client: Client, version: int) -> DescribedGroup:
    request = ConsumerGroupDescribeRequest(group_ids=[GROUP], include_authorized_operations=True)
    answer = await client.ask(request, ConsumerGroupDescribeResponse, version=version)
    (group,) = answer.groups
    return group


async def prepared(connect: Connect) -> tuple[Client, TopicId]:
    client = await connect()
    topic_id = TopicId(await client.create_topic("t", 2))
    find = FindCoordinatorRequest(key=GROUP, coordinator_keys=[GROUP])
    await client.ask(find, FindCoordinatorResponse)
    return client, topic_id


@pytest.mark.parametrize("version", [0, 1])
@on_broker()
async def test_two_members_share_a_topic(connect: Connect, version: int) -> None:
    client, topic_id = await prepared(connect)
    missing = await described(client, version)
    assert missing.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert missing.error_message == f"Group {GROUP} not found."
    first = await join(client, version, "one" if version else "")
    assert (first.member_epoch, partitions(first)) == (2, [0, 1])
    member_id = first.member_id or ""
    second = await join(client, version, "two")
    assert (second.member_epoch, partitions(second)) == (3, [])
    owned = [TopicPartitions(topic_id=topic_id, partitions=[0, 1])]
    told = await beat(client, version, member_id=member_id, member_epoch=2, topic_partitions=owned)
    assert (told.member_epoch, partitions(told)) == (2, [0])
    owned = [TopicPartitions(topic_id=topic_id, partitions=[0])]
    done = await beat(client, version, member_id=member_id, member_epoch=2, topic_partitions=owned)
    assert (done.member_epoch, partitions(done)) == (3, None)
    given = await beat(client, version, member_id="two", member_epoch=3)
    assert partitions(given) == [1]
    group = await described(client, version)
    assert (group.group_state, group.group_epoch, group.assignment_epoch) == ("Stable", 3, 3)
    assert (group.assignor_name, group.authorized_operations) == ("uniform", 3400)
    assert {each.member_id: each.member_type for each in group.members} == {
        member_id: 1 if version else -1,
        "two": 1 if version else -1,
    }
    names = [each.assignment.topic_partitions[0].topic_name for each in group.members]
    assert names == ["t", "t"]
    left = await beat(client, version, member_id="two", member_epoch=-1)
    assert (left.error_code, left.member_epoch) == (ErrorCode.NONE, -1)


@on_broker()
async def test_the_other_apis_know_the_group(connect: Connect) -> None:
    client, _ = await prepared(connect)
    await join(client, 1, "one")
    listed = await client.ask(
        ListGroupsRequest(types_filter=["consumer"]), ListGroupsResponse, version=5
    )
    assert [(each.group_id, each.group_state, each.group_type) for each in listed.groups] == [
        (GROUP, "Stable", "consumer")
    ]
    request = DescribeGroupsRequest(groups=[GROUP])
    (group,) = (await client.ask(request, DescribeGroupsResponse, version=6)).groups
    assert group.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert group.error_message == f"Group {GROUP} is not a classic group."


@on_broker()
async def test_new_partitions_reach_the_members(connect: Connect) -> None:
    client, _ = await prepared(connect)
    await join(client, 1, "one")
    more = CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name="t", count=3, assignments=None)]
    )
    await client.ask(more, CreatePartitionsResponse)
    told = await beat(client, 1, member_id="one", member_epoch=2)
    assert (told.member_epoch, partitions(told)) == (3, [0, 1, 2])


@on_broker(group_coordinator_rebalance_protocols="classic")
async def test_it_can_be_switched_off(connect: Connect) -> None:
    client, _ = await prepared(connect)
    answer = await join(client, 1, "one")
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION


@on_broker()
async def test_clients_hear_that_it_is_in_force(connect: Connect) -> None:
    client = await connect()
    asked = ApiVersionsRequest(client_software_name="test", client_software_version="1.0")
    answer = await client.ask(asked, ApiVersionsResponse)
    levels = {each.name: each.max_version_level for each in answer.finalized_features}
    assert levels["group.version"] == 1


@on_broker()
async def test_a_member_that_subscribes_to_more_than_a_record_can_hold_is_refused_alone(
    connect: Connect,
) -> None:
    client, _ = await prepared(connect)
    other = await connect()
    names = [f"{number}{'t' * 30_000}" for number in range(60)]
    large, small = await asyncio.gather(
        beat(
            other,
            0,
            member_id="large",
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=names,
            topic_partitions=[],
        ),
        join(client, 0, "small"),
    )
    assert large.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert "max.message.bytes" in (large.error_message or "")
    assert partitions(small) == [0, 1]
    changed = await beat(
        client,
        0,
        member_id="small",
        member_epoch=small.member_epoch,
        subscribed_topic_names=names,
    )
    assert changed.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert [each.member_id for each in (await described(client, 0)).members] == ["small"]
