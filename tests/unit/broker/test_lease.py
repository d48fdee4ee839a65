"""A broker without a lease answers nothing from memory: every API of the table is asked."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

import pytest

from odradek.broker.handlers import served_apis
from odradek.metadata import MetadataCache
from odradek.metadata.memory import MemoryMetadata, MemorySession
from odradek.protocol.apis import all_apis
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from odradek.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from odradek.protocol.messages.alter_client_quotas import AlterClientQuotasRequest
from odradek.protocol.messages.alter_configs import AlterConfigsRequest
from odradek.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
)
from odradek.protocol.messages.alter_replica_log_dirs import AlterReplicaLogDirsRequest
from odradek.protocol.messages.alter_roles import AlterRolesRequest
from odradek.protocol.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from odradek.protocol.messages.api_versions import ApiVersionsRequest
from odradek.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from odradek.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from odradek.protocol.messages.create_acls import CreateAclsRequest
from odradek.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from odradek.protocol.messages.create_partitions import CreatePartitionsRequest
from odradek.protocol.messages.create_topics import CreateTopicsRequest
from odradek.protocol.messages.delete_acls import DeleteAclsRequest
from odradek.protocol.messages.delete_groups import DeleteGroupsRequest
from odradek.protocol.messages.delete_topics import DeleteTopicsRequest
from odradek.protocol.messages.describe_acls import DescribeAclsRequest
from odradek.protocol.messages.describe_client_quotas import DescribeClientQuotasRequest
from odradek.protocol.messages.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from odradek.protocol.messages.describe_configs import DescribeConfigsRequest
from odradek.protocol.messages.describe_delegation_token import DescribeDelegationTokenRequest
from odradek.protocol.messages.describe_groups import DescribeGroupsRequest
from odradek.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from odradek.protocol.messages.describe_roles import DescribeRolesRequest
from odradek.protocol.messages.describe_transactions import DescribeTransactionsRequest
from odradek.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
)
from odradek.protocol.messages.elect_leaders import ElectLeadersRequest
from odradek.protocol.messages.end_txn import EndTxnRequest
from odradek.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from odradek.protocol.messages.explain_access import ExplainAccessRequest
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from odradek.protocol.messages.heartbeat import HeartbeatRequest
from odradek.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from odradek.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from odradek.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from odradek.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from odradek.protocol.messages.list_config_resources import ListConfigResourcesRequest
from odradek.protocol.messages.list_groups import ListGroupsRequest
from odradek.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from odradek.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
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
)
from odradek.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from odradek.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from odradek.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from odradek.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from odradek.protocol.messages.sasl_handshake import SaslHandshakeRequest
from odradek.protocol.messages.sync_group import SyncGroupRequest
from odradek.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from odradek.protocol.schema import Request, Response
from odradek.protocol.types import Offset, TopicId
from simulation.run import run
from simulation.world import Simulation
from tests.unit.broker.harness import BrokerHost, Client, batch, on_broker
from tests.unit.broker.test_every_api import REQUESTS, TELEMETRY
from tests.unit.broker.test_permissions import Lines
from tests.unit.broker.transactional import insist

Connect = Callable[[], Awaitable[Client]]

BROKER_ID = 1
SEND_ELSEWHERE = {
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.LEADER_NOT_AVAILABLE,
}

NEEDS_NO_LEASE = {
    # About this broker itself, whoever leads what.
    ApiVersionsRequest.api_key,
    DescribeLogDirsRequest.api_key,
    AlterReplicaLogDirsRequest.api_key,
    # Settings and rules may lag behind the store at any broker, and they send nobody anywhere.
    DescribeConfigsRequest.api_key,
    DescribeAclsRequest.api_key,
    DescribeUserScramCredentialsRequest.api_key,
    DescribeClientQuotasRequest.api_key,
    DescribeRolesRequest.api_key,
    ExplainAccessRequest.api_key,
    ListConfigResourcesRequest.api_key,
    ListPartitionReassignmentsRequest.api_key,
    # Tokens are read from the store whenever they are used, and are changed there.
    CreateDelegationTokenRequest.api_key,
    DescribeDelegationTokenRequest.api_key,
    ExpireDelegationTokenRequest.api_key,
    RenewDelegationTokenRequest.api_key,
    # Changes of the metadata store, which takes nothing from a session that has expired.
    AlterClientQuotasRequest.api_key,
    CreateTopicsRequest.api_key,
    DeleteTopicsRequest.api_key,
    CreatePartitionsRequest.api_key,
    AlterConfigsRequest.api_key,
    IncrementalAlterConfigsRequest.api_key,
    ElectLeadersRequest.api_key,
    AlterPartitionReassignmentsRequest.api_key,
    AlterUserScramCredentialsRequest.api_key,
    CreateAclsRequest.api_key,
    DeleteAclsRequest.api_key,
    AlterRolesRequest.api_key,
    # Names live brokers, without this one.
    DescribeClusterRequest.api_key,
    # Of the connection itself, and of the client that pushes metrics to this broker.
    SaslHandshakeRequest.api_key,
    SaslAuthenticateRequest.api_key,
    *TELEMETRY,
}

ASKED: dict[int, Request] = {
    **{key: request for key, request in REQUESTS.items() if key not in NEEDS_NO_LEASE},
    ProduceRequest.api_key: ProduceRequest(
        acks=-1,
        timeout_ms=1000,
        topic_data=[
            TopicProduceData(
                name="t", partition_data=[PartitionProduceData(index=0, records=batch(b"v"))]
            )
        ],
    ),
    FetchRequest.api_key: FetchRequest(
        max_bytes=1000,
        topics=[
            FetchTopic(
                topic="t",
                partitions=[
                    FetchPartition(partition=0, fetch_offset=Offset(0), partition_max_bytes=1000)
                ],
            )
        ],
    ),
    InitProducerIdRequest.api_key: InitProducerIdRequest(
        transactional_id="x", transaction_timeout_ms=1000
    ),
    AddPartitionsToTxnRequest.api_key: AddPartitionsToTxnRequest(
        transactions=[
            AddPartitionsToTxnTransaction(
                transactional_id="x",
                topics=[AddPartitionsToTxnTopic(name="t", partitions=[0])],
            )
        ],
        v3_and_below_transactional_id="x",
        v3_and_below_topics=[AddPartitionsToTxnTopic(name="t", partitions=[0])],
    ),
    AddOffsetsToTxnRequest.api_key: AddOffsetsToTxnRequest(transactional_id="x", group_id="g"),
    TxnOffsetCommitRequest.api_key: TxnOffsetCommitRequest(
        transactional_id="x",
        group_id="g",
        topics=[
            TxnOffsetCommitRequestTopic(
                name="t",
                partitions=[
                    TxnOffsetCommitRequestPartition(
                        partition_index=0, committed_offset=1, committed_metadata=None
                    )
                ],
            )
        ],
    ),
    EndTxnRequest.api_key: EndTxnRequest(transactional_id="x", committed=True),
    DescribeTransactionsRequest.api_key: DescribeTransactionsRequest(transactional_ids=["x"]),
    OffsetCommitRequest.api_key: OffsetCommitRequest(
        group_id="g",
        topics=[
            OffsetCommitRequestTopic(
                name="t",
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=0, committed_offset=1, committed_metadata=None
                    )
                ],
            )
        ],
    ),
    OffsetFetchRequest.api_key: OffsetFetchRequest(
        group_id="g",
        topics=[OffsetFetchRequestTopic(name="t", partition_indexes=[0])],
        groups=[
            OffsetFetchRequestGroup(
                group_id="g", topics=[OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
            )
        ],
    ),
    OffsetDeleteRequest.api_key: OffsetDeleteRequest(
        group_id="g",
        topics=[
            OffsetDeleteRequestTopic(
                name="t", partitions=[OffsetDeleteRequestPartition(partition_index=0)]
            )
        ],
    ),
    JoinGroupRequest.api_key: JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    ),
    SyncGroupRequest.api_key: SyncGroupRequest(
        group_id="g",
        generation_id=1,
        member_id="m",
        protocol_type="consumer",
        protocol_name="range",
    ),
    HeartbeatRequest.api_key: HeartbeatRequest(group_id="g", generation_id=1, member_id="m"),
    LeaveGroupRequest.api_key: LeaveGroupRequest(
        group_id="g", member_id="m", members=[MemberIdentity(member_id="m")]
    ),
    DescribeGroupsRequest.api_key: DescribeGroupsRequest(groups=["g"]),
    ListGroupsRequest.api_key: ListGroupsRequest(),
    DeleteGroupsRequest.api_key: DeleteGroupsRequest(groups_names=["g"]),
    ConsumerGroupHeartbeatRequest.api_key: ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="m",
        member_epoch=0,
        rebalance_timeout_ms=10_000,
        subscribed_topic_names=["t"],
        topic_partitions=[],
    ),
    ConsumerGroupDescribeRequest.api_key: ConsumerGroupDescribeRequest(group_ids=["g"]),
}


def with_ids(key: int, topic_id: TopicId) -> Request:
    """The request; versions that know topics by their ids alone get the id."""
    request = ASKED[key]
    if isinstance(request, ProduceRequest):
        request.topic_data[0].topic_id = topic_id
    elif isinstance(request, FetchRequest | OffsetCommitRequest):
        request.topics[0].topic_id = topic_id
    elif isinstance(request, OffsetFetchRequest) and request.groups[0].topics:
        request.groups[0].topics[0].topic_id = topic_id
    return request


def numbers(message: object, suffix: str) -> list[int]:
    """The values of all fields anywhere in a response whose name ends so."""
    if isinstance(message, list):
        return [number for item in message for number in numbers(item, suffix)]
    found: list[int] = []
    for name in getattr(type(message), "__slots__", ()):
        value = getattr(message, name)
        if name.endswith(suffix) and isinstance(value, int):
            found.append(value)
        else:
            found += numbers(value, suffix)
    return found


async def prepare(client: Client) -> bytes:
    """A topic, a group with an offset, a transactional id; all of them at this broker."""
    topic_id = await client.create_topic("t")
    for kind, key in ((0, "g"), (1, "x")):
        await client.ask(
            FindCoordinatorRequest(key_type=kind, coordinator_keys=[key]), FindCoordinatorResponse
        )

    async def commit() -> int:
        request = ASKED[OffsetCommitRequest.api_key]
        answer = await client.ask(request, OffsetCommitResponse, version=8)
        return answer.topics[0].partitions[0].error_code

    async def init() -> int:
        request = ASKED[InitProducerIdRequest.api_key]
        return (await client.ask(request, InitProducerIdResponse)).error_code

    assert await insist(commit) == 0
    assert await insist(init) == 0
    return topic_id


@pytest.fixture
def lose_lease(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Makes every broker believe that its session may have expired."""

    def lose() -> None:
        monkeypatch.setattr(MemorySession, "may_be_outdated", lambda _: True)

    return lose


