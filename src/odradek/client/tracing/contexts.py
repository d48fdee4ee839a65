"""From the headers of a record to a context of OpenTelemetry, and back."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from opentelemetry import propagate, trace
from opentelemetry.context import Context
from opentelemetry.propagators.textmap import Getter, Setter
from opentelemetry.trace import Span, SpanKind

from odradek import __version__
from odradek.client.consumer.fetched_batches import ConsumerRecord

TRACER: Final = "odradek"
SYSTEM: Final = "kafka"
Headers = list[tuple[str, bytes | None]]


def tracer() -> trace.Tracer:
    """The tracer of the provider that the program has set up, or one that records nothing."""
    return trace.get_tracer(TRACER, __version__)


class _HeaderGetter(Getter[Headers]):
    """Reads headers of a record: names may occur twice, values are bytes."""

    def get(self, carrier: Headers, key: str) -> list[str] | None:
        values = [
            value.decode("latin-1")
            for name, value in carrier
            if name.lower() == key and value is not None
        ]
        return values[-1:] or None  # The last one is the newest.

    def keys(self, carrier: Headers) -> list[str]:
        return [name for name, _ in carrier]


class _HeaderSetter(Setter[Headers]):
    """Writes headers of a record. A header of the same name is replaced: a record that is sent on
    belongs to the span that sends it on."""

    def set(self, carrier: Headers, key: str, value: str) -> None:
        carrier[:] = [(name, content) for name, content in carrier if name.lower() != key]
        carrier.append((key, value.encode("latin-1", "replace")))


_GETTER: Final = _HeaderGetter()
_SETTER: Final = _HeaderSetter()


def context_of(headers: Iterable[Any] | None) -> Context:
    """Returns the context that the headers of a record carry, by the propagators that are set up
    (W3C Trace Context and Baggage, unless OTEL_PROPAGATORS says otherwise). Headers are pairs of
    name and bytes, as of our own client, or rows with `key` and `value`, as of Spark."""
    return propagate.extract(_pairs(headers), Context(), _GETTER)


def trace_headers(headers: Iterable[Any] | None = (), context: Context | None = None) -> Headers:
    """Returns the headers with those of the current trace, or of `context`, for a record that is to
    be sent."""
    carrier = _pairs(headers)
    propagate.inject(carrier, context, _SETTER)
    return carrier


def _pairs(headers: Iterable[Any] | None) -> Headers:
    pairs: Headers = []
    for header in headers or ():
        if isinstance(header, Mapping):
            name, value = header["key"], header["value"]
        else:
            name, value = header
        pairs.append((name, None if value is None else bytes(value)))
    return pairs


@contextmanager
def process_span(record: ConsumerRecord, name: str | None = None) -> Iterator[Span]:
    """Runs the code that processes a record in a span that goes on with the record's trace:

        async for record in consumer:
            with process_span(record):
                ...

    What is sent inside belongs to the trace too. An exception is noted in the span and goes on.
    """
    attributes = {
        "messaging.destination.partition.id": str(record.partition),
        "messaging.kafka.offset": record.offset,
    }
    with _processing(record.headers, record.topic, name, attributes) as span:
        yield span


@contextmanager
def row_span(row: Any, name: str | None = None) -> Iterator[Span]:
    """Does the same as `process_span` for a row of a DataFrame that was read with
    `includeHeaders`, in `foreach`, `foreachPartition` or a function of `mapInPandas`. The row needs
    the column `headers`; `topic`, `partition` and `offset` are noted if it has them."""
    fields = row.asDict() if hasattr(row, "asDict") else dict(row)
    attributes: dict[str, str | int] = {}
    if fields.get("partition") is not None:
        attributes["messaging.destination.partition.id"] = str(fields["partition"])
    if fields.get("offset") is not None:
        attributes["messaging.kafka.offset"] = int(fields["offset"])
    topic = str(fields.get("topic") or "")
    with _processing(fields["headers"], topic, name, attributes) as span:
        yield span


@contextmanager
def _processing(
    headers: Iterable[Any] | None, topic: str, name: str | None, attributes: Mapping[str, Any]
) -> Iterator[Span]:
    current = trace.get_current_span().get_span_context()
    with tracer().start_as_current_span(
        name or f"process {topic}".rstrip(),
        context=context_of(headers),
        kind=SpanKind.CONSUMER,
        # The span in which records are processed, if there is one, is another trace's.
        links=[trace.Link(current)] if current.is_valid else [],
        attributes={
            "messaging.system": SYSTEM,
            "messaging.operation.type": "process",
            "messaging.destination.name": topic,
            **attributes,
        },
    ) as span:
        yield span
