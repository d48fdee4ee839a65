"""How the settings that every connector has are shown: the titles, order, widths and importance
that Kafka Connect gives them. User interfaces build their forms of that.

Settings of a connector's own class are not in a group, and have neither an order nor a width.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from odradek.config.setting import Importance

_LOW, _MEDIUM, _HIGH = Importance.LOW, Importance.MEDIUM, Importance.HIGH


@dataclass(frozen=True, slots=True)
class Look:
    """`kind` is shown in place of the setting's own; `choices` are the values that are proposed."""

    title: str
    order: int = -1
    width: str = "NONE"
    importance: Importance = _MEDIUM
    kind: str | None = None
    choices: tuple[str, ...] = ()
    default: str | None = None
    """Shown where the setting's own default is None, because another place says what is used."""


def own(name: str, importance: Importance) -> Look:
    """Returns the look of a setting of a connector's own class, or of a plug-in alone."""
    return Look(name, importance=importance)


COMMON: Final[Mapping[str, Look]] = {
    "name": Look("Connector name", 1, "MEDIUM", _HIGH),
    "connector.class": Look("Connector class", 2, "LONG", _HIGH),
    "connector.plugin.version": Look("Connector version", 3, "MEDIUM", _MEDIUM),
    "tasks.max": Look("Tasks max", 4, "SHORT", _HIGH),
    "tasks.max.enforce": Look("Enforce tasks max", 5, "SHORT", _LOW),
    "key.converter": Look("Key converter class", 6, "SHORT", _LOW, "CLASS"),
    "key.converter.plugin.version": Look("Key converter version", 7, "SHORT", _LOW),
    "value.converter": Look("Value converter class", 8, "SHORT", _LOW, "CLASS"),
    "value.converter.plugin.version": Look("Value converter version", 9, "SHORT", _LOW),
    "header.converter": Look("Header converter class", 10, "SHORT", _LOW, "CLASS"),
    "header.converter.plugin.version": Look("Header converter version", 11, "SHORT", _LOW),
    "transforms": Look("Transforms", 12, "LONG", _LOW),
    "predicates": Look("Predicates", 13, "LONG", _LOW),
    "config.action.reload": Look("Reload Action", 14, "MEDIUM", _LOW),
    "odradek.lane": Look("Lane", 15, "SHORT", _LOW, choices=("shared", "own")),
    "errors.retry.timeout": Look("Retry Timeout for Errors", 1, "MEDIUM"),
    "errors.retry.delay.max.ms": Look("Maximum Delay Between Retries for Errors", 2, "MEDIUM"),
    "errors.tolerance": Look("Error Tolerance", 3, "SHORT"),
    "errors.log.enable": Look("Log Errors", 4, "SHORT"),
    "errors.log.include.messages": Look("Log Error Details", 5, "SHORT"),
    "topic.creation.groups": Look("Topic Creation Groups", 1, "LONG", _LOW),
    "exactly.once.support": Look("Exactly once support", 2, "SHORT"),
    "transaction.boundary": Look("Transaction Boundary", 3, "SHORT"),
    "transaction.boundary.interval.ms": Look("Transaction boundary interval", 4, "SHORT", _LOW),
    "offsets.storage.topic": Look("Offsets topic", 1, "LONG", _LOW),
    "topics": Look("Topics", 4, "LONG", _HIGH),
    "topics.regex": Look("Topics regex", 4, "LONG", _HIGH),
    "errors.deadletterqueue.topic.name": Look("Dead Letter Queue Topic Name", 6, "MEDIUM"),
    "errors.deadletterqueue.topic.replication.factor": Look(
        "Dead Letter Queue Topic Replication Factor", 7, "MEDIUM", kind="SHORT"
    ),
    "errors.deadletterqueue.context.headers.enable": Look(
        "Enable Error Context Headers", 8, "MEDIUM"
    ),
}

CONVERTERS: Final[Mapping[str, Look]] = {
    "converter.type": Look("converter.type", importance=_LOW),
    "converter.encoding": Look("Encoding", -1, "MEDIUM", _HIGH),
    "schemas.enable": Look("Enable Schemas", 0, "MEDIUM", _HIGH),
    "schemas.cache.size": Look("Schema Cache Size", 1, "MEDIUM", _HIGH),
    "schema.content": Look("Schema Content", 2, "MEDIUM", _HIGH),
    "decimal.format": Look("Decimal Format", 0, "MEDIUM", _LOW),
    "replace.null.with.default": Look("Replace null with default", 1, "MEDIUM", _LOW),
}
CONVERTER_GROUPS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("schemas.enable", "schemas.cache.size", "schema.content"), "Schemas"),
    **dict.fromkeys(("decimal.format", "replace.null.with.default"), "Serialization"),
}
