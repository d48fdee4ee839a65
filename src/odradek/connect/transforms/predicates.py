"""The predicates of Kafka Connect: HasHeaderKey, RecordIsTombstone and TopicNameMatches."""

from typing import ClassVar

from odradek.config.kinds import string
from odradek.connect.errors import InvalidConfig
from odradek.connect.records import Record
from odradek.connect.settings import REQUIRED, PluginSettings, Problems, invalid
from odradek.connect.transforms.java_patterns import java_pattern


class HasHeaderKeySettings(PluginSettings):
    name = string("name", REQUIRED, "The name of the header.", may_be_empty=False)


class HasHeaderKey:
    settings_class: ClassVar = HasHeaderKeySettings

    def __init__(self, settings: HasHeaderKeySettings) -> None:
        self._name = settings.name

    def test(self, record: Record) -> bool:
        return any(header.name == self._name for header in record.headers)


class RecordIsTombstoneSettings(PluginSettings):
    pass


class RecordIsTombstone:
    settings_class: ClassVar = RecordIsTombstoneSettings

    def __init__(self, settings: RecordIsTombstoneSettings) -> None:
        pass

    def test(self, record: Record) -> bool:
        return record.value is None


class TopicNameMatchesSettings(PluginSettings):
    pattern = string(
        "pattern",
        REQUIRED,
        "The pattern that the whole name of the topic must match.",
        may_be_empty=False,
    )

    def wrong_together(self) -> Problems:
        try:
            java_pattern(self.pattern)
        except InvalidConfig as error:
            return {"pattern": [invalid("pattern", self.pattern, str(error))]}
        return {}


class TopicNameMatches:
    settings_class: ClassVar = TopicNameMatchesSettings

    def __init__(self, settings: TopicNameMatchesSettings) -> None:
        self._pattern = java_pattern(settings.pattern)

    def test(self, record: Record) -> bool:
        return self._pattern.fullmatch(record.topic) is not None
