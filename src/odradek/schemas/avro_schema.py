"""Avro schemas as a schema registry sees them: printed, normalised, compared.

Why not `fastavro.parse_schema` or the `avro` package: neither keeps what Java prints (the order of
attributes, documentation, aliases), both accept schemas that Java refuses, and recursion ends them.
docs/decisions/0057-avro-schemas.md compares them.
"""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from odradek.schemas.avro_parsing import Parser
from odradek.schemas.avro_types import (
    MAX_INT,
    MAX_LONG,
    NAMED,
    PRIMITIVES,
    Field,
    Node,
)
from odradek.schemas.errors import InvalidSchema
from odradek.schemas.json_text import check_depth, print_json, read_json
from odradek.schemas.parsed import Incompatibility, ParsedSchema, Reference


class AvroSchema(ParsedSchema):
    schema_type = "AVRO"

    def __init__(
        self,
        root: Node,
        named: Mapping[str, Node],
        imported: frozenset[str],
        references: tuple[Reference, ...],
    ) -> None:
        self.root = root
        self.named = named
        self.references = references
        self._imported = imported
        self.text = print_json(_Printer(named, set(imported)).print(root, ""))
        check_depth(self.text)

    def normalized(self) -> "AvroSchema":
        named = {
            name: node if name in self._imported else _sorted(node)
            for name, node in self.named.items()
        }
        references = tuple(sorted(set(self.references)))
        return AvroSchema(_sorted(self.root), named, self._imported, references)

    def formatted(self, format_: str) -> str:
        """Returns the schema; as `resolved`, imported types are printed where they are used."""
        if format_ != "resolved":
            return self.text
        return print_json(_Printer(self.named, set()).print(self.root, ""))

    @cached_property
    def identity(self) -> str:
        """The normalised schema in which imported types are printed as well."""
        named = {name: _sorted(node) for name, node in self.named.items()}
        return print_json(_Printer(named, set()).print(_sorted(self.root), ""))

    @property
    def field_names(self) -> frozenset[str]:
        return frozenset(field.name for field in self.resolved(self.root).fields)

    def resolved(self, node: Node) -> Node:
        """Returns the named type that a node uses, or the node itself."""
        return self.named[node.name] if node.kind == "ref" else node

    def incompatibilities_with(self, writer: ParsedSchema) -> list[Incompatibility]:
        from odradek.schemas.avro_compatibility import compare  # noqa: PLC0415 - it imports this

        assert isinstance(writer, AvroSchema)
        return compare(self, writer)


def parse(
    text: str, references: tuple[Reference, ...], resolved: Mapping[str, str], *, is_new: bool
) -> AvroSchema:
    """Parses an Avro schema. Defaults are checked if it is new: registries hold schemas with wrong
    ones from the time when nobody checked them."""
    parser = Parser()
    parser.checks_names = False
    for name, imported in resolved.items():
        try:
            parser.parse(read_json(imported))
        except InvalidSchema as error:
            raise InvalidSchema(f"in the reference {name}: {error}") from None
    known = frozenset(parser.named)
    parser.checks_names = is_new
    root = parser.parse(read_json(text))
    parser.check_uses()
    schema = AvroSchema(root, parser.named, known, references)
    if is_new:
        _Defaults(schema).check()
    return schema


class _Defaults:
    """Checks the defaults of a schema, as Java judges: in a union it may be of any member, and a
    field that is missing in the default of a record must have a default itself.

    `_known` has the verdicts until now, so that the time is bounded by types times values. While
    one is being found it is False: a record whose defaults fill it without an end has none.
    """

    def __init__(self, schema: AvroSchema) -> None:
        self._schema = schema
        self._known: dict[tuple[int, int], bool] = {}

    def check(self) -> None:
        for name, node in self._schema.named.items():
            for field in node.fields:
                if field.has_default and not self._fits(field.type, field.default):
                    raise InvalidSchema(
                        f"the field {field.name!r} of {name} has the default"
                        f" {print_json(field.default)[:200]}, which is not of its type"
                        f" {self._shown(field.type)}"
                    )

    def _shown(self, node: Node) -> str:
        named = self._schema.named
        return print_json(_Printer(named, set(named)).print(node, ""))[:200]

    def _fits(self, node: Node, value: Any) -> bool:
        node = self._schema.resolved(node)
        key = (id(node), id(value))
        if key not in self._known:
            self._known[key] = False
            self._known[key] = self._judge(node, value)
        return self._known[key]

    def _judge(self, node: Node, value: Any) -> bool:
        match node.kind:
            case "union":
                return any(self._fits(member, value) for member in node.members)
            case "array":
                return isinstance(value, list) and all(
                    self._fits(node.members[0], item) for item in value
                )
            case "map":
                return isinstance(value, dict) and all(
                    self._fits(node.members[0], item) for item in value.values()
                )
            case "record" | "error":
                return isinstance(value, dict) and all(
                    self._fits(field.type, value.get(field.name, field.default))
                    for field in node.fields
                )
        return _fits_scalar(node.kind, value)


