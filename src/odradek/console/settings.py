"""console.properties: the settings of the console."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any, ClassVar, Final, Self
from urllib.parse import urlsplit

from odradek.client.errors import SettingsError
from odradek.config.kinds import boolean, custom, integer, string
from odradek.config.program_settings import option
from odradek.config.setting import Kind
from odradek.config.values import parse_list
from odradek.console.openid.settings import (
    ACCESS_TOKEN,
    ID_TOKEN,
    BadProvider,
    OpenIdSettings,
    check_address,
)
from odradek.console.records.masks import BadMask, Mask
from odradek.services.settings import NO_EFFECT, listeners
from odradek.services.with_registry import WithRegistry
from odradek.world.installing import install_line

PORT: Final = 8080
_CLUSTER: Final = "cluster."
# What a further cluster takes from the file; the rest is about the console as a whole.
_OF_CLUSTERS: Final = (
    "bootstrap.servers",
    "schema.registry.",
    "connect.",
    "sql.",
    "ksql.",
    "odradek.pipelines.",
    "client.",
    "admin.",
    "consumer.",
    "producer.",
    "odradek.openid.",
    "prometheus.",
    "odradek.read.only",
)
_NAME_CHARACTERS: Final = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-_")


def _check_name(value: object) -> str:
    name = str(value).strip()
    if not name or not set(name) <= _NAME_CHARACTERS:
        raise SettingsError("must be lower-case letters, digits, - and _: it is a part of URLs")
    return name


def _check_broker_token(value: object) -> str:
    text = str(value).strip().lower()
    if text not in {ACCESS_TOKEN, ID_TOKEN}:
        raise SettingsError(f"must be {ACCESS_TOKEN} or {ID_TOKEN}")
    return text


def _check_masks(value: object) -> tuple[str, ...]:
    given = parse_list(value) if isinstance(value, str) else value
    if not isinstance(given, list | tuple):
        raise SettingsError("must be rules separated by commas")
    rules = tuple(str(one) for one in given)
    for rule in rules:
        try:
            Mask.parse(rule)
        except BadMask as error:
            raise SettingsError(str(error)) from None
    return rules


def _is_url(text: str) -> bool:
    """Returns whether a text is the address of a service, without a user in it."""
    try:
        parts = urlsplit(text)
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and not parts.username
    except ValueError:
        return False


@dataclass(frozen=True, kw_only=True)
class ConsoleSettings(WithRegistry):
    """What the console can be told, beside what every service can."""

    no_effect: ClassVar[Mapping[str, tuple[str, ...]]] = NO_EFFECT
    refused: ClassVar[Mapping[str, str]] = {
        "authentication.realm": "users log in to the brokers: set client.security.protocol",
        "authentication.roles": "the brokers' ACLs and roles decide: see odradek acls and roles",
    }

    others: Mapping[str, "ConsoleSettings"] = field(default_factory=dict, repr=False)
    """The further clusters, by name."""

    listeners: tuple[str, ...] | str = listeners(PORT)
    odradek_cluster_name: str = option(
        custom(
            "odradek.cluster.name",
            "kafka",
            "What the console calls the cluster of bootstrap.servers; a part of URLs. Further"
            " clusters are cluster.NAME.bootstrap.servers, cluster.NAME.client.security.protocol"
            " and so on.",
            accept=_check_name,
            expected="lower-case letters, digits, - and _",
        )
    )
    connect_url: str = option(
        string("connect.url", "", "A worker of Kafka Connect, as http://127.0.0.1:8083.")
    )
    connect_basic_auth_user_info: str = option(
        custom(
            "connect.basic.auth.user.info",
            "",
            "The log-in of the console at the worker, as user:password. Unset, the log-in of the"
            " user is passed on, if it is a password or a token.",
            accept=str,
            expected="user:password",
            kind=Kind.PASSWORD,
        )
    )
    connect_config_storage_topic: str = option(
        string(
            "connect.config.storage.topic",
            "connect-configs",
            "The worker's topic of configurations. Where the brokers need a log-in, who may WRITE"
            " to it may change connectors.",
        )
    )
    sql_url: str = option(
        string(
            "sql.url",
            "",
            "A SQL server, as http://127.0.0.1:8088: `odradek sql-server` or ksqlDB.",
        )
    )
    ksql_url: str = option(string("ksql.url", "", "Another name of sql.url."))
    sql_basic_auth_user_info: str = option(
        custom(
            "sql.basic.auth.user.info",
            "",
            "The log-in of the console at a SQL server that wants one, as user:password. Unset, the"
            " log-in of the user is passed on to it, if it is a password or a token.",
            accept=str,
            expected="user:password",
            kind=Kind.PASSWORD,
        )
    )
    sql_command_topic: str = option(
        string(
            "sql.command.topic",
            "_odradek_sql_default__commands",
            "The SQL server's topic of statements. Where the brokers need a log-in and the server"
            " does not get that of the user, who may WRITE to it may use SQL: the server reads and"
            " writes topics with rights of its own. That of ksqlDB is called"
            " _confluent-ksql-default__command_topic.",
        )
    )
    odradek_pipelines_directory: str = option(
        string(
            "odradek.pipelines.directory",
            "",
            "The --data directory of `odradek pipeline run` on this machine, to show its pipelines"
            " and to stop them. Where the brokers need a log-in, who may DESCRIBE the cluster sees"
            " them, and who may ALTER it stops them.",
        )
    )
    odradek_read_only: bool = option(
        boolean("odradek.read.only", False, "Whether the console refuses to change anything.")
    )
    odradek_masks: tuple[str, ...] | str = option(
        custom(
            "odradek.masks",
            (),
            "Which fields of records nobody sees in the console: TOPICS/PART.FIELD rules such as"
            " customers/value.email, payments-*/key, */header.authorization or */value.**.password."
            " Searches, filters and downloads see masked values too.",
            accept=_check_masks,
            expected="rules TOPICS/PART.FIELD with commas",
            kind=Kind.LIST,
        )
    )
    odradek_refresh_ms: int = option(
        integer(
            "odradek.refresh.ms",
            5000,
            "How often the figures of a cluster are sampled while somebody looks at it. If a sample"
            " takes long, the next one waits twenty times as long.",
            at_least=500,
        )
    )
    odradek_session_ms: int = option(
        integer(
            "odradek.session.ms",
            28_800_000,
            "After which time without a request a session ends; users log in again.",
            at_least=60_000,
        )
    )

    prometheus_url: str = option(
        string(
            "prometheus.url",
            "",
            "A Prometheus that scrapes the brokers, as http://127.0.0.1:9090: charts show hours and"
            " days.",
        )
    )
    prometheus_labels: str = option(
        string(
            "prometheus.labels",
            "",
            'Matchers that choose this cluster in Prometheus, as in job="kafka",env="prod".',
        )
    )
    odradek_openid_issuer: str = option(
        string(
            "odradek.openid.issuer",
            "",
            "The issuer of an OpenID provider, as https://login.example.org/realms/main: users log"
            " in there, and the brokers check the token (OAUTHBEARER).",
        )
    )
    odradek_openid_client_id: str = option(
        string("odradek.openid.client.id", "", "The name of the console at the OpenID provider.")
    )
    odradek_openid_client_secret: str = option(
        custom(
            "odradek.openid.client.secret",
            "",
            "The secret of the console at the OpenID provider; a public client has none.",
            accept=str,
            expected="text",
            kind=Kind.PASSWORD,
        )
    )
    odradek_openid_scope: str = option(
        string(
            "odradek.openid.scope",
            "openid profile email",
            "The scopes that the console asks for; openid is one of them.",
        )
    )
    odradek_openid_broker_token: str = option(
        custom(
            "odradek.openid.broker.token",
            ACCESS_TOKEN,
            "Which token the brokers are shown: access_token, or id_token if the provider's access"
            " tokens are not JWTs.",
            accept=_check_broker_token,
            expected="access_token or id_token",
        )
    )

    @classmethod
    def from_file(cls, properties: Mapping[str, str]) -> Self:
        """Returns the settings of a properties file, with those of the further clusters."""
        own: dict[str, str] = {}
        others: dict[str, dict[str, str]] = {}
        for name, value in properties.items():
            if not name.startswith(_CLUSTER):
                own[name] = value
                continue
            cluster, _, rest = name.removeprefix(_CLUSTER).partition(".")
            if not rest.startswith(_OF_CLUSTERS):
                raise SettingsError(
                    f"{name}: a cluster has {', '.join(_OF_CLUSTERS)}; write for example"
                    f" cluster.{cluster or 'NAME'}.bootstrap.servers=broker:9092"
                )
            others.setdefault(cluster, {})[rest] = value
        settings = super().from_file(own)
        object.__setattr__(settings, "others", settings._further(others))
        return settings

    def _further(self, given: Mapping[str, dict[str, str]]) -> dict[str, Self]:
        found: dict[str, Self] = {}
        for name, properties in given.items():
            if name == self.odradek_cluster_name:
                raise SettingsError(
                    f"cluster.{name}.* names the cluster of bootstrap.servers again"
                )
            if "bootstrap.servers" not in properties:
                raise SettingsError(f"cluster.{name}.bootstrap.servers is missing")
            own = {**properties, "odradek.cluster.name": name}
            if self.odradek_read_only:
                own["odradek.read.only"] = "true"
            try:
                found[name] = super().from_file(own)
            except SettingsError as error:
                raise SettingsError(f"cluster.{name}: {error}") from None
        return found

    def masks(self) -> list[Mask]:
        return [Mask.parse(rule) for rule in self.odradek_masks]

    def _check_together(self) -> None:
        super()._check_together()
        if self.sql_url and self.ksql_url and self.sql_url != self.ksql_url:
            raise SettingsError("sql.url and ksql.url name two servers; leave one of them out")
        for name, url, port in (
            ("connect.url", self.connect_url, 8083),
            ("prometheus.url", self.prometheus_url, 9090),
            ("sql.url", self.sql_url, 8088),
            ("ksql.url", self.ksql_url, 8088),
        ):
            if url and not _is_url(url):
                raise SettingsError(f"{name}={url!r} is not a URL such as http://127.0.0.1:{port}")
        for name, pair in (
            ("connect.basic.auth.user.info", self.connect_basic_auth_user_info),
            ("sql.basic.auth.user.info", self.sql_basic_auth_user_info),
        ):
            if pair and ":" not in pair:
                raise SettingsError(f"{name} must be user:password")
        self._check_openid()

    def _check_openid(self) -> None:
        if not self.odradek_openid_issuer:
            if self.odradek_openid_client_id or self.odradek_openid_client_secret:
                raise SettingsError("odradek.openid.issuer is missing: who lets users in?")
            return
        if not self.odradek_openid_client_id:
            raise SettingsError(
                "odradek.openid.client.id is missing: register the console at the provider, with"
                f" the redirect URL .../log-in/{self.odradek_cluster_name}/openid"
            )
        if not self.uses_sasl:
            raise SettingsError(
                "odradek.openid.issuer lets users log in to the brokers, and these have no log-in:"
                " set client.security.protocol=SASL_SSL and client.sasl.mechanism=OAUTHBEARER"
            )
        if "openid" not in self.odradek_openid_scope.split():
            raise SettingsError("odradek.openid.scope: openid must be one of the scopes")
        if find_spec("jwt") is None:
            raise SettingsError(f"PyJWT checks tokens: {install_line('console,security')}")
        try:
            check_address(self.odradek_openid_issuer, "odradek.openid.issuer")
        except BadProvider as error:
            raise SettingsError(f"{error}; http is for this machine alone") from None

    def openid(self) -> OpenIdSettings | None:
        """Returns what is known of the OpenID provider, if there is one."""
        if not self.odradek_openid_issuer:
            return None
        return OpenIdSettings(
            self.odradek_openid_issuer,
            self.odradek_openid_client_id,
            self.odradek_openid_client_secret,
            self.odradek_openid_scope,
            self.odradek_openid_broker_token == ID_TOKEN,
        )

    def clusters(self) -> dict[str, "ConsoleSettings"]:
        """Returns the settings of all clusters by name; the first is that of bootstrap.servers."""
        return {self.odradek_cluster_name: self, **self.others}

    @classmethod
    def _pass_on(cls, name: str, value: str, passed: dict[str, Any]) -> bool:
        if name.startswith("odradek.tokens."):
            raise SettingsError(
                f"{name}: the console has no log-in of its own; users log in with a password or"
                " token of theirs"
            )
        return super()._pass_on(name, value, passed)
