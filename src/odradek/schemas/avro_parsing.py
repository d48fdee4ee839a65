"""Parses an Avro schema from JSON into `avro_types`, by the rules of Avro's Java library.

Types may be used before they are defined, as Java allows.
"""

import re
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, Final

from odradek.config.spelling import Speller
from odradek.schemas.avro_types import MAX_INT, NAMED, NO_DEFAULT, PRIMITIVES, Field, Node
from odradek.schemas.errors import InvalidSchema
from odradek.schemas.json_text import print_json

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
# Attributes with a meaning of their own. All others are kept as properties.
_RESERVED: Final = frozenset(
    {
        "aliases",
        "doc",
        "fields",
        "items",
        "name",
        "namespace",
        "size",
        "symbols",
        "values",
        "type",
    }
)
_FIELD_RESERVED: Final = frozenset({"default", "doc", "name", "order", "type", "aliases"})
_COMPLEX: Final = ("record", "error", "enum", "array", "map", "fixed")
# So many letters of a name, and so many names, are compared with one that is misspelt.
_MAX_COMPARED: Final = 80
_ORDERS: Final = ("ascending", "descending", "ignore")
_TEXT_OF_DOUBLES: Final = re.compile(
    r"[+-]?(NaN|Infinity|(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,9})?[fFdD]?)", re.ASCII
)