def _fits_scalar(kind: str, value: Any) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    match kind:
        case "null":
            return value is None
        case "boolean":
            return isinstance(value, bool)
        case "int" | "long":
            limit = MAX_INT if kind == "int" else MAX_LONG
            return is_number and isinstance(value, int) and -limit - 1 <= value <= limit
        case "float" | "double":
            return is_number
    return isinstance(value, str)


# Printing


class _Printer:
    """Prints a tree of types as the JSON that Java prints. `known` has the names of types that are
    not printed any more, because a reference or an earlier place has them."""

    def __init__(self, named: Mapping[str, Node], known: set[str]) -> None:
        self._named = named
        self._known = known

    def print(self, node: Node, namespace: str) -> Any:
        match node.kind:
            case "ref":
                if node.name in self._known:
                    return _qualified(node.name, namespace)
                self._known.add(node.name)
                return self._definition(self._named[node.name], namespace)
            case "union":
                return [self.print(member, namespace) for member in node.members]
            case "array" | "map":
                inner = "items" if node.kind == "array" else "values"
                return {
                    "type": node.kind,
                    inner: self.print(node.members[0], namespace),
                    **node.properties,
                }
        return {"type": node.kind, **node.properties} if node.properties else node.kind

    def _definition(self, node: Node, outside: str) -> dict[str, Any]:
        printed: dict[str, Any] = {"type": node.kind, "name": node.short_name}
        if node.namespace != outside:
            printed["namespace"] = node.namespace
        if node.doc is not None:
            printed["doc"] = node.doc
        if node.kind == "enum":
            printed["symbols"] = list(node.symbols)
            if node.default is not None:
                printed["default"] = node.default
        elif node.kind == "fixed":
            printed["size"] = node.size
        else:
            printed["fields"] = [self._field(field, node.namespace) for field in node.fields]
        printed.update(node.properties)
        if node.aliases:
            printed["aliases"] = [_qualified(alias, node.namespace) for alias in node.aliases]
        return printed

    def _field(self, one: Field, namespace: str) -> dict[str, Any]:
        printed: dict[str, Any] = {"name": one.name, "type": self.print(one.type, namespace)}
        if one.doc is not None:
            printed["doc"] = one.doc
        if one.has_default:
            printed["default"] = one.default
        if one.order != "ascending":
            printed["order"] = one.order
        if one.aliases:
            printed["aliases"] = list(one.aliases)
        printed.update(one.properties)
        return printed


def _qualified(name: str, namespace: str) -> str:
    """Returns a full name as it is written within a namespace: short if it is of the same one. A
    name that would then look like a primitive type stays full."""
    space, _, short = name.rpartition(".")
    return short if space == namespace and short not in PRIMITIVES | NAMED else name


# Normalising


def _sorted(node: Node) -> Node:
    """Returns a type with its properties and aliases in order, within its definition. An empty
    documentation counts as none."""
    return Node(
        node.kind,
        node.name,
        node.doc or None,
        tuple(sorted(node.aliases)),
        tuple(
            Field(
                field.name,
                _sorted(field.type),
                field.doc,
                field.default,
                field.order,
                tuple(sorted(field.aliases)),
                _sorted_json(field.properties),
            )
            for field in node.fields
        ),
        node.symbols,
        node.default,
        node.size,
        tuple(_sorted(member) for member in node.members),
        _sorted_json(node.properties),
    )


def _sorted_json(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _sorted_json(value[key]) for key in sorted(value)}
    return [_sorted_json(item) for item in value] if isinstance(value, list) else value
