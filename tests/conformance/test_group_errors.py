"""The errors of groups, code for code, against Apache Kafka: raw requests in the newest version.

Clients act on these codes, so each is asked for here by doing what provokes it.
"""

import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeVar

from benchmarks.broker_process import BrokerProcess
from odradek.client.connection import Connection
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from odradek.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from odradek.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from odradek.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from odradek.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from odradek.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
)
from odradek.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from odradek.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from odradek.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from odradek.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from odradek.protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from odradek.protocol.schema import Request, Response
from tests.conformance.topics import create_topic
from tests.unit.groups.driver import subscription

R = TypeVar("R", bound=Response)


class Talk:
    """One connection to the coordinator of one group."""

    def __init__(self, connection: Connection, topic: str) -> None:
        self.connection = connection
        self.topic = topic
        self.group = f"g-{uuid.uuid4().hex[:12]}"

    async def ask(self, request: Request, expected: type[R], version: int | None = None) -> R:
        response = await self.connection.request(request, expected, max_version=version)
        assert isinstance(response, expected)
        return response

    async def join(
        self,
        member_id: str = "",
        *,
        instance: str | None = None,
        protocol: str = "range",
        protocol_type: str = "consumer",
        session_ms: int = 30_000,
        group: str | None = None,
        version: int | None = None,
    ) -> JoinGroupResponse:
        offered = JoinGroupRequestProtocol(name=protocol, metadata=subscription(self.topic))
        request = JoinGroupRequest(
            group_id=self.group if group is None else group,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=5_000,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocols=[offered] if protocol else [],
        )
        return await self.ask(request, JoinGroupResponse, version)

    async def sync(
        self,
        member_id: str,
        generation_id: int = 1,
        *,
        instance: str | None = None,
        protocol_type: str | None = "consumer",
        protocol: str | None = "range",
        version: int | None = None,
    ) -> SyncGroupResponse:
        mine = SyncGroupRequestAssignment(member_id=member_id, assignment=b"mine")
        request = SyncGroupRequest(
            group_id=self.group,
            generation_id=generation_id,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocol_name=protocol,
            assignments=[mine],
        )
        return await self.ask(request, SyncGroupResponse, version)

    async def beat(
        self, member_id: str, generation_id: int = 1, instance: str | None = None
    ) -> int:
        request = HeartbeatRequest(
            group_id=self.group,
            generation_id=generation_id,
            member_id=member_id,
            group_instance_id=instance,
        )
        return (await self.ask(request, HeartbeatResponse)).error_code

    async def leave(self, *members: tuple[str, str | None]) -> list[int]:
        leaving = [MemberIdentity(member_id=one, group_instance_id=two) for one, two in members]
        request = LeaveGroupRequest(group_id=self.group, members=leaving)
        response = await self.ask(request, LeaveGroupResponse)
        assert response.error_code == ErrorCode.NONE
        return [each.error_code for each in response.members]

    async def commit(
        self,
        member_id: str = "",
        generation_id: int = -1,
        *,
        instance: str | None = None,
        version: int = 9,
        metadata: str | None = "note",
    ) -> int:
        partition = OffsetCommitRequestPartition(
            partition_index=0, committed_offset=5, committed_metadata=metadata
        )
        request = OffsetCommitRequest(
            group_id=self.group,
            generation_id_or_member_epoch=generation_id,
            member_id=member_id,
            group_instance_id=instance,
            topics=[OffsetCommitRequestTopic(name=self.topic, partitions=[partition])],
        )
        response = await self.ask(request, OffsetCommitResponse, version)
        return response.topics[0].partitions[0].error_code

    async def describe(self) -> DescribedGroup:
        request = DescribeGroupsRequest(groups=[self.group], include_authorized_operations=True)
        return (await self.ask(request, DescribeGroupsResponse)).groups[0]

    async def delete_offset(self) -> tuple[int, int]:
        partitions = [OffsetDeleteRequestPartition(partition_index=0)]
        topic = OffsetDeleteRequestTopic(name=self.topic, partitions=partitions)
        request = OffsetDeleteRequest(group_id=self.group, topics=[topic])
        response = await self.ask(request, OffsetDeleteResponse)
        topics = response.topics
        return response.error_code, topics[0].partitions[0].error_code if topics else 0

    async def stable_member(self, instance: str | None = None) -> str:
        joined = await self.join(instance=instance)
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            joined = await self.join(joined.member_id)
        assert (joined.error_code, joined.generation_id) == (ErrorCode.NONE, 1)
        synced = await self.sync(joined.member_id, instance=instance)
        assert (synced.error_code, synced.assignment) == (ErrorCode.NONE, b"mine")
        return joined.member_id


