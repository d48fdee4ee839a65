"""Traces of OpenTelemetry for the clients: who sent a record, and who read it.

    interceptors   `ProducerTracing` and `ConsumerTracing`, for `interceptor.classes`
    contexts       from the headers of a record to a context of OpenTelemetry, and back
    setup          `export_traces`: an SDK that sends spans to a collector, in one line

It needs the extra `tracing`, and is imported by those who name it alone. A producer writes the
header `traceparent` of W3C Trace Context into each record; a consumer goes on with the trace that
it finds there.
"""

from typing import TYPE_CHECKING

from odradek.lazy_names import lazy_names

if TYPE_CHECKING:
    from odradek.client.tracing.contexts import (
        context_of,
        process_span,
        row_span,
        trace_headers,
    )
    from odradek.client.tracing.interceptors import ConsumerTracing, ProducerTracing
    from odradek.client.tracing.setup import export_traces

_HOMES = {
    "ConsumerTracing": "odradek.client.tracing.interceptors",
    "ProducerTracing": "odradek.client.tracing.interceptors",
    "context_of": "odradek.client.tracing.contexts",
    "export_traces": "odradek.client.tracing.setup",
    "process_span": "odradek.client.tracing.contexts",
    "row_span": "odradek.client.tracing.contexts",
    "trace_headers": "odradek.client.tracing.contexts",
}

__all__ = [
    "ConsumerTracing",
    "ProducerTracing",
    "context_of",
    "export_traces",
    "process_span",
    "row_span",
    "trace_headers",
]

if not TYPE_CHECKING:
    _lazy = lazy_names(__name__, _HOMES)

    def __getattr__(name: str) -> object:
        try:
            return _lazy(name)
        except ModuleNotFoundError as error:
            if not (error.name or "").startswith("opentelemetry"):
                raise
            from odradek.world.installing import install_line  # noqa: PLC0415 - only for a message

            # As `interceptor.classes` too shows it: one line that says what to do.
            raise ModuleNotFoundError(
                f"traces need the extra tracing: {install_line('tracing')}", name=error.name
            ) from None
