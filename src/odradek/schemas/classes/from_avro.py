"""Classes of an Avro schema: one for each record and each enum.

Logical types become the types of Python that have the same meaning: dates, times, decimals, UUIDs.
A union with null is optional, and its default is None.
"""

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from odradek.schemas.avro_schema import AvroSchema
from odradek.schemas.avro_types import Field, Node
from odradek.schemas.classes.model import (
    NONE,
    Alias,
    Attribute,
    Default,
    EnumClass,
    Hint,
    Module,
    RecordClass,
    dated,
    dict_of,
    imported,
    list_of,
    union_of,
)
from odradek.schemas.classes.naming import ClassNames, attribute_names, capitals, member_names
from odradek.schemas.json_text import print_json

_PRIMITIVES: Final = {
    "null": NONE,
    "boolean": Hint("bool"),
    "int": Hint("int"),
    "long": Hint("int"),
    "float": Hint("float"),
    "double": Hint("float"),
    "bytes": Hint("bytes"),
    "fixed": Hint("bytes"),
    "string": Hint("str"),
}
_LOGICAL: Final = {
    ("int", "date"): dated("dt.date"),
    ("int", "time-millis"): dated("dt.time"),
    ("long", "time-micros"): dated("dt.time"),
    ("long", "timestamp-millis"): dated("dt.datetime"),
    ("long", "timestamp-micros"): dated("dt.datetime"),
    ("long", "local-timestamp-millis"): dated("dt.datetime"),
    ("long", "local-timestamp-micros"): dated("dt.datetime"),
    ("bytes", "decimal"): imported("decimal", "Decimal"),
    ("fixed", "decimal"): imported("decimal", "Decimal"),
    ("string", "uuid"): imported("uuid", "UUID"),
}


def avro_module(schema: AvroSchema, name: str) -> Module:
    """Returns the classes of a schema. `name` is for a schema that has no name itself."""
    return _Builder(schema).build(name)


class _Builder:
    def __init__(self, schema: AvroSchema) -> None:
        self._schema = schema
        self._module = Module()
        self._classes: dict[str, str] = {}
        names = ClassNames()
        for full, node in schema.named.items():
            if node.kind != "fixed":
                space = node.namespace.rpartition(".")[2]
                self._classes[full] = names.new(node.short_name, capitals(space) + node.short_name)

    def build(self, name: str) -> Module:
        for full, node in self._schema.named.items():
            if node.kind == "enum":
                made = member_names(list(node.symbols))
                members = tuple(zip(made, node.symbols, strict=True))
                doc = node.doc or ""
                self._module.enums.append(EnumClass(self._classes[full], members, doc))
            elif node.kind != "fixed":
                self._module.records.append(self._record(self._classes[full], node))
        if self._schema.root.kind != "ref":
            alias = Alias(ClassNames().new(capitals(name)), self._hint(self._schema.root))
            self._module.aliases.append(alias)
        return self._module

    def _record(self, name: str, node: Node) -> RecordClass:
        names = attribute_names([field.name for field in node.fields], self._classes.values())
        attributes = [
            self._attribute(attribute, field)
            for attribute, field in zip(names, node.fields, strict=True)
        ]
        return RecordClass(name, tuple(attributes), node.doc or "", node.namespace)

    def _attribute(self, name: str, field: Field) -> Attribute:
        hint = self._hint(field.type)
        default = None
        if field.has_default:
            default = self._default(field.type, field.default)
        elif hint.is_optional():
            default = Default(NONE)
        source = field.name if name != field.name else ""
        return Attribute(name, hint, default, field.doc or "", source)

    def _hint(self, node: Node) -> Hint:
        node = self._schema.resolved(node)
        logical = _LOGICAL.get((node.kind, str(node.properties.get("logicalType"))))
        if logical is not None:
            return logical
        if node.name in self._classes:
            return Hint(self._classes[node.name])
        members = [self._hint(member) for member in node.members]
        match node.kind:
            case "union":
                return union_of(members)
            case "array":
                return list_of(members[0])
            case "map":
                return dict_of(members[0])
        return _PRIMITIVES[node.kind]

    def _default(self, node: Node, value: Any) -> Default | None:
        """Returns a default, or None for one that has no simple form in Python."""
        node = self._schema.resolved(node)
        if node.kind == "union":
            fitting = [
                member for member in node.members if _is_of(self._schema.resolved(member), value)
            ]
            return self._default(fitting[0], value) if fitting else None
        logical = str(node.properties.get("logicalType"))
        if (node.kind, logical) in _LOGICAL:
            return _logical_default(node, logical, value)
        if isinstance(value, list | dict):
            return self._made_default(node, value)
        match node.kind:
            case "enum":
                members = dict(zip(node.symbols, member_names(list(node.symbols)), strict=True))
                text = f"{self._classes[node.name]}.{members[value]}"
            case "bytes" | "fixed":
                text = repr(str(value).encode("latin-1", "replace"))
            case "float" | "double":
                number = float(value)
                text = repr(number) if number - number == 0 else f'float("{number}")'
            case _:
                text = _literal(value)
        return Default(Hint(text))

    def _made_default(self, node: Node, value: list[Any] | dict[str, Any]) -> Default | None:
        """Returns a default that each object gets a new one of."""
        if node.kind in {"record", "error"}:
            is_empty = not value and all(field.has_default for field in node.fields)
            made = Default(Hint(f"{self._classes[node.name]}()"), is_made=True)
            return made if is_empty else None
        if not value:
            return Default(Hint("list" if node.kind == "array" else "dict"), is_made=True)
        item = self._schema.resolved(node.members[0])
        is_simple = item.kind in _PRIMITIVES and item.kind not in {"bytes", "fixed"}
        is_simple = (
            is_simple and (item.kind, str(item.properties.get("logicalType"))) not in _LOGICAL
        )
        return Default(Hint(_literal(value)), is_made=True) if is_simple else None


