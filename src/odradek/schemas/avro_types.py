"""The types of an Avro schema, as a tree.

A named type (record, enum, fixed) stands in the tree as a `ref` to its full name wherever it is
used, and once in a table of definitions, so that trees are finite even if types contain themselves.
`avro_parsing` builds the tree, `avro_schema` prints and normalises it, `avro_compatibility`
compares two of them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

PRIMITIVES: Final = frozenset(
    {"null", "boolean", "int", "long", "float", "double", "bytes", "string"}
)
NAMED: Final = frozenset({"record", "error", "enum", "fixed"})
NO_DEFAULT: Final = object()
MAX_INT: Final = 2**31 - 1
MAX_LONG: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    type: "Node"
    doc: str | None
    default: Any
    order: str
    aliases: tuple[str, ...]
    properties: Mapping[str, Any]

    @property
    def has_default(self) -> bool:
        return self.default is not NO_DEFAULT


@dataclass(frozen=True, slots=True)
class Node:
    """One type. `kind` is a primitive type, `array`, `map`, `union`, one of `NAMED`, or `ref`: the
    use of the named type `name`. Names are full, and so are the aliases of types."""

    kind: str
    name: str = ""
    doc: str | None = None
    aliases: tuple[str, ...] = ()
    fields: tuple[Field, ...] = ()
    symbols: tuple[str, ...] = ()
    default: str | None = None
    size: int = 0
    members: tuple["Node", ...] = ()  # the members of a union, the only type of an array or map
    properties: Mapping[str, Any] = field(default_factory=dict)

    @property
    def short_name(self) -> str:
        return self.name.rpartition(".")[2]

    @property
    def namespace(self) -> str:
        return self.name.rpartition(".")[0]
