"""Numbers as text, as Java writes them: connectors and SQL must give equal bytes.

Java writes a floating-point number with a point always, and with an exponent if it is below 0.001
or at least ten million: 100.0, 1.0E7, 1.0E-4.
"""

import math
import struct
from decimal import Decimal
from typing import Final

_LEAST_PLAIN: Final = Decimal("0.001")
_MOST_PLAIN: Final = Decimal(10_000_000)
_LEAST_NORMAL: Final = 2.2250738585072014e-308


def double_text(value: float) -> str:
    # Java writes two digits at least, and of all such texts the nearest one.
    text = f"{value:.1e}" if 0 < abs(value) < _LEAST_NORMAL else ""
    if not text or float(text) != value:
        text = repr(value)
    return _special(value) or _java(Decimal(text), negative_zero=_is_negative_zero(value))


def float_text(value: float) -> str:
    """Returns the shortest text that is this number in 32 bits."""
    special = _special(value)
    if special is not None:
        return special
    for digits in range(2, 10):
        text = f"{value:.{digits}g}"
        if in_32_bits(float(text)) == in_32_bits(value):
            break
    return _java(Decimal(text), negative_zero=_is_negative_zero(value))


def in_32_bits(value: float) -> float:
    """Returns the nearest number that has 32 bits."""
    try:
        (found,) = struct.unpack(">f", struct.pack(">f", value))
    except OverflowError:
        return math.copysign(math.inf, value)
    return float(found)


def _special(value: float) -> str | None:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return None


def _is_negative_zero(value: float) -> bool:
    return value == 0 and math.copysign(1, value) < 0


def _java(number: Decimal, *, negative_zero: bool) -> str:
    if not number:
        return "-0.0" if negative_zero else "0.0"
    sign = "-" if number < 0 else ""
    number = abs(number)
    if _LEAST_PLAIN <= number < _MOST_PLAIN:
        text = f"{number:f}"
        return sign + (text if "." in text else f"{text}.0")
    digits = "".join(map(str, number.normalize().as_tuple().digits))
    exponent = number.adjusted()
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{exponent}"
