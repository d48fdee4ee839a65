"""The types of the source in schemas: `column.propagate.source.type` and its kin for data types.

The parameters are Debezium's, `__debezium.source.column.type` and so on. Lengths and scales are
those that PostgreSQL's driver for Java gives, because consumers know them.
"""

from typing import Final

from odradek.connect.connectors.cdc.filters import NameFilter
from odradek.connect.connectors.postgres.catalog import ColumnRow
from odradek.connect.connectors.postgres.settings import PostgresSettings
from odradek.connect.connectors.postgres.types import TypeRow, numeric_scale

_PARAMETER: Final = "__debezium.source.column."
_NO_LIMIT: Final = 2_147_483_647
_NUMERIC_WITHOUT_LIMIT: Final = 131_089
_MICROSECONDS: Final = 6
_HEADER: Final = 4
_LENGTHS: Final = {
    "bool": 1,
    "char": 1,
    "date": 13,
    "float4": 8,
    "float8": 17,
    "int2": 5,
    "int4": 10,
    "int8": 19,
    "interval": 49,
    "oid": 10,
}
# The letters of a time without its fraction.
_TIMES: Final = {"time": 8, "timetz": 14, "timestamp": 22, "timestamptz": 28}


class SourceTypes:
    """Which columns of a connector have these parameters."""

    def __init__(self, settings: PostgresSettings) -> None:
        columns = settings.column_propagate_source_type
        types = settings.datatype_propagate_source_type
        self._columns = NameFilter(columns, None) if columns else None
        self._types = NameFilter(types, None) if types else None

    def parameters(self, table: str, column: ColumnRow) -> dict[str, str]:
        """Returns what the schema of a column gets; nothing if it is not selected."""
        type_ = column.type
        is_selected = (
            self._columns is not None and self._columns.selects(f"{table}.{column.name}")
        ) or (self._types is not None and self._types.selects(f"{table}.{type_.name}"))
        if not is_selected:
            return {}
        element = type_ if type_.element is None else type_.element
        return {
            f"{_PARAMETER}type": type_.name.upper(),
            f"{_PARAMETER}length": str(_length(element, column.modifier)),
            f"{_PARAMETER}scale": str(_scale(element, column.modifier)),
            f"{_PARAMETER}name": column.name,
        }


def _length(found: TypeRow, modifier: int) -> int:
    match found.name:
        case "numeric":
            digits = numeric_scale(modifier)
            return _NUMERIC_WITHOUT_LIMIT if digits is None else digits[0]
        case "varchar" | "bpchar":
            return _NO_LIMIT if modifier < _HEADER else modifier - _HEADER
        case "bit":
            return max(modifier, 1)
        case "varbit":
            return _NO_LIMIT if modifier < 0 else modifier
        case "time" | "timetz" | "timestamp" | "timestamptz":
            return _TIMES[found.name] + _fraction(modifier)
    return _LENGTHS.get(found.name, _NO_LIMIT)


def _fraction(modifier: int) -> int:
    """Returns the letters of a fraction of a second, with the point; the driver gives one digit
    the room of two."""
    digits = _MICROSECONDS if modifier < 0 else modifier
    return digits and max(digits, 2) + 1


def _scale(found: TypeRow, modifier: int) -> int:
    match found.name:
        case "float4" | "float8":
            return _LENGTHS[found.name]
        case "numeric":
            digits = numeric_scale(modifier)
            return 0 if digits is None else digits[1]
        case "time" | "timetz" | "timestamp" | "timestamptz":
            return _MICROSECONDS if modifier < 0 else modifier
        case "interval":
            return _MICROSECONDS if modifier < 0 else modifier & 0xFFFF
    return 0
