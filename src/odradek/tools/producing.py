"""Makes a producer's settings from properties, for all tools that produce."""

from collections.abc import Mapping

from odradek.client.settings import ProducerSettings

_MAX_IN_ORDER = 5


def producer_settings(properties: Mapping[str, str]) -> ProducerSettings:
    """Like Kafka's clients, turns idempotence off if other settings exclude it and the user did not
    ask for it."""
    if "enable.idempotence" not in properties and (
        properties.get("acks", "all") not in {"all", "-1"}
        or properties.get("retries") == "0"
        or _number(properties.get("max.in.flight.requests.per.connection")) > _MAX_IN_ORDER
    ):
        properties = {**properties, "enable.idempotence": "false"}
    return ProducerSettings.from_properties(properties)


def _number(text: str | None) -> int:
    """Reads a number. Invalid text gives None; the check of the settings reports it by name."""
    return int(text) if text is not None and text.strip().isdecimal() else 0
