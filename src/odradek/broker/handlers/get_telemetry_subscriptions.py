"""GetTelemetrySubscriptions (v0): which metrics a client is to push, and how often (KIP-714).

Offered only if the metrics have somewhere to go: a management port, or a collector
(`odradek.telemetry.otlp.endpoint`). Sums are asked for as deltas, as Kafka does.
"""

from typing import Final

from odradek.broker.handlers import Handler
from odradek.broker.permissions import OpenToAll
from odradek.broker.services import RequestContext, Services
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.get_telemetry_subscriptions import (
    API,
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)


def handle(
    services: Services, context: RequestContext, request: GetTelemetrySubscriptionsRequest
) -> GetTelemetrySubscriptionsResponse:
    telemetry = services.client_telemetry
    if telemetry is None:
        return GetTelemetrySubscriptionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    return telemetry.subscribe(context, request.client_instance_id)


HANDLER: Final = Handler(
    API, handle, permission=OpenToAll("a client tells about itself alone"), has_small_responses=True
)
