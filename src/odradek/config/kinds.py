"""The kinds of settings: one function each, which declares a setting of that kind.

The `read` of a setting raises a plain ValueError if the text of `expected` explains the error well
enough, and an `InvalidValue` with its own message otherwise.
"""

import math
from collections.abc import Callable
from typing import TypeVar, cast

from odradek.config.setting import (
    MAX_INT,
    MAX_LONG,
    Importance,
    Kind,
    Scope,
    Setting,
    Synonym,
)
from odradek.config.spelling import Speller
from odradek.config.values import InvalidValue, parse_boolean, parse_integer, parse_list

T = TypeVar("T")
Default = TypeVar("Default")
Whole = TypeVar("Whole", bound=int | None)
Text = TypeVar("Text", bound=str | None)
Names = TypeVar("Names", bound=tuple[str, ...] | None)


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
        expected="true or false",
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
    extra_value: int | None = None,
    kind: Kind = Kind.INT,
    scope: Scope = Scope.READ_ONLY,
    importance: Importance = Importance.MEDIUM,
    synonyms: tuple[Synonym, ...] = (),
    aliases: tuple[str, ...] = (),
) -> Setting[int | Whole]:
    """`extra_value` is one more number that is allowed, outside the range."""
    limit = _LIMITS[kind]
    lowest = -limit - 1 if at_least is None else at_least
    highest = limit if at_most is None else at_most

    def accept(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise ValueError(value)
        if not lowest <= value <= highest and value != extra_value:
            raise ValueError(value)
        return value

    def read(text: str) -> int:
        try:
            return accept(parse_integer(text))
        except InvalidValue:
            raise ValueError(text) from None

    expected = _range("a whole number", at_least, highest)
    return Setting(
        name,
        kind,
        default,
        doc,
        read=read,
        accept=accept,
        expected=expected if extra_value is None else f"{expected}, or {extra_value}",
        scope=scope,
        importance=importance,
        synonyms=synonyms,
        aliases=aliases,
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
        expected=_range(
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

    expected = "text" if may_be_empty else "text that is not empty"
    if choices:
        expected = f"one of {', '.join(choices)}"

    def read(text: str) -> str:
        text = text.lower() if folds_case else text
        if choices and text not in choices:
            raise InvalidValue(f"must be {expected}{Speller(choices).hint(text)}")
        if not (text or may_be_empty):
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

    return Setting(
        name,
        kind,
        default,
        doc,
        read=read,
        accept=accept,
        expected=expected,
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
    """A list separated by commas. `check` returns an error message, or None."""

    def read(text: str) -> tuple[str, ...]:
        value = parse_list(text)
        if choices and (others := [part for part in value if part not in choices]):
            hint = Speller(choices).hint(others[0])
            raise InvalidValue(f"must be a list of {', '.join(choices)}{hint}")
        if check is not None and (complaint := check(value)):
            raise InvalidValue(complaint)
        return value

    return Setting(
        name,
        Kind.LIST,
        default,
        doc,
        read=read,
        expected=f"a list of {', '.join(choices)}" if choices else "a list separated by commas",
        scope=scope,
        importance=importance,
        synonyms=synonyms,
    )


def password(
    name: str,
    doc: str,
    *,
    scope: Scope = Scope.READ_ONLY,
    importance: Importance = Importance.HIGH,
    aliases: tuple[str, ...] = (),
) -> Setting[str | None]:
    return Setting(
        name,
        Kind.PASSWORD,
        None,
        doc,
        read=cast("Callable[[str], str | None]", str),
        expected="text",
        scope=scope,
        importance=importance,
        aliases=aliases,
    )


def custom(
    name: str,
    default: Default,
    doc: str,
    *,
    accept: Callable[[object], T],
    expected: str,
    kind: Kind = Kind.STRING,
    importance: Importance = Importance.MEDIUM,
) -> Setting[T | Default]:
    """A setting whose `accept` reads text and the values of programs alike."""
    return Setting[T | Default](
        name,
        kind,
        default,
        doc,
        read=accept,
        accept=accept,
        expected=expected,
        importance=importance,
    )
