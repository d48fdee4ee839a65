"""What is right and wrong with the properties of a connector, setting by setting.

Used by the REST interface for `/config/validate`, and before a connector is made or changed.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from odradek import __version__
from odradek.config.kinds import boolean, string
from odradek.config.setting import Importance, Setting
from odradek.connect import connector_settings, plugins, setting_looks
from odradek.connect.connector_settings import ConnectorSettings, SinkSettings, SourceSettings
from odradek.connect.converters.with_registry import CONVERTER_TYPE
from odradek.connect.errors import InvalidConfig
from odradek.connect.plugins import Plugin
from odradek.connect.setting_looks import Look
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
_VERSION: Final = "plugin.version"


@dataclass(frozen=True, slots=True)
class Described:
    """A setting with the value that it has, and what is wrong with it."""

    name: str
    setting: Setting[Any]
    group: str | None
    look: Look
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
        shown = ", ".join(f"{key}={value}" for key, value in properties.items())
        raise InvalidConfig(f"Connector config {{{shown}}} contains no connector type")
    return name


def settings_of(plugin: Plugin) -> type[ConnectorSettings]:
    return SourceSettings if plugin.name in plugins.SOURCES else SinkSettings


def validate(properties: Properties, defaults: Mapping[str, str] | None = None) -> Report:
    """Checks the properties of a connector. `defaults` are the converters of the worker's file.
    Raises `InvalidConfig` if its class is not known."""
    plugin = plugins.find_connector(connector_class(properties))
    common = settings_of(plugin)
    problems: Problems = {}
    for part in (common.validate(properties), plugin.settings_class.validate(properties)):
        for name, lines in part.items():
            problems.setdefault(name, []).extend(lines)
    described = common_settings(plugin, properties, defaults or {})
    for kind, known in (("transforms", plugins.TRANSFORMS), ("predicates", plugins.PREDICATES)):
        described += _described_plugins(kind, known, properties, problems)
    described += own_settings(plugin, properties)
    for name in _CONVERTERS:
        described += _described_converter(name, properties, problems)
    for name, reason in _wrong_converters(properties, problems):
        problems.setdefault(name, []).append(reason)
    return Report(
        plugin,
        tuple(replace(found, errors=tuple(problems.get(found.name, ()))) for found in described),
    )


def common_settings(
    plugin: Plugin, properties: Properties, defaults: Mapping[str, str]
) -> list[Described]:
    """Describes the settings that all sources or all sinks have."""
    proposed = {
        "key.converter": tuple(plugins.CONVERTERS),
        "value.converter": tuple(plugins.CONVERTERS),
        "header.converter": plugins.HEADER_CONVERTERS,
    }
    used = {"header.converter": plugins.SIMPLE_HEADERS, **defaults}
    found = []
    for setting in settings_of(plugin).declared.values():
        name = setting.name
        if name in plugin.settings_class.declared:
            continue
        look = replace(setting_looks.COMMON[name], choices=proposed.get(name, ()))
        if name.endswith(_VERSION):
            look = replace(look, choices=(plugin.version,), default=plugin.version)
        elif name in proposed:
            look = replace(look, default=used.get(name))
        value = _value(setting, properties, name, look.default)
        found.append(Described(name, setting, _group_of(name), look, value))
    return found


def own_settings(plugin: Plugin, properties: Properties) -> list[Described]:
    """Describes the settings of the connector's own class."""
    return [*described(plugin.settings_class, properties, None)]


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


def described(
    settings: type[PluginSettings], properties: Properties, group: str | None, prefix: str = ""
) -> Iterator[Described]:
    for setting in settings.declared.values():
        name = f"{prefix}{setting.name}"
        look = setting_looks.own(setting.name, setting.importance)
        look = replace(look, choices=_choices(setting))
        yield Described(name, setting, group, look, _value(setting, properties, name))


def _choices(setting: Setting[Any]) -> tuple[str, ...]:
    """Returns the values of a setting that is a choice."""
    prefix = "one of "
    if not setting.expected.startswith(prefix):
        return ()
    return tuple(setting.expected.removeprefix(prefix).split(", "))


