"""Whether what a user's function returned is a value of its type."""

from decimal import Decimal
from typing import Any, Final

from odradek.streams.plan.types import ArrayType, DecimalType, MapType, SqlType, StructType

_PYTHON: Final[dict[str, tuple[type, ...]]] = {
    "BOOLEAN": (bool,), "INTEGER": (int,), "BIGINT": (int,), "DOUBLE": (float, int),
    "STRING": (str,), "BYTES": (bytes,), "DECIMAL": (Decimal,), "DATE": (int,), "TIME": (int,),
    "TIMESTAMP": (int,), "ARRAY": (list,), "MAP": (dict,), "STRUCT": (dict,),
}  # fmt: skip
_BITS: Final = {"INTEGER": 31, "BIGINT": 63, "DATE": 31, "TIME": 31, "TIMESTAMP": 63}


def checked(value: Any, kind: SqlType, name: str) -> Any:
    """Returns the result of a function. Raises `ValueError` if it is not of its type."""
    if value is None:
        return None
    expected: Any = _PYTHON.get(kind.name, object)
    if isinstance(value, tuple) and kind.name == "ARRAY":
        value = list(value)
    if not isinstance(value, expected) or (isinstance(value, bool) and kind.name != "BOOLEAN"):
        raise ValueError(f"{name} returned {type(value).__name__}, and its type is {kind}")
    bits = _BITS.get(kind.name)
    if bits is not None and not -(1 << bits) <= value < 1 << bits:
        raise ValueError(f"{name} returned {value}, which is no {kind}")
    return _converted(value, kind, name)


def _converted(value: Any, kind: SqlType, name: str) -> Any:
    """Returns a value of the right class with its parts checked."""
    if kind.name == "DOUBLE":
        value = float(value)
    elif isinstance(kind, DecimalType):
        value = round(value, kind.scale)
    elif isinstance(kind, ArrayType):
        value = [checked(one, kind.element, name) for one in value]
    elif isinstance(kind, MapType):
        value = {str(key): checked(one, kind.value, name) for key, one in value.items()}
    elif isinstance(kind, StructType):
        fields = dict(kind.fields)
        # Names that are not quoted are in capitals in SQL.
        given = {key if key in fields else str(key).upper(): one for key, one in value.items()}
        unknown = sorted(set(given) - set(fields))
        if unknown:
            raise ValueError(f"{name} returned the fields {unknown}, which {kind} has not")
        value = {field: checked(given.get(field), one, name) for field, one in fields.items()}
    return value