class Parser:
    """Builds nodes of JSON. `named` has the types defined until now. `checks_names` is off for
    schemas that a registry holds: it may be older than the rule for names."""

    def __init__(self) -> None:
        self.named: dict[str, Node] = {}
        self.checks_names = True
        self._used: dict[str, str] = {}
        self._open: set[str] = set()

    def parse(self, source: Any) -> Node:
        return self._type(source, "", "")

    def check_uses(self) -> None:
        for name, path in self._used.items():
            if name not in self.named:
                raise InvalidSchema(
                    f"{_at(path)} uses the type {name!r}, which is not defined"
                    f"{_meant(name, self.named)}"
                )

    def _type(self, source: Any, namespace: str, path: str) -> Node:
        match source:
            case str():
                return Node(source) if source in PRIMITIVES else self._use(source, namespace, path)
            case list():
                return self._union(source, namespace, path)
            case {"type": str(kind)}:
                return self._complex(source, kind, namespace, path)
            case {"type": dict() | list() as inner} if set(source) == {"type"}:
                raise InvalidSchema(
                    f"{_at(path)} has {print_json(inner)[:60]} as its type: write that itself,"
                    ' without {"type": ...} around it'
                )
            case dict():
                raise InvalidSchema(f"{_at(path)} has no type, which must be a string")
        raise InvalidSchema(
            f"{_at(path)} is {print_json(source)[:60]}, which is not a schema: use a name, an"
            " object or a list"
        )

    def _complex(self, source: dict[str, Any], kind: str, namespace: str, path: str) -> Node:
        if kind in PRIMITIVES:
            return Node(kind, properties=_properties(source, _RESERVED))
        if kind in NAMED:
            return self._named(source, kind, namespace, path)
        inner = {"array": "items", "map": "values"}.get(kind)
        if inner is None and self._knows(kind, namespace):
            # A name may stand in an object of its own, as any type may.
            return self._use(kind, namespace, path)
        if inner is None:
            raise InvalidSchema(
                f"{_at(path)} has the type {kind!r}: in an object it must be a primitive type,"
                f" record, error, enum, array, map or fixed{_meant(kind, self.named)}"
            )
        if inner not in source:
            raise InvalidSchema(f"{_at(path)} is of type {kind} and has no {inner!r}")
        member = self._type(source[inner], namespace, f"{path}/{inner}")
        return Node(kind, members=(member,), properties=_properties(source, _RESERVED))

    def _knows(self, name: str, namespace: str) -> bool:
        names = {name.removeprefix("."), f"{namespace}.{name}"}
        return not names.isdisjoint(self.named) or not names.isdisjoint(self._open)

    def _checked(self, name: str, path: str) -> str:
        return _checked_name(name, path) if self.checks_names else name

    def _use(self, name: str, namespace: str, path: str) -> Node:
        """A use of a named type. A name without a dot is of the surrounding namespace, or of none
        if there it is not defined."""
        full = name.removeprefix(".")
        if "." not in name and namespace:
            inside = f"{namespace}.{name}"
            if inside in self.named or inside in self._open or name not in self.named:
                full = inside
        self._used.setdefault(full, path)
        return Node("ref", full)

    def _union(self, source: list[Any], namespace: str, path: str) -> Node:
        members = tuple(
            self._type(member, namespace, f"{path}/{index}") for index, member in enumerate(source)
        )
        seen: set[str] = set()
        for index, member in enumerate(members):
            if member.kind == "union":
                raise InvalidSchema(f"{_at(f'{path}/{index}')} is a union in a union")
            name = member.name or member.kind
            if name in seen:
                raise InvalidSchema(f"{_at(path)} is a union that has {name} twice")
            seen.add(name)
        return Node("union", members=members)

    def _named(self, source: dict[str, Any], kind: str, namespace: str, path: str) -> Node:
        name = self._full_name(source, namespace, path)
        inside = name.rpartition(".")[0]
        doc = source.get("doc")
        symbols: tuple[str, ...] = ()
        size = 0
        fields: tuple[Field, ...] = ()
        default = None
        match kind:
            case "enum":
                symbols = tuple(self._checked(symbol, path) for symbol in _symbols(source, path))
                default = _enum_default(source, symbols, path)
            case "fixed":
                size = _size(source, path)
            case _:
                self._open.add(name)
                fields = self._fields(source, inside, path)
                self._open.discard(name)
        node = Node(
            kind,
            name,
            doc if isinstance(doc, str) else None,
            tuple(dict.fromkeys(_full_alias(alias, inside) for alias in _aliases(source, path))),
            fields,
            symbols,
            default,
            size,
            properties=_properties(
                source, _RESERVED | {"default"} if kind == "enum" else _RESERVED
            ),
        )
        known = self.named.setdefault(name, node)
        if known != node:
            raise InvalidSchema(f"{_at(path)} defines {name}, which is defined already")
        return Node("ref", name)

    def _full_name(self, source: dict[str, Any], namespace: str, path: str) -> str:
        name = source.get("name")
        if not isinstance(name, str):
            raise InvalidSchema(f"{_at(path)} is of type {source['type']} and has no name")
        space, dot, short = name.rpartition(".")
        if not dot:
            stated = source.get("namespace")
            space = stated if isinstance(stated, str) else namespace
        for part in (*space.split("."), short) if space else (short,):
            self._checked(part, path)
        full = f"{space}.{short}" if space else short
        if full in PRIMITIVES:
            raise InvalidSchema(f"{_at(path)} is named {full}, which is a primitive type")
        return full

    def _fields(self, source: dict[str, Any], namespace: str, path: str) -> tuple[Field, ...]:
        sources = source.get("fields")
        if not isinstance(sources, list):
            raise InvalidSchema(f"{_at(path)} is a record and has no list of 'fields'")
        fields = []
        names: set[str] = set()
        for index, each in enumerate(sources):
            made = self._field(each, namespace, f"{path}/fields/{index}")
            if made.name in names:
                raise InvalidSchema(f"{_at(path)} has the field {made.name!r} twice")
            names.add(made.name)
            fields.append(made)
        return tuple(fields)

    def _field(self, source: Any, namespace: str, path: str) -> Field:
        if not isinstance(source, dict) or not isinstance(source.get("name"), str):
            raise InvalidSchema(f"{_at(path)} is a field without a name")
        name = self._checked(source["name"], path)
        if "type" not in source:
            raise InvalidSchema(f"{_at(path)}, the field {name!r}, has no type")
        order = source.get("order", "ascending")
        if not isinstance(order, str) or order.lower() not in _ORDERS:
            raise InvalidSchema(
                f"{_at(path)}, the field {name!r}, has the order {order!r}: use one of"
                f" {', '.join(_ORDERS)}"
            )
        kind = self._type(source["type"], namespace, f"{path}/type")
        default = source.get("default", NO_DEFAULT)
        if kind.kind in {"float", "double"} and isinstance(default, str):
            default = _double(default, path)
        doc = source.get("doc")
        return Field(
            name,
            kind,
            doc if isinstance(doc, str) else None,
            default,
            order.lower(),
            tuple(dict.fromkeys(_aliases(source, path))),
            _properties(source, _FIELD_RESERVED),
        )


