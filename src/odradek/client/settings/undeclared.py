"""Handles properties that this client does not support: it raises an error or logs a warning.

`ClientSettings.from_properties` calls `check_undeclared` for each property that is not declared. It
raises an error where ignoring the property would deceive the user (security, Java classes).
Otherwise a warning says that the property has no effect or is unknown.
"""

import logging
from collections.abc import Callable, Mapping

from odradek.client.errors import SettingsError
from odradek.client.serializers_with_schemas import home_of, is_their_setting

_log = logging.getLogger("odradek.client")

_KAFKA_OAUTH = "org.apache.kafka.common.security.oauthbearer."
# Settings of Kafka's clients that this client does not implement, with the reason. The values
# listed are harmless. Any other value is refused.
REFUSED = {
    "interceptor.classes": ("an admin client has no interceptors", ()),
    "metric.reporters": (
        "reporters are Java classes, which are not loaded",
        ("org.apache.kafka.common.metrics.JmxReporter",),
    ),
    "security.providers": ("providers are Java classes, which are not loaded", ()),
    "sasl.client.callback.handler.class": ("Java classes are not loaded", ()),
    "sasl.login.class": ("Java classes are not loaded", ()),
    "sasl.oauthbearer.jwt.retriever.class": (
        "tokens come from sasl.login.callback.handler.class or sasl.oauthbearer.token.endpoint.url",
        tuple(
            f"{_KAFKA_OAUTH}{kind}JwtRetriever" for kind in ("Default", "ClientCredentials", "File")
        ),
    ),
    "sasl.oauthbearer.jwt.validator.class": (
        "the broker validates tokens",
        tuple(f"{_KAFKA_OAUTH}{kind}JwtValidator" for kind in ("Default", "Client", "Broker")),
    ),
    "ssl.engine.factory.class": ("Java classes are not loaded", ()),
    "ssl.provider": ("providers are Java classes, which are not loaded", ()),
    "config.providers": (
        "this client has no config providers: write values for ${...}",
        (),
    ),
}
# Settings of Kafka's clients that have no effect in this client. A warning says so, unless the
# value is one of those listed, which need no warning (usually Kafka's default).
NO_EFFECT: dict[str, tuple[str, ...]] = {
    "auto.include.jmx.reporter": ("true", "false"),
    "client.dns.lookup": ("use_all_dns_ips",),
    "enable.metrics.push": ("false", "true"),
    "metrics.num.samples": ("2",),
    "metrics.recording.level": ("INFO",),
    "metrics.sample.window.ms": ("30000",),
    "sasl.kerberos.kinit.cmd": ("/usr/bin/kinit",),
    "sasl.kerberos.ticket.renew.jitter": ("0.05",),
    "sasl.kerberos.ticket.renew.window.factor": ("0.8",),
    "sasl.login.refresh.buffer.seconds": ("300",),
    "sasl.login.refresh.min.period.seconds": ("60",),
    "sasl.login.refresh.window.jitter": ("0.05",),
    "sasl.oauthbearer.clock.skew.seconds": ("30",),
    "sasl.oauthbearer.expected.audience": (),
    "sasl.oauthbearer.expected.issuer": (),
    "sasl.oauthbearer.jwks.endpoint.refresh.ms": ("3600000",),
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms": ("10000",),
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms": ("100",),
    "sasl.oauthbearer.jwks.endpoint.url": (),
    "sasl.oauthbearer.scope.claim.name": ("scope",),
    "sasl.oauthbearer.sub.claim.name": ("sub",),
    "ssl.keymanager.algorithm": ("SunX509", "PKIX"),
    "ssl.secure.random.implementation": (),
    "ssl.trustmanager.algorithm": ("PKIX", "SunX509"),
}
_PREFIXES_WITHOUT_EFFECT = ("config.providers.", "metrics.context.")
_SECURITY_PREFIXES = ("ssl.", "sasl.")


# Settings that may name classes of the user, which may have settings of their own.
_CLASS_SETTINGS = (
    "interceptor.classes",
    "key.deserializer",
    "key.serializer",
    "partition.assignment.strategy",
    "partitioner.class",
    "value.deserializer",
    "value.serializer",
)


def has_own_classes(config: Mapping[str, object]) -> bool:
    """Returns whether the settings name classes of the user: `configure` gets all settings."""
    for name, value in config.items():
        dotted = _dotted(name)
        if dotted not in _CLASS_SETTINGS:
            continue
        if not isinstance(value, str) or ":" in value:
            return True
        suffix = dotted.partition(".")[2].capitalize()
        if suffix in {"Serializer", "Deserializer"} and home_of(value, suffix) is not None:
            return True
    return False


def _dotted(name: str) -> str:
    """Returns Kafka's spelling of a name: dicts of programs may have underscores."""
    return name.replace("_", ".")


def check_undeclared(
    name: str, value: str, properties: Mapping[str, str], hint: Callable[[str], str]
) -> None:
    """Raises `SettingsError` for a property that must not be ignored; logs others as ignored.

    `hint` returns text with a similar name of a setting, or an empty string."""
    if not _is_known(name, value, properties, hint):
        said = "" if is_their_setting(name) else hint(name)
        if said or not has_own_classes(properties):
            _log.warning("%s is not a setting of this client and is ignored%s", name, said)


def check_undeclared_in_program(
    name: str, value: object, config: Mapping[str, object], hint: Callable[[str], str]
) -> None:
    """The same for the dict of a program, where an unknown name is a mistake and raises."""
    properties = {given: str(text) for given, text in config.items()}
    if not _is_known(name, str(value), properties, hint):
        said = "" if is_their_setting(name) else hint(name)
        if said or not has_own_classes(config):
            raise SettingsError(f"there is no setting {name}{said}")


def _is_known(
    name: str, value: str, properties: Mapping[str, str], hint: Callable[[str], str]
) -> bool:
    """Returns whether a setting is one of Kafka's, after it was refused or reported as idle."""
    dotted = _dotted(name)
    if not value:
        return True
    if dotted in REFUSED:
        reason, harmless = REFUSED[dotted]
        if value not in harmless:
            raise SettingsError(f"{name}={value}: {reason}; leave it out")
    elif dotted in NO_EFFECT or dotted.startswith(_PREFIXES_WITHOUT_EFFECT):
        if value not in NO_EFFECT.get(dotted, ()):
            _log.warning("%s has no effect in this client", name)
    elif dotted.startswith(_SECURITY_PREFIXES):
        _check_security(name, properties, hint)
    else:
        return False
    return True


def _check_security(name: str, properties: Mapping[str, str], hint: Callable[[str], str]) -> None:
    """Raises `SettingsError` for an unknown property of TLS or SASL: without it a connection may be
    less secure than the user believes. It is only reported beside security.protocol=PLAINTEXT.

    The message shows no values: they may be passwords."""
    dotted = {_dotted(given): value for given, value in properties.items()}
    if dotted.get("security.protocol", "").strip().upper() != "PLAINTEXT":
        raise SettingsError(f"there is no setting {name}{hint(name)}")
    _log.warning("%s has no effect with security.protocol=PLAINTEXT", name)
