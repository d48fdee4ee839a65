"""RegexRouter and TimestampRouter: the transforms that choose another topic."""

import re
from dataclasses import replace
from typing import ClassVar

from odradek.config.kinds import string
from odradek.config.setting import Importance
from odradek.connect.data.values import ms_to_timestamp
from odradek.connect.errors import DataError, InvalidConfig
from odradek.connect.settings import REQUIRED, PluginSettings, Problems, invalid
from odradek.connect.transforms.java_dates import JavaDateFormat
from odradek.connect.transforms.java_patterns import java_pattern, java_replacement
from odradek.connect.transforms.transform import R


class RegexRouterSettings(PluginSettings):
    regex = string(
        "regex",
        REQUIRED,
        "The pattern that the whole name of a topic must match.",
        importance=Importance.HIGH,
    )
    replacement = string(
        "replacement",
        REQUIRED,
        "The new name; $1 stands for the first group of the pattern.",
        importance=Importance.HIGH,
    )

    def wrong_together(self) -> Problems:
        try:
            java_replacement(self.replacement, java_pattern(self.regex))
        except InvalidConfig as error:
            return {"regex": [invalid("regex", self.regex, str(error))]}
        return {}


class RegexRouter:
    settings_class: ClassVar = RegexRouterSettings

    def __init__(self, settings: RegexRouterSettings) -> None:
        self._pattern = java_pattern(settings.regex)
        self._replacement = java_replacement(settings.replacement, self._pattern)

    def apply(self, record: R) -> R | None:
        match = self._pattern.fullmatch(record.topic)
        if match is None:
            return record
        # Java replaces the first match, which is the whole name.
        return replace(record, topic=self._replacement(match))


class TimestampRouterSettings(PluginSettings):
    topic_format = string(
        "topic.format",
        "${topic}-${timestamp}",
        "The new name, with ${topic} and ${timestamp} in it.",
        importance=Importance.HIGH,
    )
    timestamp_format = string(
        "timestamp.format",
        "yyyyMMdd",
        "How ${timestamp} is written, by Java's SimpleDateFormat.",
        importance=Importance.HIGH,
    )

    def wrong_together(self) -> Problems:
        try:
            JavaDateFormat(self.timestamp_format)
        except InvalidConfig as error:
            name = "timestamp.format"
            return {name: [invalid(name, self.timestamp_format, str(error))]}
        return {}


class TimestampRouter:
    settings_class: ClassVar = TimestampRouterSettings

    def __init__(self, settings: TimestampRouterSettings) -> None:
        self._topic_format = settings.topic_format
        self._format = JavaDateFormat(settings.timestamp_format)

    def apply(self, record: R) -> R | None:
        if record.timestamp_ms is None:
            raise DataError(f"Timestamp missing on record: {record.topic}")
        written = self._format.text(ms_to_timestamp(record.timestamp_ms))
        values = {"topic": record.topic, "timestamp": written}
        name = re.sub(
            r"\$\{(topic|timestamp)\}", lambda match: values[match[1]], self._topic_format
        )
        return replace(record, topic=name)
