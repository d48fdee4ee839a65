"""How a schema registry is reached: addresses, log-in, TLS, time-outs.

The settings have the names of Confluent's serializers in properties files, where those of TLS begin
with `schema.registry.`, and those of confluent-kafka's `SchemaRegistryClient`, where they do not.
All names may begin with `schema.registry.`, which tells them from settings of the client itself:

    schema.registry.url=http://localhost:8081          {"url": "http://localhost:8081"}
    basic.auth.credentials.source=USER_INFO
    basic.auth.user.info=ada:secret                    {"basic.auth.user.info": "ada:secret"}
    schema.registry.ssl.truststore.location=ca.pem     {"ssl.ca.location": "ca.pem"}

Several addresses are separated by commas: they are instances of one registry.
"""

import ssl
import urllib.parse
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from odradek.config.setting import InvalidSetting
from odradek.schemas.errors import BadSetting
from odradek.world.disk import OsDisk

_PREFIX: Final = "schema.registry."
_URL_SOURCE, _USER_INFO, _SASL_INHERIT = "URL", "USER_INFO", "SASL_INHERIT"
_STATIC_TOKEN, _CUSTOM = "STATIC_TOKEN", "CUSTOM"
# librdkafka's names for PEM files, and what Kafka calls the text in them.
_PEM_FILES: Final = {
    "ssl.ca.location": "ssl.truststore.certificates",
    "ssl.certificate.location": "ssl.keystore.certificate.chain",
    "ssl.key.location": "ssl.keystore.key",
}
_REFUSED: Final = {
    "schema.registry.url.randomize": "addresses are tried in their order",
    "bearer.auth.identity.pool.id": "",
    "bearer.auth.logical.cluster": "",
    "proxy.host": "",
    "rule.executors": "rules of schemas are not executed",
    "rule.actions": "rules of schemas are not executed",
}


