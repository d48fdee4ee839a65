"""JSON texts of schemas: read with limits, printed as a schema registry prints them.

Both Avro and JSON Schema are written in JSON. A text comes from anybody, so it is refused if it is
nested deeper than `MAX_DEPTH`, which keeps every recursion over a schema within Python's limit, or
if it has numbers that are none (`NaN`). Of a key that occurs twice, the last one counts.
"""

import json
import math
from decimal import Decimal
from typing import Any, Final, NoReturn

from odradek.schemas.errors import InvalidSchema

MAX_DEPTH: Final = 200
# Numbers of more digits would take memory as soon as they are compared.
_MAX_EXPONENT: Final = 400
_EXPONENT_FROM: Final = 10_000_000
_EXPONENT_BELOW: Final = 0.001


def read_json(text: str, *, exact: bool = False) -> Any:
    """Returns the value of a JSON text. Numbers with a fraction are floats, or decimals that keep
    all of their digits if `exact`."""
    check_depth(text)
    try:
        return json.loads(text, parse_float=_decimal if exact else float, parse_constant=_no_number)
    except InvalidSchema:
        raise
    except json.JSONDecodeError as error:
        raise InvalidSchema(
            f"this is not JSON: {error.msg} in line {error.lineno}, column {error.colno}"
        ) from None
    except RecursionError:
        raise InvalidSchema(f"the JSON is nested deeper than {MAX_DEPTH} levels") from None
    except (ValueError, ArithmeticError) as error:
        raise InvalidSchema(f"this is not JSON: {error}") from None


def print_json(value: Any, *, sort: bool = False) -> str:
    """Returns a value as compact JSON. With `sort`, the keys of all objects are in order."""
    parts: list[str] = []
    _print(value, parts, sort=sort)
    return "".join(parts)


def check_depth(text: str) -> None:
    """Refuses a text with too many open brackets. Brackets within strings count too, if they are
    that many: only then the text is looked at more closely."""
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return
    depth = 0
    within_string = escaped = False
    for character in text:
        if within_string:
            if escaped:
                escaped = False
            elif character == "\\":
                escaped = True
            elif character == '"':
                within_string = False
        elif character == '"':
            within_string = True
        elif character in "[{":
            depth += 1
            if depth > MAX_DEPTH:
                raise InvalidSchema(f"the JSON is nested deeper than {MAX_DEPTH} levels")
        elif character in "]}":
            depth -= 1


def _decimal(text: str) -> Decimal:
    number = Decimal(text)
    if abs(number.adjusted()) > _MAX_EXPONENT:
        raise InvalidSchema(f"the number {text[:60]} is out of range")
    return number


def _no_number(constant: str) -> NoReturn:
    raise InvalidSchema(f"this is not JSON: {constant} is not a number")


def _print(value: Any, parts: list[str], *, sort: bool) -> None:
    match value:
        case dict():
            separator = "{"
            for key in sorted(value) if sort else value:
                parts.append(f"{separator}{json.dumps(key, ensure_ascii=False)}:")
                _print(value[key], parts, sort=sort)
                separator = ","
            parts.append("}" if value else "{}")
        case list():
            separator = "["
            for item in value:
                parts.append(separator)
                _print(item, parts, sort=sort)
                separator = ","
            parts.append("]" if value else "[]")
        case Decimal():
            parts.append(str(value))
        case float():
            parts.append(_java_double(value))
        case _:
            parts.append(json.dumps(value, ensure_ascii=False))


def _java_double(value: float) -> str:
    """Returns a number as Java writes doubles: `1.0E10`, where Python has `10000000000.0`."""
    if math.isnan(value):
        return '"NaN"'
    if math.isinf(value):
        return '"Infinity"' if value > 0 else '"-Infinity"'
    if value == 0 or _EXPONENT_BELOW <= abs(value) < _EXPONENT_FROM:
        return repr(value)
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    text = "".join(map(str, digits))
    return f"{'-' if sign else ''}{text[0]}.{text[1:] or '0'}E{int(exponent) + len(digits) - 1}"
