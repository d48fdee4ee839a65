"""Functions of numbers. What is not defined is NaN or Infinity, as in Java."""

import math
import random
from decimal import ROUND_CEILING, ROUND_DOWN, ROUND_FLOOR, Decimal
from typing import Any, Final

from odradek.sql.functions.declaring import Subject, as_decimal
from odradek.streams.plan.types import DOUBLE, DecimalType, SqlType

SUBJECT: Final = Subject("Numbers")
scalar = SUBJECT.scalar

_EARTH_KM: Final = 6371.0
_EARTH_MILES: Final = 3959.0
_MILES: Final = ("mi", "mile", "miles")
_KILOMETRES: Final = ("km", "kilometer", "kilometers", "kilometre", "kilometres")


def _trusting(call: Any) -> Any:
    """Returns the function with Java's answers where Python raises."""

    def called(*arguments: float) -> float:
        try:
            return float(call(*arguments))
        except OverflowError:
            return math.inf
        except (ValueError, ZeroDivisionError):
            return math.nan

    return called


def _ln(value: float) -> float:
    if value == 0:
        return -math.inf
    return math.log(value) if value > 0 else math.nan


def _cbrt(value: float) -> float:
    return math.copysign(abs(value) ** (1 / 3), value)


def _exact_cbrt(value: float) -> float:
    root = _cbrt(value)
    return round(root) if math.isfinite(root) and round(root) ** 3 == value else root


def _cot(value: float) -> float:
    return math.copysign(math.inf, value) if value == 0 else 1 / math.tan(value)


def _sinh(value: float) -> float:
    try:
        return math.sinh(value)
    except OverflowError:
        return math.copysign(math.inf, value)


for _name, _call, _doc in (
    ("ACOS", math.acos, "Returns the arc cosine, in radians; NaN outside of -1 to 1."),
    ("ASIN", math.asin, "Returns the arc sine, in radians; NaN outside of -1 to 1."),
    ("ATAN", math.atan, "Returns the arc tangent, in radians."),
    ("COS", math.cos, "Returns the cosine of an angle in radians."),
    ("COSH", math.cosh, "Returns the hyperbolic cosine."),
    ("COT", _cot, "Returns the cotangent of an angle in radians; infinite for 0."),
    ("DEGREES", math.degrees, "Converts radians to degrees."),
    ("EXP", math.exp, "Returns e raised to a power."),
    ("LN", _ln, "Returns the natural logarithm."),
    ("RADIANS", math.radians, "Converts degrees to radians."),
    ("SIN", math.sin, "Returns the sine of an angle in radians."),
    ("SINH", _sinh, "Returns the hyperbolic sine."),
    ("SQRT", math.sqrt, "Returns the square root; NaN of a negative number."),
    ("TAN", math.tan, "Returns the tangent of an angle in radians."),
    ("TANH", math.tanh, "Returns the hyperbolic tangent."),
    ("CBRT", _exact_cbrt, "Returns the cube root."),
):
    SUBJECT.add(_name, _trusting(_call), "DOUBLE -> DOUBLE", doc=_doc)
SUBJECT.add(
    "ATAN2", _trusting(math.atan2), "DOUBLE, DOUBLE -> DOUBLE",
    doc="Returns the angle of the point (x, y), given as y and x, in radians.",
)  # fmt: skip


@scalar("ABS", "INTEGER -> INTEGER", "BIGINT -> BIGINT", "DECIMAL -> N", "DOUBLE -> DOUBLE",
        returns=lambda kinds: kinds[0] or DOUBLE)  # fmt: skip
def absolute(value: Any) -> Any:
    """Returns the absolute value."""
    return abs(value)


def _whole(kinds: Any) -> SqlType:
    kind = kinds[0]
    if isinstance(kind, DecimalType):
        return DecimalType(max(1, kind.precision - kind.scale), 0)
    return kind or DOUBLE


@scalar("CEIL", "INTEGER -> INTEGER", "BIGINT -> BIGINT", "DECIMAL -> N", "DOUBLE -> DOUBLE",
        returns=lambda kinds: kinds[0] or DOUBLE)  # fmt: skip
def ceil(value: Any) -> Any:
    """Returns the smallest whole number that is not below the value."""
    if isinstance(value, Decimal):
        return value.to_integral_value(ROUND_CEILING).quantize(value)
    return float(math.ceil(value)) if isinstance(value, float) and math.isfinite(value) else value


@scalar("FLOOR", "INTEGER -> INTEGER", "BIGINT -> BIGINT", "DECIMAL -> N", "DOUBLE -> DOUBLE",
        returns=lambda kinds: kinds[0] or DOUBLE)  # fmt: skip
def floor(value: Any) -> Any:
    """Returns the largest whole number that is not above the value."""
    if isinstance(value, Decimal):
        return value.to_integral_value(ROUND_FLOOR).quantize(value)
    return float(math.floor(value)) if isinstance(value, float) and math.isfinite(value) else value


def _half_up(value: Decimal, places: int) -> Decimal:
    # Ties go up, to positive infinity: -2.5 is rounded to -2.
    step = Decimal(1).scaleb(-places)
    return (value / step + Decimal("0.5")).to_integral_value(ROUND_FLOOR) * step


@scalar("ROUND", "BIGINT -> BIGINT", "DOUBLE -> BIGINT")
def round_whole(value: Any) -> int:
    """Rounds to a number of decimal places, 0 if none is given; ties are rounded up. Negative
    places are left of the point."""
    if isinstance(value, float):
        if math.isnan(value):
            return 0
        if math.isinf(value):
            return _as_bigint(1 << 64 if value > 0 else -(1 << 64))
        return _as_bigint(int(_half_up(Decimal(repr(value)), 0)))
    return int(value)


