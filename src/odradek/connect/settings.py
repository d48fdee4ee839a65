"""How plug-ins (connectors, transforms, predicates, converters) declare their settings.

    class RouterSettings(PluginSettings):
        regex = string("regex", REQUIRED, "The pattern ...")
        replacement = string("replacement", REQUIRED, "What ...")

The declarations are those of all settings in Odradek (`config.kinds`). From them come the values,
and what validation says of each setting, in the words of Kafka Connect.
"""

from collections.abc import Mapping
from typing import Any, Final, Self, cast

from odradek.config.setting import InvalidSetting, Setting, Settings
from odradek.config.spelling import Speller
from odradek.config.values import in_a_line
from odradek.connect.errors import InvalidConfig


class _Required:
    """The default of a setting that has none."""

    def __repr__(self) -> str:
        return "REQUIRED"


REQUIRED: Final = cast("Any", _Required())

Problems = dict[str, list[str]]
"""What is wrong, by the name of the setting."""


class PluginSettings(Settings):
    """Values are attributes. Names that are not declared are ignored, as Kafka Connect does: a
    connector's properties are those of several plug-ins."""

    def __init__(self, values: Mapping[str, object]) -> None:
        self.__dict__.update(self.defaults)
        self.__dict__.update(values)

    @classmethod
    def read(cls, properties: Mapping[str, str | None]) -> Self:
        """Raises `InvalidConfig`, which names everything that is wrong."""
        values, problems = cls._parsed(properties)
        if problems:
            raise InvalidConfig(" ".join(line for lines in problems.values() for line in lines))
        found = cls(values)
        cls._raise_for(found.wrong_together())
        return found

    @classmethod
    def validate(cls, properties: Mapping[str, str | None]) -> Problems:
        """Returns what is wrong with these properties."""
        values, problems = cls._parsed(properties)
        return problems or cls(values).wrong_together()

    @classmethod
    def takes(cls, name: str) -> bool:
        """Whether this is the name of a setting that no declaration has, because a part of it is
        the user's. For subclasses."""
        return False

    def wrong_together(self) -> Problems:
        """Returns what is wrong with values that are right each by itself. For subclasses."""
        return {}

    @classmethod
    def _raise_for(cls, problems: Problems) -> None:
        if problems:
            raise InvalidConfig(" ".join(line for lines in problems.values() for line in lines))

    @classmethod
    def _parsed(cls, properties: Mapping[str, str | None]) -> tuple[dict[str, object], Problems]:
        values: dict[str, object] = {}
        problems: Problems = {}
        for setting in cls.declared.values():
            text = _given(setting, properties)
            if text is None:
                if setting.default is REQUIRED:
                    near = cls._nearest(setting.name, properties)
                    problems[setting.name] = [missing(setting.name, near)]
                continue
            try:
                values[setting.attribute] = setting.parse(text)
            except InvalidSetting as error:
                problems[setting.name] = [invalid(setting.name, setting.shown(text), error.reason)]
        return values, problems

    @classmethod
    def _nearest(cls, name: str, properties: Mapping[str, str | None]) -> str | None:
        """Returns the property that is probably meant to be this setting, and is misspelt."""
        return Speller(
            given
            for given, text in properties.items()
            if text is not None and given not in cls.declared
        ).nearest(name)


def _given(setting: Setting[object], properties: Mapping[str, str | None]) -> str | None:
    for name in (setting.name, *setting.aliases):
        if properties.get(name) is not None:
            return properties[name]
    return None


def not_empty(names: tuple[str, ...]) -> str | None:
    """A check for lists that need an element."""
    return None if names else "it must not be empty"


def missing(name: str, near: str | None = None) -> str:
    """`near` is a property that is probably meant to be it."""
    said = f'Missing required configuration "{name}" which has no default value.'
    return f"{said} Is {in_a_line(near)} meant to be it?" if near else said


def invalid(name: str, value: object, reason: str) -> str:
    return f"Invalid value {in_a_line(value)} for configuration {name}: {reason}"