class Address(NamedTuple):
    """One instance of the registry. `path` has no slash at its end."""

    is_tls: bool
    host: str
    port: int
    path: str
    credentials: tuple[str, str] | None

    @property
    def url(self) -> str:
        """The URL, without a password."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        scheme, usual = ("https", 443) if self.is_tls else ("http", 80)
        port = "" if self.port == usual else f":{self.port}"
        return f"{scheme}://{host}{port}{self.path}"


@dataclass(frozen=True, slots=True)
class RegistrySettings:
    """`token` returns the bearer token of each request. `authorization` is the whole header, by
    which a service shows the log-in of its caller."""

    addresses: tuple[Address, ...]
    user_and_password: tuple[str, str] | None = field(default=None, repr=False)
    token: Callable[[], str] | None = field(default=None, repr=False)
    authorization: str = field(default="", repr=False)
    tls: Mapping[str, str] = field(default_factory=dict, repr=False)
    timeout_s: float = 30.0
    retries: int = 3
    first_backoff_s: float = 0.2
    max_backoff_s: float = 5.0
    cache_capacity: int = 1000
    latest_ttl_s: float | None = None
    """How long the newest version of a subject is believed; None means for ever."""

    @classmethod
    def of_url(cls, url: str) -> "RegistrySettings":
        return cls(_addresses(url))

    @classmethod
    def from_properties(cls, properties: Mapping[str, Any]) -> "RegistrySettings":
        """Reads the settings of a registry and ignores all others. Raises `BadSetting`, whose
        message has no passwords."""
        given = {name: value for name, value in properties.items() if value not in (None, "")}
        for name in list(given):
            if name.startswith(_PREFIX) and not name.startswith(
                (f"{_PREFIX}ssl.", f"{_PREFIX}url")
            ):
                given[name.removeprefix(_PREFIX)] = given[name]
        url = given.get(f"{_PREFIX}url", given.get("url"))
        if url is None:
            raise BadSetting(
                "schema.registry.url is not set: write the registry's address, such as"
                " schema.registry.url=http://localhost:8081"
            )
        for name, reason in _REFUSED.items():
            if name in given:
                because = f": {reason}" if reason else ""
                raise BadSetting(f"{name} is not supported{because}; leave it out")
        numbers = _Numbers(given)
        addresses = _addresses(url if isinstance(url, str) else ",".join(url))
        return cls(
            addresses,
            user_and_password=_user_and_password(given),
            token=_token(given),
            tls=_tls(given),
            timeout_s=numbers.seconds(
                ("schema.registry.request.timeout.ms", 0.001), ("timeout", 1.0), default=30.0
            ),
            retries=int(numbers.one("max.retries", 3.0)),
            first_backoff_s=numbers.one("retries.wait.ms", 200.0) / 1000,
            max_backoff_s=numbers.one("retries.max.wait.ms", 5000.0) / 1000,
            cache_capacity=int(
                numbers.one("cache.capacity", numbers.one("max.schemas.per.subject", 1000.0))
            ),
            latest_ttl_s=numbers.latest_ttl_s(),
        )

    def tls_context(self) -> ssl.SSLContext:
        """Reads keys and certificates. Raises `BadSetting`, which names the setting."""
        from odradek.security.tls.contexts import client_context  # noqa: PLC0415 - only with TLS
        from odradek.security.tls.settings import TlsSettings  # noqa: PLC0415

        try:
            return client_context(TlsSettings.from_properties(self.tls), OsDisk().read)
        except InvalidSetting as error:
            raise BadSetting(f"schema registry: {error}") from None


class _Numbers:
    def __init__(self, given: Mapping[str, Any]) -> None:
        self._given = given

    def one(self, name: str, default: float) -> float:
        value = self._given.get(name, default)
        try:
            number = float(value)
        except (TypeError, ValueError):
            raise BadSetting(f"{name} must be a number, not {value!r}") from None
        if number < 0:
            raise BadSetting(f"{name} must not be negative, but is {value}")
        return number

    def seconds(self, *names: tuple[str, float], default: float) -> float:
        for name, unit_s in names:
            if name in self._given:
                return self.one(name, 0.0) * unit_s
        return default

    def latest_ttl_s(self) -> float | None:
        for name in ("latest.cache.ttl.sec", "cache.latest.ttl.sec"):
            value = self._given.get(name)
            if value is not None and str(value) != "-1":
                return self.one(name, 0.0)
        return None


def _addresses(text: str) -> tuple[Address, ...]:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    found = tuple(_address(part) for part in parts)
    if not found:
        raise BadSetting(f"{text!r} is not the URL of a schema registry, such as {_EXAMPLE}")
    return found


_EXAMPLE: Final = "http://localhost:8081"


def _address(url: str) -> Address:
    try:
        parts = urllib.parse.urlsplit(url)
        port = parts.port
    except ValueError:
        parts, port = urllib.parse.urlsplit(""), None
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        shown = url.rpartition("@")[2]  # what is before it may be a password
        raise BadSetting(f"{shown!r} is not the URL of a schema registry, such as {_EXAMPLE}")
    credentials = None
    if parts.username is not None:
        unquote = urllib.parse.unquote
        credentials = (unquote(parts.username), unquote(parts.password or ""))
    is_tls = parts.scheme == "https"
    path = parts.path.rstrip("/")
    return Address(is_tls, parts.hostname, port or (443 if is_tls else 80), path, credentials)


def _user_and_password(given: Mapping[str, Any]) -> tuple[str, str] | None:
    source = str(given.get("basic.auth.credentials.source", _USER_INFO)).upper()
    if source == _URL_SOURCE:
        return None
    if source == _SASL_INHERIT:
        user, password = given.get("sasl.username"), given.get("sasl.password")
        if not user:
            raise BadSetting(
                "basic.auth.credentials.source=SASL_INHERIT needs sasl.username and sasl.password"
            )
        return str(user), str(password or "")
    if source != _USER_INFO:
        raise BadSetting(
            f"basic.auth.credentials.source={source} must be URL, USER_INFO or SASL_INHERIT"
        )
    text = given.get("basic.auth.user.info")
    if text is None:
        if "basic.auth.credentials.source" in given:
            raise BadSetting(
                "basic.auth.credentials.source=USER_INFO needs basic.auth.user.info=user:password"
            )
        return None
    user, colon, password = str(text).partition(":")
    if not colon:
        raise BadSetting("basic.auth.user.info must be like user:password")
    return user, password


def _token(given: Mapping[str, Any]) -> Callable[[], str] | None:
    token = given.get("bearer.auth.token")
    source = str(given.get("bearer.auth.credentials.source", _STATIC_TOKEN)).upper()
    if source == _CUSTOM:
        function = given.get("bearer.auth.custom.provider.function")
        if not callable(function):
            raise BadSetting(
                "bearer.auth.credentials.source=CUSTOM needs a function as"
                " bearer.auth.custom.provider.function"
            )
        config = given.get("bearer.auth.custom.provider.config", {})
        return lambda: str(function(config)["bearer.auth.token"])
    if source != _STATIC_TOKEN:
        raise BadSetting(
            f"bearer.auth.credentials.source={source} is not supported: write STATIC_TOKEN with"
            " bearer.auth.token, or CUSTOM with a function that returns the token"
        )
    if token is None:
        if "bearer.auth.credentials.source" in given:
            raise BadSetting("bearer.auth.credentials.source=STATIC_TOKEN needs bearer.auth.token")
        return None
    text = str(token)
    return lambda: text


def _tls(given: Mapping[str, Any]) -> dict[str, str]:
    """Returns Kafka's `ssl.*` properties. Without the prefix only librdkafka's names count: in a
    properties file the others are those of the broker's connections."""
    found = {
        name.removeprefix(_PREFIX): str(value)
        for name, value in given.items()
        if name.startswith(f"{_PREFIX}ssl.")
    }
    is_dict_of_program = "url" in given
    for name, text_name in _PEM_FILES.items():
        location = found.pop(name, None) or (given.get(name) if is_dict_of_program else None)
        if location is not None:
            found[text_name] = _text_of(name, str(location))
    if is_dict_of_program and "ssl.key.password" in given:
        found["ssl.key.password"] = str(given["ssl.key.password"])
    return found


def _text_of(name: str, location: str) -> str:
    try:
        return OsDisk().read(location).decode()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise BadSetting(f"{name}={location} cannot be read: {reason}") from None
