"""An SDK of OpenTelemetry that sends spans to a collector, set up in one line.

Programs that set up a provider of their own, or run under `opentelemetry-instrument`, do not need
it: the interceptors use the provider that is there.
"""

import os
from threading import Lock
from typing import Final

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

_PATH: Final = "/v1/traces"
_lock: Final = Lock()
_made: dict[int, TracerProvider] = {}


def export_traces(service: str, endpoint: str | None = None) -> TracerProvider:
    """Makes this process send its spans to `endpoint`, as `http://127.0.0.1:4318`, by default to
    that of OTEL_EXPORTER_OTLP_ENDPOINT. Spans are sent by a thread of their own; `shutdown()` of
    the returned provider sends the rest.

    It may be called again and again, for instance in each task of a Spark job: a process has one
    provider, and the first call decides. A process that was forked needs its own call.
    """
    with _lock:
        known = _made.get(os.getpid())
        if known is not None:
            return known
        url = None if endpoint is None else _with_path(endpoint)
        provider = TracerProvider(resource=Resource.create({"service.name": service}))
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=url)))
        trace.set_tracer_provider(provider)
        _made[os.getpid()] = provider
        return provider


def _with_path(endpoint: str) -> str:
    """Returns the address of the traces: OTLP has a path for each kind of telemetry."""
    scheme, separator, rest = endpoint.partition("://")
    return endpoint if "/" in rest.rstrip("/") else f"{scheme}{separator}{rest.rstrip('/')}{_PATH}"
