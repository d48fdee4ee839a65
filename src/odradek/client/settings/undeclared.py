"""Properties of Kafka's clients that this client does not obey: refused, or announced in the log.

`ClientSettings.from_properties` calls `judge` for each property that is not declared. A property is
refused where ignoring it would deceive the user (security, Java classes); otherwise a warning says
that it has no effect or is unknown.
"""

import logging
from collections.abc import Callable, Mapping

from odradek.client.errors import SettingsError

_log = logging.getLogger("odradek.client")

# Settings of Kafka's clients that this client does not implement, with the reason. Any value except
# those listed, which ask for nothing, is refused.
_REFUSED = {
    "interceptor.classes": ("interceptors are Java classes, which are not loaded", ()),
    "metric.reporters": (
        "reporters are Java classes, which are not loaded",
        ("org.apache.kafka.common.metrics.JmxReporter",),
    ),
    "security.providers": ("providers are Java classes, which are not loaded", ()),
    "config.providers": ("values are not looked up: write them into the file", ()),
}
# Settings of Kafka's clients that change nothing here. A warning says so, unless the value is one
# of those listed, which is what this client does anyway.
_NO_EFFECT = {
    "auto.include.jmx.reporter": ("true", "false"),
    "client.dns.lookup": ("use_all_dns_ips",),
    "config.providers.": (),
    "enable.metrics.push": ("false",),
    "metrics.num.samples": ("2",),
    "metrics.recording.level": ("INFO",),
    "metrics.sample.window.ms": ("30000",),
    "metrics.context.": (),
}
_SECURITY = ("ssl.", "sasl.")


def judge(name: str, value: str, properties: Mapping[str, str], hint: Callable[[str], str]) -> None:
    """Refuses or announces a property that is not a setting of this client."""
    if not value:
        return
    if name in _REFUSED:
        reason, harmless = _REFUSED[name]
        if value not in harmless:
            raise SettingsError(f"{name}={value}: {reason}; leave it out")
    elif name.startswith(_SECURITY):
        _judge_security(name, properties)
    elif idle := [usual for known, usual in _NO_EFFECT.items() if name.startswith(known)]:
        if value not in idle[0]:
            _log.warning("%s has no effect in this client", name)
    else:
        _log.warning("%s is not a setting of this client and is ignored%s", name, hint(name))


def _judge_security(name: str, properties: Mapping[str, str]) -> None:
    """Values are not shown: they may be passwords."""
    protocol = properties.get("security.protocol")
    if protocol is None:
        raise SettingsError(
            f"{name}: this client speaks PLAINTEXT only, without TLS and SASL; set"
            " security.protocol=PLAINTEXT if that is meant"
        )
    # Any other protocol is refused by the check of security.protocol itself.
    if protocol.strip().upper() == "PLAINTEXT":
        _log.warning("%s has no effect with security.protocol=PLAINTEXT", name)
