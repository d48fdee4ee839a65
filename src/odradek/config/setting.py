"""The declaration of a setting: name, kind, default, check, scope and one line of explanation.

Brokers, topics, groups and clients declare their settings with the functions of this module. A
setting of a broker or a topic is an attribute of a `Settings` class and is read from text; a
setting of a client is a field of a `ProgramSettings` class (`program_settings`) and is read from
text or taken from a keyword argument. Everything else follows from the declaration: parsing, typed
access (`settings.segment_bytes` is an `int`), DescribeConfigs and the reference page. Values are
immutable: a change makes a new object.
"""

import math
from collections.abc import Callable, Mapping
from enum import Enum, IntEnum
from typing import ClassVar, Generic, NamedTuple, NoReturn, Self, TypeVar, cast, overload

from odradek.config.values import (
    InvalidValue,
    format_value,
    in_a_line,
    parse_boolean,
    parse_integer,
    parse_list,
)

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
Default = TypeVar("Default")
Whole = TypeVar("Whole", bound=int | None)
Text = TypeVar("Text", bound=str | None)
Names = TypeVar("Names", bound=tuple[str, ...] | None)

MAX_INT = 2**31 - 1
MAX_LONG = 2**63 - 1


class InvalidSetting(ValueError):
    """A value that a setting does not take; the message names the setting and what it takes."""

    def __init__(self, name: str, value: object, reason: str) -> None:
        self.name = name
        self.value = value
        self.reason = reason
        super().__init__(f"Invalid value {in_a_line(value)} for {in_a_line(name)}: {reason}")


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
    """A broker setting that gives a topic setting its default, perhaps in a larger unit."""

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
        "also",
        "attribute",
        "default",
        "doc",
        "importance",
        "kind",
        "name",
        "no_effect",
        "read",
        "scope",
        "synonyms",
        "takes",
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
        takes: str,
        accept: Callable[[object], T_co] | None = None,
        write: Callable[[object], str] | None = None,
        scope: Scope = Scope.READ_ONLY,
        importance: Importance = Importance.MEDIUM,
        synonyms: tuple[Synonym, ...] = (),
        also: tuple[str, ...] = (),
    ) -> None:
        self.name = name
        self.kind = kind
        self.default = default
        self.doc = doc
        self.read = read
        self.accept = accept
        self.takes = takes
        self.write = write or format_value
        self.scope = scope
        self.importance = importance
        self.synonyms = synonyms
        self.also = also
        # Why setting it changes nothing here; empty where it does. See `without_effect`.
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
        """The explanation, and why the setting has no effect where it has none."""
        return f"{self.doc} Without effect here: {self.no_effect}." if self.no_effect else self.doc

    def parse(self, text: str) -> T_co:
        try:
            return self.read(text.strip())
        except ValueError as error:
            # A reader may know better than the general rule what is wrong.
            reason = str(error) if isinstance(error, InvalidValue) else f"it takes {self.takes}"
            raise InvalidSetting(self.name, self.shown(text), reason) from None

    def check(self, value: object) -> T_co:
        """Returns the value that a program gave, as the setting keeps it.

        Raises `InvalidValue`. A setting without a rule for the values of programs takes text.
        """
        try:
            if self.accept is not None:
                return self.accept(value)
            if isinstance(value, str):
                return self.read(value.strip())
        except ValueError as error:
            if isinstance(error, InvalidValue):
                raise
        raise InvalidValue(f"must be {self.takes}")

    def shown(self, value: object) -> object:
        """Returns the value as an error may show it: the value of a password is hidden."""
        return "(hidden)" if self.is_sensitive else value

    def text(self, value: object) -> str | None:
        """The value as DescribeConfigs shows it."""
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


# The kinds of settings. Their `read` raises a plain ValueError where `takes` says what is wrong.


def _read_boolean(text: str) -> bool:
    try:
        return parse_boolean(text)
    except InvalidValue:
        raise ValueError(text) from None


