"""ListOffsets: the offset of the first record at or after a timestamp.

Negative timestamps ask for offsets: -1 for the latest, -2 for the earliest, -3 for that of the
record with the largest timestamp (from version 7), -4 for the earliest local (8), -5 for the latest
tiered (9), -6 for the earliest pending upload (11).
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
    offset_field,
    string,
)
from odradek.protocol.types import BrokerId, LeaderEpoch, Offset


class ListOffsetsPartition(Struct):
    partition_index: int = int32()
    current_leader_epoch: LeaderEpoch = leader_epoch_field("4+", default=-1)
    timestamp: int = int64()


class ListOffsetsTopic(Struct):
    name: str = string()
    partitions: list[ListOffsetsPartition] = array(ListOffsetsPartition)


class ListOffsetsRequest(Request):
    replica_id: BrokerId = broker_id_field()
    isolation_level: int = int8("2+")
    topics: list[ListOffsetsTopic] = array(ListOffsetsTopic)
    timeout_ms: int = int32("10+")


class ListOffsetsPartitionResponse(Struct):
    partition_index: int = int32()
    error_code: int = int16()
    timestamp: int = int64(default=-1)
    offset: Offset = offset_field(default=-1)
    leader_epoch: LeaderEpoch = leader_epoch_field("4+", default=-1)


class ListOffsetsTopicResponse(Struct):
    name: str = string()
    partitions: list[ListOffsetsPartitionResponse] = array(ListOffsetsPartitionResponse)


class ListOffsetsResponse(Response):
    throttle_time_ms: int = int32("2+")
    topics: list[ListOffsetsTopicResponse] = array(ListOffsetsTopicResponse)


# Version 11 lets clients ask for the earliest offset that is not uploaded yet (KIP-1023).
API: Final = Api(
    2, ListOffsetsRequest, ListOffsetsResponse, flexible_from=6, min_version=1, max_version=11
)
