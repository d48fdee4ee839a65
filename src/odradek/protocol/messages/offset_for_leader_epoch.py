"""OffsetForLeaderEpoch: the offset at which a leader epoch ends, so that a follower whose log has
diverged knows where to truncate it."""

from typing import Final

from odradek.protocol.apis import Api
from odradek.protocol.schema import (
    Request,
    Response,
    Struct,
    array,
    broker_id_field,
    int16,
    int32,
    leader_epoch_field,
    offset_field,
    string,
)
from odradek.protocol.types import BrokerId, LeaderEpoch, Offset


class OffsetForLeaderPartition(Struct):
    partition: int = int32()
    current_leader_epoch: LeaderEpoch = leader_epoch_field(default=-1)
    leader_epoch: LeaderEpoch = leader_epoch_field()


class OffsetForLeaderTopic(Struct):
    topic: str = string()
    partitions: list[OffsetForLeaderPartition] = array(OffsetForLeaderPartition)


class OffsetForLeaderEpochRequest(Request):
    replica_id: BrokerId = broker_id_field("3+", default=-2)
    topics: list[OffsetForLeaderTopic] = array(OffsetForLeaderTopic)


class EpochEndOffset(Struct):
    error_code: int = int16()
    partition: int = int32()
    leader_epoch: LeaderEpoch = leader_epoch_field(default=-1)
    end_offset: Offset = offset_field(default=-1)


class OffsetForLeaderTopicResult(Struct):
    topic: str = string()
    partitions: list[EpochEndOffset] = array(EpochEndOffset)


class OffsetForLeaderEpochResponse(Response):
    throttle_time_ms: int = int32()
    topics: list[OffsetForLeaderTopicResult] = array(OffsetForLeaderTopicResult)


API: Final = Api(
    23, OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse, flexible_from=4, min_version=2
)