@asynccontextmanager
async def talk(broker: BrokerProcess) -> AsyncIterator[Talk]:
    connection = await Connection.open("127.0.0.1", broker.port, client_id="conformance")
    try:
        talking = Talk(connection, create_topic(broker))
        find = FindCoordinatorRequest(key_type=0, coordinator_keys=[talking.group])
        while True:
            found = await talking.ask(find, FindCoordinatorResponse)
            if found.coordinators[0].error_code == ErrorCode.NONE and (
                await talking.describe()
            ).error_code not in (
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
                ErrorCode.NOT_COORDINATOR,
            ):
                break
        yield talking
    finally:
        connection.close()


async def test_joining(any_broker: BrokerProcess) -> None:
    async with talk(any_broker) as client:
        unknown = ErrorCode.UNKNOWN_MEMBER_ID
        assert (await client.join("m")).error_code == unknown
        assert (await client.join(group="")).error_code == ErrorCode.INVALID_GROUP_ID
        for session_ms in (5_999, 1_800_001):
            refused = await client.join(session_ms=session_ms)
            assert refused.error_code == ErrorCode.INVALID_SESSION_TIMEOUT
        named = await client.join()
        assert named.error_code == ErrorCode.MEMBER_ID_REQUIRED
        assert named.member_id.startswith("conformance-")
        assert (named.generation_id, named.leader, named.protocol_name) == (-1, "", None)
        old = await client.join("m", version=6)
        assert (old.error_code, old.member_id, old.protocol_name) == (unknown, "m", "")
        joined = await client.join(named.member_id)
        assert (joined.error_code, joined.generation_id) == (ErrorCode.NONE, 1)
        assert (joined.leader, joined.protocol_type) == (named.member_id, "consumer")
        again = await client.join(named.member_id)
        assert (again.generation_id, len(again.members)) == (1, 1)
        inconsistent = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        assert (await client.join(protocol="other")).error_code == inconsistent
        assert (await client.join(protocol_type="connect")).error_code == inconsistent
        assert (await client.join(protocol="")).error_code == inconsistent


async def test_synchronising_and_beating(any_broker: BrokerProcess) -> None:
    async with talk(any_broker) as client:
        assert (await client.sync("m")).error_code == ErrorCode.UNKNOWN_MEMBER_ID
        assert await client.beat("m") == ErrorCode.UNKNOWN_MEMBER_ID
        member = await client.stable_member()
        assert await client.beat(member) == ErrorCode.NONE
        assert await client.beat(member, 2) == ErrorCode.ILLEGAL_GENERATION
        assert await client.beat("m") == ErrorCode.UNKNOWN_MEMBER_ID
        assert await client.beat(member, 1, "i") == ErrorCode.UNKNOWN_MEMBER_ID
        assert (await client.sync(member, 2)).error_code == ErrorCode.ILLEGAL_GENERATION
        inconsistent = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        assert (await client.sync(member, protocol="other")).error_code == inconsistent
        assert (await client.sync(member, protocol_type="other")).error_code == inconsistent
        assert (await client.sync(member, protocol=None)).error_code == inconsistent
        older = await client.sync(member, version=4)
        assert (older.error_code, older.assignment) == (ErrorCode.NONE, b"mine")
        repeated = await client.sync(member)
        assert (repeated.error_code, repeated.assignment) == (ErrorCode.NONE, b"mine")
        assert (repeated.protocol_type, repeated.protocol_name) == ("consumer", "range")


async def test_static_members(any_broker: BrokerProcess) -> None:
    async with talk(any_broker) as client:
        member = await client.stable_member("one")
        assert member.startswith("one-")
        back = await client.join(instance="one")
        assert (back.error_code, back.generation_id) == (ErrorCode.NONE, 1)
        assert (back.leader, back.skip_assignment) == (back.member_id, True)
        older = await client.join(instance="one", version=8)
        assert (older.leader, older.members) == (back.member_id, [])
        now = older.member_id
        assert await client.beat(member, 1, "one") == ErrorCode.FENCED_INSTANCE_ID
        assert (await client.sync(member, instance="one")).error_code == (
            ErrorCode.FENCED_INSTANCE_ID
        )
        assert await client.commit(member, 1, instance="one") == ErrorCode.FENCED_INSTANCE_ID
        fenced = await client.join(member, instance="one")
        assert fenced.error_code == ErrorCode.FENCED_INSTANCE_ID
        assert (await client.sync(now, instance="one")).assignment == b"mine"
        assert await client.leave((member, "one"), ("", "two"), ("", "one")) == [
            ErrorCode.FENCED_INSTANCE_ID,
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.NONE,
        ]
        assert await client.beat(now, 1, "one") == ErrorCode.UNKNOWN_MEMBER_ID