def _meant(name: str, named: Iterable[str]) -> str:
    """Returns the end of the sentence about a type that does not exist: the one that is probably
    meant, defined in the schema or not."""
    # A schema may come from anybody, and an index of long names would be large.
    known = islice((one for one in named if len(one) <= _MAX_COMPARED), _MAX_COMPARED)
    own = (*PRIMITIVES, *_COMPLEX)
    return Speller((*own, *known)).hint(name) or Speller(own).hint(name.rpartition(".")[2])


def _at(path: str) -> str:
    return path or "the schema"


def _checked_name(name: str, path: str) -> str:
    if not _NAME.fullmatch(name):
        raise InvalidSchema(
            f"{_at(path)} has the name {name!r}: a name has letters, digits and underscores, and"
            " does not begin with a digit"
        )
    return name


def _full_alias(alias: str, namespace: str) -> str:
    if "." in alias:
        return alias.removeprefix(".")
    return f"{namespace}.{alias}" if namespace else alias


def _aliases(source: dict[str, Any], path: str) -> list[str]:
    aliases = source.get("aliases", [])
    if not isinstance(aliases, list) or not all(isinstance(alias, str) for alias in aliases):
        raise InvalidSchema(f"{_at(path)} has aliases that are not a list of strings")
    return aliases


def _symbols(source: dict[str, Any], path: str) -> tuple[str, ...]:
    symbols = source.get("symbols")
    if not isinstance(symbols, list) or not all(isinstance(symbol, str) for symbol in symbols):
        raise InvalidSchema(f"{_at(path)} is an enum and has no list of 'symbols'")
    if len(set(symbols)) != len(symbols):
        twice = next(symbol for symbol in symbols if symbols.count(symbol) > 1)
        raise InvalidSchema(f"{_at(path)} is an enum that has the symbol {twice} twice")
    return tuple(symbols)


def _enum_default(source: dict[str, Any], symbols: tuple[str, ...], path: str) -> str | None:
    default = source.get("default")
    if not isinstance(default, str):
        return None
    if default not in symbols:
        raise InvalidSchema(
            f"{_at(path)} is an enum with the default {default!r}, which is not among its symbols"
        )
    return default


def _size(source: dict[str, Any], path: str) -> int:
    size = source.get("size")
    if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size <= MAX_INT:
        raise InvalidSchema(
            f"{_at(path)} is fixed and has no size, which is a number from 0 to {MAX_INT}"
        )
    return size


def _double(text: str, path: str) -> float:
    """Java reads defaults of float and double also from strings, such as "NaN"."""
    if not _TEXT_OF_DOUBLES.fullmatch(text.strip()):
        raise InvalidSchema(f"{_at(path)} has the default {text[:60]!r}, which is not a number")
    bare = text.strip()
    return float(bare if bare.endswith(("NaN", "Infinity")) else bare.rstrip("fFdD"))


def _properties(source: Mapping[str, Any], reserved: Iterable[str]) -> dict[str, Any]:
    return {key: value for key, value in source.items() if key not in reserved}
