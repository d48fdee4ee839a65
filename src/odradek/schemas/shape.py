"""A schema as a column: its type, and how values are converted to and from it.

The type is written as Spark writes types (`struct<a: int>`), because that is text and needs no
Spark. `to_row` converts a decoded value to the value that Arrow expects for that type, and
`from_row` converts back; None means that no conversion is needed.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

# Values have the types that their schema says, which are unknown here.
Convert = Callable[[Any], Any]


class Shape(NamedTuple):
    type: str
    to_row: Convert | None = None
    from_row: Convert | None = None


def column_name(name: str) -> str:
    """Returns a field's name as it is written in a type."""
    return "`" + name.replace("`", "``") + "`"


def struct(fields: list[tuple[str, Shape]]) -> Shape:
    """A record: a dictionary both as a decoded value and for Arrow."""
    kind = ", ".join(f"{column_name(name)}: {field.type}" for name, field in fields)
    into = [(name, field.to_row) for name, field in fields if field.to_row]
    out = [(name, field.from_row) for name, field in fields if field.from_row]
    return Shape(f"struct<{kind}>", _each_field(into), _each_field(out))


def _each_field(converts: list[tuple[str, Convert]]) -> Convert | None:
    if not converts:
        return None

    def convert(value: dict[str, Any] | None) -> dict[str, Any] | None:
        if value is None:
            return None
        changed = dict(value)
        for name, convert in converts:
            if changed.get(name) is not None:
                changed[name] = convert(changed[name])
        return changed

    return convert


def array(item: Shape) -> Shape:
    return Shape(f"array<{item.type}>", _each_item(item.to_row), _each_item(item.from_row))


def _each_item(convert: Convert | None) -> Convert | None:
    if convert is None:
        return None
    return lambda values: [None if value is None else convert(value) for value in values]


def mapping(item: Shape, key_type: str = "string") -> Shape:
    """A map: a dictionary as a decoded value, a list of pairs for Arrow."""
    into, out = item.to_row, item.from_row
    return Shape(
        f"map<{key_type}, {item.type}>",
        lambda values: [(key, _convert(into, value)) for key, value in values.items()],
        lambda pairs: {key: _convert(out, value) for key, value in pairs},
    )


def _convert(convert: Convert | None, value: Any) -> Any:
    return value if convert is None or value is None else convert(value)
