"""How a function is declared. A signature is written as in the reference:

    "INTEGER, INTEGER -> INTEGER"       exact types
    "N -> N"                            N is a number type; T, K, V, R, S are any type, and equal
                                        letters are equal types
    "STRING, ANY... -> STRING"          the last parameter may be given any number of times
    "ARRAY<T>, (T) => R -> ARRAY<R>"    a function as an argument
    "UNIT, INTEGER, DATE -> DATE"       a unit of time

A function gets Python values (`odradek.streams.plan.types`) and is not called if an argument is
null: the result is null then. `nulls=True` calls it all the same.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from odradek.streams.plan.types import (
    NAMED,
    ArrayType,
    DecimalType,
    MapType,
    SimpleType,
    SqlType,
)

_WORD: Final = re.compile(r"\s*(->|=>|\.\.\.|[A-Z_0-9]+|[<>(),])")
ANY_DECIMAL: Final = SimpleType("DECIMAL")
UNIT: Final = SimpleType("UNIT")
_WIDTH: Final = {"INTEGER": 0, "BIGINT": 1, "DECIMAL": 2, "DOUBLE": 3}
_LETTERS: Final = frozenset("TKVRSN")


@dataclass(frozen=True)
class Variable(SqlType):
    """A type that the arguments decide. N is a number type."""

    letter: str

    @property
    def name(self) -> str:
        return self.letter


@dataclass(frozen=True)
class LambdaType(SqlType):
    parameters: tuple[SqlType, ...]
    result: SqlType

    @property
    def name(self) -> str:
        return "LAMBDA"

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.parameters))}) => {self.result}"


@dataclass(frozen=True)
class Signature:
    text: str
    parameters: tuple[SqlType, ...]
    is_variadic: bool
    result: SqlType

    def parameter(self, index: int) -> SqlType | None:
        """Returns the type of an argument, or None if there are not so many."""
        if index < len(self.parameters):
            return self.parameters[index]
        return self.parameters[-1] if self.is_variadic else None

    def takes(self, count: int) -> bool:
        if self.is_variadic:
            return count >= len(self.parameters) - 1
        return count == len(self.parameters)


class _SignatureReader:
    def __init__(self, text: str) -> None:
        self._words = _WORD.findall(text)
        if "".join(self._words) != re.sub(r"\s", "", text):
            raise ValueError(f"{text!r} is not a signature")
        self._text = text

    def _next(self) -> str:
        return self._words[0] if self._words else ""

    def _take(self, *expected: str) -> str:
        if expected and self._next() not in expected:
            raise ValueError(f"{expected} is missing in {self._text!r}")
        return str(self._words.pop(0))

    def signature(self) -> Signature:
        parameters: list[SqlType] = []
        is_variadic = False
        while self._next() != "->":
            if parameters:
                self._take(",")
            parameters.append(self._type())
            if self._next() == "...":
                self._take()
                is_variadic = True
        self._take("->")
        return Signature(self._text, tuple(parameters), is_variadic, self._type())

    def _type(self) -> SqlType:
        word = self._take()
        if word == "(":
            return self._lambda()
        if word in _LETTERS or word == "ANY":
            return Variable(word)
        if word in ("ARRAY", "MAP"):
            self._take("<")
            types = [self._type()]
            if word == "MAP":
                self._take(",")
                types.append(self._type())
            self._take(">")
            return ArrayType(types[0]) if word == "ARRAY" else MapType(*types)
        if word in ("DECIMAL", "UNIT", "STRUCT"):
            return SimpleType(word)
        return NAMED[word]

    def _lambda(self) -> SqlType:
        parameters = [self._type()]
        while self._next() == ",":
            self._take()
            parameters.append(self._type())
        self._take(")")
        self._take("=>")
        return LambdaType(tuple(parameters), self._type())


def signature(text: str) -> Signature:
    return _SignatureReader(text).signature()


# Matching arguments with parameters

Bindings = dict[str, SqlType]


def wider(one: SqlType, other: SqlType) -> SqlType | None:
    """Returns the number type that holds both, or None if one is not a number."""
    if not (one.is_numeric and other.is_numeric):
        return None
    first, second = sorted((one, other), key=lambda kind: _WIDTH[kind.name])
    if second.name != "DECIMAL":
        return second
    left, right = as_decimal(first), as_decimal(second)
    scale = max(left.scale, right.scale)
    return DecimalType(
        max(left.precision - left.scale, right.precision - right.scale) + scale, scale
    )


def as_decimal(kind: SqlType) -> DecimalType:
    """Returns the decimal type that holds all values of a number type, DOUBLE excepted."""
    if isinstance(kind, DecimalType):
        return kind
    return DecimalType(10 if kind.name == "INTEGER" else 19, 0)


def cost(parameter: SqlType, given: SqlType | None, bindings: Bindings) -> int | None:
    """Returns how far an argument is from a parameter, 0 if it fits exactly, or None if it does not
    fit. `given` is None for a null. Variables are bound."""
    if isinstance(parameter, Variable):
        return _bind(parameter, given, bindings)
    if given is None:
        return 1
    parts: list[tuple[SqlType, SqlType]] = []
    if isinstance(parameter, ArrayType) and isinstance(given, ArrayType):
        parts = [(parameter.element, given.element)]
    elif isinstance(parameter, MapType) and isinstance(given, MapType):
        parts = [(parameter.key, given.key), (parameter.value, given.value)]
    if parts:
        costs = [cost(one, other, bindings) for one, other in parts]
        known = [one for one in costs if one is not None]
        return sum(known) if len(known) == len(costs) else None
    is_any = parameter.name in ("STRUCT", "DECIMAL", "UNIT") and isinstance(parameter, SimpleType)
    if parameter == given or (is_any and parameter.name == given.name):
        return 0
    if parameter.is_numeric and given.is_numeric:
        distance = _WIDTH[parameter.name] - _WIDTH[given.name]
        return distance if distance > 0 else None
    return None


def _bind(parameter: Variable, given: SqlType | None, bindings: Bindings) -> int | None:
    if isinstance(given, LambdaType) or given is UNIT:
        return None
    if parameter.letter == "ANY" or given is None:
        return int(parameter.letter != "ANY")
    if parameter.letter == "N" and not given.is_numeric:
        return None
    bound = bindings.get(parameter.letter)
    if bound is None or bound == given:
        bindings[parameter.letter] = given
        return 0
    common = wider(bound, given)
    if common is None:
        return None
    bindings[parameter.letter] = common
    return 1


def resolved(kind: SqlType, bindings: Bindings) -> SqlType:
    """Returns a type with its variables replaced; one that is not bound is STRING."""
    if isinstance(kind, Variable):
        return bindings.get(kind.letter, NAMED["STRING"])
    if isinstance(kind, ArrayType):
        return ArrayType(resolved(kind.element, bindings))
    if isinstance(kind, MapType):
        return MapType(resolved(kind.key, bindings), resolved(kind.value, bindings))
    return kind


# Functions

ReturnType = Callable[[Sequence[SqlType | None]], SqlType]


@dataclass(frozen=True)
class Variant:
    """A scalar function for one signature."""

    signature: Signature
    call: Callable[..., Any]
    nulls: bool
    returns: ReturnType | None
    """Works out the type of the result, where the signature cannot say it."""


@dataclass(frozen=True)
class Scalar:
    name: str
    subject: str
    doc: str
    variants: list[Variant] = field(default_factory=list)
    is_deterministic: bool = True


class Subject:
    """Collects the functions of one module."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.functions: dict[str, Scalar] = {}

    def scalar(
        self,
        name: str,
        *signatures: str,
        nulls: bool = False,
        returns: ReturnType | None = None,
        is_deterministic: bool = True,
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Declares a function. Its docstring says what it does. Declared again, it has one more
        implementation, for other signatures."""

        def declare(call: Callable[..., Any]) -> Callable[..., Any]:
            self.add(name, call, *signatures, nulls=nulls, returns=returns, doc=call.__doc__ or "",
                     is_deterministic=is_deterministic)  # fmt: skip
            return call

        return declare

    def add(
        self,
        name: str,
        call: Callable[..., Any],
        *signatures: str,
        doc: str,
        nulls: bool = False,
        returns: ReturnType | None = None,
        is_deterministic: bool = True,
    ) -> None:
        function = self.functions.get(name)
        if function is None:
            text = " ".join(doc.split())
            function = Scalar(name, self.title, text, is_deterministic=is_deterministic)
            self.functions[name] = function
        for text in signatures:
            function.variants.append(Variant(signature(text), call, nulls, returns))
