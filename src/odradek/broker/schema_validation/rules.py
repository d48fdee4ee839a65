"""What a topic wants checked, from its settings."""

from dataclasses import dataclass

from odradek.config import TopicSettings
from odradek.config.schema_validation_settings import DIVERT, TOPIC_NAME, TOPIC_RECORD_NAME
from odradek.protocol.record_prefixes import Side


@dataclass(frozen=True, slots=True)
class SideRule:
    """How the keys or the values of a topic are checked."""

    side: Side
    topic: str
    strategy: str

    @property
    def needs_record_name(self) -> bool:
        """Whether the subject depends on the schema, and not on the topic alone."""
        return self.strategy != TOPIC_NAME

    def subject(self, record_name: str = "") -> str:
        """Returns the subject under which a schema must be registered."""
        if self.strategy == TOPIC_NAME:
            return f"{self.topic}-{self.side}"
        if self.strategy == TOPIC_RECORD_NAME:
            return f"{self.topic}-{record_name}"
        return record_name


@dataclass(frozen=True, slots=True)
class TopicRules:
    sides: tuple[SideRule, ...]
    decodes: bool
    diverts: bool
    dead_letter_topic: str


def rules_of(topic: str, settings: TopicSettings) -> TopicRules:
    sides = []
    if settings.confluent_key_schema_validation:
        sides.append(SideRule("key", topic, settings.confluent_key_subject_name_strategy))
    if settings.confluent_value_schema_validation:
        sides.append(SideRule("value", topic, settings.confluent_value_subject_name_strategy))
    return TopicRules(
        tuple(sides),
        decodes=settings.odradek_schema_validation_content,
        diverts=settings.odradek_schema_validation_action == DIVERT,
        dead_letter_topic=settings.odradek_schema_validation_dead_letter_topic
        or f"{topic}-dead-letters",
    )
