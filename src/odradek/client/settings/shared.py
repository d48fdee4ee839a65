"""The settings that producers, consumers and admin clients share.

TLS and SASL come with the security room: their settings belong here, beside
`security_protocol`, which refuses everything but PLAINTEXT until then.
"""

# ruff: noqa: RUF009 - a declaration is a call that makes a dataclass field
from dataclasses import dataclass

from odradek.client.errors import SettingsError
from odradek.client.settings.declaration import Settings, checked, choice, integer, text

_KAFKA_PORT = 9092


def _check_bootstrap_servers(value: object) -> object:
    if isinstance(value, str):
        value = tuple(part.strip() for part in value.split(",") if part.strip())
    if not isinstance(value, list | tuple) or not value:
        raise SettingsError("must name at least one broker as host:port")
    for address in value:
        parse_address(address)
    return tuple(value)


def parse_address(address: object) -> tuple[str, int]:
    """`host:port`, `[ipv6]:port`, or a host alone with Kafka's port."""
    if not isinstance(address, str):
        raise SettingsError(f"{address!r} must be text like host:port")
    plain = address.rsplit("://", 1)[-1]
    host, colon, port = plain.rpartition(":")
    if not colon or (":" in host and not host.endswith("]")):
        host, port = plain, str(_KAFKA_PORT)
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise SettingsError(f"{address!r} must be like host:port, with a port of 1 to 65535")
    return host, int(port)


def _check_security_protocol(value: object) -> object:
    if not isinstance(value, str) or value.upper() != "PLAINTEXT":
        raise SettingsError("only PLAINTEXT is supported so far; use a PLAINTEXT listener")
    return "PLAINTEXT"


@dataclass(frozen=True, kw_only=True)
class ClientSettings(Settings):
    bootstrap_servers: str | tuple[str, ...] | list[str] = checked(
        ("localhost:9092",),
        "Brokers to learn the cluster from: host:port, several with commas or as a list.",
        _check_bootstrap_servers,
    )
    client_id: str = text("odradek", "The name brokers write in their logs and use for quotas.")
    security_protocol: str = checked(
        "PLAINTEXT",
        "How to talk to brokers; PLAINTEXT is what there is so far.",
        _check_security_protocol,
    )
    request_timeout_ms: int = integer(
        30_000, "How long to wait for a broker's answer before the connection is given up.", low=1
    )
    connections_max_idle_ms: int = integer(
        540_000, "Close a connection that was not used for this long; -1 keeps it.", low=-1
    )
    socket_connection_setup_timeout_ms: int = integer(
        10_000, "How long a connection may take to be made.", low=1
    )
    socket_connection_setup_timeout_max_ms: int = integer(
        30_000, "The most that the time for a connection grows to after failures.", low=1
    )
    send_buffer_bytes: int = integer(
        -1, "SO_SNDBUF of connections; -1 leaves it to the operating system.", low=-1
    )
    receive_buffer_bytes: int = integer(
        -1, "SO_RCVBUF of connections; -1 leaves it to the operating system.", low=-1
    )
    reconnect_backoff_ms: int = integer(50, "How long to wait before connecting again.")
    reconnect_backoff_max_ms: int = integer(
        1_000, "The most that this wait grows to: it doubles with every failure."
    )
    retry_backoff_ms: int = integer(100, "How long to wait before a failed request is sent again.")
    retry_backoff_max_ms: int = integer(
        1_000, "The most that this wait grows to: it doubles with every failure."
    )
    metadata_max_age_ms: int = integer(
        300_000, "Refresh what is known of the cluster after this long, changes or not."
    )
    metadata_recovery_strategy: str = choice(
        "rebootstrap",
        "When no known broker answers: rebootstrap starts again from bootstrap.servers.",
        ("rebootstrap", "none"),
        fold=True,
    )
    metadata_recovery_rebootstrap_trigger_ms: int = integer(
        300_000, "Start again from bootstrap.servers when metadata failed for this long."
    )

    @property
    def bootstrap_addresses(self) -> list[tuple[str, int]]:
        return [parse_address(address) for address in self.bootstrap_servers]


@dataclass(frozen=True, kw_only=True)
class AdminSettings(ClientSettings):
    connections_max_idle_ms: int = integer(
        300_000, "Close a connection that was not used for this long; -1 keeps it.", low=-1
    )
    default_api_timeout_ms: int = integer(
        60_000, "How long a whole call may take, its retries included.", low=1
    )
    retries: int = integer(2_147_483_647, "How often a failed request is sent again.")
