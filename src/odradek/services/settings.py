"""The properties files of services, with Confluent's names.

A service declares its own settings in a subclass of `ServiceSettings`, and passes others on to its
Kafka clients: `client.ssl.truststore.location` sets `ssl.truststore.location` for all of them, and
`consumer.fetch.min.bytes` sets `fetch.min.bytes` for its consumers. A setting that Confluent's
services have and these do not is refused if the user relies on it, such as one for security, and
otherwise a line in the log says that it has no effect. An unknown name is refused, with the name
that was probably meant.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Self
from urllib.parse import urlsplit

from odradek.client.errors import SettingsError
from odradek.client.settings.shared import AdminSettings
from odradek.config.kinds import boolean, custom, integer, long, string
from odradek.config.program_settings import ProgramSettings, option
from odradek.config.setting import InvalidSetting, Kind
from odradek.config.spelling import did_you_mean, nearest
from odradek.config.values import parse_list
from odradek.security.tls.principal_mapping import PrincipalMapping
from odradek.services.client_pool import CLIENT_KINDS
from odradek.services.tokens import TokenIssuer
from odradek.web.guards import LOOPBACK, Limits, Policy
from odradek.web.login import LogIn
from odradek.web.serving import Listener

OWN_LOG_IN: Final = (
    "sasl.jaas.config", "sasl.username", "sasl.password", "sasl.login.callback.handler.class",
    "sasl.oauthbearer.token.endpoint.url", "sasl.oauthbearer.client.credentials.client.id",
    "sasl.oauthbearer.client.credentials.client.secret",
)  # fmt: skip
OWN_KEY: Final = ("ssl.keystore.location", "ssl.keystore.key", "ssl.keystore.certificate.chain")
TLS: Final = (
    "ssl.keystore.location", "ssl.keystore.password", "ssl.keystore.type", "ssl.key.password",
    "ssl.truststore.location", "ssl.truststore.password", "ssl.truststore.type",
    "ssl.enabled.protocols", "ssl.cipher.suites", "ssl.keystore.key",
    "ssl.keystore.certificate.chain", "ssl.truststore.certificates",
)  # fmt: skip
_TOKENS: Final = "odradek.tokens."
_CLIENT_AUTH: Final = {"NONE": "none", "REQUESTED": "requested", "REQUIRED": "required"}

# Settings of the HTTP server that Confluent's services are built on. They have no effect here. A
# line in the log says so, unless the value is one of those listed; without a list, it never does.
NO_EFFECT: Final[dict[str, tuple[str, ...]]] = {
    "debug": ("false",),
    "metrics.jmx.prefix": (),
    "metric.reporters": ("",),
    "metrics.num.samples": ("2",),
    "metrics.sample.window.ms": ("30000",),
    "metrics.tag.map": ("",),
    "request.logger.name": (),
    "request.queue.capacity": (),
    "request.queue.capacity.growby": (),
    "request.queue.capacity.init": (),
    "compression.enable": ("false",),
    "http2.enabled": ("false",),
    "thread.pool.max": (),
    "thread.pool.min": (),
    "idle.timeout.ms": (),
    "response.http.headers.config": ("",),
    "reject.options.request": ("true",),
    "websocket.path.prefix": ("/ws",),
    "resource.extension.classes": ("",),
    "ssl.provider": ("",),
    "ssl.protocol": ("TLS", "TLSv1.2", "TLSv1.3"),
    "ssl.keymanager.algorithm": ("", "PKIX", "SunX509"),
    "ssl.trustmanager.algorithm": ("", "PKIX"),
    "ssl.endpoint.identification.algorithm": ("",),
    "zookeeper.connect": (),
}


def _read_listeners(value: object) -> tuple[str, ...]:
    given = parse_list(value) if isinstance(value, str) else value
    if not isinstance(given, list | tuple) or not given:
        raise SettingsError("must be a URL such as http://127.0.0.1:8082")
    for url in given:
        parts = urlsplit(str(url))
        try:
            port = parts.port
        except ValueError:
            port = None
        if parts.scheme not in {"http", "https"} or port is None or parts.path not in {"", "/"}:
            raise SettingsError(f"{url!r} is not a URL such as http://127.0.0.1:8082")
    if len(given) > 1:
        raise SettingsError("must be a single URL; start another process for another listener")
    return tuple(given)


def listeners(port: int) -> Any:
    """Declares `listeners` with the port of a service."""
    return option(
        custom(
            "listeners",
            (f"http://127.0.0.1:{port}",),
            "The URL on which the service listens: http or https. 0.0.0.0 means all addresses of"
            " this machine; then list the names that clients use in odradek.allowed.hosts.",
            accept=_read_listeners,
            expected=f"a URL such as http://127.0.0.1:{port}",
            kind=Kind.LIST,
        )
    )


def _names(name: str, doc: str) -> Any:
    def accept(value: object) -> tuple[str, ...]:
        given = parse_list(value) if isinstance(value, str) else value
        if not isinstance(given, list | tuple):
            raise SettingsError("must be names separated by commas")
        return tuple(str(item).strip().lower() for item in given)

    return option(
        custom(name, (), doc, accept=accept, expected="names separated by commas", kind=Kind.LIST)
    )


def authentication_method(doc: str) -> Any:
    """Declares `authentication.method`, whose effect differs between the services."""
    return option(
        custom(
            "authentication.method",
            "",
            doc,
            accept=lambda value: value if value == "" else _check_method(value),
            expected="NONE, BASIC or BEARER",
        )
    )


LOGS_CALLERS_IN: Final = (
    "BASIC or BEARER: callers must log in, as users of the brokers. NONE: everybody who reaches the"
    " service may change something. Unset: nobody logs in, and changes are refused unless the"
    " service listens on 127.0.0.1."
)
"""The documentation of `authentication.method` in services that have a log-in of their own."""


def _check_method(value: object) -> str:
    text = str(value).strip().upper()
    if text not in {"NONE", "BASIC", "BEARER"}:
        raise SettingsError("must be NONE, BASIC or BEARER: callers log in as users of the brokers")
    return text


def _check_client_auth(value: object) -> str:
    text = str(value).strip().upper()
    if text not in _CLIENT_AUTH:
        raise SettingsError(f"must be one of {', '.join(_CLIENT_AUTH)}")
    return text


@dataclass(frozen=True, kw_only=True)
class ServiceSettings(ProgramSettings):
    """The settings that all services have. `tls` are those of the HTTP listener. `clients` are
    passed on to all Kafka clients, `client_kinds` only to consumers, producers or admin clients."""

    error_class: ClassVar[type[SettingsError]] = SettingsError
    prefixes: ClassVar[tuple[str, ...]] = ("client.",)
    """Prefixes of settings that are passed on to all Kafka clients of the service."""
    no_effect: ClassVar[Mapping[str, tuple[str, ...]]] = NO_EFFECT
    refused: ClassVar[Mapping[str, str]] = {}
    """Names that are refused, with the reason and what to do instead."""
    keystore_setting: ClassVar[str] = "ssl.keystore.location"
    """The name of that setting of the HTTP listener, for messages."""

    tls: Mapping[str, str] = field(default_factory=dict, repr=False)
    clients: Mapping[str, str] = field(default_factory=dict, repr=False)
    client_kinds: Mapping[str, Mapping[str, str]] = field(default_factory=dict, repr=False)
    token_client: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Settings `odradek.tokens.`: those of the client that creates delegation tokens (`tokens`)."""
    notes: tuple[str, ...] = ()
    """Lines for the log about settings that have no effect."""

    listeners: tuple[str, ...] | str = listeners(8080)
    bootstrap_servers: str = option(
        string(
            "bootstrap.servers",
            "127.0.0.1:9092",
            "Brokers from which the service learns the cluster.",
        )
    )
    host_name: str = option(
        string("host.name", "", "The host in the URLs of responses. Unset: the one in the request.")
    )
    advertised_listeners: str = option(
        string("advertised.listeners", "", "The URL in responses, if it is not that of host.name.")
    )
    odradek_allowed_hosts: tuple[str, ...] | str = _names(
        "odradek.allowed.hosts",
        "Names that clients use for the service, beside localhost, its address and host.name."
        " Requests with another Host header are refused (DNS rebinding).",
    )
    authentication_method: str = authentication_method(
        "BASIC or BEARER need not be set: the service passes the log-in of its callers on to the"
        " brokers, and client.security.protocol says whether these have one. NONE: where they have"
        " none, everybody who reaches the service may change something."
    )
    ssl_client_authentication: str = option(
        custom(
            "ssl.client.authentication",
            "NONE",
            "Whether the service asks clients for a certificate: NONE, REQUESTED or REQUIRED.",
            accept=_check_client_auth,
            expected="NONE, REQUESTED or REQUIRED",
        )
    )
    ssl_principal_mapping_rules: str = option(
        string(
            "ssl.principal.mapping.rules",
            "DEFAULT",
            "Which user a caller's certificate stands for, by rules as in the brokers' setting.",
        )
    )
    odradek_tokens_lifetime_ms: int = option(
        integer(
            "odradek.tokens.lifetime.ms",
            3_600_000,
            "How long the delegation tokens of callers with a certificate are valid.",
            at_least=10_000,
        )
    )
    shutdown_graceful_ms: int = option(
        integer(
            "shutdown.graceful.ms",
            1000,
            "How long requests in progress may take when the service stops.",
            at_least=0,
        )
    )
    odradek_max_body_bytes: int = option(
        long(
            "odradek.max.body.bytes",
            20_000_000,
            "The maximum size of a request's body; streams have no limit.",
            at_least=1,
        )
    )
    odradek_max_requests: int = option(
        integer(
            "odradek.max.requests",
            400,
            "How many requests are answered at once; others get 503.",
            at_least=1,
        )
    )
    odradek_request_timeout_ms: int = option(
        integer(
            "odradek.request.timeout.ms",
            60_000,
            "How long a request may take before it gets 504; streams may take longer.",
            at_least=1,
        )
    )
    odradek_access_log: bool = option(
        boolean("odradek.access.log", True, "Whether the log has a line for each request.")
    )

    @classmethod
    def from_file(cls, properties: Mapping[str, str]) -> Self:
        """Returns the settings of a properties file; raises `SettingsError` for what is wrong."""
        own: dict[str, str] = {}
        passed: dict[str, Any] = {
            "tls": {}, "clients": {}, "client_kinds": {}, "token_client": {}, "notes": [],
        }  # fmt: skip
        declared = cls.declared()
        for name, value in properties.items():
            if name in declared:
                own[name] = value
            elif name in TLS:
                passed["tls"][name] = value
            elif not cls._pass_on(name, value, passed):
                cls._undeclared(name, value.strip(), passed["notes"])
        passed["notes"] = tuple(passed["notes"])
        options: dict[str, Any] = {**cls.read_properties(own), **passed}
        return cls(**options)

    @classmethod
    def _pass_on(cls, name: str, value: str, passed: dict[str, Any]) -> bool:
        """Puts a setting of the Kafka clients into `passed`. Returns False if it is not one."""
        if name.startswith(_TOKENS):
            rest = name.removeprefix(_TOKENS)
            cls._require_known(name, rest, AdminSettings)
            passed["token_client"][rest] = value
            return True
        for prefix in cls.prefixes:
            if name.startswith(prefix):
                rest = name.removeprefix(prefix)
                cls._require_known(name, rest, AdminSettings)
                passed["clients"][rest] = value
                return True
        kind, dot, rest = name.partition(".")
        if dot and kind in CLIENT_KINDS and rest:
            cls._require_known(name, rest, CLIENT_KINDS[kind])
            passed["client_kinds"].setdefault(kind, {})[rest] = value
            return True
        return False

    @classmethod
    def _require_known(cls, name: str, rest: str, kind: type[ProgramSettings]) -> None:
        from odradek.client.settings.undeclared import NO_EFFECT as OF_CLIENTS  # noqa: PLC0415

        known = kind.declared()
        if rest not in known and rest not in OF_CLIENTS:
            full_names = [name.removesuffix(rest) + client for client in known]
            if (own := nearest(name, [*cls.declared(), *full_names])) in cls.declared():
                raise SettingsError(f"there is no setting {name}; did you mean {own}?")
            near = did_you_mean(rest, known)
            raise SettingsError(f"there is no setting {name}: Kafka's clients have no {rest}{near}")

    @classmethod
    def _undeclared(cls, name: str, value: str, notes: list[str]) -> None:
        if name in cls.refused:
            raise SettingsError(f"{name}: {cls.refused[name]}")
        if name not in cls.no_effect:
            known = [*cls.declared(), *TLS, *cls.no_effect, *cls.refused]
            raise SettingsError(f"there is no setting {name}{did_you_mean(name, known)}")
        harmless = cls.no_effect[name]
        if harmless and value not in harmless:
            notes.append(f"{name}={value} has no effect here")

    def _check_together(self) -> None:
        super()._check_together()
        self._check_log_in()
        if self.is_https and not self.tls:
            raise SettingsError(
                f"listeners names https: set {self.keystore_setting} to a key store"
            )
        if self.ssl_client_authentication == "REQUIRED" and not self.is_https:
            raise SettingsError("ssl.client.authentication needs an https listener")
        self._check_tokens()

    def _check_log_in(self) -> None:
        """Raises if the file has a log-in of the service itself: the service logs in to the brokers
        as its callers. Services that also work without a caller override this."""
        properties = self.client_properties()
        for name in OWN_LOG_IN:
            if name in properties:
                raise SettingsError(
                    f"client.{name} would be a log-in of the service itself, but the service logs"
                    " in to the brokers as its callers (docs/rest.md, Who asks). Leave it out"
                )
        protocol = str(properties.get("security.protocol", "PLAINTEXT")).upper()
        if protocol == "SSL" and any(name in properties for name in OWN_KEY):
            raise SettingsError(
                "with client.ssl.keystore.location the brokers would take every caller for the"
                " owner of this key; use client.security.protocol=SASL_SSL, so that callers log in"
            )
        mechanism = str(properties.get("sasl.mechanism", "")).upper()
        if protocol.startswith("SASL") and mechanism not in _MECHANISMS:
            raise SettingsError(
                f"client.sasl.mechanism={mechanism or None}: must be the mechanism by which callers"
                f" log in to the brokers, one of {', '.join(_MECHANISMS)}"
            )

    def _check_tokens(self) -> None:
        try:
            PrincipalMapping(self.ssl_principal_mapping_rules)
        except InvalidSetting as error:
            raise SettingsError(str(error)) from None
        if self.token_client and not self.uses_sasl:
            raise SettingsError(
                "odradek.tokens.* lets callers with a certificate log in to the brokers; without"
                " SASL these have no log-in: set the security.protocol of clients to SASL_SSL"
            )
        if self.token_client and self.ssl_client_authentication == "NONE":
            raise SettingsError(
                "odradek.tokens.* is for callers with a certificate: set"
                " ssl.client.authentication=REQUESTED, and ssl.truststore.location"
            )
        if self.token_client:
            try:
                AdminSettings.from_config({**self.client_properties(), **self.token_client})
            except SettingsError as error:
                raise SettingsError(f"the log-in of odradek.tokens.*: {error}") from None

    def token_issuer(self) -> TokenIssuer | None:
        """Returns the issuer of tokens for callers with a certificate; None without settings
        `odradek.tokens.`."""
        if not self.token_client:
            return None
        properties = {**self.client_properties(), **self.token_client}
        rules, lifetime_ms = self.ssl_principal_mapping_rules, self.odradek_tokens_lifetime_ms
        return TokenIssuer(properties, rules, lifetime_ms)

    @property
    def url(self) -> str:
        return str(self.listeners[0])

    @property
    def is_https(self) -> bool:
        return self.url.startswith("https:")

    @property
    def uses_sasl(self) -> bool:
        protocol = str(self.clients.get("security.protocol", "PLAINTEXT")).upper()
        return protocol.startswith("SASL")

    @property
    def takes_passwords(self) -> bool:
        mechanism = str(self.clients.get("sasl.mechanism", "")).upper()
        return self.uses_sasl and mechanism != "OAUTHBEARER"

    def client_properties(self) -> dict[str, object]:
        """Returns the properties of all Kafka clients of the service, without a log-in."""
        return {"client.id": "odradek-service", **self.clients, **self._servers()}

    def _servers(self) -> dict[str, object]:
        # Confluent's files write PLAINTEXT://host:port here.
        given = parse_list(str(self.bootstrap_servers))
        servers = [server.rpartition("://")[2] for server in given]
        return {"bootstrap.servers": ",".join(servers)}

    def listener(self) -> Listener:
        """Returns the listener. This reads key files, so it must be called before the service
        starts."""
        parts = urlsplit(self.url)
        context = None
        if self.is_https:
            from odradek.security.tls.contexts import server_context  # noqa: PLC0415 - with TLS
            from odradek.security.tls.settings import TlsSettings  # noqa: PLC0415
            from odradek.world.disk import OsDisk  # noqa: PLC0415

            asked = _CLIENT_AUTH[self.ssl_client_authentication]
            try:
                tls = TlsSettings.from_properties({**self.tls, "ssl.client.auth": asked})
                context = server_context(tls, OsDisk().read)
            except InvalidSetting as error:
                raise SettingsError(str(error)) from None
            context.set_alpn_protocols(["http/1.1"])
        return Listener(
            parts.hostname or "127.0.0.1",
            parts.port or 0,
            context=context,
            drain_s=self.shutdown_graceful_ms / 1000,
        )

    def policy(self, listener: Listener, login: LogIn, open_paths: frozenset[str]) -> Policy:
        """Returns what `web.guards` checks before each request."""
        hosts = {*self.odradek_allowed_hosts, self.host_name.lower()}
        hosts.add(urlsplit(self.advertised_listeners).hostname or "")
        if listener.host not in {"0.0.0.0", "::"}:  # noqa: S104 - compared, not bound
            hosts.add(listener.host.lower())
        limits = Limits(
            max_body_bytes=self.odradek_max_body_bytes,
            max_requests=self.odradek_max_requests,
            timeout_s=self.odradek_request_timeout_ms / 1000,
        )
        return Policy(
            listener.host in LOOPBACK,
            frozenset(hosts - {""}),
            login,
            limits,
            open_paths,
            lets_anonymous_change=self.authentication_method == "NONE",
        )


