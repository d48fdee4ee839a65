"""Fetch: read record batches, as a consumer or as a replica.

From version 7 a session remembers the partitions, so that requests carry only changes and
`forgotten_topics_data`. From version 13 topics are identified by id. A replica says who it is in
`replica_id` up to version 14, in the tagged `replica_state` from 15 on.
"""

from typing import Final

from odradek.protocol.apis import Api
from odradek.protocol.schema import (
    Request,
    Response,
    Struct,
    array,
    broker_id_field,
    int8,
    int16,
    int32,
    int64,
    leader_epoch_field,
    nested,
    offset_field,
    producer_id_field,
    record_batches,
    string,
    uuid,
)
from odradek.protocol.types import BrokerId, LeaderEpoch, Offset, Part, ProducerId, TopicId


class ReplicaState(Struct):
    replica_id: BrokerId = broker_id_field(default=-1)
    replica_epoch: int = int64(default=-1)


class FetchPartition(Struct):
    partition: int = int32()
    current_leader_epoch: LeaderEpoch = leader_epoch_field("9+", default=-1)
    fetch_offset: Offset = offset_field()
    last_fetched_epoch: LeaderEpoch = leader_epoch_field("12+", default=-1)
    log_start_offset: Offset = offset_field("5+", default=-1)
    partition_max_bytes: int = int32()
    replica_directory_id: TopicId = uuid("17+", tag=0)
    high_watermark: Offset = offset_field("18+", default=2**63 - 1, tag=1)


class FetchTopic(Struct):
    topic: str = string("0-12")
    topic_id: TopicId = uuid("13+")
    partitions: list[FetchPartition] = array(FetchPartition)


class ForgottenTopic(Struct):
    topic: str = string("0-12")
    topic_id: TopicId = uuid("13+")
    partitions: list[int] = array(int32)


class FetchRequest(Request):
    cluster_id: str | None = string("12+", nullable="12+", default=None, tag=0)
    replica_id: BrokerId = broker_id_field("0-14", default=-1)
    replica_state: ReplicaState | None = nested(ReplicaState, "15+", tag=1)
    max_wait_ms: int = int32()
    min_bytes: int = int32()
    max_bytes: int = int32(default=2**31 - 1)
    isolation_level: int = int8()
    session_id: int = int32("7+")
    session_epoch: int = int32("7+", default=-1)
    topics: list[FetchTopic] = array(FetchTopic)
    forgotten_topics_data: list[ForgottenTopic] = array(ForgottenTopic, "7+")
    rack_id: str = string("11+")


class EpochEndOffset(Struct):
    epoch: LeaderEpoch = leader_epoch_field(default=-1)
    end_offset: Offset = offset_field(default=-1)


class LeaderIdAndEpoch(Struct):
    leader_id: BrokerId = broker_id_field(default=-1)
    leader_epoch: LeaderEpoch = leader_epoch_field(default=-1)


class SnapshotId(Struct):
    end_offset: Offset = offset_field(default=-1)
    epoch: LeaderEpoch = leader_epoch_field(default=-1)


class AbortedTransaction(Struct):
    producer_id: ProducerId = producer_id_field()
    first_offset: Offset = offset_field()


class PartitionData(Struct):
    partition_index: int = int32()
    error_code: int = int16()
    high_watermark: Offset = offset_field()
    last_stable_offset: Offset = offset_field(default=-1)
    log_start_offset: Offset = offset_field("5+", default=-1)
    diverging_epoch: EpochEndOffset | None = nested(EpochEndOffset, "12+", tag=0)
    current_leader: LeaderIdAndEpoch | None = nested(LeaderIdAndEpoch, "12+", tag=1)
    snapshot_id: SnapshotId | None = nested(SnapshotId, "12+", tag=2)
    aborted_transactions: list[AbortedTransaction] | None = array(AbortedTransaction, nullable="0+")
    preferred_read_replica: BrokerId = broker_id_field("11+", default=-1)
    records: Part | None = record_batches()


class FetchableTopicResponse(Struct):
    topic: str = string("0-12")
    topic_id: TopicId = uuid("13+")
    partitions: list[PartitionData] = array(PartitionData)


class NodeEndpoint(Struct):
    node_id: BrokerId = broker_id_field()
    host: str = string()
    port: int = int32()
    rack: str | None = string(nullable="0+", default=None)


class FetchResponse(Response):
    throttle_time_ms: int = int32()
    error_code: int = int16("7+")
    session_id: int = int32("7+")
    responses: list[FetchableTopicResponse] = array(FetchableTopicResponse)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "16+", tag=0)


API: Final = Api(1, FetchRequest, FetchResponse, flexible_from=12, min_version=4)
