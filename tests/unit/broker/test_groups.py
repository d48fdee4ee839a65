"""Groups over the wire, in every version of every API: join, commit, leave, look, delete."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from odradek.broker.handlers import served_apis
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from odradek.protocol.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from odradek.protocol.messages.describe_groups import (
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
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from odradek.protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from odradek.protocol.schema import Request, Response
from odradek.protocol.types import NO_TOPIC_ID, TopicId
from simulation.run import run
from simulation.world import Simulation
from tests.unit.broker.harness import BrokerHost, Client, on_broker, with_broker

R = TypeVar("R", bound=Response)
Connect = Callable[[], Awaitable[Client]]

GROUP = "g"
LATEST = 10
ALL_OPERATIONS = 3400


class Member:
    """A client that speaks every API in one version, or the nearest there is."""

    def __init__(self, client: Client, version: int, topic_id: TopicId) -> None:
        self.client = client
        self.version = version
        self.topic_id = topic_id

    async def ask(self, request: Request, expected: type[R]) -> R:
        served = served_apis()[request.api_key]
        version = max(min(self.version, served.max_version), served.min_version)
        return await self.client.ask(request, expected, version=version)

    async def ask_to_join(
        self, member_id: str = "", instance: str | None = None
    ) -> JoinGroupResponse:
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"wishes")],
            reason="a test",
        )
        return await self.ask(request, JoinGroupResponse)

    async def join(self, member_id: str = "", instance: str | None = None) -> JoinGroupResponse:
        joined = await self.ask_to_join(member_id, instance)
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED and self.version >= 4:
            return await self.join(joined.member_id)
        return joined

    async def sync(self, joined: JoinGroupResponse) -> SyncGroupResponse:
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=[
                SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"a part")
            ],
        )
        return await self.ask(request, SyncGroupResponse)

    async def beat(self, joined: JoinGroupResponse) -> int:
        beat = HeartbeatRequest(
            group_id=GROUP, generation_id=joined.generation_id, member_id=joined.member_id
        )
        return (await self.ask(beat, HeartbeatResponse)).error_code

    async def commit(
        self,
        offset: int,
        joined: JoinGroupResponse | None = None,
        *,
        topic: str = "t",
        index: int = 0,
    ) -> int:
        request = OffsetCommitRequest(
            group_id=GROUP,
            generation_id_or_member_epoch=-1 if joined is None else joined.generation_id,
            member_id="" if joined is None else joined.member_id,
            topics=[
                OffsetCommitRequestTopic(
                    name=topic,
                    topic_id=self.topic_id if topic == "t" else TopicId(b"?" * 16),
                    partitions=[
                        OffsetCommitRequestPartition(
                            partition_index=index,
                            committed_offset=offset,
                            committed_leader_epoch=3,
                            committed_metadata="note",
                        )
                    ],
                )
            ],
        )
        (answered,) = (await self.ask(request, OffsetCommitResponse)).topics
        assert (answered.name, answered.topic_id) in (
            (topic, bytes(16)),
            ("", request.topics[0].topic_id),
        )
        return answered.partitions[0].error_code

    async def fetch(
        self, *, everything: bool = False, group_id: str = GROUP
    ) -> OffsetFetchResponse:
        old = [OffsetFetchRequestTopic(name="t", partition_indexes=[0, 1])]
        new = [OffsetFetchRequestTopics(name="t", topic_id=self.topic_id, partition_indexes=[0, 1])]
        group = OffsetFetchRequestGroup(group_id=GROUP, topics=None if everything else new)
        return await self.ask(
            OffsetFetchRequest(group_id=GROUP, topics=None if everything else old, groups=[group]),
            OffsetFetchResponse,
        )

    async def offsets(self, *, everything: bool = False) -> dict[int, tuple[int, int, str | None]]:
        response = await self.fetch(everything=everything)
        found = {}
        for topic in response.groups[0].topics if response.groups else response.topics:
            assert topic.name in ("t", "")
            for each in topic.partitions:
                assert each.error_code == ErrorCode.NONE
                found[each.partition_index] = (
                    each.committed_offset,
                    each.committed_leader_epoch,
                    each.metadata,
                )
        return found

    async def leave(self, member_id: str) -> int:
        request = LeaveGroupRequest(
            group_id=GROUP, member_id=member_id, members=[MemberIdentity(member_id=member_id)]
        )
        left = await self.ask(request, LeaveGroupResponse)
        return left.members[0].error_code if left.members else left.error_code

    async def state(self) -> str:
        request = DescribeGroupsRequest(groups=[GROUP], include_authorized_operations=True)
        (group,) = (await self.ask(request, DescribeGroupsResponse)).groups
        missing = group.group_state == "Dead" and self.version >= 6
        assert group.error_code == (ErrorCode.GROUP_ID_NOT_FOUND if missing else ErrorCode.NONE)
        assert group.error_message == (f"Group {GROUP} not found." if missing else None)
        return group.group_state


def with_member(version: int, story: Callable[[Member], Awaitable[None]]) -> None:
    async def test(connect: Connect) -> None:
        client = await connect()
        topic_id = TopicId(await client.create_topic("t", 2))
        find = FindCoordinatorRequest(key=GROUP, coordinator_keys=[GROUP])
        await client.ask(find, FindCoordinatorResponse)
        await story(Member(client, version, topic_id))

    with_broker(test)


every_version = pytest.mark.parametrize("version", range(LATEST + 1))


@every_version
def test_the_life_of_a_group(version: int) -> None:
    async def story(member: Member) -> None:
        joined = await member.join()
        assert joined.error_code == ErrorCode.NONE
        assert (joined.generation_id, joined.protocol_name) == (1, "range")
        assert joined.leader == joined.member_id
        assert joined.members[0].metadata == b"wishes"
        assert await member.commit(1, joined) == ErrorCode.REBALANCE_IN_PROGRESS
        synced = await member.sync(joined)
        assert (synced.error_code, synced.assignment) == (ErrorCode.NONE, b"a part")
        assert await member.beat(joined) == ErrorCode.NONE
        assert await member.state() == "Stable"
        assert await member.commit(42, joined) == ErrorCode.NONE
        assert await member.commit(42) == ErrorCode.UNKNOWN_MEMBER_ID
        assert await member.leave("stranger") == ErrorCode.UNKNOWN_MEMBER_ID
        assert await member.leave(joined.member_id) == ErrorCode.NONE
        assert await member.beat(joined) == ErrorCode.UNKNOWN_MEMBER_ID
        assert await member.state() == "Empty"
        epoch = 3 if version >= 6 else -1
        kept = (42, epoch, "note")
        assert await member.offsets() == {0: kept, 1: (-1, -1, "")}
        if version >= 2:
            assert await member.offsets(everything=True) == {0: kept}

    with_member(version, story)


@on_broker()
async def test_a_member_that_leaves_while_the_group_gathers_is_heard_at_once(
    connect: Connect,
) -> None:
    """Heard only after the gathering, it would make everybody gather again."""
    stays = Member(await connect(), LATEST, NO_TOPIC_ID)
    leaves = Member(await connect(), LATEST, NO_TOPIC_ID)
    find = FindCoordinatorRequest(coordinator_keys=[GROUP])
    await stays.client.ask(find, FindCoordinatorResponse)
    joined = await stays.join()
    await stays.sync(joined)
    member_id = (await leaves.ask_to_join()).member_id
    gathering = asyncio.ensure_future(leaves.join(member_id))
    await asyncio.sleep(0.1)
    assert await stays.state() == "PreparingRebalance"
    assert await leaves.leave(member_id) == ErrorCode.NONE
    assert (await gathering).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert (await stays.join(joined.member_id)).generation_id == joined.generation_id + 1


@every_version
def test_commits_to_what_does_not_exist(version: int) -> None:
    async def story(member: Member) -> None:
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert await member.commit(1, index=2) == unknown
        expected = ErrorCode.UNKNOWN_TOPIC_ID if version >= 10 else unknown
        assert await member.commit(1, topic="u") == expected
        assert await member.state() == "Dead"
        assert await member.offsets() == {0: (-1, -1, ""), 1: (-1, -1, "")}
        late = JoinGroupResponse(member_id="m", generation_id=1)
        missing = ErrorCode.GROUP_ID_NOT_FOUND if version >= 9 else ErrorCode.ILLEGAL_GENERATION
        assert await member.commit(1, late) == missing

    with_member(version, story)


@every_version
def test_what_an_administrator_does(version: int) -> None:
    async def story(member: Member) -> None:
        assert await member.commit(7) == ErrorCode.NONE
        (listed,) = (await member.ask(ListGroupsRequest(), ListGroupsResponse)).groups
        assert (listed.group_id, listed.protocol_type) == (GROUP, "")
        assert listed.group_state == ("Empty" if version >= 4 else "")
        assert listed.group_type == ("classic" if version >= 5 else "")
        if version >= 4:
            stable = ListGroupsRequest(states_filter=["Stable"])
            assert (await member.ask(stable, ListGroupsResponse)).groups == []
        partitions = [OffsetDeleteRequestPartition(partition_index=index) for index in (0, 9)]
        deletion = OffsetDeleteRequest(
            group_id=GROUP, topics=[OffsetDeleteRequestTopic(name="t", partitions=partitions)]
        )
        (deleted,) = (await member.ask(deletion, OffsetDeleteResponse)).topics
        assert [each.error_code for each in deleted.partitions] == [
            ErrorCode.NONE,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ]
        assert (await member.offsets())[0] == (-1, -1, "")
        request = DeleteGroupsRequest(groups_names=[GROUP, "other"])
        results = (await member.ask(request, DeleteGroupsResponse)).results
        assert [each.error_code for each in results] == [
            ErrorCode.NONE,
            ErrorCode.GROUP_ID_NOT_FOUND,
        ]
        assert await member.state() == "Dead"

    with_member(version, story)


@on_broker()
async def test_a_refused_fetch_says_so_where_its_version_has_room(connect: Connect) -> None:
    """Another group of another partition, on a broker that has no internal topic yet."""
    client = await connect()
    topic_id = TopicId(await client.create_topic("t", 2))
    unavailable = ErrorCode.COORDINATOR_NOT_AVAILABLE
    first = await Member(client, 1, topic_id).fetch()
    errors = [each.error_code for topic in first.topics for each in topic.partitions]
    assert errors == [unavailable, unavailable]
    middle = await Member(client, 7, topic_id).fetch()
    assert (middle.error_code, middle.topics) == (unavailable, [])
    last = await Member(client, 10, topic_id).fetch()
    assert last.groups[0].error_code == unavailable


def test_authorised_operations_and_unknown_topic_ids() -> None:
    async def story(member: Member) -> None:
        await member.commit(1)
        request = DescribeGroupsRequest(groups=[GROUP], include_authorized_operations=True)
        (group,) = (await member.ask(request, DescribeGroupsResponse)).groups
        assert group.authorized_operations == ALL_OPERATIONS
        member.topic_id = TopicId(b"?" * 16)
        (answered,) = (await member.fetch()).groups[0].topics
        assert [each.error_code for each in answered.partitions] == [
            ErrorCode.UNKNOWN_TOPIC_ID,
            ErrorCode.UNKNOWN_TOPIC_ID,
        ]

    with_member(LATEST, story)


def test_offsets_survive_a_deletion_of_another_topic_and_not_of_their_own() -> None:
    async def story(member: Member) -> None:
        await member.client.create_topic("u")
        await member.commit(1)
        for name in ("u", "t"):
            deletion = DeleteTopicsRequest(topics=[DeleteTopicState(name=name)])
            await member.client.ask(deletion, DeleteTopicsResponse)
            kept = await member.offsets(everything=True)
            assert kept == ({} if name == "t" else {0: (1, 3, "note")})

    with_member(9, story)


def test_a_group_outlives_its_broker() -> None:
    """The next coordinator reads the log: members go on, and offsets are where they were."""

    async def main(simulation: Simulation) -> None:
        host = BrokerHost(simulation, {})
        find = FindCoordinatorRequest(key=GROUP, coordinator_keys=[GROUP])
        async with host.running() as connect:
            client = await connect()
            topic_id = TopicId(await client.create_topic("t", 2))
            await client.ask(find, FindCoordinatorResponse)
            member = Member(client, LATEST, topic_id)
            joined = await member.join()
            await member.sync(joined)
            assert await member.commit(42, joined) == ErrorCode.NONE
        async with host.running() as connect:
            member = Member(await connect(), LATEST, topic_id)
            await member.client.ask(find, FindCoordinatorResponse)
            assert await member.beat(joined) == ErrorCode.NONE
            assert await member.state() == "Stable"
            assert (await member.offsets())[0] == (42, 3, "note")
            assert (await member.sync(joined)).assignment == b"a part"
            # It is heard no more, and its session ends.
            await asyncio.sleep(10)
            assert await member.state() == "Empty"

    run(main, seed=1)


@on_broker()
async def test_a_member_that_brings_more_than_can_be_stored_is_refused(connect: Connect) -> None:
    client = await connect()
    await client.ask(FindCoordinatorRequest(coordinator_keys=[GROUP]), FindCoordinatorResponse)
    for size, expected in ((900_000, ErrorCode.NONE), (2_000_000, ErrorCode.MESSAGE_TOO_LARGE)):
        request = JoinGroupRequest(
            group_id=f"{GROUP}-{size}",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            protocol_type="consumer",
            protocols=[
                JoinGroupRequestProtocol(name="range", metadata=bytes(size // 2)),
                JoinGroupRequestProtocol(name="sticky", metadata=bytes(size // 2)),
            ],
        )
        response = await client.ask(request, JoinGroupResponse, version=3)
        assert response.error_code == expected


@pytest.mark.parametrize(
    ("count", "name_size"), [(60, 30_000), (20_000, 0)], ids=["long names", "many protocols"]
)
@on_broker()
async def test_a_member_whose_protocols_have_too_large_names_is_refused(
    connect: Connect, count: int, name_size: int
) -> None:
    client = await connect()
    await client.ask(FindCoordinatorRequest(coordinator_keys=[GROUP]), FindCoordinatorResponse)
    protocols = [
        JoinGroupRequestProtocol(name=f"{number}{'n' * name_size}", metadata=b"")
        for number in range(count)
    ]
    request = JoinGroupRequest(
        group_id=GROUP,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=protocols,
    )
    response = await client.ask(request, JoinGroupResponse, version=3)
    assert response.error_code == ErrorCode.MESSAGE_TOO_LARGE


@on_broker()
async def test_an_assignment_that_is_larger_than_a_record_may_be_is_refused(
    connect: Connect,
) -> None:
    client = await connect()
    await client.ask(FindCoordinatorRequest(coordinator_keys=[GROUP]), FindCoordinatorResponse)
    request = JoinGroupRequest(
        group_id=GROUP,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    joined = await client.ask(request, JoinGroupResponse, version=3)
    for size, expected in (
        (2_000_000, ErrorCode.UNKNOWN_SERVER_ERROR),
        (900_000, ErrorCode.NONE),
    ):
        sync = SyncGroupRequest(
            group_id=GROUP,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            assignments=[
                SyncGroupRequestAssignment(member_id=joined.member_id, assignment=bytes(size))
            ],
        )
        response = await client.ask(sync, SyncGroupResponse, version=3)
        assert response.error_code == expected
    assert len(response.assignment) == 900_000