@dataclass(frozen=True, kw_only=True)
class OwnLogInSettings(ServiceSettings):
    """The settings of services that have a log-in of their own at the brokers, because they also
    work while nobody asks: the registry, Connect and the SQL server. Whether their callers log in
    is said by `authentication.method`."""

    protocol_setting: ClassVar[str] = "security.protocol"
    """The name of that setting of the service's own clients, for messages."""

    authentication_method: str = authentication_method(LOGS_CALLERS_IN)

    def own_client(self) -> dict[str, object]:
        """Returns the properties of the service's own clients, with its log-in."""
        raise NotImplementedError

    def client_properties(self) -> dict[str, object]:
        """Returns the properties of clients of callers: without the service's own log-in."""
        return {name: value for name, value in self.own_client().items() if name not in OWN_LOG_IN}

    @property
    def uses_sasl(self) -> bool:
        """Whether callers have to log in."""
        return self.authentication_method in {"BASIC", "BEARER"}

    def _check_log_in(self) -> None:
        protocol = str(self.clients.get("security.protocol", "")).upper()
        if self.uses_sasl and not protocol.startswith("SASL"):
            raise SettingsError(
                f"authentication.method={self.authentication_method} lets callers log in to the"
                f" brokers, and {self.protocol_setting} says that these have no log-in: set it to"
                " SASL_PLAINTEXT or SASL_SSL"
            )


_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
