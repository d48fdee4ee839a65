"""Every API in every version that the table promises: asked sensibly, it answers sensibly."""

from collections.abc import Awaitable, Callable
from typing import cast

import pytest

from odradek.broker.handlers import served_apis
from odradek.protocol.apis import AnyApi
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from odradek.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from odradek.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    OpData,
)
from odradek.protocol.messages.alter_client_quotas import EntityData as QuotaEntity
from odradek.protocol.messages.alter_client_quotas import EntryData as QuotaEntry
from odradek.protocol.messages.alter_configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
)
from odradek.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from odradek.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from odradek.protocol.messages.alter_roles import AlterRolesRequest
from odradek.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from odradek.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from odradek.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from odradek.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from odradek.protocol.messages.create_acls import CreateAclsRequest
from odradek.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from odradek.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.protocol.messages.delete_acls import DeleteAclsRequest
from odradek.protocol.messages.delete_groups import DeleteGroupsRequest
from odradek.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from odradek.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from odradek.protocol.messages.describe_acls import DescribeAclsRequest
from odradek.protocol.messages.describe_client_quotas import DescribeClientQuotasRequest
from odradek.protocol.messages.describe_cluster import DescribeClusterRequest
from odradek.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from odradek.protocol.messages.describe_delegation_token import DescribeDelegationTokenRequest
from odradek.protocol.messages.describe_groups import DescribeGroupsRequest
from odradek.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from odradek.protocol.messages.describe_producers import DescribeProducersRequest
from odradek.protocol.messages.describe_producers import TopicRequest as DescribedTopic
from odradek.protocol.messages.describe_roles import DescribeRolesRequest
from odradek.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from odradek.protocol.messages.describe_transactions import DescribeTransactionsRequest
from odradek.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
)
from odradek.protocol.messages.elect_leaders import ElectLeadersRequest
from odradek.protocol.messages.end_txn import EndTxnRequest
from odradek.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from odradek.protocol.messages.explain_access import ExplainAccessRequest
from odradek.protocol.messages.fetch import FetchRequest
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from odradek.protocol.messages.heartbeat import HeartbeatRequest
from odradek.protocol.messages.incremental_alter_configs import (
    AlterableConfig as IncrementalConfig,
)
from odradek.protocol.messages.incremental_alter_configs import (
    AlterConfigsResource as IncrementalResource,
)
from odradek.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest
from odradek.protocol.messages.join_group import JoinGroupRequest
from odradek.protocol.messages.leave_group import LeaveGroupRequest
from odradek.protocol.messages.list_config_resources import ListConfigResourcesRequest
from odradek.protocol.messages.list_groups import ListGroupsRequest
from odradek.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from odradek.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
)
from odradek.protocol.messages.list_transactions import ListTransactionsRequest
from odradek.protocol.messages.look_up import (
    LookUpKey,
    LookUpPartition,
    LookUpRequest,
    LookUpTopic,
)
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.protocol.messages.offset_commit import OffsetCommitRequest
from odradek.protocol.messages.offset_delete import OffsetDeleteRequest
from odradek.protocol.messages.offset_fetch import OffsetFetchRequest
from odradek.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from odradek.protocol.messages.produce import ProduceRequest
from odradek.protocol.messages.push_telemetry import PushTelemetryRequest
from odradek.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from odradek.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from odradek.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from odradek.protocol.messages.sync_group import SyncGroupRequest
from odradek.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from odradek.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from odradek.protocol.schema import Request
from odradek.protocol.types import LeaderEpoch, ProducerId
from tests.unit.broker.harness import Client, on_broker

Connect = Callable[[], Awaitable[Client]]