@pytest.fixture
def begin_session(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Gives every broker a new session, in which it sees no newer image for now."""
    sessions: list[MemorySession] = []
    make = MemorySession.__init__

    def remember(self: MemorySession, metadata: MemoryMetadata) -> None:
        make(self, metadata)
        sessions.append(self)

    monkeypatch.setattr(MemorySession, "__init__", remember)

    async def wait_for_ever(*_: object) -> None:
        await asyncio.get_running_loop().create_future()

    def begin() -> None:
        monkeypatch.setattr(MetadataCache, "_read_again", wait_for_ever)
        for session in sessions:
            session.expire()

    return begin


def test_every_api_asks_for_the_lease_or_says_why_not() -> None:
    assert set(ASKED) | NEEDS_NO_LEASE == set(served_apis())
    assert not set(ASKED) & NEEDS_NO_LEASE


@pytest.mark.parametrize(
    ("key", "version"),
    [
        pytest.param(key, version, id=f"{served_apis()[key].name}-{version}")
        for key in sorted(ASKED)
        for version in sorted({served_apis()[key].min_version, served_apis()[key].max_version})
    ],
)
@on_broker()
async def test_without_a_lease_an_api_sends_its_clients_elsewhere(
    connect: Connect, key: int, version: int, lose_lease: Callable[[], None]
) -> None:
    client = await connect()
    request = with_ids(key, TopicId(await prepare(client)))
    lose_lease()
    response: Response = await client.ask(request, all_apis()[key].response, version=version)
    errors = {code for code in numbers(response, "error_code") if code}
    assert errors, response
    assert errors <= SEND_ELSEWHERE, response
    named = {*numbers(response, "leader_id"), *numbers(response, "node_id")}
    assert BROKER_ID not in named, response


@pytest.mark.parametrize("key", sorted(ASKED), ids=lambda key: all_apis()[key].name)
@on_broker()
async def test_a_new_session_is_no_lease_before_the_broker_has_registered_again(
    connect: Connect, key: int, begin_session: Callable[[], None]
) -> None:
    """The roles that it remembers belong to the session that expired: others may have them."""
    client = await connect()
    request = with_ids(key, TopicId(await prepare(client)))
    begin_session()
    response: Response = await client.ask(
        request, all_apis()[key].response, version=served_apis()[key].max_version
    )
    errors = {code for code in numbers(response, "error_code") if code}
    assert errors, response
    assert errors <= SEND_ELSEWHERE, response
    named = {*numbers(response, "leader_id"), *numbers(response, "node_id")}
    assert BROKER_ID not in named, response


def test_a_broker_that_has_registered_again_serves_from_its_log_and_says_so() -> None:
    async def main(simulation: Simulation) -> None:
        host = BrokerHost(simulation, {})
        sessions: list[MemorySession] = []
        connect_to_store = host.metadata.connect

        def connect_and_remember() -> MemorySession:
            sessions.append(connect_to_store())
            return sessions[-1]

        host.metadata.connect = connect_and_remember  # type: ignore[method-assign]
        async with host.running() as connect:
            client = await connect()
            await prepare(client)
            sessions[0].cut()
            await asyncio.sleep(20)  # Virtual seconds: the session expires, and is missed.
            sessions[0].reconnect()

            async def fetch() -> int:
                request = ASKED[OffsetFetchRequest.api_key]
                answer = await client.ask(request, OffsetFetchResponse, version=8)
                error = answer.groups[0].error_code
                assert error or answer.groups[0].topics[0].partitions[0].committed_offset == 1
                return error

            assert await insist(fetch) == 0
            await asyncio.sleep(1)

    log, told = logging.getLogger("odradek.server"), Lines()
    log.addHandler(told)
    try:
        run(main, seed=1)
    finally:
        log.removeHandler(told)
    assert "this broker has a new session with the metadata store and may lead" in told.lines
    assert not [line for line in told.lines if "has not expired after all" in line]


@on_broker()
async def test_a_broker_without_a_lease_leaves_itself_out_of_the_cluster(
    connect: Connect, lose_lease: Callable[[], None]
) -> None:
    client = await connect()
    await client.create_topic("t")
    ask = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
    before = await client.ask(ask, MetadataResponse)
    assert before.topics[0].partitions[0].leader_id == before.controller_id == BROKER_ID
    lose_lease()
    after = await client.ask(ask, MetadataResponse)
    assert (after.brokers, after.controller_id) == ([], -1)
    assert after.topics[0].partitions[0].leader_id == -1
    # The epoch stays what it was, so that a client that knows a newer leader keeps that one.
    assert after.topics[0].partitions[0].leader_epoch == before.topics[0].partitions[0].leader_epoch
    described = await client.ask(DescribeClusterRequest(), DescribeClusterResponse)
    assert (described.brokers, described.controller_id) == ([], -1)
