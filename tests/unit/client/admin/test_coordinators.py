"""Admin calls about groups and transactions find their coordinator, and find it again."""

import pytest

from odradek.client.admin.admin import Admin
from odradek.client.admin.group_types import GroupOffset, MemberToRemove
from odradek.client.errors import NoBrokerAvailable, RequestTimedOut
from odradek.client.settings import AdminSettings
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from odradek.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from odradek.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from odradek.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberResponse,
)
from odradek.protocol.messages.list_groups import (
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)
from odradek.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from odradek.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from odradek.protocol.schema import Request, Response
from odradek.protocol.types import ProducerEpoch, ProducerId, TopicPartition
from simulation.world import Simulation
from tests.unit.client.mini_cluster import Close, MiniCluster
from tests.unit.client.simulated import in_simulation

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
GROUP_APIS = {8: (2, 10), 9: (1, 10), 10: (0, 6), 13: (0, 5), 16: (0, 5), 42: (0, 2)}


def open_admin(cluster: MiniCluster, **options: int) -> Admin:
    cluster.served |= GROUP_APIS
    every: dict[str, object] = {"bootstrap_servers": cluster.bootstrap, **options}
    return Admin(AdminSettings.from_options(every))


def found(cluster: MiniCluster, node: int, *keys: str) -> FindCoordinatorResponse:
    return FindCoordinatorResponse(
        coordinators=[
            Coordinator(key=key, node_id=node, host=cluster.hosts[node], port=cluster.ports[node])
            for key in keys
        ]
    )


def deleted(code: int = 0, *groups: str) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(
        results=[DeletableGroupResult(group_id=one, error_code=code) for one in groups or ("g",)]
    )


def tell(cluster: MiniCluster, request: type[Request], *answers: Response) -> None:
    for answer in answers:
        cluster.fail_next(request, lambda _, answer=answer: answer)  # type: ignore[misc]


def asked_nodes(cluster: MiniCluster, request: type[Request]) -> list[int]:
    return [node for node, one, _ in cluster.requests if isinstance(one, request)]


@in_simulation(brokers=2)
async def test_a_coordinator_is_looked_up_once(
    cluster: MiniCluster, simulation: Simulation
) -> None:
    async with open_admin(cluster) as admin:
        tell(cluster, FindCoordinatorRequest, found(cluster, 2, "g"))
        tell(cluster, DeleteGroupsRequest, deleted(), deleted(ErrorCode.GROUP_ID_NOT_FOUND))
        assert await admin.delete_groups(["g"]) == {"g": True}
        second = (await admin.delete_groups(["g"]))["g"]
        assert isinstance(second, KafkaError)
        assert second.code == ErrorCode.GROUP_ID_NOT_FOUND
    assert asked_nodes(cluster, DeleteGroupsRequest) == [2, 2]
    assert cluster.count(FindCoordinatorRequest) == 1


