"""Handles properties that this client does not support: it raises an error or logs a warning.

`ClientSettings.from_properties` calls `check_undeclared` for each property that is not declared. It
raises an error where ignoring the property would deceive the user (security, Java classes).
Otherwise a warning says that the property has no effect or is unknown.
"""

import logging
from collections.abc import Callable, Mapping

from odradek.client.errors import SettingsError

_log = logging.getLogger("odradek.client")

# Settings of Kafka's clients that this client does not implement, with the reason. The values
# listed are harmless. Any other value is refused.
_REFUSED = {
    "interceptor.classes": ("interceptors are Java classes, which are not loaded", ()),
    "metric.reporters": (
        "reporters are Java classes, which are not loaded",
        ("org.apache.kafka.common.metrics.JmxReporter",),
    ),
    "security.providers": ("providers are Java classes, which are not loaded", ()),
    "config.providers": (
        "this client has no config providers: write values for ${...}",
        (),
    ),
}
# Settings of Kafka's clients that have no effect in this client. A warning says so, unless the
# value is one of those listed, which need no warning (usually Kafka's default).
_NO_EFFECT: dict[str, tuple[str, ...]] = {
    "auto.include.jmx.reporter": ("true", "false"),
    "client.dns.lookup": ("use_all_dns_ips",),
    "enable.metrics.push": ("false",),
    "metrics.num.samples": ("2",),
    "metrics.recording.level": ("INFO",),
    "metrics.sample.window.ms": ("30000",),
}
_PREFIXES_WITHOUT_EFFECT = ("config.providers.", "metrics.context.")
_SECURITY_PREFIXES = ("ssl.", "sasl.")


def check_undeclared(
    name: str, value: str, properties: Mapping[str, str], hint: Callable[[str], str]
) -> None:
    """Raises `SettingsError` for a property that must not be ignored; logs others as ignored.

    `hint` returns text with a similar name of a setting, or an empty string."""
    if not value:
        return
    if name in _REFUSED:
        reason, harmless = _REFUSED[name]
        if value not in harmless:
            raise SettingsError(f"{name}={value}: {reason}; leave it out")
    elif name.startswith(_SECURITY_PREFIXES):
        _check_security(name, properties)
    elif name in _NO_EFFECT or name.startswith(_PREFIXES_WITHOUT_EFFECT):
        if value not in _NO_EFFECT.get(name, ()):
            _log.warning("%s has no effect in this client", name)
    else:
        _log.warning("%s is not a setting of this client and is ignored%s", name, hint(name))


def _check_security(name: str, properties: Mapping[str, str]) -> None:
    """Raises `SettingsError` for a property of TLS or SASL, unless security.protocol=PLAINTEXT.

    The message shows no values: they may be passwords."""
    protocol = properties.get("security.protocol")
    if protocol is None:
        raise SettingsError(
            f"{name}: this client speaks PLAINTEXT only, without TLS and SASL; set"
            " security.protocol=PLAINTEXT to connect without them"
        )
    # Any other protocol is refused by the check of security.protocol itself.
    if protocol.strip().upper() == "PLAINTEXT":
        _log.warning("%s has no effect with security.protocol=PLAINTEXT", name)
