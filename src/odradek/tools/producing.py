"""Makes a producer's settings from properties, for all tools that produce."""

import logging
from collections.abc import Mapping

from odradek.client.settings import ProducerSettings
from odradek.client.settings.producer import MAX_IN_FLIGHT_WITH_IDEMPOTENCE


def report_failures_here() -> None:
    """Keeps the client from logging the records that fail: the tool reports them itself."""
    logging.getLogger("odradek.client.deliveries").setLevel(logging.CRITICAL)


def producer_settings(properties: Mapping[str, str]) -> ProducerSettings:
    """Returns the settings. If `enable.idempotence` is not set and another setting excludes
    idempotence, it is disabled, as in Kafka's clients."""
    if "enable.idempotence" not in properties and (
        properties.get("acks", "all").strip() not in {"all", "-1"}
        or properties.get("retries", "").strip() == "0"
        or _number(properties.get("max.in.flight.requests.per.connection", ""))
        > MAX_IN_FLIGHT_WITH_IDEMPOTENCE
    ):
        properties = {**properties, "enable.idempotence": "false"}
    return ProducerSettings.from_properties(properties)


def _number(text: str) -> int:
    """Returns 0 if the text is not a number: `ProducerSettings.from_properties` reports that."""
    return int(text) if text.strip().isdecimal() else 0
