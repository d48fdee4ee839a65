"""Settings of the management port: metrics, health and MBeans over HTTP (docs/monitoring.md)."""

from urllib.parse import urlsplit

from odradek.config.kinds import integer, names
from odradek.config.listeners import Listener, parse_listener
from odradek.config.setting import Importance, Kind, Setting, Settings
from odradek.config.values import InvalidValue, in_a_line

_EXAMPLE = "http://127.0.0.1:9192"
_OTLP_EXAMPLE = "http://127.0.0.1:4318/v1/metrics"


def parse_management_listener(text: str) -> Listener | None:
    """Reads `http://host:port`; nothing means that there is no management port."""
    if not text.strip():
        return None
    try:
        listener = parse_listener(text.strip().rstrip("/"))
    except InvalidValue:
        raise InvalidValue(f"{in_a_line(text)} is not an address; write it as {_EXAMPLE}") from None
    if listener.name != "HTTP":
        raise InvalidValue(
            f"{in_a_line(text)} is not served: the management port speaks http, as in {_EXAMPLE}"
        )
    return listener._replace(name="http")


def parse_otlp_endpoint(text: str) -> str | None:
    """Reads the URL of a collector; nothing means that there is none."""
    if not text.strip():
        return None
    parts = urlsplit(text.strip())
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InvalidValue(f"{in_a_line(text)} is not a URL; write it as {_OTLP_EXAMPLE}")
    return text.strip()


class ManagementSettings(Settings):
    management_listener = Setting(
        "management.listener",
        Kind.STRING,
        None,
        f"Where the broker serves metrics, health and MBeans over HTTP, as in {_EXAMPLE}. Port 0 "
        "means any free port. If unset, nothing is served and nothing is measured. There is no "
        "log-in: keep it on loopback or in a private network.",
        read=parse_management_listener,
        # A listener is a tuple, and those are written as lists.
        write=str,
        expected=f"an address, as in {_EXAMPLE}",
        importance=Importance.HIGH,
    )
    odradek_management_allowed_hosts = names(
        "odradek.management.allowed.hosts",
        (),
        "Host names by which the management port may be asked, besides IP addresses, localhost, "
        "the host in management.listener and those in advertised.listeners. Requests that name "
        "another host are refused, so that a web page cannot read the port through a name of its "
        "own.",
        importance=Importance.LOW,
    )
    odradek_metrics_max_partitions = integer(
        "odradek.metrics.max.partitions",
        10_000,
        "How many partitions of a broker have series of their own at /metrics, and how many "
        "partitions of groups. 0: none, only sums are served.",
        at_least=0,
    )
    odradek_metrics_lag_interval_ms = integer(
        "odradek.metrics.lag.interval.ms",
        5_000,
        "How often a coordinator of groups asks the leaders how far the groups lag behind. Only "
        "with a management port.",
        at_least=100,
        importance=Importance.LOW,
    )
    odradek_metrics_max_client_ids = integer(
        "odradek.metrics.max.client.ids",
        0,
        "How many client ids have series of their own at /metrics: requests and bytes of each. The "
        "clients that come later are counted together. 0: none, because a client may choose any "
        "number of ids.",
        at_least=0,
        importance=Importance.LOW,
    )
    telemetry_max_bytes = integer(
        "telemetry.max.bytes",
        1_048_576,
        "The largest push of metrics that a client may send (KIP-714), compressed.",
        at_least=1,
        importance=Importance.LOW,
    )
    odradek_telemetry_max_series = integer(
        "odradek.telemetry.max.series",
        10_000,
        "How many series that clients have pushed are served at /metrics; one client may have a "
        "tenth of them. 0: none, for a broker that only forwards them.",
        at_least=0,
        importance=Importance.LOW,
    )
    odradek_telemetry_otlp_endpoint = Setting(
        "odradek.telemetry.otlp.endpoint",
        Kind.STRING,
        None,
        "Where the broker sends the metrics that clients push to it, by OTLP over HTTP, as in "
        f"{_OTLP_EXAMPLE}. If unset, they are served at the management port alone.",
        read=parse_otlp_endpoint,
        expected=f"a URL, as in {_OTLP_EXAMPLE}",
    )
