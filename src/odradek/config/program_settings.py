"""Settings that a program gives as keyword arguments, or a user as Kafka's properties.

The client and the HTTP services declare their settings in this way. Those of a broker have
layers and are in `broker_settings`. An example:

    @dataclass(frozen=True, kw_only=True)
    class ProducerSettings(ClientSettings):
        linger_ms: int = option(long("linger.ms", 5, "How long ...", at_least=0))

The field has the setting's name with underscores instead of dots. From this one declaration follow
the keyword arguments with their types, the reading of properties, the checks and the documentation.

Invariant: an instance holds only values that passed their checks.
"""

from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields
from typing import Any, ClassVar, NoReturn, Self

from odradek.config.setting import Setting
from odradek.config.spelling import did_you_mean
from odradek.config.values import InvalidValue

_SETTING = "setting"
# What `ProgramSettings._declared` found: every client that is made asks several times.
_declared_by_class: dict[type[Any], Mapping[str, Field[Any]]] = {}
# The fields whose default passed its check and stayed as it is. Most settings of most clients have
# their defaults, which need not be checked again.
_kept_defaults: set[Field[Any]] = set()


def option(setting: Setting[Any]) -> Any:
    """Makes a declared setting a field of a `ProgramSettings` class.

    The field's annotation is what programs may give, which is narrower than what is read from
    text: choices are literals. So the type of the default is not compared with it. The value of a
    password is left out of the `repr` of the class.
    """
    return field(
        default=setting.default, metadata={_SETTING: setting}, repr=not setting.is_sensitive
    )


@dataclass(frozen=True, kw_only=True)
class ProgramSettings:
    """The base of the classes of settings. The subclasses have a field for each setting.

    `error_class` is what a subclass raises for a wrong name or value.
    """

    error_class: ClassVar[type[InvalidValue]] = InvalidValue

    def __post_init__(self) -> None:
        for item in self._declared().values():
            given = getattr(self, item.name)
            if given is item.default and item in _kept_defaults:
                continue
            setting: Setting[object] = item.metadata[_SETTING]
            try:
                value = setting.check(given)
            except InvalidValue as error:
                self._refuse(setting, given, error)
            object.__setattr__(self, item.name, value)
            if given is item.default is value and not setting.is_sensitive:
                _kept_defaults.add(item)
        self._check_together()

    def _check_together(self) -> None:
        """Checks what depends on more than one setting; raises `error_class`."""

    @classmethod
    def from_options(cls, options: Mapping[str, object]) -> Self:
        """Makes the settings from keyword arguments. Raises `error_class` for an unknown name.

        Kafka's names with dots are taken too: `Producer(**{"linger.ms": 5})`.
        """
        field_names = {item.name for item in cls._declared().values()}
        named = {name.replace(".", "_"): value for name, value in options.items()}
        if unknown := sorted(name for name in named if name not in field_names):
            hint = cls._as_keywords(cls.hint(unknown[0]))
            raise cls.error_class(
                f"unknown setting {', '.join(unknown)}: see {cls.__name__} for the names{hint}"
            )
        return cls(**named)

    @classmethod
    def from_config(cls, config: Mapping[str, object]) -> Self:
        """Makes the settings from a program's dict, with Kafka's names and values of any type.

        Text is read as in a properties file, so `"linger.ms": "5"` and `"linger.ms": 5` are equal.
        """
        declared = cls._declared()
        options: dict[str, object] = {}
        for given_name, value in config.items():
            item = declared.get(given_name.replace("_", "."))
            if item is None:
                cls.undeclared_in_program(given_name, value, config)
                continue
            setting: Setting[object] = item.metadata[_SETTING]
            if isinstance(value, str):
                try:
                    value = setting.read(value.strip())  # noqa: PLW2901 - the same value, read
                except ValueError as error:
                    cls._refuse(setting, value, error)
            options[item.name] = value
        return cls.from_options(options)

    @classmethod
    def from_properties(cls, properties: Mapping[str, str], **overrides: object) -> Self:
        """Makes the settings from Kafka's dotted names and text values.

        `overrides` are keyword arguments that win over the properties.
        """
        return cls.from_options(cls.read_properties(properties) | overrides)

    @classmethod
    def read_properties(cls, properties: Mapping[str, str]) -> dict[str, object]:
        """Returns the properties as keyword arguments.

        Nothing is dropped in silence: `undeclared` is called for a name that is not declared.
        """
        declared = cls._declared()
        options: dict[str, object] = {}
        for name, text in properties.items():
            item = declared.get(name)
            if item is None:
                cls.undeclared(name, text.strip(), properties)
                continue
            setting: Setting[object] = item.metadata[_SETTING]
            try:
                options[item.name] = setting.read(text.strip())
            except ValueError as error:
                cls._refuse(setting, text, error)
        return options

    @classmethod
    def undeclared(cls, name: str, text: str, properties: Mapping[str, str]) -> None:
        """Called for a property that is not declared; refuses it unless a subclass overrides it."""
        raise cls.error_class(f"there is no setting {name}{cls.hint(name)}")

    @classmethod
    def undeclared_in_program(cls, name: str, value: object, config: Mapping[str, object]) -> None:
        """Called for a name in a program's dict that is not declared; refuses it."""
        raise cls.error_class(f"there is no setting {name}{cls.hint(name)}")

    @classmethod
    def hint(cls, name: str) -> str:
        """Returns the end of a sentence about an unknown name: the one that was probably meant."""
        return did_you_mean(name, cls._declared())

    @classmethod
    def describe(cls) -> list[tuple[str, object, str]]:
        """Returns Kafka's name, the default and the documentation of each setting."""
        return [
            (name, item.default, item.metadata[_SETTING].doc)
            for name, item in cls._declared().items()
        ]

    @classmethod
    def _as_keywords(cls, text: str) -> str:
        """Returns a text in which the names of settings are those of keyword arguments."""
        for name in sorted(cls._declared(), key=len, reverse=True):
            text = text.replace(name, name.replace(".", "_"))
        return text

    @classmethod
    def declared(cls) -> dict[str, Setting[Any]]:
        """Returns the settings by Kafka's name."""
        return {name: item.metadata[_SETTING] for name, item in cls._declared().items()}

    @classmethod
    def _declared(cls) -> Mapping[str, Field[Any]]:
        """Returns the fields that are settings; a class may have others."""
        declared = _declared_by_class.get(cls)
        if declared is None:
            declared = _declared_by_class[cls] = {
                item.metadata[_SETTING].name: item
                for item in fields(cls)
                if _SETTING in item.metadata
            }
        return declared

    @classmethod
    def _refuse(cls, setting: Setting[object], given: object, error: ValueError) -> NoReturn:
        reason = str(error) if isinstance(error, InvalidValue) else f"must be {setting.expected}"
        raise cls.error_class(f"{setting.name}={setting.shown(given)!r}: {reason}") from None
