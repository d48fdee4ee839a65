"""Checks what a user's function has returned, and converts it to a value of the declared type."""

from decimal import Decimal
from typing import Any, Final

from odradek.streams.plan.types import ArrayType, DecimalType, MapType, SqlType, StructType

_PYTHON: Final[dict[str, tuple[type, ...]]] = {
    "BOOLEAN": (bool,), "INTEGER": (int,), "BIGINT": (int,), "DOUBLE": (float, int),
    "STRING": (str,), "BYTES": (bytes,), "DECIMAL": (Decimal,), "DATE": (int,), "TIME": (int,),
    "TIMESTAMP": (int,), "ARRAY": (list,), "MAP": (dict,), "STRUCT": (dict,),
}  # fmt: skip
_MAX_BITS: Final = {"INTEGER": 31, "BIGINT": 63, "DATE": 31, "TIME": 31, "TIMESTAMP": 63}


def checked(value: Any, kind: SqlType, name: str) -> Any:
    """Returns the result of the function `name` as a value of type `kind`. Raises `ValueError` if
    it is of another type, or too large."""
    if value is None:
        return None
    expected: Any = _PYTHON.get(kind.name, object)
    if isinstance(value, tuple) and kind.name == "ARRAY":
        value = list(value)
    if not isinstance(value, expected) or (isinstance(value, bool) and kind.name != "BOOLEAN"):
        raise ValueError(f"{name} returned {type(value).__name__}, but its type is {kind}")
    bits = _MAX_BITS.get(kind.name)
    if bits is not None and not -(1 << bits) <= value < 1 << bits:
        raise ValueError(f"{name} returned {value}, which does not fit into {kind}")
    return _converted(value, kind, name)


def _converted(value: Any, kind: SqlType, name: str) -> Any:
    """Returns a value with its elements or fields checked, a number in the class of its type."""
    if kind.name == "DOUBLE":
        value = float(value)
    elif isinstance(kind, DecimalType):
        value = _rounded(value, kind, name)
    elif isinstance(kind, ArrayType):
        value = [checked(element, kind.element, name) for element in value]
    elif isinstance(kind, MapType):
        value = {str(key): checked(item, kind.value, name) for key, item in value.items()}
    elif isinstance(kind, StructType):
        fields = dict(kind.fields)
        # SQL converts names without quotes to capitals, so a function may use lower case.
        given = {key if key in fields else str(key).upper(): item for key, item in value.items()}
        unknown = sorted(set(given) - set(fields))
        if unknown:
            raise ValueError(f"{name} returned the fields {unknown}, which {kind} does not have")
        value = {field: checked(given.get(field), part, name) for field, part in fields.items()}
    return value


def _rounded(value: Decimal, kind: DecimalType, name: str) -> Decimal:
    if value.is_finite() and abs(value) < 10 ** (kind.precision - kind.scale):
        rounded = round(value, kind.scale)
        if abs(rounded) < 10 ** (kind.precision - kind.scale):
            return rounded
    raise ValueError(f"{name} returned {value}, which does not fit into {kind}")