async def test_committing(any_broker: BrokerProcess) -> None:
    async with talk(any_broker) as client:
        assert await client.commit("m", 1) == ErrorCode.GROUP_ID_NOT_FOUND
        assert await client.commit("m", 1, version=8) == ErrorCode.ILLEGAL_GENERATION
        too_long = await client.commit(metadata="x" * 4097)
        assert too_long == ErrorCode.OFFSET_METADATA_TOO_LARGE
        assert await client.commit(metadata=None) == ErrorCode.NONE
        assert await client.commit(metadata="x" * 4096) == ErrorCode.NONE
        member = await client.stable_member()
        assert await client.commit(member, 1) == ErrorCode.NONE
        assert await client.commit(member, 2) == ErrorCode.ILLEGAL_GENERATION
        assert await client.commit("m", 1) == ErrorCode.UNKNOWN_MEMBER_ID
        assert await client.commit() == ErrorCode.UNKNOWN_MEMBER_ID
        assert await client.delete_offset() == (
            ErrorCode.NONE,
            ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
        )
        assert await client.leave((member, None)) == [ErrorCode.NONE]
        assert await client.commit(member, 1) == ErrorCode.UNKNOWN_MEMBER_ID
        assert await client.commit(member, -1) == ErrorCode.NONE
        assert await client.delete_offset() == (ErrorCode.NONE, ErrorCode.NONE)


async def test_looking_and_deleting(any_broker: BrokerProcess) -> None:
    async with talk(any_broker) as client:
        missing = await client.describe()
        assert missing.error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert missing.error_message == f"Group {client.group} not found."
        assert missing.group_state == "Dead"
        assert (await client.delete_offset())[0] == ErrorCode.GROUP_ID_NOT_FOUND
        member = await client.stable_member()
        shown = await client.describe()
        assert (shown.group_state, shown.protocol_type) == ("Stable", "consumer")
        assert (shown.protocol_data, shown.authorized_operations) == ("range", 3400)
        (described,) = shown.members
        assert described.member_id == member
        assert (described.client_id, described.client_host) == ("conformance", "/127.0.0.1")
        assert described.member_metadata == subscription(client.topic)
        assert described.member_assignment == b"mine"
        listed = await client.ask(ListGroupsRequest(), ListGroupsResponse)
        (mine,) = [each for each in listed.groups if each.group_id == client.group]
        assert (mine.protocol_type, mine.group_state) == ("consumer", "Stable")
        for states, types, found in (
            (["stable"], [], True),
            (["Empty", "Stable"], ["CLASSIC"], True),
            ([], ["consumer"], False),
            (["nonsense"], [], False),
            ([], ["nonsense"], False),
        ):
            request = ListGroupsRequest(states_filter=states, types_filter=types)
            groups = (await client.ask(request, ListGroupsResponse)).groups
            assert (client.group in [each.group_id for each in groups]) is found
        assert mine.group_type == "classic"
        deletion = DeleteGroupsRequest(groups_names=[client.group])
        (result,) = (await client.ask(deletion, DeleteGroupsResponse)).results
        assert result.error_code == ErrorCode.NON_EMPTY_GROUP
        await client.leave((member, None))
        (result,) = (await client.ask(deletion, DeleteGroupsResponse)).results
        assert result.error_code == ErrorCode.NONE
        (result,) = (await client.ask(deletion, DeleteGroupsResponse)).results
        assert result.error_code == ErrorCode.GROUP_ID_NOT_FOUND


async def test_fetching(any_broker: BrokerProcess) -> None:
    async with talk(any_broker) as client:
        await client.commit()
        topics = [
            OffsetFetchRequestTopics(name=name, partition_indexes=[0, 7])
            for name in (client.topic, "no-such-topic")
        ]
        groups = [
            OffsetFetchRequestGroup(group_id=client.group, topics=topics),
            OffsetFetchRequestGroup(group_id=client.group, topics=None),
            OffsetFetchRequestGroup(group_id="no-such-group", topics=None),
        ]
        request = OffsetFetchRequest(groups=groups, require_stable=True)
        response = await client.ask(request, OffsetFetchResponse, 9)
        some, everything, nothing = response.groups
        assert [
            (each.partition_index, each.committed_offset, each.metadata, each.error_code)
            for topic in some.topics
            for each in topic.partitions
        ] == [(0, 5, "note", 0), (7, -1, "", 0), (0, -1, "", 0), (7, -1, "", 0)]
        assert [each.partitions[0].committed_offset for each in everything.topics] == [5]
        assert (nothing.error_code, nothing.topics) == (ErrorCode.NONE, [])