def _as_bigint(value: int) -> int:
    """Returns the BIGINT that is nearest to a number."""
    return max(-(1 << 63), min((1 << 63) - 1, value))


@scalar("ROUND", "DECIMAL -> N", returns=_whole)
def round_decimal(value: Decimal) -> Decimal:
    return _half_up(value, 0).quantize(Decimal(1))


@scalar("ROUND", "DECIMAL, INTEGER -> N", returns=lambda kinds: as_decimal(kinds[0] or DOUBLE))
def round_decimal_places(value: Decimal, places: int) -> Decimal:
    return _half_up(value, places).quantize(value)


@scalar("ROUND", "DOUBLE, INTEGER -> DOUBLE")
def round_places(value: float, places: int) -> float:
    return float(_half_up(Decimal(repr(value)), places)) if math.isfinite(value) else value


@scalar("TRUNC", "BIGINT -> BIGINT", "DOUBLE -> BIGINT")
def trunc(value: Any) -> int:
    """Cuts off decimal places towards zero; 0 places if none is given. Negative places are left of
    the point."""
    if isinstance(value, float) and not math.isfinite(value):
        return 0 if math.isnan(value) else _as_bigint(1 << 64 if value > 0 else -(1 << 64))
    return _as_bigint(int(value))


@scalar("TRUNC", "DECIMAL -> N", returns=_whole)
def trunc_decimal(value: Decimal) -> Decimal:
    return value.to_integral_value(ROUND_DOWN)


@scalar("TRUNC", "DECIMAL, INTEGER -> N", returns=lambda kinds: as_decimal(kinds[0] or DOUBLE))
def trunc_decimal_places(value: Decimal, places: int) -> Decimal:
    step = Decimal(1).scaleb(-places)
    return ((value / step).to_integral_value(ROUND_DOWN) * step).quantize(value)


@scalar("TRUNC", "DOUBLE, INTEGER -> DOUBLE")
def trunc_places(value: float, places: int) -> float:
    if not math.isfinite(value):
        return value
    step = Decimal(1).scaleb(-places)
    return float((Decimal(repr(value)) / step).to_integral_value(ROUND_DOWN) * step)


@scalar("GREATEST", "T, T... -> T", nulls=True)
def greatest(*values: Any) -> Any:
    """Returns the largest value that is not null."""
    return max((value for value in values if value is not None), default=None)


@scalar("LEAST", "T, T... -> T", nulls=True)
def least(*values: Any) -> Any:
    """Returns the smallest value that is not null."""
    return min((value for value in values if value is not None), default=None)


@scalar("LOG", "DOUBLE -> DOUBLE")
def log(value: float) -> float:
    """Returns the natural logarithm, as ksqlDB does, or the logarithm to the base that is given
    first."""
    return _ln(value)


@scalar("LOG", "DOUBLE, DOUBLE -> DOUBLE")
def log_to_base(base: float, value: float) -> float:
    if base <= 0 or base == 1:
        return math.nan
    return _ln(value) / _ln(base)


@scalar("PI", "-> DOUBLE")
def pi() -> float:
    """Returns an approximation of pi."""
    return math.pi


@scalar("POWER", "DOUBLE, DOUBLE -> DOUBLE")
def power(base: float, exponent: float) -> float:
    """Returns a number raised to a power; infinite where a DOUBLE is too small for it."""
    try:
        result = base**exponent
    except OverflowError:
        return -math.inf if base < 0 and exponent % 2 == 1 else math.inf
    except ZeroDivisionError:
        return math.inf
    return math.nan if isinstance(result, complex) else float(result)


@scalar("RANDOM", "-> DOUBLE", is_deterministic=False)
def random_number() -> float:
    """Returns a random number from 0 to 1."""
    return random.random()  # noqa: S311 - it is no secret


@scalar("SIGN", "N -> INTEGER")
def sign(value: Any) -> int:
    """Returns -1, 0 or 1."""
    return int(value > 0) - int(value < 0)


@scalar("GEO_DISTANCE", "DOUBLE, DOUBLE, DOUBLE, DOUBLE -> DOUBLE",
        "DOUBLE, DOUBLE, DOUBLE, DOUBLE, STRING -> DOUBLE")  # fmt: skip
def geo_distance(lat1: float, lon1: float, lat2: float, lon2: float, unit: str = "KM") -> float:
    """Returns the great-circle distance of two points in degrees, in KM or MILES."""
    for degrees, limit in ((lat1, 90), (lat2, 90), (lon1, 180), (lon2, 180)):
        if abs(degrees) > limit:
            raise ValueError(f"{degrees} is not a latitude or longitude")
    half_lat = math.radians(lat2 - lat1) / 2
    half_lon = math.radians(lon2 - lon1) / 2
    # In the order in which ksqlDB multiplies, so that results are equal to the last digit.
    chord = math.sin(half_lon) ** 2 * math.cos(math.radians(lat1)) * math.cos(math.radians(lat2))
    chord += math.sin(half_lat) ** 2
    name = unit.strip().lower()
    if name and name not in (*_MILES, *_KILOMETRES):
        raise ValueError(f"the unit is one of {', '.join((*_MILES, *_KILOMETRES))}, not {unit}")
    radius = _EARTH_MILES if name in _MILES else _EARTH_KM
    return 2 * math.asin(math.sqrt(chord)) * radius
