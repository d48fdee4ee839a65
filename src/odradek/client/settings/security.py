"""The settings of TLS and SASL, which every client has, by Kafka's names.

`client.security` makes of them what a connection needs. Passwords, keys and JAAS lines are secrets:
no `repr` and no error shows them.
"""

# ruff: noqa: RUF009 - a declaration is a call that makes a dataclass field
import logging
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal

from odradek.client.errors import SettingsError
from odradek.config.kinds import boolean, custom, integer, long, string
from odradek.config.listeners import SECURITY_PROTOCOLS
from odradek.config.program_settings import ProgramSettings, option
from odradek.config.setting import Importance, Kind, Setting
from odradek.config.values import parse_list

_log = logging.getLogger("odradek.client")

_PREFIXES: Final = ("ssl_", "sasl_")


def _check_protocol(value: object) -> str:
    if not isinstance(value, str) or value.strip().upper() not in SECURITY_PROTOCOLS:
        raise SettingsError(f"must be one of {', '.join(SECURITY_PROTOCOLS)}")
    return value.strip().upper()


def _secret(name: str, doc: str) -> Setting[str | None]:
    def accept(value: object) -> str | None:
        if value is not None and not isinstance(value, str):
            raise SettingsError("must be text")
        return value or None

    return custom(
        name,
        None,
        doc,
        accept=accept,
        expected="text",
        kind=Kind.PASSWORD,
        importance=Importance.HIGH,
    )


def _list(name: str, default: tuple[str, ...] | None, doc: str) -> Setting[Any]:
    def accept(value: object) -> tuple[str, ...] | None:
        if value is None and default is None:
            return None
        if isinstance(value, str):
            value = parse_list(value)
        if not isinstance(value, list | tuple) or not all(isinstance(one, str) for one in value):
            raise SettingsError("must be a list separated by commas")
        return tuple(value) or default

    return custom(
        name, default, doc, accept=accept, expected="a list separated by commas", kind=Kind.LIST
    )


def _check_callback(value: object) -> object:
    """Takes a function, an object with a method `token()`, `module:function`, or the name of one
    of Kafka's own classes, which `client.login` knows."""
    if value is None or value == "":
        return None
    if callable(value) or callable(getattr(value, "token", None)):
        return value
    if not isinstance(value, str):
        raise SettingsError("must be a function, or its name as module:function")
    if ":" in value:
        from odradek.client.named_classes import load  # noqa: PLC0415 - only for own functions

        return load(value)
    return value


def _check_factor(value: object) -> float:
    factor = float(value) if isinstance(value, str | int | float) else 0.0
    if not 0.5 <= factor <= 1.0:
        raise ValueError(value)
    return factor


def _check_context(value: object) -> ssl.SSLContext | None:
    if value is not None and not isinstance(value, ssl.SSLContext):
        raise SettingsError("must be an ssl.SSLContext of the program; in files write ssl.* names")
    return value