REQUESTS: dict[int, Request] = {
    ProduceRequest.api_key: ProduceRequest(acks=1, timeout_ms=100),
    FetchRequest.api_key: FetchRequest(),
    ListOffsetsRequest.api_key: ListOffsetsRequest(
        topics=[
            ListOffsetsTopic(
                name="t", partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)]
            )
        ]
    ),
    MetadataRequest.api_key: MetadataRequest(topics=[MetadataRequestTopic(name="t")]),
    ApiVersionsRequest.api_key: ApiVersionsRequest(
        client_software_name="test", client_software_version="1.0"
    ),
    CreateTopicsRequest.api_key: CreateTopicsRequest(
        topics=[CreatableTopic(name="new", num_partitions=1, replication_factor=1)]
    ),
    DeleteTopicsRequest.api_key: DeleteTopicsRequest(
        topics=[DeleteTopicState(name="t")], topic_names=["t"]
    ),
    DeleteRecordsRequest.api_key: DeleteRecordsRequest(
        topics=[
            DeleteRecordsTopic(
                name="t", partitions=[DeleteRecordsPartition(partition_index=0, offset=-1)]
            )
        ]
    ),
    InitProducerIdRequest.api_key: InitProducerIdRequest(transactional_id=None),
    OffsetForLeaderEpochRequest.api_key: OffsetForLeaderEpochRequest(
        topics=[
            OffsetForLeaderTopic(
                topic="t",
                partitions=[OffsetForLeaderPartition(partition=0, leader_epoch=LeaderEpoch(0))],
            )
        ]
    ),
    DescribeConfigsRequest.api_key: DescribeConfigsRequest(
        resources=[DescribeConfigsResource(resource_type=2, resource_name="t")]
    ),
    AlterConfigsRequest.api_key: AlterConfigsRequest(
        resources=[
            AlterConfigsResource(
                resource_type=2,
                resource_name="t",
                configs=[AlterableConfig(name="retention.ms", value="1000")],
            )
        ]
    ),
    AlterReplicaLogDirsRequest.api_key: AlterReplicaLogDirsRequest(
        dirs=[
            AlterReplicaLogDir(
                path="/data", topics=[AlterReplicaLogDirTopic(name="t", partitions=[0])]
            )
        ]
    ),
    DescribeLogDirsRequest.api_key: DescribeLogDirsRequest(topics=None),
    CreatePartitionsRequest.api_key: CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name="t", count=3, assignments=None)]
    ),
    IncrementalAlterConfigsRequest.api_key: IncrementalAlterConfigsRequest(
        resources=[
            IncrementalResource(
                resource_type=2,
                resource_name="t",
                configs=[IncrementalConfig(name="retention.ms", value="1000")],
            )
        ]
    ),
    ElectLeadersRequest.api_key: ElectLeadersRequest(topic_partitions=None),
    AlterPartitionReassignmentsRequest.api_key: AlterPartitionReassignmentsRequest(
        topics=[
            ReassignableTopic(
                name="t", partitions=[ReassignablePartition(partition_index=0, replicas=[1])]
            )
        ]
    ),
    ListPartitionReassignmentsRequest.api_key: ListPartitionReassignmentsRequest(topics=None),
    DescribeUserScramCredentialsRequest.api_key: DescribeUserScramCredentialsRequest(users=None),
    AlterUserScramCredentialsRequest.api_key: AlterUserScramCredentialsRequest(
        upsertions=[
            ScramCredentialUpsertion(
                name="u", mechanism=1, iterations=4096, salt=b"s", salted_password=b"p"
            )
        ]
    ),
    DescribeClientQuotasRequest.api_key: DescribeClientQuotasRequest(),
    AlterClientQuotasRequest.api_key: AlterClientQuotasRequest(
        entries=[
            QuotaEntry(
                entity=[QuotaEntity(entity_type="user", entity_name="u")],
                ops=[OpData(key="producer_byte_rate", value=1e9)],
            )
        ]
    ),
    DescribeClusterRequest.api_key: DescribeClusterRequest(),
    FindCoordinatorRequest.api_key: FindCoordinatorRequest(key="g", coordinator_keys=["g"]),
    ListConfigResourcesRequest.api_key: ListConfigResourcesRequest(),
    ListTransactionsRequest.api_key: ListTransactionsRequest(transactional_id_pattern="t.*"),
    DescribeProducersRequest.api_key: DescribeProducersRequest(
        topics=[DescribedTopic(name="t", partition_indexes=[0])]
    ),
    WriteTxnMarkersRequest.api_key: WriteTxnMarkersRequest(
        markers=[
            WritableTxnMarker(
                producer_id=ProducerId(1),
                topics=[WritableTxnMarkerTopic(name="t", partition_indexes=[0])],
            )
        ]
    ),
    DescribeTopicPartitionsRequest.api_key: DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name="t")]
    ),
    LookUpRequest.api_key: LookUpRequest(
        topics=[
            LookUpTopic(
                name="t",
                partitions=[LookUpPartition(partition_index=0, keys=[LookUpKey(key=b"k")])],
            )
        ]
    ),
    ExplainAccessRequest.api_key: ExplainAccessRequest(
        principal="User:ada", operation=3, resource_type=2, resource_name="t"
    ),
}


