"""Access rules obeyed: every API refuses whom nothing is allowed, and does what is allowed."""

import asyncio
import logging

import pytest

from odradek.broker.handlers import served_apis
from odradek.protocol.acls import Operation, PatternType, Permission, ResourceType
from odradek.protocol.apis import all_apis
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from odradek.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from odradek.protocol.messages.alter_roles import AlterRolesRequest, RoleAlteration
from odradek.protocol.messages.api_versions import ApiVersionsRequest
from odradek.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from odradek.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from odradek.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from odradek.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from odradek.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from odradek.protocol.messages.delete_groups import DeleteGroupsRequest
from odradek.protocol.messages.describe_acls import DescribeAclsRequest
from odradek.protocol.messages.describe_cluster import DescribeClusterRequest
from odradek.protocol.messages.describe_delegation_token import DescribeDelegationTokenRequest
from odradek.protocol.messages.describe_groups import DescribeGroupsRequest
from odradek.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from odradek.protocol.messages.describe_roles import DescribeRolesRequest
from odradek.protocol.messages.describe_transactions import DescribeTransactionsRequest
from odradek.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from odradek.protocol.messages.end_txn import EndTxnRequest
from odradek.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from odradek.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from odradek.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from odradek.protocol.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from odradek.protocol.messages.heartbeat import HeartbeatRequest
from odradek.protocol.messages.join_group import JoinGroupRequest
from odradek.protocol.messages.leave_group import LeaveGroupRequest
from odradek.protocol.messages.list_groups import ListGroupsRequest
from odradek.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from odradek.protocol.messages.list_transactions import ListTransactionsRequest
from odradek.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from odradek.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.protocol.messages.offset_delete import OffsetDeleteRequest
from odradek.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
)
from odradek.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from odradek.protocol.messages.push_telemetry import PushTelemetryRequest
from odradek.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from odradek.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from odradek.protocol.messages.sasl_handshake import SaslHandshakeRequest
from odradek.protocol.messages.sync_group import SyncGroupRequest
from odradek.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from odradek.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from odradek.protocol.schema import Request
from odradek.protocol.types import BrokerId, TopicId
from tests.unit.broker.harness import Client, batch, on_broker, with_broker
from tests.unit.broker.test_acls import STANDARD, Connect, create, rule
from tests.unit.broker.test_every_api import REQUESTS

AUTHORIZATION_FAILED = {code for code in ErrorCode if code.name.endswith("AUTHORIZATION_FAILED")}
# What shows less to whoever may see less, and refuses nobody.
_SHOWS_LESS = {
    ApiVersionsRequest.api_key,
    GetTelemetrySubscriptionsRequest.api_key,
    PushTelemetryRequest.api_key,
    DescribeClusterRequest.api_key,
    ListTransactionsRequest.api_key,
    ListGroupsRequest.api_key,
    SaslAuthenticateRequest.api_key,
    SaslHandshakeRequest.api_key,
    # Nobody gets them over PLAINTEXT: test_delegation_tokens
    CreateDelegationTokenRequest.api_key,
    RenewDelegationTokenRequest.api_key,
    ExpireDelegationTokenRequest.api_key,
    DescribeDelegationTokenRequest.api_key,
}


def refusals(message: object) -> set[int]:
    """Every error code anywhere in a response, whatever its field is called."""
    if isinstance(message, list):
        return {code for item in message for code in refusals(item)}
    found: set[int] = set()
    for name in getattr(type(message), "__slots__", ()):
        value = getattr(message, name)
        if name.endswith("error_code") and isinstance(value, int):
            found |= {value} - {0}
        else:
            found |= refusals(value)
    return found


