"""The declaration of a setting: name, kind, default, check, scope and one line of explanation.

Brokers, topics, groups and clients declare their settings with the functions of `kinds`. A
setting of a broker or a topic is an attribute of a `Settings` class and is read from text; a
setting of a client is a field of a `ProgramSettings` class (`program_settings`) and is read from
text or taken from a keyword argument. Parsing, typed access (`settings.segment_bytes` is an `int`),
DescribeConfigs and the reference page are derived from the declaration. Values are immutable: a
change makes a new object.
"""

from collections.abc import Callable, Mapping
from enum import Enum, IntEnum
from typing import ClassVar, Generic, NamedTuple, NoReturn, Self, TypeVar, overload

from odradek.config.redaction import protect
from odradek.config.values import (
    InvalidValue,
    format_value,
    in_a_line,
)

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

MAX_INT = 2**31 - 1
MAX_LONG = 2**63 - 1


class InvalidSetting(ValueError):
    """A value that a setting does not accept; the message names the setting and the values
    that it accepts."""

    def __init__(self, name: str, value: object, reason: str) -> None:
        self.name = name
        self.value = value
        self.reason = reason
        wrong = "" if value is None else f"Invalid value {in_a_line(value)} for "
        super().__init__(f"{wrong}{in_a_line(name)}: {reason}")


class UnknownSetting(InvalidSetting):
    """There is no setting of this name; `reason` says so, and which one was probably meant."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(name, None, reason)
        self.args = (reason,)


class Kind(IntEnum):
    """The types of a setting, with the numbers DescribeConfigs gives them."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class Scope(Enum):
    """Where a setting may be changed while the broker runs."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"
    TOPIC = "topic"


class Importance(Enum):
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class Synonym(NamedTuple):
    """A broker setting that gives a topic setting its default; its unit may be larger."""

    name: str
    factor: int = 1
    at_least: int | None = None


def minutes(name: str, at_least: int | None = None) -> Synonym:
    return Synonym(name, 60_000, at_least)


def hours(name: str, at_least: int | None = None) -> Synonym:
    return Synonym(name, 3_600_000, at_least)


class Setting(Generic[T_co]):
    """One declared setting.

    It is a descriptor without `__set__`, so that the value in the instance's own dictionary
    wins and reading it costs as much as reading any attribute.
    """

    __slots__ = (
        "accept",
        "aliases",
        "attribute",
        "default",
        "doc",
        "expected",
        "importance",
        "kind",
        "name",
        "no_effect",
        "read",
        "scope",
        "synonyms",
        "write",
    )

    def __init__(
        self,
        name: str,
        kind: Kind,
        default: T_co,
        doc: str,
        *,
        read: Callable[[str], T_co],
        expected: str,
        accept: Callable[[object], T_co] | None = None,
        write: Callable[[object], str] | None = None,
        scope: Scope = Scope.READ_ONLY,
        importance: Importance = Importance.MEDIUM,
        synonyms: tuple[Synonym, ...] = (),
        aliases: tuple[str, ...] = (),
    ) -> None:
        self.name = name
        self.kind = kind
        self.default = default
        self.doc = doc
        self.read = read
        self.accept = accept
        self.expected = expected
        self.write = write or format_value
        self.scope = scope
        self.importance = importance
        self.synonyms = synonyms
        self.aliases = aliases
        # Why the setting has no effect here; empty if it has. See `without_effect`.
        self.no_effect = ""
        self.attribute = ""

    def __set_name__(self, owner: type, attribute: str) -> None:
        self.attribute = attribute

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...

    @overload
    def __get__(self, instance: object, owner: type) -> T_co: ...

    def __get__(self, instance: object | None, owner: type) -> Self | T_co:
        return self if instance is None else self.default

    @property
    def is_sensitive(self) -> bool:
        return self.kind is Kind.PASSWORD

    @property
    def full_doc(self) -> str:
        """The explanation, and the reason if the setting has no effect here."""
        return f"{self.doc} Without effect here: {self.no_effect}." if self.no_effect else self.doc

    def parse(self, text: str) -> T_co:
        if self.is_sensitive:
            protect(text)
        try:
            return self.read(text.strip())
        except ValueError as error:
            # `read` may explain the error better than `expected`.
            reason = str(error) if isinstance(error, InvalidValue) else f"must be {self.expected}"
            raise InvalidSetting(self.name, self.shown(text), reason) from None

    def check(self, value: object) -> T_co:
        """Returns the value that a program gave, as the setting keeps it.

        Raises `InvalidValue`. A setting without `accept` accepts text only.
        """
        if self.is_sensitive and isinstance(value, str):
            protect(value)
        try:
            if self.accept is not None:
                return self.accept(value)
            if isinstance(value, str):
                return self.read(value.strip())
        except ValueError as error:
            if isinstance(error, InvalidValue):
                raise
        raise InvalidValue(f"must be {self.expected}")

    def shown(self, value: object) -> object:
        """Returns the value as an error may show it: the value of a password is hidden."""
        return "(hidden)" if self.is_sensitive else value

    def text(self, value: object) -> str | None:
        """Returns the value as DescribeConfigs shows it."""
        return None if value is None else self.write(value)


def without_effect(reason: str, setting: Setting[T]) -> Setting[T]:
    """Declares a setting of Kafka that Odradek knows and does not act on, and says why.

    It is parsed, checked and described as any other, so that files and tools written for Kafka
    work. The broker names it at start if it was set to something else than its default. A test
    fails if production code reads it, and if production code does not read a setting that is
    declared without this.
    """
    setting.no_effect = reason
    return setting


class Settings:
    """A set of declared settings with their values; attributes never change."""

    declared: ClassVar[dict[str, Setting[object]]] = {}
    defaults: ClassVar[dict[str, object]] = {}

    def __init_subclass__(cls) -> None:
        declared = {
            value.name: value
            for parent in reversed(cls.__mro__)
            for value in vars(parent).values()
            if isinstance(value, Setting)
        }
        cls.declared = declared
        cls.defaults = {setting.attribute: setting.default for setting in declared.values()}

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"settings do not change in place: {name}")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"settings do not change in place: {name}")


def merge(*layers: Mapping[str, str]) -> dict[str, str]:
    """Returns the layers as one; later layers override earlier ones."""
    merged: dict[str, str] = {}
    for layer in layers:
        merged.update(layer)
    return merged
