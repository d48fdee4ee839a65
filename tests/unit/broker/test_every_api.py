"""Every API in every version that the table promises: asked sensibly, it answers sensibly."""

from collections.abc import Awaitable, Callable
from typing import cast

import pytest

from odradek.broker.handlers import TABLE
from odradek.protocol.apis import APIS, ApiKey
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
from odradek.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from odradek.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from odradek.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from odradek.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from odradek.protocol.messages.describe_cluster import DescribeClusterRequest
from odradek.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from odradek.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from odradek.protocol.messages.describe_producers import DescribeProducersRequest
from odradek.protocol.messages.describe_producers import TopicRequest as DescribedTopic
from odradek.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from odradek.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
)
from odradek.protocol.messages.elect_leaders import ElectLeadersRequest
from odradek.protocol.messages.fetch import FetchRequest
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.incremental_alter_configs import (
    AlterableConfig as IncrementalConfig,
)
from odradek.protocol.messages.incremental_alter_configs import (
    AlterConfigsResource as IncrementalResource,
)
from odradek.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest
from odradek.protocol.messages.list_config_resources import ListConfigResourcesRequest
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
from odradek.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from odradek.protocol.messages.produce import ProduceRequest
from odradek.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from odradek.protocol.schema import Request
from tests.unit.broker.harness import Client, with_broker

Connect = Callable[[], Awaitable[Client]]

REQUESTS: dict[int, Request] = {
    ApiKey.PRODUCE: ProduceRequest(acks=1, timeout_ms=100),
    ApiKey.FETCH: FetchRequest(),
    ApiKey.LIST_OFFSETS: ListOffsetsRequest(
        topics=[
            ListOffsetsTopic(
                name="t", partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)]
            )
        ]
    ),
    ApiKey.METADATA: MetadataRequest(topics=[MetadataRequestTopic(name="t")]),
    ApiKey.API_VERSIONS: ApiVersionsRequest(
        client_software_name="test", client_software_version="1.0"
    ),
    ApiKey.CREATE_TOPICS: CreateTopicsRequest(
        topics=[CreatableTopic(name="new", num_partitions=1, replication_factor=1)]
    ),
    ApiKey.DELETE_TOPICS: DeleteTopicsRequest(
        topics=[DeleteTopicState(name="t")], topic_names=["t"]
    ),
    ApiKey.DELETE_RECORDS: DeleteRecordsRequest(
        topics=[
            DeleteRecordsTopic(
                name="t", partitions=[DeleteRecordsPartition(partition_index=0, offset=-1)]
            )
        ]
    ),
    ApiKey.INIT_PRODUCER_ID: InitProducerIdRequest(transactional_id=None),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: OffsetForLeaderEpochRequest(
        topics=[
            OffsetForLeaderTopic(
                topic="t", partitions=[OffsetForLeaderPartition(partition=0, leader_epoch=0)]
            )
        ]
    ),
    ApiKey.DESCRIBE_CONFIGS: DescribeConfigsRequest(
        resources=[DescribeConfigsResource(resource_type=2, resource_name="t")]
    ),
    ApiKey.ALTER_CONFIGS: AlterConfigsRequest(
        resources=[
            AlterConfigsResource(
                resource_type=2,
                resource_name="t",
                configs=[AlterableConfig(name="retention.ms", value="1000")],
            )
        ]
    ),
    ApiKey.ALTER_REPLICA_LOG_DIRS: AlterReplicaLogDirsRequest(
        dirs=[
            AlterReplicaLogDir(
                path="/data", topics=[AlterReplicaLogDirTopic(name="t", partitions=[0])]
            )
        ]
    ),
    ApiKey.DESCRIBE_LOG_DIRS: DescribeLogDirsRequest(topics=None),
    ApiKey.CREATE_PARTITIONS: CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name="t", count=3, assignments=None)]
    ),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: IncrementalAlterConfigsRequest(
        resources=[
            IncrementalResource(
                resource_type=2,
                resource_name="t",
                configs=[IncrementalConfig(name="retention.ms", value="1000")],
            )
        ]
    ),
    ApiKey.ELECT_LEADERS: ElectLeadersRequest(topic_partitions=None),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: AlterPartitionReassignmentsRequest(
        topics=[
            ReassignableTopic(
                name="t", partitions=[ReassignablePartition(partition_index=0, replicas=[1])]
            )
        ]
    ),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: ListPartitionReassignmentsRequest(topics=None),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: DescribeUserScramCredentialsRequest(users=None),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: AlterUserScramCredentialsRequest(
        upsertions=[
            ScramCredentialUpsertion(
                name="u", mechanism=1, iterations=4096, salt=b"s", salted_password=b"p"
            )
        ]
    ),
    ApiKey.DESCRIBE_CLUSTER: DescribeClusterRequest(),
    ApiKey.FIND_COORDINATOR: FindCoordinatorRequest(key="g", coordinator_keys=["g"]),
    ApiKey.LIST_CONFIG_RESOURCES: ListConfigResourcesRequest(),
    ApiKey.LIST_TRANSACTIONS: ListTransactionsRequest(transactional_id_pattern="t.*"),
    ApiKey.DESCRIBE_PRODUCERS: DescribeProducersRequest(
        topics=[DescribedTopic(name="t", partition_indexes=[0])]
    ),
    ApiKey.WRITE_TXN_MARKERS: WriteTxnMarkersRequest(
        markers=[
            WritableTxnMarker(
                producer_id=1,
                topics=[WritableTxnMarkerTopic(name="t", partition_indexes=[0])],
            )
        ]
    ),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name="t")]
    ),
    ApiKey.LOOK_UP: LookUpRequest(
        topics=[
            LookUpTopic(
                name="t",
                partitions=[LookUpPartition(partition_index=0, keys=[LookUpKey(key=b"k")])],
            )
        ]
    ),
}


