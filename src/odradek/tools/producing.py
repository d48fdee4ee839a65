"""A producer's settings from properties: shared by everything that produces."""

from collections.abc import Mapping

from odradek.client.settings import ProducerSettings

_MAX_IN_ORDER = 5


def producer_settings(properties: Mapping[str, str]) -> ProducerSettings:
    """As Kafka's clients do, idempotence gives way to settings that exclude it."""
    if "enable.idempotence" not in properties and (
        properties.get("acks", "all") not in {"all", "-1"}
        or properties.get("retries") == "0"
        or _number(properties.get("max.in.flight.requests.per.connection")) > _MAX_IN_ORDER
    ):
        properties = {**properties, "enable.idempotence": "false"}
    return ProducerSettings.from_properties(properties)


def _number(text: str | None) -> int:
    """What cannot be read here is refused, by name, where settings are checked."""
    return int(text) if text is not None and text.strip().isdecimal() else 0