@dataclass(frozen=True, kw_only=True)
class SecuritySettings(ProgramSettings):
    """How a client proves who it is, and checks who the broker is."""

    error_class: ClassVar[type[SettingsError]] = SettingsError

    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = option(
        custom(
            "security.protocol",
            "PLAINTEXT",
            "How to talk to brokers: with TLS (SSL), with a log-in (SASL_PLAINTEXT), with both"
            " (SASL_SSL), or with neither (PLAINTEXT).",
            accept=_check_protocol,
            expected=f"one of {', '.join(SECURITY_PROTOCOLS)}",
        )
    )
    ssl_context: ssl.SSLContext | None = option(
        custom(
            "ssl.context",
            None,
            "Of a program: an ssl.SSLContext that it has made, instead of all other ssl settings.",
            accept=_check_context,
            expected="an ssl.SSLContext",
            kind=Kind.CLASS,
        )
    )
    ssl_truststore_type: Literal["JKS", "PKCS12", "PEM"] | None = option(
        string(
            "ssl.truststore.type",
            None,
            "The format of the trust store: JKS, PKCS12 or PEM; unset: the file says itself.",
        )
    )
    ssl_truststore_location: str | None = option(
        string(
            "ssl.truststore.location",
            None,
            "The file with the certificates of the authorities that sign brokers' certificates;"
            " without one, those that the operating system trusts.",
        )
    )
    ssl_truststore_password: str | None = option(
        _secret("ssl.truststore.password", "The password of the trust store; PEM has none.")
    )
    ssl_truststore_certificates: str | None = option(
        _secret(
            "ssl.truststore.certificates",
            "Trusted certificates as PEM text, instead of a file.",
        )
    )
    ssl_keystore_type: Literal["JKS", "PKCS12", "PEM"] | None = option(
        string(
            "ssl.keystore.type",
            None,
            "The format of the key store: JKS, PKCS12 or PEM; unset: the file says itself.",
        )
    )
    ssl_keystore_location: str | None = option(
        string(
            "ssl.keystore.location",
            None,
            "The file with the client's own key and certificate, for brokers that ask for it.",
        )
    )
    ssl_keystore_password: str | None = option(
        _secret("ssl.keystore.password", "The password of the key store; PEM has none.")
    )
    ssl_keystore_key: str | None = option(
        _secret("ssl.keystore.key", "The client's key as PEM text, instead of a file.")
    )
    ssl_keystore_certificate_chain: str | None = option(
        _secret(
            "ssl.keystore.certificate.chain",
            "The client's certificate and those of its issuers, as PEM text.",
        )
    )
    ssl_key_password: str | None = option(
        _secret("ssl.key.password", "The password of the key itself, if it is encrypted.")
    )
    ssl_enabled_protocols: str | tuple[str, ...] | list[str] = option(
        _list("ssl.enabled.protocols", ("TLSv1.2", "TLSv1.3"), "The versions of TLS to offer.")
    )
    ssl_protocol: str = option(
        string(
            "ssl.protocol",
            "TLSv1.3",
            "The newest version of TLS; ssl.enabled.protocols says which others there are.",
        )
    )
    ssl_cipher_suites: str | tuple[str, ...] | list[str] | None = option(
        _list("ssl.cipher.suites", None, "The cipher suites to offer; unset: all secure ones.")
    )
    ssl_endpoint_identification_algorithm: str = option(
        string(
            "ssl.endpoint.identification.algorithm",
            "https",
            "https checks that the certificate is for the host that was connected to; empty does"
            " not, so any holder of a trusted certificate can pretend to be the broker.",
            choices=("https", ""),
            folds_case=True,
        )
    )
    sasl_mechanism: str = option(
        string(
            "sasl.mechanism",
            "GSSAPI",
            "How to log in: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER, or GSSAPI, which is"
            " Kerberos and needs the extra kerberos.",
            may_be_empty=False,
        )
    )
    sasl_jaas_config: str | None = option(
        _secret(
            "sasl.jaas.config",
            "The log-in as Kafka writes it: LoginModule required username=... password=...;",
        )
    )
    sasl_username: str | None = option(
        string(
            "sasl.username",
            None,
            "The user of PLAIN and SCRAM, if there is no sasl.jaas.config. librdkafka has it too.",
        )
    )
    sasl_password: str | None = option(
        _secret(
            "sasl.password",
            "The password of that user. librdkafka has it too.",
        )
    )
    sasl_kerberos_service_name: str | None = option(
        string(
            "sasl.kerberos.service.name",
            None,
            "The first part of the Kerberos principal of the brokers, as in kafka/HOST@REALM.",
        )
    )
    sasl_kerberos_min_time_before_relogin: int = option(
        long(
            "sasl.kerberos.min.time.before.relogin",
            60_000,
            "After a refused log-in by Kerberos the tickets are got anew; not sooner again than"
            " after this many milliseconds.",
            at_least=0,
        )
    )
    sasl_login_callback_handler_class: Callable[[], object] | object | None = option(
        custom(
            "sasl.login.callback.handler.class",
            None,
            "A function that returns the OAUTHBEARER token, or its name as module:function.",
            accept=_check_callback,
            expected="a function, or its name as module:function",
            kind=Kind.CLASS,
        )
    )
    sasl_oauthbearer_token_endpoint_url: str | None = option(
        string(
            "sasl.oauthbearer.token.endpoint.url",
            None,
            "Where tokens are got by client credentials, or file:///path of a token.",
        )
    )
    sasl_oauthbearer_client_credentials_client_id: str | None = option(
        string(
            "sasl.oauthbearer.client.credentials.client.id",
            None,
            "The client id at the token endpoint; a JAAS line says clientId.",
        )
    )
    sasl_oauthbearer_client_credentials_client_secret: str | None = option(
        _secret(
            "sasl.oauthbearer.client.credentials.client.secret",
            "The secret at the token endpoint; a JAAS line says clientSecret.",
        )
    )
    sasl_oauthbearer_scope: str | None = option(
        string("sasl.oauthbearer.scope", None, "The scope to ask for at the token endpoint.")
    )
    sasl_oauthbearer_header_urlencode: bool = option(
        boolean(
            "sasl.oauthbearer.header.urlencode",
            False,
            "Encode client id and secret as in URLs, as RFC 6749 says; few servers want it.",
        )
    )
    sasl_login_connect_timeout_ms: int = option(
        integer(
            "sasl.login.connect.timeout.ms",
            10_000,
            "How long to wait for a connection to the token endpoint.",
            at_least=1,
        )
    )
    sasl_login_read_timeout_ms: int = option(
        integer(
            "sasl.login.read.timeout.ms",
            10_000,
            "How long to wait for an answer of the token endpoint.",
            at_least=1,
        )
    )
    sasl_login_retry_backoff_ms: int = option(
        long(
            "sasl.login.retry.backoff.ms",
            100,
            "How long to wait before the token endpoint is asked again; it doubles each time.",
            at_least=1,
        )
    )
    sasl_login_retry_backoff_max_ms: int = option(
        long(
            "sasl.login.retry.backoff.max.ms",
            10_000,
            "The token endpoint is not asked again after a wait that would be longer than this.",
            at_least=1,
        )
    )
    sasl_login_refresh_window_factor: float = option(
        custom(
            "sasl.login.refresh.window.factor",
            0.8,
            "A new token is got when this part of the old one's lifetime is over.",
            accept=_check_factor,
            expected="a number from 0.5 to 1.0",
            kind=Kind.DOUBLE,
        )
    )

    @property
    def uses_tls(self) -> bool:
        return self.security_protocol in ("SSL", "SASL_SSL")

    @property
    def uses_sasl(self) -> bool:
        return self.security_protocol in ("SASL_PLAINTEXT", "SASL_SSL")

    def _check_together(self) -> None:
        super()._check_together()
        if self.uses_sasl:
            from odradek.client.login import check_login  # noqa: PLC0415 - only with SASL

            check_login(self)
        if self.uses_tls:
            from odradek.client.security import tls_settings  # noqa: PLC0415 - only with TLS

            tls_settings(self)

    @classmethod
    def check_protocol_is_named(cls, options: Mapping[str, object]) -> None:
        """Refuses settings of TLS or SASL without a `security.protocol`: nothing would use them.

        Beside a protocol that does not use them they are reported: files often keep them. The
        messages show no values, for they may be secrets.
        """
        given = sorted(
            name.replace("_", ".")
            for name, value in options.items()
            if name.startswith(_PREFIXES)
            and value not in (None, "")
            and not _is_default(cls, name, value)
        )
        if not given:
            return
        if "security_protocol" not in options:
            protocols = "SSL or SASL_SSL" if given[-1].startswith("ssl.") else "SASL_SSL"
            raise SettingsError(
                f"{given[0]}: set security.protocol={protocols} too; without it connections are"
                " PLAINTEXT, and this would have no effect"
            )
        protocol = str(options["security_protocol"]).strip().upper()
        unused = [
            name
            for name in given
            if (name.startswith("sasl.") and not protocol.startswith("SASL"))
            or (name.startswith("ssl.") and not protocol.endswith("SSL"))
        ]
        for name in unused:
            _log.warning("%s has no effect with security.protocol=%s", name, protocol)


def _is_default(settings: type[ProgramSettings], name: str, value: object) -> bool:
    declared = settings.declared().get(name.replace("_", "."))
    return declared is not None and value == declared.default
