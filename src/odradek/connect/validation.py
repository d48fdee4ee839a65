"""What is right and wrong with the properties of a connector, setting by setting.

Used by the REST interface for `/config/validate`, and before a connector is made or changed.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from odradek.config.kinds import boolean, string
from odradek.config.setting import Setting
from odradek.connect import connector_settings, plugins
from odradek.connect.connector_settings import ConnectorSettings, SinkSettings, SourceSettings
from odradek.connect.errors import InvalidConfig
from odradek.connect.plugins import Plugin
from odradek.connect.settings import REQUIRED, PluginSettings, Problems, invalid
from odradek.connect.transforms.chain import properties_below

Properties = Mapping[str, str | None]

_GROUPS: Final = {
    "transforms": connector_settings.TRANSFORMS,
    "predicates": connector_settings.PREDICATES,
    "errors.": connector_settings.ERRORS,
    "topic.creation.": "Topic Creation",
    "exactly.once.": "Exactly Once Support",
    "transaction.boundary": "Exactly Once Support",
    "offsets.storage.": "offsets.topic",
}
_CONVERTERS: Final = ("key.converter", "value.converter")


@dataclass(frozen=True, slots=True)
class Described:
    """A setting with the value that it has, and what is wrong with it."""

    name: str
    setting: Setting[Any]
    group: str | None
    order: int
    value: str | None
    errors: tuple[str, ...] = ()

    @property
    def is_required(self) -> bool:
        return self.setting.default is REQUIRED


@dataclass(frozen=True, slots=True)
class Report:
    plugin: Plugin
    settings: tuple[Described, ...] = field(default=())

    @property
    def groups(self) -> list[str]:
        return list(dict.fromkeys(found.group for found in self.settings if found.group))

    @property
    def errors(self) -> list[str]:
        return [error for found in self.settings for error in found.errors]


def connector_class(properties: Properties) -> str:
    """Returns the name of the class. Raises `InvalidConfig`."""
    name = properties.get("connector.class")
    if not name:
        raise InvalidConfig(f"Connector config {dict(properties)} contains no connector type")
    return name


def settings_of(plugin: Plugin) -> type[ConnectorSettings]:
    return SourceSettings if plugin.name in plugins.SOURCES else SinkSettings


def validate(properties: Properties) -> Report:
    """Checks the properties of a connector. Raises `InvalidConfig` if its class is not known."""
    plugin = plugins.find_connector(connector_class(properties))
    common = settings_of(plugin)
    problems: Problems = {}
    for part in (common.validate(properties), plugin.settings_class.validate(properties)):
        for name, lines in part.items():
            problems.setdefault(name, []).extend(lines)
    described = [
        *_described(common, properties, _group_of),
        *_described(plugin.settings_class, properties, lambda _: None),
    ]
    for name, reason in _wrong_converters(properties):
        problems.setdefault(name, []).append(reason)
    for kind, known in (("transforms", plugins.TRANSFORMS), ("predicates", plugins.PREDICATES)):
        described += _described_plugins(kind, known, properties, problems)
    return Report(
        plugin,
        tuple(
            Described(
                found.name, found.setting, found.group, found.order, found.value,
                tuple(problems.get(found.name, ())),
            )
            for found in described
        ),
    )  # fmt: skip


def raise_for(report: Report) -> None:
    """Raises `InvalidConfig` with everything that is wrong."""
    errors = report.errors
    if errors:
        lines = "\n".join(errors)
        raise InvalidConfig(
            f"Connector configuration is invalid and contains the following {len(errors)}"
            f" error(s):\n{lines}\nYou can also find the above list of errors at the endpoint"
            f" `/connector-plugins/{report.plugin.name}/config/validate`"
        )


def _group_of(name: str) -> str | None:
    for prefix, group in _GROUPS.items():
        if name.startswith(prefix):
            return group
    return connector_settings.COMMON


def _described(
    settings: type[PluginSettings],
    properties: Properties,
    group_of: Callable[[str], str | None],
    prefix: str = "",
) -> Iterator[Described]:
    for order, setting in enumerate(settings.declared.values(), 1):
        name = f"{prefix}{setting.name}"
        yield Described(name, setting, group_of(name), order, _value(setting, properties, name))


def _value(setting: Setting[Any], properties: Properties, name: str) -> str | None:
    given = properties.get(name)
    if given is not None:
        return "[hidden]" if setting.is_sensitive else given
    return default_text(setting)


def default_text(setting: Setting[Any]) -> str | None:
    if setting.default is REQUIRED or setting.default is None:
        return None
    return setting.write(setting.default)


def _wrong_converters(properties: Properties) -> Iterator[tuple[str, str]]:
    for name in _CONVERTERS:
        given = properties.get(name)
        if given is None:
            continue
        try:
            plugins.make_converter(given, _below(f"{name}.", properties), name.partition(".")[0])
        except InvalidConfig as error:
            yield name, invalid(name, given, str(error))
    given = properties.get("header.converter")
    if given is not None and given not in plugins.HEADER_CONVERTERS:
        yield (
            "header.converter",
            invalid("header.converter", given, f"Class {given} could not be found."),
        )


class _OfTransform(PluginSettings):
    type = string("type", REQUIRED, "The class of the transform.")
    predicate = string("predicate", "", "The predicate that selects its records.")
    negate = boolean("negate", False, "Whether it works on the records that are not selected.")


class _OfPredicate(PluginSettings):
    type = string("type", REQUIRED, "The class of the predicate.")


def _described_plugins(
    kind: str, known: Mapping[str, Plugin], properties: Properties, problems: Problems
) -> Iterator[Described]:
    """Describes the settings of all transforms, or of all predicates."""
    if kind in problems:
        return
    own = _OfTransform if kind == "transforms" else _OfPredicate
    for alias in _list(properties.get(kind)):
        prefix = f"{kind}.{alias}."
        given = _below(prefix, properties)
        classes: list[type[PluginSettings]] = [own]
        try:
            classes.append(plugins.find(known, given["type"] or "").settings_class)
        except KeyError:
            pass  # Its own settings say that the type is missing.
        except InvalidConfig as error:
            problems[f"{prefix}type"] = [invalid(f"{prefix}type", given["type"], str(error))]
        for settings in classes:
            for name, lines in settings.validate(given).items():
                renamed = [line.replace(name, f"{prefix}{name}", 1) for line in lines]
                problems.setdefault(f"{prefix}{name}", []).extend(renamed)
        if kind == "transforms":
            _check_predicate(prefix, given, properties, problems)
        title = f"{kind.capitalize()}: {alias}"
        for settings in classes:
            yield from _described(settings, properties, lambda _, title=title: title, prefix)  # type: ignore[misc]


def _check_predicate(
    prefix: str, given: Properties, properties: Properties, problems: Problems
) -> None:
    predicate = given.get("predicate")
    if predicate and predicate not in _list(properties.get("predicates")):
        name = f"{prefix}predicate"
        reason = f"there is no predicate {predicate} among `predicates`"
        problems[name] = [invalid(name, predicate, reason)]


def _list(text: str | None) -> list[str]:
    return [part.strip() for part in (text or "").split(",") if part.strip()]


def _below(prefix: str, properties: Properties) -> dict[str, str | None]:
    return properties_below(
        prefix, {name: text for name, text in properties.items() if text is not None}
    )