_OF_STORIES: dict[int, Request] = {
    ProduceRequest.api_key: ProduceRequest(
        acks=1,
        topic_data=[
            TopicProduceData(
                name="t", partition_data=[PartitionProduceData(index=0, records=batch(b"x"))]
            )
        ],
    ),
    FetchRequest.api_key: FetchRequest(
        topics=[FetchTopic(topic="t", partitions=[FetchPartition(partition=0)])]
    ),
    ElectLeadersRequest.api_key: ElectLeadersRequest(
        topic_partitions=[TopicPartitions(topic="t", partitions=[0])]
    ),
    FindCoordinatorRequest.api_key: FindCoordinatorRequest(key="g", coordinator_keys=["g"]),
    JoinGroupRequest.api_key: JoinGroupRequest(group_id="g"),
    SyncGroupRequest.api_key: SyncGroupRequest(group_id="g"),
    HeartbeatRequest.api_key: HeartbeatRequest(group_id="g"),
    LeaveGroupRequest.api_key: LeaveGroupRequest(group_id="g"),
    ConsumerGroupHeartbeatRequest.api_key: ConsumerGroupHeartbeatRequest(group_id="g"),
    ConsumerGroupDescribeRequest.api_key: ConsumerGroupDescribeRequest(group_ids=["g"]),
    DescribeGroupsRequest.api_key: DescribeGroupsRequest(groups=["g"]),
    DeleteGroupsRequest.api_key: DeleteGroupsRequest(groups_names=["g"]),
    OffsetCommitRequest.api_key: OffsetCommitRequest(
        group_id="g",
        topics=[
            OffsetCommitRequestTopic(
                name="t", partitions=[OffsetCommitRequestPartition(partition_index=0)]
            )
        ],
    ),
    OffsetFetchRequest.api_key: OffsetFetchRequest(
        group_id="g",
        topics=[OffsetFetchRequestTopic(name="t", partition_indexes=[0])],
        groups=[OffsetFetchRequestGroup(group_id="g", topics=None)],
    ),
    OffsetDeleteRequest.api_key: OffsetDeleteRequest(group_id="g"),
    TxnOffsetCommitRequest.api_key: TxnOffsetCommitRequest(
        transactional_id="x",
        group_id="g",
        topics=[
            TxnOffsetCommitRequestTopic(
                name="t", partitions=[TxnOffsetCommitRequestPartition(partition_index=0)]
            )
        ],
    ),
    AddOffsetsToTxnRequest.api_key: AddOffsetsToTxnRequest(transactional_id="x", group_id="g"),
    EndTxnRequest.api_key: EndTxnRequest(transactional_id="x"),
    DescribeTransactionsRequest.api_key: DescribeTransactionsRequest(transactional_ids=["x"]),
    DescribeAclsRequest.api_key: DescribeAclsRequest(resource_type_filter=1, operation=1),
    CreateAclsRequest.api_key: CreateAclsRequest(creations=[AclCreation()]),
    DeleteAclsRequest.api_key: DeleteAclsRequest(filters=[DeleteAclsFilter()]),
    DescribeRolesRequest.api_key: DescribeRolesRequest(),
    AlterRolesRequest.api_key: AlterRolesRequest(alterations=[RoleAlteration()]),
    WriteTxnMarkersRequest.api_key: WriteTxnMarkersRequest(
        markers=[
            WritableTxnMarker(topics=[WritableTxnMarkerTopic(name="t", partition_indexes=[0])])
        ]
    ),
    AddPartitionsToTxnRequest.api_key: AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="x",
        v3_and_below_topics=[AddPartitionsToTxnTopic(name="t", partitions=[0])],
    ),
}
# Ids of topics that do not exist are unknown to everybody; the oldest list has no error in it.
_SAYS_NOTHING = {
    (ProduceRequest.api_key, 13),
    (FetchRequest.api_key, 18),
    (DescribeLogDirsRequest.api_key, 1),
}
_ASKED = REQUESTS | _OF_STORIES
_DENIED = {
    (key, version): request
    for key, request in _ASKED.items()
    if key not in _SHOWS_LESS
    for version in sorted({served_apis()[key].min_version, served_apis()[key].max_version})
    if (key, version) not in _SAYS_NOTHING
}


@pytest.mark.parametrize(
    ("key", "version"),
    [
        pytest.param(key, version, id=f"{served_apis()[key].name}-{version}")
        for key, version in sorted(_DENIED)
    ],
)
@on_broker(authorizer_class_name=STANDARD, super_users="User:admin")
async def test_nothing_is_served_to_whom_nothing_is_allowed(
    connect: Connect, key: int, version: int
) -> None:
    client = await connect()
    response = await client.ask(_DENIED[key, version], all_apis()[key].response, version=version)
    codes = refusals(response)
    assert codes, response
    assert codes <= AUTHORIZATION_FAILED, response


