"""A module of classes, before it is written in the style of dataclasses, pydantic or attrs."""

from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

Style = Literal["dataclass", "pydantic", "attrs"]

Imports = frozenset[tuple[str, str]]
NO_IMPORTS: Final[Imports] = frozenset()


class Hint(NamedTuple):
    """A type hint, or an expression for a default: its text, and what it needs, as
    (module, name)."""

    text: str
    imports: Imports = NO_IMPORTS

    def is_optional(self) -> bool:
        return self.text.endswith("| None") or self.text in {"None", "Any"}


def imported(module: str, name: str) -> Hint:
    return Hint(name, frozenset({(module, name)}))


def dated(text: str) -> Hint:
    """Returns a hint of the module datetime, which is imported as a whole: fields are often called
    date or time, and would hide a class of that name."""
    return Hint(text, frozenset({("datetime as dt", "")}))


ANY: Final = imported("typing", "Any")
NONE: Final = Hint("None")


def union_of(hints: list[Hint]) -> Hint:
    """Returns a union without repetitions, with None last."""
    flat: dict[str, Imports] = {}
    for hint in hints:
        for text in hint.text.split(" | ") if "[" not in hint.text else [hint.text]:
            flat[text] = flat.get(text, NO_IMPORTS) | hint.imports
    if not flat:
        return ANY
    if ANY.text in flat:
        return ANY
    has_none = flat.pop("None", None) is not None
    texts = [*flat, *(["None"] if has_none else [])]
    return Hint(" | ".join(texts), frozenset().union(*flat.values()))


def list_of(hint: Hint) -> Hint:
    return Hint(f"list[{hint.text}]", hint.imports)


def dict_of(hint: Hint, key: str = "str") -> Hint:
    return Hint(f"dict[{key}, {hint.text}]", hint.imports)


class Default(NamedTuple):
    """A default: an expression, or with `is_made` the body of a function that makes one for each
    object."""

    value: Hint
    is_made: bool = False


@dataclass(frozen=True, slots=True)
class Attribute:
    """A field. `source_name` is its name in the schema, if that is no name in Python."""

    name: str
    hint: Hint
    default: Default | None = None
    doc: str = ""
    source_name: str = ""


@dataclass(frozen=True, slots=True)
class RecordClass:
    name: str
    attributes: tuple[Attribute, ...]
    doc: str = ""
    namespace: str = ""


@dataclass(frozen=True, slots=True)
class EnumClass:
    """An enumeration of texts or, if all values are numbers, of numbers."""

    name: str
    members: tuple[tuple[str, str | int], ...]
    doc: str = ""


@dataclass(frozen=True, slots=True)
class Alias:
    """A name for a type that is no class, such as a list at the top of a schema."""

    name: str
    hint: Hint


@dataclass(slots=True)
class Module:
    """All that one schema becomes, in the order in which it was found."""

    enums: list[EnumClass] = field(default_factory=list)
    records: list[RecordClass] = field(default_factory=list)
    aliases: list[Alias] = field(default_factory=list)
