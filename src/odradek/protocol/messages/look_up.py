"""LookUp: the newest record of a key, or the time of the record at an offset. This API is
Odradek's own; Kafka has none like it.

Its key is far from Kafka's keys. Clients that do not know it ignore it in the response to
ApiVersions, as they ignore every API that is newer than they are. Leaders answer for their
partitions.
"""

from typing import Final

from odradek.protocol.apis import Api
from odradek.protocol.schema import (
    Request,
    Response,
    Struct,
    array,
    bytes_,
    int8,
    int16,
    int32,
    int64,
    leader_epoch_field,
    offset_field,
    string,
)
from odradek.protocol.types import LeaderEpoch, Offset


class LookUpKey(Struct):
    key: bytes = bytes_()


class LookUpOffset(Struct):
    offset: Offset = offset_field()


class LookUpPartition(Struct):
    partition_index: int = int32()
    current_leader_epoch: LeaderEpoch = leader_epoch_field(default=-1)
    keys: list[LookUpKey] = array(LookUpKey)
    # Offsets that groups have committed, of which the coordinator asks the time.
    offsets: list[LookUpOffset] = array(LookUpOffset, "1+")


class LookUpTopic(Struct):
    name: str = string()
    partitions: list[LookUpPartition] = array(LookUpPartition)


class LookUpRequest(Request):
    # 0 read_uncommitted, 1 read_committed
    isolation_level: int = int8()
    topics: list[LookUpTopic] = array(LookUpTopic)


class LookUpHeader(Struct):
    name: str = string()
    value: bytes | None = bytes_(nullable="0+", default=None)


class LookUpResult(Struct):
    """An offset of -1 says that there is no record; one without a value is a tombstone."""

    offset: Offset = offset_field(default=-1)
    leader_epoch: LeaderEpoch = leader_epoch_field(default=-1)
    timestamp: int = int64(default=-1)
    # 0 CreateTime, 1 LogAppendTime
    timestamp_type: int = int8()
    value: bytes | None = bytes_(nullable="0+", default=None)
    headers: list[LookUpHeader] = array(LookUpHeader)


class LookUpTime(Struct):
    """The timestamp of the first record at or above an offset; -1 if there is none."""

    timestamp: int = int64(default=-1)


class LookUpPartitionResult(Struct):
    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    # What the broker read from its files for all keys of the partition.
    bytes_read: int = int64()
    # What is not indexed yet, and was read if need be.
    unindexed_bytes: int = int64()
    # In the order of the keys. A broker may answer the first ones alone, where all would be too
    # much for one response: ask again for the rest.
    results: list[LookUpResult] = array(LookUpResult)
    high_watermark: Offset = offset_field("1+", default=-1)
    # In the order of the offsets.
    times: list[LookUpTime] = array(LookUpTime, "1+")


class LookUpTopicResult(Struct):
    name: str = string()
    partitions: list[LookUpPartitionResult] = array(LookUpPartitionResult)


class LookUpResponse(Response):
    throttle_time_ms: int = int32()
    topics: list[LookUpTopicResult] = array(LookUpTopicResult)


API: Final = Api(25000, LookUpRequest, LookUpResponse, flexible_from=0)