PARTS_OF_A_STORY = {
    # A transaction: test_transactions
    ApiKey.ADD_PARTITIONS_TO_TXN,
    ApiKey.ADD_OFFSETS_TO_TXN,
    ApiKey.TXN_OFFSET_COMMIT,
    ApiKey.END_TXN,
    ApiKey.DESCRIBE_TRANSACTIONS,
    # A group: test_groups
    ApiKey.OFFSET_COMMIT,
    ApiKey.OFFSET_FETCH,
    ApiKey.OFFSET_DELETE,
    ApiKey.JOIN_GROUP,
    ApiKey.SYNC_GROUP,
    ApiKey.HEARTBEAT,
    ApiKey.LEAVE_GROUP,
    ApiKey.DESCRIBE_GROUPS,
    ApiKey.LIST_GROUPS,
    ApiKey.DELETE_GROUPS,
    # Access rules, which need an authoriser: test_acls
    ApiKey.DESCRIBE_ACLS,
    ApiKey.CREATE_ACLS,
    ApiKey.DELETE_ACLS,
    # A consumer group: test_consumer_groups
    ApiKey.CONSUMER_GROUP_HEARTBEAT,
    ApiKey.CONSUMER_GROUP_DESCRIBE,
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
    ("key", "version"),
    [
        (key, version)
        for key, served in TABLE.items()
        if key in REQUESTS
        for version in range(served.lowest, served.highest + 1)
    ],
    ids=lambda value: value.name if isinstance(value, ApiKey) else str(value),
)
def test_an_api_answers_without_an_error(key: int, version: int) -> None:
    async def test(connect: Connect) -> None:
        client = await connect()
        await client.create_topic("t")
        response = await client.ask(REQUESTS[key], APIS[key].response, version=version)
        assert not any(error_codes(response)), response

    with_broker(test)


def test_every_api_of_the_table_is_asked() -> None:
    assert set(REQUESTS) | PARTS_OF_A_STORY == set(TABLE)
    assert not set(REQUESTS) & PARTS_OF_A_STORY


def test_api_versions_says_what_the_table_says() -> None:
    async def test(connect: Connect) -> None:
        client = await connect()
        response = await client.ask(REQUESTS[ApiKey.API_VERSIONS], ApiVersionsResponse)
        advertised = {one.api_key: (one.min_version, one.max_version) for one in response.api_keys}
        promised = {key: (served.lowest, served.highest) for key, served in TABLE.items()}
        # Some librdkafka releases look for Produce 0 and send a newer version (KAFKA-18659).
        assert advertised == promised | {ApiKey.PRODUCE: (0, 13)}

    with_broker(test)
