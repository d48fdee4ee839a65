"""Declared settings as JSON, with the names that Kafka Connect gives to their parts."""

from collections.abc import Iterable

import msgspec

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


def definition_of(found: Described) -> Definition:
    look, setting = found.look, found.setting
    return Definition(
        found.name,
        look.kind or setting.kind.name,
        found.is_required,
        default_text(setting, look.default),
        look.importance.name,
        setting.doc,
        found.group,
        look.order,
        look.width,
        look.title,
        [],
    )


def definitions_of(found: Iterable[Described]) -> list[Definition]:
    return list(map(definition_of, found))


def validation_of(report: Report) -> Validation:
    return Validation(
        report.plugin.name, len(report.errors), report.groups, list(map(_config, report.settings))
    )


def _config(found: Described) -> Config:
    proposed = [*found.look.choices]
    return Config(
        definition_of(found),
        Value(found.name, found.value, proposed, list(found.errors), True),
    )