@in_simulation(brokers=2)
async def test_one_that_moved_is_looked_up_again_and_one_that_loads_is_waited_for(
    cluster: MiniCluster, simulation: Simulation
) -> None:
    async with open_admin(cluster) as admin:
        tell(
            cluster,
            FindCoordinatorRequest,
            FindCoordinatorResponse(
                coordinators=[Coordinator(key="g", error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)]
            ),
            found(cluster, 1, "g"),
            found(cluster, 2, "g"),
            found(cluster, 2, "g"),
        )
        tell(
            cluster,
            DeleteGroupsRequest,
            deleted(ErrorCode.NOT_COORDINATOR),
            deleted(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
            deleted(),
        )
        assert await admin.delete_groups(["g"]) == {"g": True}
    assert asked_nodes(cluster, DeleteGroupsRequest) == [1, 2, 2]


@in_simulation(brokers=2)
async def test_groups_of_several_coordinators_are_asked_side_by_side(
    cluster: MiniCluster, simulation: Simulation
) -> None:
    async with open_admin(cluster) as admin:
        both = found(cluster, 1, "a")
        both.coordinators += found(cluster, 2, "b").coordinators
        tell(cluster, FindCoordinatorRequest, both)

        def answer(request: Request) -> Response:
            assert isinstance(request, DeleteGroupsRequest)
            return deleted(0, *request.groups_names)

        cluster.fail_next(DeleteGroupsRequest, answer, answer)
        assert await admin.delete_groups(["b", "a"]) == {"b": True, "a": True}
    assert sorted(asked_nodes(cluster, DeleteGroupsRequest)) == [1, 2]


@in_simulation()
async def test_an_old_broker_is_asked_for_one_key_at_a_time(
    cluster: MiniCluster, simulation: Simulation
) -> None:
    async with open_admin(cluster) as admin:
        cluster.served[10] = (0, 3)
        one = FindCoordinatorResponse(node_id=1, host=cluster.hosts[1], port=cluster.ports[1])
        tell(cluster, FindCoordinatorRequest, one, one)
        tell(cluster, DeleteGroupsRequest, deleted(0, "a", "b"))
        assert await admin.delete_groups(["a", "b"]) == {"a": True, "b": True}
    assert cluster.count(FindCoordinatorRequest) == 2


@in_simulation()
async def test_a_permanent_error_is_the_answer(
    cluster: MiniCluster, simulation: Simulation
) -> None:
    async with open_admin(cluster) as admin:
        refused = found(cluster, 1, "ok")
        refused.coordinators.append(
            Coordinator(key="no", error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
        )
        tell(cluster, FindCoordinatorRequest, refused)
        tell(cluster, DeleteGroupsRequest, deleted(0, "ok"))
        answers = await admin.delete_groups(["ok", "no"])
    assert answers["ok"] is True
    assert isinstance(refusal := answers["no"], KafkaError)
    assert refusal.code == ErrorCode.GROUP_AUTHORIZATION_FAILED


@in_simulation()
async def test_patience_ends(cluster: MiniCluster, simulation: Simulation) -> None:
    async with open_admin(cluster, default_api_timeout_ms=5000) as admin:

        def unknown(_: Request) -> Response:
            return FindCoordinatorResponse(
                coordinators=[Coordinator(key="g", error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)]
            )

        cluster.fail_next(FindCoordinatorRequest, *[unknown] * 1000)
        with pytest.raises(RequestTimedOut, match="about g within 5000 ms: COORDINATOR_NOT_AV"):
            await admin.delete_groups(["g"])


@in_simulation()
async def test_lost_connections_are_made_again_as_often_as_allowed(
    cluster: MiniCluster, simulation: Simulation
) -> None:
    async with open_admin(cluster, retries=1) as admin:
        tell(cluster, FindCoordinatorRequest, *[found(cluster, 1, "g")] * 3)
        cluster.fail_next(DeleteGroupsRequest, Close)
        tell(cluster, DeleteGroupsRequest, deleted())
        assert await admin.delete_groups(["g"]) == {"g": True}
        cluster.fail_next(DeleteGroupsRequest, Close, Close)
        with pytest.raises((NoBrokerAvailable, OSError)):
            await admin.delete_groups(["g"])


@in_simulation()
async def test_offsets_are_committed_without_a_generation(
    cluster: MiniCluster, simulation: Simulation
) -> None:
    def committed(*codes: int) -> OffsetCommitResponse:
        partitions = [
            OffsetCommitResponsePartition(partition_index=index, error_code=code)
            for index, code in enumerate(codes)
        ]
        topic = OffsetCommitResponseTopic(name="t", partitions=partitions)
        return OffsetCommitResponse(topics=[topic])

    async with open_admin(cluster) as admin:
        tell(cluster, FindCoordinatorRequest, *[found(cluster, 1, "g")] * 2)
        moved = ErrorCode.NOT_COORDINATOR
        tell(cluster, OffsetCommitRequest, committed(moved, moved), committed(0, 25))
        answers = await admin.alter_group_offsets(
            "g", {T0: 7, T1: GroupOffset(8, 2, "m")}, may_create=True
        )
    assert answers[T0] is True
    assert isinstance(refusal := answers[T1], KafkaError)
    assert refusal.code == ErrorCode.UNKNOWN_MEMBER_ID
    assert refusal.message.endswith("has members, who alone set its offsets: stop them first")
    request, version = cluster.requests[-1][1:]
    assert isinstance(request, OffsetCommitRequest)
    assert (version, request.generation_id_or_member_epoch, request.member_id) == (9, -1, "")
    sent = request.topics[0].partitions[1]
    assert (sent.committed_offset, sent.committed_leader_epoch) == (8, 2)
    assert sent.committed_metadata == "m"


@pytest.mark.parametrize("newest", [7, 9])
@in_simulation()
async def test_offsets_are_read_in_old_and_new_versions(
    cluster: MiniCluster, simulation: Simulation, newest: int
) -> None:
    async with open_admin(cluster) as admin:
        cluster.served[9] = (1, newest)
        tell(cluster, FindCoordinatorRequest, found(cluster, 1, "g"))
        old = OffsetFetchResponse(
            topics=[
                OffsetFetchResponseTopic(
                    name="t",
                    partitions=[
                        OffsetFetchResponsePartition(partition_index=0, committed_offset=5),
                        OffsetFetchResponsePartition(partition_index=1, committed_offset=-1),
                    ],
                )
            ]
        )
        new = OffsetFetchResponse(
            groups=[
                OffsetFetchResponseGroup(
                    group_id="g",
                    topics=[
                        OffsetFetchResponseTopics(
                            name="t",
                            partitions=[
                                OffsetFetchResponsePartitions(
                                    partition_index=index, committed_offset=offset
                                )
                                for index, offset in ((0, 5), (1, -1))
                            ],
                        )
                    ],
                )
            ]
        )
        tell(cluster, OffsetFetchRequest, old if newest < 8 else new)
        assert await admin.list_group_offsets("g", [T0, T1]) == {T0: GroupOffset(5, -1, "")}


@in_simulation(brokers=2)
async def test_groups_are_listed_from_every_broker(
    cluster: MiniCluster, simulation: Simulation
) -> None:
    async with open_admin(cluster) as admin:
        loading = ListGroupsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        kinds = {"a": ("consumer", "classic"), "b": ("connect", "classic"),
                 "c": ("", "classic"), "d": ("consumer", "consumer")}  # fmt: skip
        some = [
            ListGroupsResponse(
                groups=[
                    ListedGroup(group_id=one, protocol_type=protocol, group_type=kind)
                    for one, (protocol, kind) in kinds.items()
                    if one in names
                ]
            )
            for names in ("ab", "cd")
        ]
        tell(cluster, ListGroupsRequest, loading, *some)
        listings = {one.group_id: one for one in await admin.list_groups()}
    assert sorted(listings) == ["a", "b", "c", "d"]
    assert [one for one in listings if not listings[one].is_of_consumers] == ["b"]
    assert listings["d"].type == "Consumer"


@in_simulation()
async def test_a_filter_that_a_broker_does_not_know_is_refused(
    cluster: MiniCluster, simulation: Simulation
) -> None:
    async with open_admin(cluster) as admin:
        cluster.served[16] = (0, 3)
        with pytest.raises(KafkaError, match="cannot list groups by state"):
            await admin.list_groups(states=["Stable"])


@in_simulation()
async def test_members_are_removed_by_id_or_instance(
    cluster: MiniCluster, simulation: Simulation
) -> None:
    async with open_admin(cluster) as admin:
        tell(cluster, FindCoordinatorRequest, found(cluster, 1, "g"))
        members = [MemberResponse(member_id="m"), MemberResponse(error_code=25)]
        tell(cluster, LeaveGroupRequest, LeaveGroupResponse(members=members))
        one, other = MemberToRemove("m"), MemberToRemove(group_instance_id="i")
        answers = await admin.remove_members("g", [one, other])
    assert answers[one] is True
    assert isinstance(answers[other], KafkaError)


@in_simulation()
async def test_a_producer_is_fenced_once_its_transaction_has_ended(
    cluster: MiniCluster, simulation: Simulation
) -> None:
    async with open_admin(cluster) as admin:
        tell(cluster, FindCoordinatorRequest, found(cluster, 1, "tx"))
        tell(
            cluster,
            InitProducerIdRequest,
            InitProducerIdResponse(error_code=ErrorCode.CONCURRENT_TRANSACTIONS),
            InitProducerIdResponse(producer_id=ProducerId(4), producer_epoch=ProducerEpoch(2)),
        )
        assert await admin.fence_producers(["tx"]) == {"tx": (4, 2)}
    assert cluster.count(FindCoordinatorRequest) == 1
