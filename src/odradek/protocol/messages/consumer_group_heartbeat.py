"""ConsumerGroupHeartbeat: the only request of a member in the new consumer protocol (KIP-848), by
which it joins, reports its partitions, gets its assignment and leaves.

A field of the request that is null or -1 has not changed since the last heartbeat.
"""

from typing import Final

from odradek.protocol.apis import Api
from odradek.protocol.schema import (
    Request,
    Response,
    Struct,
    array,
    int16,
    int32,
    nested,
    string,
    uuid,
)
from odradek.protocol.types import TopicId


class TopicPartitions(Struct):
    topic_id: TopicId = uuid()
    partitions: list[int] = array(int32)


class ConsumerGroupHeartbeatRequest(Request):
    group_id: str = string()
    member_id: str = string()
    member_epoch: int = int32()
    instance_id: str | None = string(nullable="0+", default=None)
    rack_id: str | None = string(nullable="0+", default=None)
    rebalance_timeout_ms: int = int32(default=-1)
    subscribed_topic_names: list[str] | None = array(string, nullable="0+", default=None)
    subscribed_topic_regex: str | None = string("1+", nullable="1+", default=None)
    server_assignor: str | None = string(nullable="0+", default=None)
    topic_partitions: list[TopicPartitions] | None = array(
        TopicPartitions, nullable="0+", default=None
    )


class Assignment(Struct):
    topic_partitions: list[TopicPartitions] = array(TopicPartitions)


class ConsumerGroupHeartbeatResponse(Response):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    member_id: str | None = string(nullable="0+", default=None)
    member_epoch: int = int32()
    heartbeat_interval_ms: int = int32()
    assignment: Assignment | None = nested(Assignment, nullable="0+")


API: Final = Api(68, ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse, flexible_from=0)