def _accept_boolean(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError(value)
    return value


def boolean(
    name: str,
    default: bool,
    doc: str,
    *,
    scope: Scope = Scope.READ_ONLY,
    importance: Importance = Importance.MEDIUM,
    synonyms: tuple[Synonym, ...] = (),
) -> Setting[bool]:
    return Setting(
        name,
        Kind.BOOLEAN,
        default,
        doc,
        read=_read_boolean,
        accept=_accept_boolean,
        takes="true or false",
        scope=scope,
        importance=importance,
        synonyms=synonyms,
    )


_LIMITS = {Kind.SHORT: 2**15 - 1, Kind.INT: MAX_INT, Kind.LONG: MAX_LONG}


def integer(
    name: str,
    default: Whole,
    doc: str,
    *,
    at_least: int | None = None,
    at_most: int | None = None,
    besides: int | None = None,
    kind: Kind = Kind.INT,
    scope: Scope = Scope.READ_ONLY,
    importance: Importance = Importance.MEDIUM,
    synonyms: tuple[Synonym, ...] = (),
    also: tuple[str, ...] = (),
) -> Setting[int | Whole]:
    """`besides` is one more number that is allowed, outside the range."""
    limit = _LIMITS[kind]
    lowest = -limit - 1 if at_least is None else at_least
    highest = limit if at_most is None else at_most

    def accept(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise ValueError(value)
        if not lowest <= value <= highest and value != besides:
            raise ValueError(value)
        return value

    def read(text: str) -> int:
        try:
            return accept(parse_integer(text))
        except InvalidValue:
            raise ValueError(text) from None

    takes = _range("a whole number", at_least, highest)
    return Setting(
        name,
        kind,
        default,
        doc,
        read=read,
        accept=accept,
        takes=takes if besides is None else f"{takes}, or {besides}",
        scope=scope,
        importance=importance,
        synonyms=synonyms,
        also=also,
    )


def long(
    name: str,
    default: Whole,
    doc: str,
    *,
    at_least: int | None = None,
    at_most: int | None = None,
    scope: Scope = Scope.READ_ONLY,
    importance: Importance = Importance.MEDIUM,
    synonyms: tuple[Synonym, ...] = (),
) -> Setting[int | Whole]:
    return integer(
        name,
        default,
        doc,
        at_least=at_least,
        at_most=at_most,
        kind=Kind.LONG,
        scope=scope,
        importance=importance,
        synonyms=synonyms,
    )


def decimal(
    name: str,
    default: float,
    doc: str,
    *,
    at_least: float = -math.inf,
    at_most: float = math.inf,
    scope: Scope = Scope.READ_ONLY,
    importance: Importance = Importance.MEDIUM,
    synonyms: tuple[Synonym, ...] = (),
) -> Setting[float]:
    def read(text: str) -> float:
        value = float(text)
        if not at_least <= value <= at_most:
            raise ValueError(text)
        return value

    return Setting(
        name,
        Kind.DOUBLE,
        default,
        doc,
        read=read,
        takes=_range(
            "a number",
            None if at_least == -math.inf else at_least,
            at_most if at_most != math.inf else MAX_LONG,
        ),
        scope=scope,
        importance=importance,
        synonyms=synonyms,
    )


def _range(noun: str, lowest: float | None, highest: float) -> str:
    bounded = highest not in (MAX_INT, MAX_LONG, 2**15 - 1)
    if lowest is None:
        return f"{noun} up to {highest}" if bounded else noun
    return f"{noun} from {lowest} to {highest}" if bounded else f"{noun} of at least {lowest}"


def string(
    name: str,
    default: Text,
    doc: str,
    *,
    choices: tuple[str, ...] = (),
    folds_case: bool = False,
    may_be_empty: bool = True,
    kind: Kind = Kind.STRING,
    scope: Scope = Scope.READ_ONLY,
    importance: Importance = Importance.MEDIUM,
    synonyms: tuple[Synonym, ...] = (),
) -> Setting[str | Text]:
    """With `folds_case`, choices are lower-case and may be written in any case."""

    def read(text: str) -> str:
        text = text.lower() if folds_case else text
        if (choices and text not in choices) or not (text or may_be_empty):
            raise ValueError(text)
        return text

    def accept(value: object) -> str | Text:
        if value is None and default is None:
            return default
        if choices and isinstance(value, int) and not isinstance(value, bool):
            # A program may write acks=1 for the choice "1".
            value = str(value)
        if not isinstance(value, str):
            raise ValueError(value)
        return read(value)

    takes = "text" if may_be_empty else "text that is not empty"
    return Setting(
        name,
        kind,
        default,
        doc,
        read=read,
        accept=accept,
        takes=f"one of {', '.join(choices)}" if choices else takes,
        scope=scope,
        importance=importance,
        synonyms=synonyms,
    )


def names(
    name: str,
    default: Names,
    doc: str,
    *,
    choices: tuple[str, ...] = (),
    check: Callable[[tuple[str, ...]], str | None] | None = None,
    scope: Scope = Scope.READ_ONLY,
    importance: Importance = Importance.MEDIUM,
    synonyms: tuple[Synonym, ...] = (),
) -> Setting[tuple[str, ...] | Names]:
    """A list separated by commas. `check` returns what is wrong, or nothing."""

    def read(text: str) -> tuple[str, ...]:
        value = parse_list(text)
        if choices and not set(value) <= set(choices):
            raise ValueError(text)
        if check is not None and (complaint := check(value)):
            raise InvalidValue(complaint)
        return value

    return Setting(
        name,
        Kind.LIST,
        default,
        doc,
        read=read,
        takes=f"a list of {', '.join(choices)}" if choices else "a list separated by commas",
        scope=scope,
        importance=importance,
        synonyms=synonyms,
    )


def password(
    name: str, doc: str, *, scope: Scope = Scope.READ_ONLY, importance: Importance = Importance.HIGH
) -> Setting[str | None]:
    return Setting(
        name,
        Kind.PASSWORD,
        None,
        doc,
        read=cast("Callable[[str], str | None]", str),
        takes="text",
        scope=scope,
        importance=importance,
    )


def custom(
    name: str,
    default: Default,
    doc: str,
    *,
    accept: Callable[[object], T],
    takes: str,
    kind: Kind = Kind.STRING,
    importance: Importance = Importance.MEDIUM,
) -> Setting[T | Default]:
    """A setting with a rule of its own, which takes text and the values of programs alike."""
    return Setting[T | Default](
        name, kind, default, doc, read=accept, accept=accept, takes=takes, importance=importance
    )


def merge(*layers: Mapping[str, str]) -> dict[str, str]:
    """The layers as one, later ones winning."""
    merged: dict[str, str] = {}
    for layer in layers:
        merged.update(layer)
    return merged
