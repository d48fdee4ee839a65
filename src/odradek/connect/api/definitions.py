"""Declared settings as JSON, with the names that Kafka Connect gives to their parts."""

from typing import Any, Final

import msgspec

from odradek.config.setting import Setting
from odradek.connect.settings import REQUIRED, PluginSettings
from odradek.connect.validation import Described, Report, default_text


class Definition(msgspec.Struct):
    name: str
    type: str
    required: bool
    default_value: str | None
    importance: str
    documentation: str
    group: str | None
    order_in_group: int
    width: str
    display_name: str
    dependents: list[str]


class Value(msgspec.Struct):
    name: str
    value: str | None
    recommended_values: list[str]
    errors: list[str]
    visible: bool


class Config(msgspec.Struct):
    definition: Definition
    value: Value


class Validation(msgspec.Struct):
    name: str
    error_count: int
    groups: list[str]
    configs: list[Config]


_WIDTHS: Final = {"BOOLEAN": "SHORT", "INT": "SHORT", "LONG": "SHORT", "LIST": "LONG"}


def definition_of(name: str, setting: Setting[Any], group: str | None, order: int) -> Definition:
    kind = setting.kind.name
    return Definition(
        name,
        kind,
        setting.default is REQUIRED,
        default_text(setting),
        setting.importance.name,
        setting.doc,
        group,
        order,
        _WIDTHS.get(kind, "MEDIUM"),
        name,
        [],
    )


def definitions_of(settings: type[PluginSettings], group: str | None = None) -> list[Definition]:
    return [
        definition_of(setting.name, setting, group, order)
        for order, setting in enumerate(settings.declared.values(), 1)
    ]


def validation_of(report: Report) -> Validation:
    return Validation(
        report.plugin.name, len(report.errors), report.groups, list(map(_config, report.settings))
    )


def _config(found: Described) -> Config:
    return Config(
        definition_of(found.name, found.setting, found.group, found.order),
        Value(found.name, found.value, _recommended(found.setting), list(found.errors), True),
    )


def _recommended(setting: Setting[Any]) -> list[str]:
    """Returns the values of a setting that is a choice."""
    prefix = "one of "
    if not setting.expected.startswith(prefix):
        return []
    return setting.expected.removeprefix(prefix).split(", ")