def _described_converter(
    name: str, properties: Properties, problems: Problems
) -> Iterator[Described]:
    """Describes the settings of a converter that the connector names."""
    given = {**_below(f"{name}.", properties), CONVERTER_TYPE: name.partition(".")[0]}
    try:
        settings = plugins.converter_settings(properties.get(name) or "")
    except InvalidConfig:
        return  # The name of the class is wrong, and its own setting says so.
    for wrong, lines in settings.validate(given).items():
        problems.setdefault(f"{name}.{wrong}", []).extend(lines)
    for found in converter_settings(properties.get(name) or "", given):
        yield replace(found, name=f"{name}.{found.name}")


def converter_settings(name: str, properties: Properties | None = None) -> Iterator[Described]:
    """Describes the settings of a converter. Raises `InvalidConfig` if there is none."""
    for setting in plugins.converter_settings(name).declared.values():
        yield Described(
            setting.name,
            setting,
            setting_looks.CONVERTER_GROUPS.get(setting.name),
            setting_looks.CONVERTERS[setting.name],
            _value(setting, properties or {}, setting.name),
        )


def _value(
    setting: Setting[Any], properties: Properties, name: str, default: str | None = None
) -> str | None:
    given = properties.get(name)
    if given is not None:
        return "[hidden]" if setting.is_sensitive else given
    return default_text(setting, default)


def default_text(setting: Setting[Any], otherwise: str | None = None) -> str | None:
    """Returns the default as text, and `otherwise` if there is none."""
    if setting.default is REQUIRED or setting.default is None:
        return otherwise
    return setting.write(setting.default)


def _wrong_converters(properties: Properties, problems: Problems) -> Iterator[tuple[str, str]]:
    for name in _CONVERTERS:
        given = properties.get(name)
        if given is None or any(found.startswith(f"{name}.") for found in problems):
            continue
        try:
            plugins.make_converter(given, _below(f"{name}.", properties), name.partition(".")[0])
        except InvalidConfig as error:
            yield name, invalid(name, given, str(error))
    given = properties.get("header.converter")
    short = {name.rpartition(".")[2] for name in plugins.HEADER_CONVERTERS}
    if given is not None and given not in {*plugins.HEADER_CONVERTERS, *short}:
        yield (
            "header.converter",
            invalid("header.converter", given, f"Class {given} could not be found."),
        )


class _OfPredicate(PluginSettings):
    type = string("type", REQUIRED, "The class.", importance=Importance.HIGH)
    version = string(
        _VERSION, None, "The version of the class; the one that is installed, or nothing."
    )


class _Selecting(PluginSettings):
    """What all transforms have."""

    predicate = string("predicate", None, "The predicate that selects its records.")
    negate = boolean("negate", False, "Whether it works on the records that are not selected.")


def _described_plugins(
    kind: str, known: Mapping[str, Plugin], properties: Properties, problems: Problems
) -> Iterator[Described]:
    """Describes the settings of all transforms, or of all predicates."""
    for alias in dict.fromkeys(_list(properties.get(kind))):
        prefix = f"{kind}.{alias}."
        given = _below(prefix, properties)
        classes: list[type[PluginSettings]] = [_OfPredicate]
        if kind == "transforms":
            classes.append(_Selecting)
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
        for look, setting in zip(
            _looks_of(kind, alias, known), _OfPredicate.declared.values(), strict=True
        ):
            value = _value(setting, properties, f"{prefix}{setting.name}", look.default)
            yield Described(f"{prefix}{setting.name}", setting, title, look, value)
        own = [
            found
            for settings in classes[1:]
            for found in described(settings, properties, title, prefix)
        ]
        own.sort(key=_rank)
        for order, found in enumerate(own, 2):
            yield replace(found, look=replace(found.look, order=order))


def _rank(found: Described) -> tuple[bool, int, str]:
    """Settings come in this order: without a default, by importance, by name."""
    return not found.is_required, [*Importance].index(found.look.importance), found.name


def _looks_of(kind: str, alias: str, known: Mapping[str, Plugin]) -> tuple[Look, Look]:
    """Returns how the class of a transform or predicate is shown, and its version."""
    word = "Transformation" if kind == "transforms" else "Predicate"
    high = Importance.HIGH
    versions = (__version__,)
    return (
        Look(f"{word} type for {alias}", 0, "LONG", high, "CLASS", tuple(known)),
        Look(f"{word} version for {alias}", 1, "LONG", high, None, versions, __version__),
    )


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