TELEMETRY = {GetTelemetrySubscriptionsRequest.api_key, PushTelemetryRequest.api_key}

PARTS_OF_A_STORY = {
    # A client that pushes metrics: client_telemetry/test_pushes
    *TELEMETRY,
    SaslAuthenticateRequest.api_key,
    SaslHandshakeRequest.api_key,
    # A transaction: test_transactions
    AddPartitionsToTxnRequest.api_key,
    AddOffsetsToTxnRequest.api_key,
    TxnOffsetCommitRequest.api_key,
    EndTxnRequest.api_key,
    DescribeTransactionsRequest.api_key,
    # A group: test_groups
    OffsetCommitRequest.api_key,
    OffsetFetchRequest.api_key,
    OffsetDeleteRequest.api_key,
    JoinGroupRequest.api_key,
    SyncGroupRequest.api_key,
    HeartbeatRequest.api_key,
    LeaveGroupRequest.api_key,
    DescribeGroupsRequest.api_key,
    ListGroupsRequest.api_key,
    DeleteGroupsRequest.api_key,
    # Access rules, which need an authoriser: test_acls
    DescribeAclsRequest.api_key,
    CreateAclsRequest.api_key,
    DeleteAclsRequest.api_key,
    DescribeRolesRequest.api_key,
    AlterRolesRequest.api_key,
    # Delegation tokens, which need a log-in: test_delegation_tokens
    CreateDelegationTokenRequest.api_key,
    RenewDelegationTokenRequest.api_key,
    ExpireDelegationTokenRequest.api_key,
    DescribeDelegationTokenRequest.api_key,
    # A consumer group: test_consumer_groups
    ConsumerGroupHeartbeatRequest.api_key,
    ConsumerGroupDescribeRequest.api_key,
}
"""These make sense after others alone, and are asked in every version there."""


def error_codes(message: object) -> list[int]:
    """Every error code anywhere in a response."""
    if isinstance(message, list):
        return [code for item in message for code in error_codes(item)]
    found = []
    for name in getattr(type(message), "__slots__", ()):
        value = getattr(message, name)
        if name == "error_code":
            found.append(cast("int", value))
        else:
            found += error_codes(value)
    return found


@pytest.mark.parametrize(
    ("api", "version"),
    [
        pytest.param(api, version, id=f"{api.name}-{version}")
        for key, api in served_apis().items()
        if key in REQUESTS
        for version in range(api.min_version, api.max_version + 1)
    ],
)
@on_broker()
async def test_an_api_answers_without_an_error(connect: Connect, api: AnyApi, version: int) -> None:
    client = await connect()
    await client.create_topic("t")
    response = await client.ask(REQUESTS[api.key], api.response, version=version)
    assert not any(error_codes(response)), response


def test_every_api_that_is_served_is_asked() -> None:
    assert set(REQUESTS) | PARTS_OF_A_STORY == set(served_apis())
    assert not set(REQUESTS) & PARTS_OF_A_STORY


@on_broker()
async def test_a_log_in_where_nobody_logs_in_is_refused(connect: Connect) -> None:
    client = await connect()
    for version in (0, 1):
        answer = await client.ask(
            SaslHandshakeRequest(mechanism="PLAIN"), SaslHandshakeResponse, version=version
        )
        assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE
    for version in (0, 1, 2):
        refusal = await client.ask(
            SaslAuthenticateRequest(auth_bytes=b"x"), SaslAuthenticateResponse, version=version
        )
        assert refusal.error_code == ErrorCode.ILLEGAL_SASL_STATE


@on_broker()
async def test_api_versions_advertises_what_is_served(connect: Connect) -> None:
    client = await connect()
    response = await client.ask(REQUESTS[ApiVersionsRequest.api_key], ApiVersionsResponse)
    advertised = {one.api_key: (one.min_version, one.max_version) for one in response.api_keys}
    promised = {
        key: (served.min_version, served.max_version)
        for key, served in served_apis().items()
        if key not in TELEMETRY  # This broker has no place for metrics of clients.
    }
    # Some librdkafka releases look for Produce 0 and send a newer version (KAFKA-18659).
    assert advertised == promised | {ProduceRequest.api_key: (0, 13)}
