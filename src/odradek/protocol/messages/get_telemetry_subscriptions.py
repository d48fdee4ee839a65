"""GetTelemetrySubscriptions: which metrics a client is to push, how often and how (KIP-714).

A client that has no id of its own yet sends a zero id, and is given one.
"""

from typing import Final

from odradek.protocol.apis import Api
from odradek.protocol.schema import (
    Request,
    Response,
    array,
    boolean,
    int8,
    int16,
    int32,
    string,
    uuid,
)
from odradek.protocol.types import TopicId


class GetTelemetrySubscriptionsRequest(Request):
    client_instance_id: TopicId = uuid()


class GetTelemetrySubscriptionsResponse(Response):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    client_instance_id: TopicId = uuid()
    subscription_id: int = int32()
    accepted_compression_types: list[int] = array(int8)
    push_interval_ms: int = int32()
    telemetry_max_bytes: int = int32()
    delta_temporality: bool = boolean()
    requested_metrics: list[str] = array(string)


API: Final = Api(
    71, GetTelemetrySubscriptionsRequest, GetTelemetrySubscriptionsResponse, flexible_from=0
)
