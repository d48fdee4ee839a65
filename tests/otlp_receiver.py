"""A collector for tests: an HTTP server in this process that takes spans in OTLP and decodes them
with OpenTelemetry's own classes."""

import gzip
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

_DEADLINE_S = 60.0


class Received(NamedTuple):
    """A span, and the name of the service that sent it."""

    service: str
    name: str
    kind: int
    trace_id: str
    span_id: str
    parent_id: str
    attributes: dict[str, Any]
    links: list[tuple[str, str]]
    error: str
    begin_ns: int
    end_ns: int


class Receiver:
    def __init__(self) -> None:
        self.spans: list[Received] = []
        self.status = 200
        self.requests = 0
        self.url = ""

    def take(self, body: bytes) -> None:
        message = ExportTraceServiceRequest.FromString(body)
        for resource in message.resource_spans:
            known = {one.key: one.value.string_value for one in resource.resource.attributes}
            for scope in resource.scope_spans:
                self.spans += [_received(known["service.name"], span) for span in scope.spans]

    def wait_for(self, condition: Callable[[list[Received]], object]) -> list[Received]:
        end_s = time.monotonic() + _DEADLINE_S
        while not condition(self.spans):
            assert time.monotonic() < end_s, f"these spans came: {self.spans}"
            time.sleep(0.05)
        return self.spans

    def named(self, name: str) -> list[Received]:
        return [span for span in self.spans if span.name == name]


def _received(service: str, span: Any) -> Received:
    return Received(
        service,
        span.name,
        span.kind,
        span.trace_id.hex(),
        span.span_id.hex(),
        span.parent_span_id.hex(),
        {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in span.attributes},
        [(link.trace_id.hex(), link.span_id.hex()) for link in span.links],
        span.status.message if span.status.code == 2 else "",
        span.start_time_unix_nano,
        span.end_time_unix_nano,
    )


@contextmanager
def otlp_receiver() -> Iterator[Receiver]:
    """Yields a collector on a free port of 127.0.0.1."""
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            receiver.requests += 1
            if receiver.status == 200 and self.path == "/v1/traces":
                receiver.take(body)
            self.send_response(receiver.status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - its name
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    receiver.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
