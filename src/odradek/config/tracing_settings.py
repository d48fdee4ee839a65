"""Settings of traces: spans for slow requests."""

from typing import NamedTuple

from odradek.config.kinds import integer
from odradek.config.setting import Importance, Kind, Scope, Setting, Settings
from odradek.config.values import InvalidValue, in_a_line

_EXAMPLE = "http://127.0.0.1:4318"
_DEFAULT_PATH = "/v1/traces"
_MAX_PORT = 65_535


class Endpoint(NamedTuple):
    """Where spans are sent."""

    is_tls: bool
    host: str
    port: int
    path: str

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.is_tls else 'http'}://{host}:{self.port}{self.path}"


def parse_endpoint(text: str) -> Endpoint | None:
    """Reads `http://host:port/path`. The port is 4318 and the path /v1/traces, unless they are
    given, as OpenTelemetry has it."""
    if not text.strip():
        return None
    scheme, separator, rest = text.strip().partition("://")
    authority, slash, path = rest.partition("/")
    host, colon, port = authority.rpartition(":")
    if not colon or authority.endswith("]"):
        host, port = authority, "4318"
    host = host.strip("[]")
    is_port = port.isdecimal() and 0 < int(port) <= _MAX_PORT
    if scheme not in {"http", "https"} or not separator or not host or not is_port:
        raise InvalidValue(
            f"{in_a_line(text)} is not an address of OTLP over HTTP; write it as {_EXAMPLE}"
        )
    return Endpoint(scheme == "https", host, int(port), slash + path if path else _DEFAULT_PATH)


class TracingSettings(Settings):
    odradek_tracing_otlp_endpoint = Setting(
        "odradek.tracing.otlp.endpoint",
        Kind.STRING,
        None,
        f"Where the broker sends a span for each slow request, in OTLP over HTTP, as in {_EXAMPLE} "
        "(the path is /v1/traces unless one is given). If unset, nothing is traced.",
        read=parse_endpoint,
        # An endpoint is a tuple, and those are written as lists.
        write=str,
        expected=f"an address, as in {_EXAMPLE}",
    )
    odradek_tracing_slow_ms = integer(
        "odradek.tracing.slow.ms",
        100,
        "A request that took at least so many milliseconds gets a span. For a Produce request the "
        "wait for replicas counts; the waits of others, for new records and for members of a "
        "group, do not. 0: every request. At most a hundred spans are sent each second.",
        at_least=0,
        scope=Scope.CLUSTER_WIDE,
        importance=Importance.LOW,
    )
