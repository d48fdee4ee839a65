"""The types of columns: those of ksqlDB's language, with the Python values that stand for them.

    BOOLEAN bool; INTEGER, BIGINT int; DOUBLE float; STRING str; BYTES bytes; DECIMAL Decimal
    DATE       int, days since 1970-01-01
    TIME       int, milliseconds since midnight
    TIMESTAMP  int, milliseconds since 1970-01-01T00:00:00Z
    ARRAY list; MAP dict; STRUCT dict from each field's name to its value

Times are numbers because every format writes them as numbers, and comparing them is cheap. None is
a value of every type.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple


class SqlType:
    """What all types have in common. Two types are equal if they have the same parameters."""

    __slots__ = ()

    @property
    def name(self) -> str:
        """Returns the name without parameters."""
        raise NotImplementedError

    def __str__(self) -> str:
        return self.name

    @property
    def is_numeric(self) -> bool:
        return self.name in _NUMERIC

    @property
    def is_primitive(self) -> bool:
        return self.name not in ("ARRAY", "MAP", "STRUCT")


@dataclass(frozen=True, slots=True)
class SimpleType(SqlType):
    """A type without parameters."""

    text: str

    @property
    def name(self) -> str:
        return self.text


@dataclass(frozen=True)
class DecimalType(SqlType):
    precision: int
    scale: int

    @property
    def name(self) -> str:
        return "DECIMAL"

    def __str__(self) -> str:
        return f"DECIMAL({self.precision}, {self.scale})"


@dataclass(frozen=True)
class ArrayType(SqlType):
    element: SqlType

    @property
    def name(self) -> str:
        return "ARRAY"

    def __str__(self) -> str:
        return f"ARRAY<{self.element}>"


@dataclass(frozen=True)
class MapType(SqlType):
    key: SqlType
    value: SqlType

    @property
    def name(self) -> str:
        return "MAP"

    def __str__(self) -> str:
        return f"MAP<{self.key}, {self.value}>"


@dataclass(frozen=True)
class StructType(SqlType):
    fields: tuple[tuple[str, SqlType], ...]

    @property
    def name(self) -> str:
        return "STRUCT"

    def __str__(self) -> str:
        return f"STRUCT<{', '.join(f'{quoted(name)} {kind}' for name, kind in self.fields)}>"

    def field_type(self, name: str) -> SqlType | None:
        return next((kind for field_name, kind in self.fields if field_name == name), None)


BOOLEAN: Final = SimpleType("BOOLEAN")
INTEGER: Final = SimpleType("INTEGER")
BIGINT: Final = SimpleType("BIGINT")
DOUBLE: Final = SimpleType("DOUBLE")
STRING: Final = SimpleType("STRING")
BYTES: Final = SimpleType("BYTES")
DATE: Final = SimpleType("DATE")
TIME: Final = SimpleType("TIME")
TIMESTAMP: Final = SimpleType("TIMESTAMP")
_NUMERIC: Final = frozenset({"INTEGER", "BIGINT", "DECIMAL", "DOUBLE"})

NAMED: Final = {
    "BOOLEAN": BOOLEAN,
    "BOOL": BOOLEAN,
    "INT": INTEGER,
    "INTEGER": INTEGER,
    "BIGINT": BIGINT,
    "DOUBLE": DOUBLE,
    "STRING": STRING,
    "VARCHAR": STRING,
    "BYTES": BYTES,
    "DATE": DATE,
    "TIME": TIME,
    "TIMESTAMP": TIMESTAMP,
}
"""The types that have no parameters, by all their names."""


def quoted(name: str) -> str:
    """Returns a name as ksqlDB prints it: within backquotes, which are doubled inside."""
    return f"`{name.replace('`', '``')}`"


class Column(NamedTuple):
    name: str
    kind: SqlType
    header: str | None = None
    """A column that is read from the record's headers: the header's name, or "" for all of them."""

    def __str__(self) -> str:
        return f"{quoted(self.name)} {self.kind}"


@dataclass(frozen=True, slots=True)
class Schema:
    """The columns of a stream or a table. A record's key is a tuple of values for the key columns,
    or None; its value is a tuple for the value columns, or None for a tombstone."""

    key: tuple[Column, ...] = ()
    value: tuple[Column, ...] = ()

    def __iter__(self) -> Iterator[Column]:
        yield from self.key
        yield from self.value

    def __str__(self) -> str:
        keys = (f"{column} KEY" for column in self.key)
        return ", ".join((*keys, *map(str, self.value)))

    def find(self, name: str) -> Column | None:
        return next((column for column in self if column.name == name), None)
