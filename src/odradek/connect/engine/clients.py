"""The Kafka clients of connectors: with the worker's log-in, and what a connector may change of it.

`producer.linger.ms` in the worker's file is for the producers of all sources, `consumer.` and
`admin.` likewise. A connector's `producer.override.linger.ms` wins over it, if
`connector.client.config.override.policy` in the worker's file lets it:

    All         everything (Kafka Connect's default)
    None        nothing
    Principal   the log-in: security.protocol, sasl.mechanism, sasl.jaas.config
    Allowlist   what connector.client.config.override.allowlist names
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from odradek.config.spelling import did_you_mean
from odradek.connect.settings import Problems, invalid

POLICIES: Final = ("All", "None", "Principal", "Allowlist")
_PRINCIPAL: Final = ("security.protocol", "sasl.mechanism", "sasl.jaas.config")
_KINDS: Final = ("producer", "consumer", "admin")
_OWN: Final = {
    "producer": ("transactional.id", "enable.idempotence", "acks"),
    "consumer": ("enable.auto.commit",),
    "admin": (),
}
"""What a connector may never change: exactly-once writing and the commits depend on it."""
_NAMES_CODE: Final = (
    "interceptor.classes",
    "key.deserializer",
    "key.serializer",
    "partition.assignment.strategy",
    "partitioner.class",
    "sasl.login.callback.handler.class",
    "value.deserializer",
    "value.serializer",
)
"""Settings that may name a function or a class in Python, as `module:Class`. A configuration comes
over the network, and what comes from there chooses no code."""


@dataclass(frozen=True, slots=True)
class ConnectorClients:
    """`shared` are properties of all clients; `kinds` has more for each kind."""

    shared: Mapping[str, object] = field(repr=False)
    kinds: Mapping[str, Mapping[str, object]] = field(default_factory=dict, repr=False)
    policy: str = "All"
    allowed: Sequence[str] = ()

    def producer(self, properties: Mapping[str, str]) -> dict[str, object]:
        return self._of("producer", properties)

    def consumer(self, properties: Mapping[str, str]) -> dict[str, object]:
        return self._of("consumer", properties)

    def admin(self, properties: Mapping[str, str]) -> dict[str, object]:
        return self._of("admin", properties)

    def _of(self, kind: str, properties: Mapping[str, str]) -> dict[str, object]:
        known = _declared(kind)
        shared = {name: value for name, value in self.shared.items() if name in known}
        return {**shared, **self.kinds.get(kind, {}), **_overrides(kind, properties)}

    def wrong_overrides(self, properties: Mapping[str, str | None]) -> Problems:
        """Returns what a connector may not override, by the name of its property."""
        problems: Problems = {}
        for kind in _KINDS:
            known = _declared(kind)
            for name, text in _overrides(kind, properties).items():
                reason = self._wrong(kind, name, text, known)
                if reason is not None:
                    full = f"{kind}.override.{name}"
                    problems[full] = [invalid(full, "(hidden)", reason)]
        return problems

    def _wrong(self, kind: str, name: str, text: str, known: Sequence[str]) -> str | None:
        if name not in known:
            return f"Kafka's clients have no {name}{did_you_mean(name, known)}"
        if name in _OWN[kind]:
            return "the worker depends on it"
        if name in _NAMES_CODE and ":" in text and self.policy != "Allowlist":
            return "code in Python is named by the worker's file alone, or allowed by an Allowlist"
        is_allowed = {
            "All": True,
            "None": False,
            "Principal": name in _PRINCIPAL,
            "Allowlist": name in self.allowed,
        }[self.policy]
        if is_allowed:
            return None
        return f"connector.client.config.override.policy={self.policy} does not allow it"


def _overrides(kind: str, properties: Mapping[str, str | None]) -> dict[str, str]:
    prefix = f"{kind}.override."
    return {
        name.removeprefix(prefix): text
        for name, text in properties.items()
        if name.startswith(prefix) and text is not None
    }


def _declared(kind: str) -> Sequence[str]:
    from odradek.client.settings import (  # noqa: PLC0415 - when a connector runs
        AdminSettings,
        ConsumerSettings,
        ProducerSettings,
    )
    from odradek.client.settings.shared import ClientSettings  # noqa: PLC0415

    classes: dict[str, type[ClientSettings]] = {
        "producer": ProducerSettings,
        "consumer": ConsumerSettings,
        "admin": AdminSettings,
    }
    return list(classes[kind].declared())
