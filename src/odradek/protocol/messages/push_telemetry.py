"""PushTelemetry: the metrics of a client, as OpenTelemetry's MetricsData, compressed (KIP-714)."""

from typing import Final

from odradek.protocol.apis import Api
from odradek.protocol.schema import (
    Request,
    Response,
    boolean,
    bytes_,
    int8,
    int16,
    int32,
    uuid,
)
from odradek.protocol.types import TopicId


class PushTelemetryRequest(Request):
    client_instance_id: TopicId = uuid()
    subscription_id: int = int32()
    terminating: bool = boolean()
    compression_type: int = int8()
    metrics: bytes = bytes_()


class PushTelemetryResponse(Response):
    throttle_time_ms: int = int32()
    error_code: int = int16()


API: Final = Api(72, PushTelemetryRequest, PushTelemetryResponse, flexible_from=0)
