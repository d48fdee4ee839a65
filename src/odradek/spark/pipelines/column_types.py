"""Schemas as Spark writes them, `user string, visits array<int>`, checked without Spark.

Whatever Spark accepts is accepted here; a test with Spark compares both. What is refused is told by
the name of the column.
"""

import json
import re
from typing import Final

from odradek.config.spelling import did_you_mean

_TYPES: Final = (
    "string",
    "boolean",
    "int",
    "integer",
    "bigint",
    "long",
    "smallint",
    "short",
    "tinyint",
    "byte",
    "double",
    "float",
    "real",
    "decimal",
    "dec",
    "numeric",
    "date",
    "time",
    "timestamp",
    "timestamp_ntz",
    "timestamp_ltz",
    "binary",
    "array",
    "map",
    "struct",
    "variant",
    "interval",
    "void",
    "char",
    "character",
    "varchar",
    "geometry",
    "geography",
)
# What these types are called elsewhere.
_SAME_MEANING: Final = {
    "str": "string",
    "text": "string",
    "uuid": "string",
    "bool": "boolean",
    "int32": "int",
    "int64": "bigint",
    "number": "double",
    "float64": "double",
    "datetime": "timestamp",
    "bytes": "binary",
    "list": "array<...>",
    "dict": "map<string, ...>",
    "object": "struct<...>",
    "json": "variant",
}
# Words that may follow the name of a type and belong to it.
_FURTHER_WORDS: Final = {
    "string": frozenset({"collate"}),
    "timestamp": frozenset({"with", "without", "local", "time", "zone"}),
    "time": frozenset({"with", "without", "time", "zone"}),
    "interval": frozenset({"year", "month", "day", "hour", "minute", "second", "to"}),
}
_TOKEN: Final = re.compile(r"`(?:[^`]|``)*`|'[^']*'|\"[^\"]*\"|\w+|\S")
_NAME: Final = re.compile(r"`(?:[^`]|``)*`|\w+")
_MAX_PRECISION: Final = 38
_EXAMPLE: Final = 'as in schema = "user string, visits array<int>"'


class BadSchema(ValueError):
    """The text is not a schema; the message says where and what to write."""


def check_schema(text: str) -> None:
    """Raises `BadSchema` for what Spark would refuse."""
    if text.lstrip().startswith("{"):
        _check_json(text)
        return
    tokens = _Tokens(text)
    if tokens.lower() in {"array", "map"} and tokens.lower(1) == "<":
        raise BadSchema(f"it must name columns, {_EXAMPLE}")
    if tokens.lower() == "struct" and tokens.lower(1) == "<":
        tokens.take_type("")
    else:
        tokens.take_columns(is_nested=False)
    if tokens.lower():
        raise BadSchema(f"{tokens.lower()} is too much at the end")


def _check_json(text: str) -> None:
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        raise BadSchema(f"it is not JSON: {error}") from None


class _Tokens:
    """The words and signs of a schema, read from left to right."""

    def __init__(self, text: str) -> None:
        self._tokens = _TOKEN.findall(text)
        self._next = 0

    def lower(self, ahead: int = 0) -> str:
        """Returns a token that comes, in lower case, or "" at the end."""
        index = self._next + ahead
        return self._tokens[index].lower() if index < len(self._tokens) else ""

    def _take(self) -> str:
        token = self._tokens[self._next] if self._next < len(self._tokens) else ""
        self._next += 1
        return token

    def take_columns(self, *, is_nested: bool) -> None:
        while True:
            self._take_column(is_nested=is_nested)
            if self.lower() != ",":
                break
            self._take()
        if self._is_name() and not (is_nested and self.lower() == ">"):
            raise BadSchema(f"a comma is missing before {self._take()}")

    def _is_name(self) -> bool:
        return _NAME.fullmatch(self.lower()) is not None

    def _take_column(self, *, is_nested: bool) -> None:
        if not self._is_name():
            found = self._take()
            raise BadSchema(f"a column is missing {f'before {found}' if found else 'at the end'}")
        name = self._take()
        if self.lower() == ":":
            self._take()
            if not is_nested:
                raise BadSchema(f"write {name} {self._take() or 'string'}, without the colon")
        elif self.lower() not in {"", ",", ">", "<", "("} and not self._is_name():
            raise BadSchema(f"put the name {name}{self._take()}{self._take()} between backticks")
        self.take_type(name)
        self._take_suffix()

    def take_type(self, column: str) -> None:
        if not self._is_name():
            raise BadSchema(f"column {column} has no type: {_EXAMPLE}")
        kind = self.lower()
        if kind not in _TYPES:
            raise BadSchema(f"column {column}: there is no type {self._take()}{_hint(kind)}")
        self._take()
        if kind in {"array", "map", "struct"}:
            self._take_inner(kind, column)
        elif self.lower() == "(":
            self._take_sizes(kind, column)
        further = _FURTHER_WORDS.get(kind, frozenset())
        while self.lower() in further:
            if self._take().lower() == "collate":
                self._take()

    def _take_inner(self, kind: str, column: str) -> None:
        """Takes what is between `<` and `>`."""
        if self._take() != "<":
            example = {"array": "array<int>", "map": "map<string, int>", "struct": "struct<a: int>"}
            raise BadSchema(f"column {column}: {kind} needs types, as in {example[kind]}")
        if kind == "struct":
            if self.lower() != ">":
                self.take_columns(is_nested=True)
        else:
            self.take_type(column)
            if kind == "map":
                if self._take() != ",":
                    raise BadSchema(f"column {column}: a map needs two types, map<string, int>")
                self.take_type(column)
        if self._take() != ">":
            raise BadSchema(f"column {column}: {kind}< has no > at its end")

    def _take_sizes(self, kind: str, column: str) -> None:
        """Takes `(10, 2)`."""
        self._take()
        sizes: list[str] = []
        while self.lower() not in {")", ""}:
            sizes.append(self._take())
        numbers = [int(size) for size in sizes if size.isdecimal()]
        if self._take() != ")":
            raise BadSchema(f"column {column}: {kind}( has no ) at its end")
        if kind in {"decimal", "dec", "numeric"} and not (
            len(numbers) in {1, 2} and max(numbers) == numbers[0] <= _MAX_PRECISION
        ):
            raise BadSchema(
                f"column {column}: {kind} takes at most {_MAX_PRECISION} digits and how many of"
                " them are after the decimal point, as in decimal(10, 2)"
            )

    def _take_suffix(self) -> None:
        """Takes `not null` and `comment '...'`, which may follow a type."""
        if (self.lower(), self.lower(1)) == ("not", "null"):
            self._take()
            self._take()
        if self.lower() == "comment":
            self._take()
            self._take()


def _hint(kind: str) -> str:
    same = _SAME_MEANING.get(kind)
    near = f"; write {same}" if same else did_you_mean(kind, _TYPES)
    return near or f"; there are {', '.join(_TYPES)}"
