"""PushTelemetry (v0): takes the metrics of a client, in OpenTelemetry's format (KIP-714).

Refused are pushes before their time (THROTTLING_QUOTA_EXCEEDED), of another subscription than the
present one, in an unknown compression, above `telemetry.max.bytes`, after a client's last one, and
those that cannot be read (INVALID_RECORD). Distributions are counted and not kept: no client of
Kafka pushes them.
"""

from collections.abc import Awaitable
from typing import Final

from odradek.broker.handlers import Handler
from odradek.broker.permissions import OpenToAll
from odradek.broker.services import RequestContext, Services
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.push_telemetry import (
    API,
    PushTelemetryRequest,
    PushTelemetryResponse,
)


def handle(
    services: Services, context: RequestContext, request: PushTelemetryRequest
) -> PushTelemetryResponse | Awaitable[PushTelemetryResponse]:
    telemetry = services.client_telemetry
    if telemetry is None:
        return PushTelemetryResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    return telemetry.receive(context, request)


HANDLER: Final = Handler(
    API, handle, permission=OpenToAll("a client tells about itself alone"), has_small_responses=True
)