def test_every_api_was_denied() -> None:
    assert {key for key, _ in _DENIED} | _SHOWS_LESS == set(served_apis())


# Nobody knows this client by name, so rules about others keep it out, and all else is open.
LENIENT = {"authorizer_class_name": STANDARD, "allow_everyone_if_no_acl_found": "true"}


async def produced(client: Client, *topics: str) -> dict[str, int]:
    response = await client.ask(
        ProduceRequest(
            acks=1,
            topic_data=[
                TopicProduceData(
                    name=topic, partition_data=[PartitionProduceData(index=0, records=batch(b"x"))]
                )
                for topic in topics
            ],
        ),
        ProduceResponse,
        version=12,
    )
    return {topic.name: topic.partition_responses[0].error_code for topic in response.responses}


@on_broker(**LENIENT)
async def test_a_pattern_gives_no_partitions_of_a_topic_that_may_not_be_described(
    connect: Connect,
) -> None:
    client = await connect()
    for topic in ("orders-open", "orders-secret"):
        await client.create_topic(topic)
    hidden = rule(ResourceType.TOPIC, "orders-secret", Operation.ALL, principal="User:boss")
    await create(client, hidden)
    joins = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="m",
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        subscribed_topic_regex="orders-.*",
        topic_partitions=[],
    )
    find = FindCoordinatorRequest(key_type=0, coordinator_keys=["g"])
    async with asyncio.timeout(30):
        while True:
            await client.ask(find, FindCoordinatorResponse)
            answer = await client.ask(joins, ConsumerGroupHeartbeatResponse)
            if answer.error_code == 0:
                break
            await asyncio.sleep(0.1)
    assert answer.assignment is not None
    described = await client.ask(MetadataRequest(topics=None), MetadataResponse)
    ids = {topic.topic_id: topic.name for topic in described.topics}
    given = [ids[one.topic_id] for one in answer.assignment.topic_partitions]
    assert given == ["orders-open"]


@on_broker(**LENIENT)
async def test_what_is_allowed_in_a_request_is_done_and_the_rest_refused(connect: Connect) -> None:
    client = await connect()
    for topic in ("open", "secret", "read-only"):
        await client.create_topic(topic)
    await create(
        client,
        rule(ResourceType.TOPIC, "secret", Operation.ALL, principal="User:boss"),
        rule(ResourceType.TOPIC, "read-", Operation.READ, pattern=PatternType.PREFIXED),
    )
    denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert await produced(client, "open", "secret", "read-only") == {
        "open": 0,
        "secret": denied,
        "read-only": denied,
    }
    everything = await client.ask(
        MetadataRequest(topics=None, include_topic_authorized_operations=True),
        MetadataResponse,
    )
    operations = {
        topic.name: {one.name for one in Operation if topic.topic_authorized_operations >> one & 1}
        for topic in everything.topics
    }
    assert set(operations) == {"open", "read-only"}
    assert operations["read-only"] == {"READ", "DESCRIBE"}
    named = await client.ask(
        MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in ("secret", "new")]),
        MetadataResponse,
    )
    assert {topic.name: topic.error_code for topic in named.topics} == {
        "secret": denied,
        "new": 0,
    }


