"""Interceptors that make a span of each record that is sent and of each traced one that is read.

In code they are objects, in properties names:

    Producer(bootstrap_servers=..., interceptors=[ProducerTracing()])
    interceptor.classes=odradek.client.tracing:ConsumerTracing

Spans have the names and attributes of OpenTelemetry's conventions for messaging. They are given to
the provider that the program has set up (`export_traces` is one way); without one, nothing is
recorded, and records get a `traceparent` only inside a trace that is already there.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from opentelemetry import trace
from opentelemetry.trace import Span, SpanKind, Status, StatusCode

from odradek.client.consumer.fetched_batches import ConsumerRecord
from odradek.client.producer.deliveries import RecordMetadata
from odradek.client.producer.interceptors import ProducerRecord
from odradek.client.tracing.contexts import SYSTEM, context_of, trace_headers, tracer
from odradek.protocol.types import TopicPartition
from odradek.telemetry.tracing.traceparent import HEADER

_MAX_OPEN: Final = 100_000
"""Spans that wait for an acknowledgement. Each record that is sent is acknowledged or fails, so
more can only be there if another interceptor changed the header that finds the span."""


class ProducerTracing:
    """A span of kind PRODUCER for each record, from `send` until it is acknowledged, as a child of
    the span in which the program sends it. The record carries the context of that span."""

    def __init__(self) -> None:
        self._client_id = ""
        # By the value of the header: each span has an id of its own.
        self._open: dict[bytes, Span] = {}

    def configure(self, settings: Mapping[str, object]) -> None:
        self._client_id = str(settings.get("client.id") or "")

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        span = tracer().start_span(
            f"send {record.topic}",
            kind=SpanKind.PRODUCER,
            attributes={
                "messaging.system": SYSTEM,
                "messaging.operation.type": "send",
                "messaging.destination.name": record.topic,
                "messaging.client.id": self._client_id,
            },
        )
        headers = trace_headers(record.headers, trace.set_span_in_context(span))
        key = _traceparent(headers)
        if span.is_recording() and key is not None:
            self._open[key] = span
            if len(self._open) > _MAX_OPEN:
                self._open.pop(next(iter(self._open))).end()
        else:
            span.end()
        return replace(record, headers=headers)

    def on_acknowledgement(
        self,
        metadata: RecordMetadata | None,
        error: BaseException | None,
        record: ProducerRecord,
    ) -> None:
        span = self._open.pop(_traceparent(list(record.headers)) or b"", None)
        if span is None:
            return
        if metadata is not None:
            span.set_attribute("messaging.destination.partition.id", str(metadata.partition))
            span.set_attribute("messaging.kafka.offset", metadata.offset)
        if error is not None:
            span.record_exception(error)
            span.set_status(Status(StatusCode.ERROR, str(error)))
        span.end()

    def close(self) -> None:
        for span in self._open.values():
            span.end()
        self._open.clear()


class ConsumerTracing:
    """A span of kind CONSUMER for each record that carries a trace which is recorded, as a child of
    the span that sent it. If the program polls inside a span of its own, that one is linked.

    It says that the record arrived here, and when. `process_span` is for what is done with it."""

    def __init__(self) -> None:
        self._attributes: dict[str, str] = {}

    def configure(self, settings: Mapping[str, object]) -> None:
        self._attributes = {
            "messaging.client.id": str(settings.get("client.id") or ""),
            "messaging.consumer.group.name": str(settings.get("group.id") or ""),
        }

    def on_consume(
        self, records: dict[TopicPartition, list[ConsumerRecord]]
    ) -> dict[TopicPartition, list[ConsumerRecord]]:
        current = trace.get_current_span().get_span_context()
        links = [trace.Link(current)] if current.is_valid else []
        for partition, polled in records.items():
            for record in polled:
                # Most records of most topics carry no trace, and a context costs something.
                if any(name == HEADER for name, _ in record.headers):
                    self._received(record, partition, links)
        return records

    def _received(
        self, record: ConsumerRecord, partition: TopicPartition, links: list[trace.Link]
    ) -> None:
        context = context_of(record.headers)
        if not trace.get_current_span(context).get_span_context().trace_flags.sampled:
            return
        tracer().start_span(
            f"receive {partition.topic}",
            context=context,
            kind=SpanKind.CONSUMER,
            links=links,
            attributes={
                "messaging.system": SYSTEM,
                "messaging.operation.type": "receive",
                "messaging.destination.name": partition.topic,
                "messaging.destination.partition.id": str(partition.partition),
                "messaging.kafka.offset": record.offset,
                **self._attributes,
            },
        ).end()


def _traceparent(headers: list[tuple[str, bytes | None]]) -> bytes | None:
    return next((value for name, value in reversed(headers) if name == HEADER), None)
