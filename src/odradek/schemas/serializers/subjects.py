"""The subject under which the schema of a record is registered: three strategies, and one's own.

    topic_subject_name_strategy          clicks-value            one schema for a topic
    record_subject_name_strategy         shop.Click              one for a type, in all topics
    topic_record_subject_name_strategy   clicks-shop.Click       several types in a topic

A strategy is a function of the `SerializationContext` and the full name of the record.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any, Final

from odradek.schemas.errors import BadPayload, BadSetting

# Contexts of confluent-kafka are accepted too, and None where the topic does not matter.
Strategy = Callable[[Any, str | None], str | None]


def topic_subject_name_strategy(context: Any, record_name: str | None) -> str | None:
    if context is None:
        raise BadPayload(
            "the subject has the topic in its name: give a SerializationContext with the topic"
        )
    return f"{context.topic}-{context.field}"


def record_subject_name_strategy(context: Any, record_name: str | None) -> str | None:
    return record_name


def topic_record_subject_name_strategy(context: Any, record_name: str | None) -> str | None:
    if context is None:
        raise BadPayload(
            "the subject has the topic in its name: give a SerializationContext with the topic"
        )
    return None if record_name is None else f"{context.topic}-{record_name}"


_NAMED: Final[dict[str, Strategy]] = {
    "TOPIC": topic_subject_name_strategy,
    "RECORD": record_subject_name_strategy,
    "TOPIC_RECORD": topic_record_subject_name_strategy,
    "TopicNameStrategy": topic_subject_name_strategy,
    "RecordNameStrategy": record_subject_name_strategy,
    "TopicRecordNameStrategy": topic_record_subject_name_strategy,
}


def strategy_of(name: str, given: object) -> Strategy:
    """Returns the strategy that the setting `name` gives: a function, one of the names above,
    Confluent's Java class, or `module:function`."""
    if callable(given):
        return given
    text = str(given)
    known = _NAMED.get(text.rpartition(".")[2]) or _NAMED.get(text.upper())
    if known is not None:
        return known
    module, colon, function = text.partition(":")
    if colon:
        try:
            found: Strategy = getattr(import_module(module), function)
        except (ImportError, AttributeError) as error:
            raise BadSetting(f"{name}={text}: {error}") from None
        return found
    raise BadSetting(
        f"{name}={text} must be TopicNameStrategy, RecordNameStrategy, TopicRecordNameStrategy, or"
        " a function of yours as module:function"
    )


def subject_of(strategy: Strategy, context: Any, record_name: str | None) -> str:
    subject = strategy(context, record_name)
    if not subject:
        raise BadPayload(
            "the strategy for subjects needs the name of a record, and this schema has none: use"
            " TopicNameStrategy, or give the schema a name (a title in JSON Schema)"
        )
    return subject
