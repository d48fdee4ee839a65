"""Times all requests, and makes a span of each that was slow.

A span of a Produce request belongs to the trace of its first traced record, as a child of the span
in which the producer sent it; other traces in the request are linked. Requests of other APIs carry
no trace: their spans begin one of their own. They have the client's id, its address and the
correlation id, by which the request log and the logs of the client find the same request.

Errors alone make no span; the metrics and the request log have them.
"""

from dataclasses import replace
from functools import partial
from typing import Final

from odradek import __version__
from odradek.broker.dispatch import Dispatcher
from odradek.broker.network.connection import Connection
from odradek.broker.network.request_serving import Serve
from odradek.broker.network.request_timing import NO_ERROR, RequestTimer, RequestTimes
from odradek.broker.services import Services
from odradek.broker.tracing.exporter import SpanExporter
from odradek.broker.tracing.record_traces import MAX_FRAME_BYTES, traces_in
from odradek.config.tracing_settings import Endpoint
from odradek.protocol.messages.produce import API as PRODUCE
from odradek.protocol.types import Buffer
from odradek.telemetry.tracing.spans import Attribute, Span, SpanKind

_MAX_EACH_SECOND: Final = 100


class SlowRequests:
    """Stands between the connections and what serves them otherwise."""

    def __init__(
        self, dispatcher: Dispatcher, services: Services, serve: Serve, endpoint: Endpoint
    ) -> None:
        self._settings = dispatcher.settings
        self._world = services.world
        self._timer = RequestTimer(dispatcher, services.world.clock, serve, self._finished)
        self._timer.listen(is_on=True)
        self.serve = self._timer.serve
        resource: dict[str, Attribute] = {
            "service.name": "odradek",
            "service.version": __version__,
            "service.instance.id": f"broker-{services.broker_id}",
            "messaging.kafka.cluster.id": services.images.cache.image.cluster_id,
        }
        self._exporter = SpanExporter(
            endpoint, resource, services.world.workers, services.world.clock
        )
        self.run = self._exporter.run
        self._second, self._in_second = 0, 0

    def follow(self, connection: Connection) -> None:
        self._timer.attach(connection)

    def close(self) -> None:
        """Called when the server closes: there is nothing to end."""

    def _finished(self, times: RequestTimes, error: str, now_s: float) -> None:
        took_s = now_s - times.arrived_s
        is_produce = times.header.api_key == PRODUCE.key
        counted_s = took_s if is_produce else took_s - times.remote_s
        if 1000 * counted_s < self._settings.broker.odradek_tracing_slow_ms:
            return
        if self._is_too_many(now_s):
            self._exporter.dropped += 1
            return
        frame: Buffer = b""
        if is_produce and times.size <= MAX_FRAME_BYTES:
            # A copy: the frame may be a part of a larger buffer, which would be kept as a whole.
            frame = bytes(times.frame)
        end_ns = self._world.clock.now_ms() * 1_000_000
        ids = self._world.randomness.bytes(24)
        span = Span(
            times.api,
            SpanKind.SERVER,
            ids[:16],
            ids[16:],
            end_ns - int(took_s * 1e9),
            end_ns,
            attributes=_attributes(times, now_s),
            error="" if error == NO_ERROR else error,
        )
        self._exporter.offer(partial(_joined, span, frame))

    def _is_too_many(self, now_s: float) -> bool:
        if int(now_s) != self._second:
            self._second, self._in_second = int(now_s), 0
        self._in_second += 1
        return self._in_second > _MAX_EACH_SECOND


def _attributes(times: RequestTimes, now_s: float) -> dict[str, Attribute]:
    header, connection = times.header, times.connection
    return {
        "messaging.system": "kafka",
        "rpc.system": "kafka",
        "rpc.method": times.api,
        "messaging.client.id": header.client_id or "",
        "client.address": connection.address,
        "client.port": connection.port,
        "odradek.request.version": header.api_version,
        "odradek.request.correlation_id": header.correlation_id,
        "odradek.request.bytes": times.size,
        "odradek.request.listener": connection.listener,
        "odradek.request.queue_ms": _ms(times.arrived_s, times.begun_s),
        "odradek.request.local_ms": _ms(times.begun_s, times.handled_s),
        "odradek.request.remote_ms": _ms(times.handled_s, times.answered_s),
        "odradek.request.send_ms": _ms(times.answered_s, now_s),
    }


def _ms(begin_s: float, end_s: float) -> float:
    return round(1000 * (end_s - begin_s), 3)


def _joined(span: Span, frame: Buffer) -> Span:
    """Returns the span as a part of the traces that the records of a Produce request belong to.
    Runs in a worker thread."""
    traces = traces_in(frame) if frame else []
    if not traces:
        return span
    parent, *others = traces
    return replace(
        span,
        trace_id=bytes.fromhex(parent.trace_id),
        parent_id=bytes.fromhex(parent.span_id),
        links=tuple(others),
    )
