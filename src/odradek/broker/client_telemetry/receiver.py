"""What the handlers of GetTelemetrySubscriptions and PushTelemetry call."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from odradek.broker.client_telemetry.instances import (
    ACCEPTED_COMPRESSION,
    ClientInstance,
    ClientInstances,
)
from odradek.broker.client_telemetry.subscriptions import Subscriptions
from odradek.config.live import LiveSettings
from odradek.metadata import ClusterImage
from odradek.metadata.paths import topic_id_text
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsResponse,
)
from odradek.protocol.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse
from odradek.protocol.types import NO_TOPIC_ID, TopicId
from odradek.world import World
from odradek.world.timeslice import Timeslice

if TYPE_CHECKING:
    from odradek.broker.client_telemetry.forwarder import OtlpForwarder
    from odradek.broker.client_telemetry.series import PushedSeries
    from odradek.broker.services import RequestContext

# Decompressed, a push may be so many times as large as `telemetry.max.bytes`.
_MAX_RATIO: Final = 4
# Kafka gives this id to the topic of its metadata.
_RESERVED_IDS: Final = (NO_TOPIC_ID, TopicId(bytes(15) + b"\x01"))


class ClientTelemetry:
    """`series` is None if there is no management port, `forwarder` if there is no collector."""

    def __init__(
        self, world: World, settings: LiveSettings, image: Callable[[], ClusterImage]
    ) -> None:
        self._world = world
        self._settings = settings
        self._now_s = world.clock.monotonic_s
        self.instances = ClientInstances(Subscriptions(image), self._now_s)
        self.series: PushedSeries | None = None
        self.forwarder: OtlpForwarder | None = None
        # Since the start: pushes that were taken, and those that could not be read.
        self.exported = self.errors = 0
        broker = settings.broker
        if broker.management_listener is not None:
            from odradek.broker.client_telemetry import series  # noqa: PLC0415 - if needed

            self.series = series.PushedSeries(broker.odradek_telemetry_max_series, self._now_s)
        if broker.odradek_telemetry_otlp_endpoint is not None:
            from odradek.broker.client_telemetry import forwarder  # noqa: PLC0415 - if needed

            self.forwarder = forwarder.OtlpForwarder(broker.odradek_telemetry_otlp_endpoint)

    def subscribe(
        self, context: "RequestContext", instance_id: TopicId
    ) -> GetTelemetrySubscriptionsResponse:
        """Answers a client that asks what it is to push. A client without an id gets one."""
        if instance_id == NO_TOPIC_ID:
            instance_id = TopicId(self._world.randomness.uuid().bytes)
        requested, error = self.instances.ask(instance_id, _attributes(context, instance_id))
        if error is not ErrorCode.NONE:
            return GetTelemetrySubscriptionsResponse(error_code=error)
        return GetTelemetrySubscriptionsResponse(
            client_instance_id=instance_id,
            subscription_id=requested.id,
            accepted_compression_types=list(ACCEPTED_COMPRESSION),
            push_interval_ms=requested.interval_ms,
            telemetry_max_bytes=self._settings.broker.telemetry_max_bytes,
            delta_temporality=True,
            requested_metrics=list(requested.metrics),
        )

    async def receive(
        self, context: "RequestContext", request: PushTelemetryRequest
    ) -> PushTelemetryResponse:
        """Takes a push, if it is accepted."""
        if request.client_instance_id in _RESERVED_IDS:
            return PushTelemetryResponse(error_code=ErrorCode.INVALID_REQUEST)
        client = _attributes(context, request.client_instance_id)
        max_bytes = self._settings.broker.telemetry_max_bytes
        instance, error = self.instances.push(request, client, max_bytes)
        if error is ErrorCode.NONE and request.metrics:
            try:
                await self._take(request, client, instance)
            except ValueError:  # `MalformedTelemetry`, `MalformedCompression`
                self.errors += 1
                instance.last_error = error = ErrorCode.INVALID_RECORD
            else:
                self.exported += 1
        return PushTelemetryResponse(error_code=error)

    async def _take(
        self, request: PushTelemetryRequest, client: Mapping[str, str], instance: ClientInstance
    ) -> None:
        from odradek.protocol.compression import Codec, decompress  # noqa: PLC0415 - when pushed
        from odradek.telemetry.otlp.decoding import decode  # noqa: PLC0415
        from odradek.telemetry.otlp.labels import with_attributes  # noqa: PLC0415

        max_bytes = _MAX_RATIO * self._settings.broker.telemetry_max_bytes
        codec = Codec(request.compression_type)
        data = memoryview(decompress(codec, request.metrics, max_bytes))
        if self.series is not None:
            steps = self.series.take(
                request.client_instance_id, client, instance.interval_s, decode(data)
            )
            await Timeslice.of_running_loop().run(steps)
        if self.forwarder is not None:
            self.forwarder.offer(with_attributes(data, client))


def _attributes(context: "RequestContext", instance_id: TopicId) -> dict[str, str]:
    """Returns what the broker knows of a client (`CLIENT_ATTRIBUTES`). Its software is known from
    its first request, ApiVersions."""
    connection = context.connection
    name, _, version = connection.session.get("software", "").partition(" ")
    return {
        "client_instance_id": topic_id_text(instance_id),
        "client_id": context.client_id or "",
        "client_software_name": name,
        "client_software_version": version,
        "client_source_address": connection.address,
        "client_source_port": str(connection.port),
    }
