"""The settings that producers, consumers and admin clients share; `security` has those of TLS and
SASL."""

# ruff: noqa: RUF009 - a declaration is a call that makes a dataclass field
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, Self, TypeVar

from odradek.client.errors import SettingsError
from odradek.client.settings.foreign_names import instead_of
from odradek.client.settings.security import SecuritySettings
from odradek.client.settings.undeclared import check_undeclared, check_undeclared_in_program
from odradek.config.kinds import custom, integer, long, string
from odradek.config.program_settings import option
from odradek.config.setting import Kind
from odradek.config.values import parse_list

_KAFKA_PORT = 9092


def _check_bootstrap_servers(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        value = tuple(part for part in parse_list(value) if part)
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
    if any(separator in host for separator in ";, |"):
        raise SettingsError(f"{address!r} is not one address; separate several with commas")
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise SettingsError(f"{address!r} must be like host:port, with a port of 1 to 65535")
    return host, int(port)


Settings = TypeVar("Settings", bound="ClientSettings")


def settings_from(
    settings_class: type[Settings],
    given: object,
    options: Mapping[str, object],
    client: str,
) -> Settings:
    """Returns the settings of a client, from what its constructor was given."""
    if given is None:
        return settings_class.from_options(options)
    if isinstance(given, settings_class):
        if options:
            raise TypeError(
                f"give either {settings_class.__name__} or options, not both; to change one, use"
                " dataclasses.replace"
            )
        return given
    if isinstance(given, Mapping):
        return settings_class.from_config({**given, **options})
    if isinstance(given, ClientSettings):
        raise TypeError(f"{client}() needs {settings_class.__name__}, not {type(given).__name__}")
    raise TypeError(f"write {client}(bootstrap_servers={given!r}): settings are keywords")


@dataclass(frozen=True, kw_only=True)
class ClientSettings(SecuritySettings):
    """What every client needs to find and reach its brokers."""

    error_class: ClassVar[type[SettingsError]] = SettingsError

    given: Mapping[str, object] = field(default_factory=dict, repr=False, compare=False)
    """The properties or the dict that the settings were made from. They may have settings of the
    user's classes, which this client does not know; `dataclasses.replace` keeps them."""

    bootstrap_servers: str | tuple[str, ...] | list[str] = option(
        custom(
            "bootstrap.servers",
            ("localhost:9092",),
            "Brokers to learn the cluster from: host:port, several with commas or as a list.",
            accept=_check_bootstrap_servers,
            expected="a list of host:port separated by commas",
            kind=Kind.LIST,
        )
    )
    client_id: str = option(
        string("client.id", "odradek", "The name brokers write in their logs and use for quotas.")
    )
    request_timeout_ms: int = option(
        integer(
            "request.timeout.ms",
            30_000,
            "How long to wait for a broker's answer before the connection is given up.",
            at_least=1,
        )
    )
    connections_max_idle_ms: int = option(
        long(
            "connections.max.idle.ms",
            540_000,
            "Close a connection that was not used for this long; -1 keeps it.",
            at_least=-1,
        )
    )
    socket_connection_setup_timeout_ms: int = option(
        long(
            "socket.connection.setup.timeout.ms",
            10_000,
            "How long a connection may take to be made.",
            at_least=1,
        )
    )
    socket_connection_setup_timeout_max_ms: int = option(
        long(
            "socket.connection.setup.timeout.max.ms",
            30_000,
            "The most that socket.connection.setup.timeout.ms grows to after failures.",
            at_least=1,
        )
    )
    send_buffer_bytes: int = option(
        integer(
            "send.buffer.bytes",
            -1,
            "SO_SNDBUF of connections; -1 leaves it to the operating system.",
            at_least=-1,
        )
    )
    receive_buffer_bytes: int = option(
        integer(
            "receive.buffer.bytes",
            -1,
            "SO_RCVBUF of connections; -1 leaves it to the operating system.",
            at_least=-1,
        )
    )
    reconnect_backoff_ms: int = option(
        long("reconnect.backoff.ms", 50, "How long to wait before connecting again.", at_least=0)
    )
    reconnect_backoff_max_ms: int = option(
        long(
            "reconnect.backoff.max.ms",
            1_000,
            "The most that reconnect.backoff.ms grows to: it doubles with every failure.",
            at_least=0,
        )
    )
    retry_backoff_ms: int = option(
        long(
            "retry.backoff.ms",
            100,
            "How long to wait before a failed request is sent again.",
            at_least=0,
        )
    )
    retry_backoff_max_ms: int = option(
        long(
            "retry.backoff.max.ms",
            1_000,
            "The most that retry.backoff.ms grows to: it doubles with every failure.",
            at_least=0,
        )
    )
    metadata_max_age_ms: int = option(
        long(
            "metadata.max.age.ms",
            300_000,
            "Refresh what is known of the cluster after this long, changes or not.",
            at_least=0,
        )
    )
    metadata_recovery_strategy: Literal["rebootstrap", "none"] = option(
        string(
            "metadata.recovery.strategy",
            "rebootstrap",
            "When no known broker answers: rebootstrap starts again from bootstrap.servers.",
            choices=("rebootstrap", "none"),
            folds_case=True,
        )
    )
    metadata_recovery_rebootstrap_trigger_ms: int = option(
        long(
            "metadata.recovery.rebootstrap.trigger.ms",
            300_000,
            "Start again from bootstrap.servers when metadata failed for this long.",
            at_least=0,
        )
    )

    @classmethod
    def from_options(cls, options: Mapping[str, object]) -> Self:
        settings = super().from_options(options)
        cls.check_protocol_is_named({name.replace(".", "_"): to for name, to in options.items()})
        return settings

    @classmethod
    def undeclared(cls, name: str, text: str, properties: Mapping[str, str]) -> None:
        check_undeclared(name, text, properties, cls.hint)

    @classmethod
    def undeclared_in_program(cls, name: str, value: object, config: Mapping[str, object]) -> None:
        check_undeclared_in_program(name, value, config, cls.hint)

    @classmethod
    def hint(cls, name: str) -> str:
        """Also says which client has the setting, if this one has not."""
        return instead_of(name) or _of_other_client(cls, name) or super().hint(name)

    @classmethod
    def from_properties(cls, properties: Mapping[str, str], **overrides: object) -> Self:
        settings = super().from_properties(properties, **overrides)
        return replace(settings, given=dict(properties))

    @classmethod
    def from_config(cls, config: Mapping[str, object]) -> Self:
        return replace(super().from_config(config), given=dict(config))

    def for_classes(self) -> dict[str, Any]:
        """Returns what `configure` of a serializer, partitioner or interceptor gets.

        These are all settings by Kafka's names, and the names that this client does not know, which
        may be those of the class.
        """
        values = {name: getattr(self, item.name) for name, item in self._declared().items()}
        return dict(self.given) | values

    @property
    def bootstrap_addresses(self) -> list[tuple[str, int]]:
        return [parse_address(address) for address in self.bootstrap_servers]


def _of_other_client(asked: type[ClientSettings], name: str) -> str:
    """Returns the end of a sentence about a setting that another kind of client has."""
    # The others are imported only after a mistake, because they need most of the client.
    from odradek.client.settings import ConsumerSettings, ProducerSettings  # noqa: PLC0415

    dotted = name.replace("_", ".")
    for settings in (ConsumerSettings, ProducerSettings, AdminSettings):
        if settings is not asked and dotted in settings.declared():
            return f"; it is a setting of {settings.__name__.removesuffix('Settings')}"
    return ""


@dataclass(frozen=True, kw_only=True)
class AdminSettings(ClientSettings):
    """The settings of an admin client; docs/reference/client-settings.md describes each."""

    connections_max_idle_ms: int = option(
        long(
            "connections.max.idle.ms",
            300_000,
            "Close a connection that was not used for this long; -1 keeps it.",
            at_least=-1,
        )
    )
    default_api_timeout_ms: int = option(
        integer(
            "default.api.timeout.ms",
            60_000,
            "How long a whole call may take, its retries included.",
            at_least=1,
        )
    )
    retries: int = option(
        integer("retries", 2_147_483_647, "How often a failed request is sent again.", at_least=0)
    )
