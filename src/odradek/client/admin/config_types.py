"""The parameters and results of admin calls about settings."""

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple, Self

from odradek.client.admin.topic_types import SettingValue
from odradek.config.operation import ConfigOperation
from odradek.protocol.messages.describe_configs import DescribeConfigsResourceResult


class ConfigType(IntEnum):
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigResource(NamedTuple):
    """A resource that has settings. A broker with an empty name is the default of all brokers."""

    type: ConfigType
    name: str


class ConfigSource(IntEnum):
    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    CLIENT_METRICS_CONFIG = 7
    GROUP_CONFIG = 8

    @classmethod
    def _missing_(cls, value: object) -> "ConfigSource":
        return cls.UNKNOWN


class ConfigSynonym(NamedTuple):
    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """A setting as a broker describes it."""

    name: str
    value: str | None
    source: ConfigSource
    is_read_only: bool
    is_sensitive: bool
    type: int
    synonyms: tuple[ConfigSynonym, ...]
    documentation: str | None

    @classmethod
    def from_answer(cls, answer: DescribeConfigsResourceResult) -> Self:
        return cls(
            name=answer.name,
            value=answer.value,
            source=ConfigSource(answer.config_source),
            is_read_only=answer.read_only,
            is_sensitive=answer.is_sensitive,
            type=answer.config_type,
            synonyms=tuple(
                ConfigSynonym(synonym.name, synonym.value, ConfigSource(synonym.source))
                for synonym in answer.synonyms
            ),
            documentation=answer.documentation,
        )

    @property
    def is_default(self) -> bool:
        return self.source is ConfigSource.DEFAULT_CONFIG


class ConfigChange(NamedTuple):
    name: str
    value: SettingValue = None
    operation: ConfigOperation = ConfigOperation.SET
