"""Arithmetic and comparison, with Java's rules: whole numbers wrap around and are cut off towards
zero when divided; null makes arithmetic null and a comparison false."""

import math
import operator
from collections.abc import Callable
from decimal import Context, Decimal
from typing import Any, Final

from odradek.sql.functions.declaring import as_decimal, wider
from odradek.sql.planning.casting import rounded, wrapped
from odradek.streams.plan.types import DOUBLE, DecimalType, SqlType

_CONTEXT: Final = Context(prec=80)
Binary = Callable[[Any, Any], Any]


def arithmetic(sign: str, one: SqlType, other: SqlType) -> tuple[SqlType, Binary] | None:
    """Returns the type of a result and what computes it of two numbers, or None."""
    kind = wider(one, other)
    if kind is None:
        return None
    if isinstance(kind, DecimalType):
        return _decimal_arithmetic(sign, as_decimal(one), as_decimal(other))
    if kind == DOUBLE:
        return kind, _DOUBLES[sign]
    bits = 32 if kind.name == "INTEGER" else 64
    compute = _WHOLE[sign]
    return kind, lambda left, right: wrapped(compute(left, right), bits)


def _divide(left: int, right: int) -> int:
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def _remainder(left: int, right: int) -> int:
    return left - right * _divide(left, right)


def _divide_doubles(dividend: Any, divisor: Any) -> float:
    left, right = float(dividend), float(divisor)
    if right == 0:
        if left == 0 or math.isnan(left):
            return math.nan
        return math.copysign(math.inf, left) * math.copysign(1, right)
    return left / right


def _remainder_doubles(left: Any, right: Any) -> float:
    return math.nan if right == 0 else float(math.fmod(left, right))


_WHOLE: Final[dict[str, Callable[[int, int], int]]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": _divide, "%": _remainder,
}  # fmt: skip
_DOUBLES: Final[dict[str, Binary]] = {
    "+": lambda left, right: float(left) + float(right),
    "-": lambda left, right: float(left) - float(right),
    "*": lambda left, right: float(left) * float(right),
    "/": _divide_doubles,
    "%": _remainder_doubles,
}


def _decimal_arithmetic(sign: str, one: DecimalType, other: DecimalType) -> tuple[SqlType, Binary]:
    whole = max(one.precision - one.scale, other.precision - other.scale)
    scale = max(one.scale, other.scale)
    if sign in "+-":
        kind = DecimalType(whole + scale + 1, scale)
    elif sign == "*":
        kind = DecimalType(one.precision + other.precision + 1, one.scale + other.scale)
    elif sign == "/":
        scale = max(6, one.scale + other.precision + 1)
        kind = DecimalType(one.precision - one.scale + other.scale + scale, scale)
    else:
        least = min(one.precision - one.scale, other.precision - other.scale)
        kind = DecimalType(least + scale, scale)
    compute = {
        "+": _CONTEXT.add, "-": _CONTEXT.subtract, "*": _CONTEXT.multiply, "/": _CONTEXT.divide,
        "%": _CONTEXT.remainder,
    }[sign]  # fmt: skip

    def calculate(left: Any, right: Any) -> Decimal:
        return rounded(compute(Decimal(left), Decimal(right)), kind)

    return kind, calculate


_COMPARISONS: Final[dict[str, Binary]] = {
    "=": operator.eq, "<>": operator.ne, "<": operator.lt, "<=": operator.le,
    ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
_UNORDERED: Final = ("ARRAY", "MAP", "STRUCT", "BOOLEAN")


def comparison(sign: str, one: SqlType | None, other: SqlType | None) -> Binary | str:
    """Returns what compares two values, or why they cannot be compared."""
    if one is not None and other is not None:
        is_same = one.name == other.name
        times = ("DATE", "TIMESTAMP")
        is_dated = one.name in times and other.name in times
        if not is_same and not is_dated and not (one.is_numeric and other.is_numeric):
            return f"Cannot compare {one} to {other} with '{sign}'"
        if sign not in ("=", "<>") and one.name in _UNORDERED:
            return f"values of type {one} have no order, so they cannot be compared with '{sign}'"
        if is_dated and not is_same:
            return _compare_dated(sign, one, other)
    compare = _COMPARISONS[sign]

    def compared(left: Any, right: Any) -> bool:
        return left is not None and right is not None and bool(compare(left, right))

    return compared


def _compare_dated(sign: str, one: SqlType, other: SqlType) -> Binary:
    compare, day_ms = _COMPARISONS[sign], 86_400_000

    def compared(left: Any, right: Any) -> bool:
        if left is None or right is None:
            return False
        left = left * day_ms if one.name == "DATE" else left
        right = right * day_ms if other.name == "DATE" else right
        return bool(compare(left, right))

    return compared