@on_broker(**LENIENT)
async def test_to_make_a_topic_by_asking_for_it_needs_permission_to_create(
    connect: Connect,
) -> None:
    client = await connect()
    await create(
        client,
        rule(ResourceType.TOPIC, "*", Operation.WRITE),
        rule(ResourceType.CLUSTER, "kafka-cluster", Operation.ALTER),
    )
    asked = MetadataRequest(topics=[MetadataRequestTopic(name="new")])
    refused = await client.ask(asked, MetadataResponse)
    assert refused.topics[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert await create(client, rule(ResourceType.TOPIC, "new", Operation.CREATE)) == [0]
    made = await client.ask(asked, MetadataResponse)
    assert made.topics[0].error_code == ErrorCode.NONE


async def fetched(client: Client, session_id: int, epoch: int, *topics: str) -> FetchResponse:
    return await client.ask(
        FetchRequest(
            session_id=session_id,
            session_epoch=epoch,
            max_bytes=1 << 20,
            topics=[
                FetchTopic(
                    topic=topic,
                    partitions=[FetchPartition(partition=0, partition_max_bytes=1 << 20)],
                )
                for topic in topics
            ],
        ),
        FetchResponse,
        version=12,
    )


@on_broker(**LENIENT)
async def test_a_fetch_session_obeys_rules_that_come_later(connect: Connect) -> None:
    client, other = await connect(), await connect()
    await client.create_topic("t")
    assert await produced(client, "t") == {"t": 0}
    first = await fetched(client, 0, 0, "t")
    assert first.responses[0].partitions[0].records
    others = rule(ResourceType.TOPIC, "t", Operation.WRITE)
    await create(other, others)
    assert await produced(other, "t") == {"t": 0}
    refused = await fetched(client, first.session_id, 1)
    (partition,) = refused.responses[0].partitions
    assert partition.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert not partition.records
    await create(other, rule(ResourceType.TOPIC, "t", Operation.READ))
    allowed = await fetched(client, first.session_id, 2)
    (partition,) = allowed.responses[0].partitions
    assert partition.error_code == ErrorCode.NONE
    assert partition.records


class Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def test_refusals_are_logged_with_who_and_why() -> None:
    async def test(connect: Connect) -> None:
        client = await connect()
        await client.create_topic("t")
        await create(
            client, rule(ResourceType.TOPIC, "t", Operation.ALL, permission=Permission.DENY)
        )
        await produced(client, "t")

    log, told = logging.getLogger("odradek.authorizer"), Lines()
    log.addHandler(told)
    try:
        with_broker(test, **LENIENT)
    finally:
        log.removeHandler(told)
    (line,) = told.lines
    assert line.startswith("Principal = User:ANONYMOUS is Denied operation = WRITE from host = ")
    assert "on resource = Topic:LITERAL:t for request = PRODUCE: Deny All" in line


@on_broker(**LENIENT)
async def test_partitions_of_a_large_request_are_answered_under_their_own_topic(
    connect: Connect,
) -> None:
    """Denied topics are answered last in each piece of a request, so that the answers of a topic
    that is split between two pieces stand in different places."""
    client = await connect()
    for name in ("a", "b", "c", "d"):
        await client.create_topic(name, partitions=30)
    denied = [
        rule(ResourceType.TOPIC, name, Operation.DESCRIBE, permission=Permission.DENY)
        for name in ("a", "c")
    ]
    assert await create(client, *denied) == [0, 0]
    request = ListOffsetsRequest(
        replica_id=BrokerId(-1),
        topics=[
            ListOffsetsTopic(
                name=name,
                partitions=[
                    ListOffsetsPartition(partition_index=index, timestamp=-1) for index in range(30)
                ],
            )
            for name in ("a", "b", "c", "d")
        ],
    )
    response = await client.ask(request, ListOffsetsResponse)
    answers = {
        topic.name: [
            (partition.partition_index, partition.error_code) for partition in topic.partitions
        ]
        for topic in response.topics
    }
    assert len(response.topics) == 4
    error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert answers == {
        name: [(index, error if name in ("a", "c") else 0) for index in range(30)]
        for name in ("a", "b", "c", "d")
    }


@pytest.mark.parametrize("version", [10, 11, 12])
@on_broker(**LENIENT)
async def test_metadata_by_id_is_denied_in_every_version(connect: Connect, version: int) -> None:
    """Versions 10 and 11 have ids that clients must not use, and names that cannot be null."""
    client = await connect()
    secret = TopicId(await client.create_topic("secret"))
    denied = rule(ResourceType.TOPIC, "secret", Operation.DESCRIBE, permission=Permission.DENY)
    assert await create(client, denied) == [0]
    request = MetadataRequest(topics=[MetadataRequestTopic(name="public", topic_id=secret)])
    response = await client.ask(request, MetadataResponse, version=version)
    (topic,) = response.topics
    assert topic.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert topic.name == ("" if version < 12 else None)