def _literal(value: Any) -> str:
    if isinstance(value, str):
        return print_json(value) if value.isprintable() else repr(value)
    if isinstance(value, list):
        return f"[{', '.join(map(_literal, value))}]"
    if isinstance(value, dict):
        pairs = (f"{_literal(key)}: {_literal(inner)}" for key, inner in value.items())
        return f"{{{', '.join(pairs)}}}"
    return repr(value)


def _is_of(node: Node, value: Any) -> bool:
    kinds: dict[str, type | tuple[type, ...]] = {
        "null": type(None),
        "boolean": bool,
        "int": int,
        "long": int,
        "float": (int, float),
        "double": (int, float),
        "array": list,
        "map": dict,
        "record": dict,
        "error": dict,
    }
    if isinstance(value, bool):
        return node.kind == "boolean"
    if node.kind == "enum":
        return value in node.symbols
    return isinstance(value, kinds.get(node.kind, str))


def _logical_default(node: Node, logical: str, value: Any) -> Default | None:
    try:
        return Default(_MAKERS[logical](node, value))
    except (ArithmeticError, ValueError, TypeError):
        return None


def _date(_: Node, value: int) -> Hint:
    day = date(1970, 1, 1) + timedelta(days=value)
    return dated(f"dt.date({day.year}, {day.month}, {day.day})")


def _time(_: Node, value: int, unit: str) -> Hint:
    at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(**{unit: value})
    return dated(f"dt.time({at.hour}, {at.minute}, {at.second}, {at.microsecond})")


def _timestamp(_: Node, value: int, unit: str, *, is_local: bool = False) -> Hint:
    at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(**{unit: value})
    fields = [at.year, at.month, at.day, at.hour, at.minute, at.second, at.microsecond]
    text = ", ".join(map(str, fields))
    return dated(f"dt.datetime({text}{'' if is_local else ', tzinfo=dt.UTC'})")


def _decimal(node: Node, value: str) -> Hint:
    number = int.from_bytes(value.encode("latin-1"), "big", signed=True)
    exact = Decimal(number).scaleb(-int(node.properties.get("scale", 0)))
    return Hint(f'Decimal("{exact}")', frozenset({("decimal", "Decimal")}))


def _uuid(_: Node, value: str) -> Hint:
    return Hint(f"UUID({_literal(value)})", frozenset({("uuid", "UUID")}))


_MAKERS: Final[dict[str, Callable[[Node, Any], Hint]]] = {
    "date": _date,
    "time-millis": lambda node, value: _time(node, value, "milliseconds"),
    "time-micros": lambda node, value: _time(node, value, "microseconds"),
    "timestamp-millis": lambda node, value: _timestamp(node, value, "milliseconds"),
    "timestamp-micros": lambda node, value: _timestamp(node, value, "microseconds"),
    "local-timestamp-millis": lambda node, value: _timestamp(
        node, value, "milliseconds", is_local=True
    ),
    "local-timestamp-micros": lambda node, value: _timestamp(
        node, value, "microseconds", is_local=True
    ),
    "decimal": _decimal,
    "uuid": _uuid,
}
