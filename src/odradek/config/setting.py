"""What a setting is: its name, type, default, check, scope and one line of explanation.

A declaration is an attribute of a `Settings` class, and everything else follows from it:
parsing, typed access (`settings.segment_bytes` is an `int`), DescribeConfigs and the
reference page. Values are immutable: a change makes a new object.
"""

import math
from collections.abc import Callable, Mapping
from enum import Enum, IntEnum
from typing import ClassVar, Generic, NamedTuple, NoReturn, Self, TypeVar, cast, overload

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
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


def in_a_line(value: object) -> str:
    """What came over the wire, cut and escaped until it fits a line."""
    text = str(value)
    if len(text) > 100:
        text = f"{text[:100]}…"
    return text if text.isprintable() else text.encode("unicode_escape").decode()


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
            raise InvalidSetting(
                self.name, "(hidden)" if self.is_sensitive else text, reason
            ) from None

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


class InvalidValue(ValueError):
    """Raised by a reader that words its own reason."""


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


# Reading and writing values as text.


def format_value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        # Java writes 1.0E10 where Python writes 1e+10; tools compare the text.
        return repr(value).replace("e+", "E").replace("e", "E")
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return str(value)


def split_names(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",")) if text else ()


def _read_boolean(text: str) -> bool:
    match text.lower():
        case "true":
            return True
        case "false":
            return False
    raise ValueError(text)


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

    def read(text: str) -> int:
        # int() alone would take "1_000" and digits of other scripts.
        if not text.isascii() or "_" in text:
            raise ValueError(text)
        value = int(text)
        if not lowest <= value <= highest and value != besides:
            raise ValueError(text)
        return value

    takes = _range("a whole number", at_least, highest)
    return Setting(
        name,
        kind,
        default,
        doc,
        read=read,
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
    kind: Kind = Kind.STRING,
    scope: Scope = Scope.READ_ONLY,
    importance: Importance = Importance.MEDIUM,
    synonyms: tuple[Synonym, ...] = (),
) -> Setting[str | Text]:
    def read(text: str) -> str:
        if choices and text not in choices:
            raise ValueError(text)
        return text

    return Setting(
        name,
        kind,
        default,
        doc,
        read=read,
        takes=f"one of {', '.join(choices)}" if choices else "text",
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
        value = split_names(text)
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


def merge(*layers: Mapping[str, str]) -> dict[str, str]:
    """The layers as one, later ones winning."""
    merged: dict[str, str] = {}
    for layer in layers:
        merged.update(layer)
    return merged
