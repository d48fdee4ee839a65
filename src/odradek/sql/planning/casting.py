"""Values from one type to another: CAST, and what is done without being asked.

A number becomes a wider one by itself; a literal more than that (`literal`): the text '12' is a
number where a number is expected. What cannot be converted raises `ValueError`, and the expression
is null.
"""

import base64
import math
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from typing import Any, Final

from odradek.sql.functions.declaring import wider
from odradek.sql.functions.java_times import (
    DAY_MS,
    iso_text,
    read_date,
    read_time,
    read_timestamp,
)
from odradek.streams.formats.columns import BadRow, decimal_of, text_of
from odradek.streams.plan.types import (
    ArrayType,
    DecimalType,
    MapType,
    SqlType,
    StructType,
)

Cast = Callable[[Any], Any]
_BITS: Final = {"INTEGER": 32, "BIGINT": 64}
_READERS: Final[dict[str, Cast]] = {
    "DATE": read_date,
    "TIME": read_time,
    "TIMESTAMP": read_timestamp,
}
_BOOLEANS: Final = ("true", "yes")
_NOT_BOOLEANS: Final = ("false", "no")


def _same(value: Any) -> Any:
    return value


def cast(source: SqlType | None, target: SqlType) -> Cast | None:
    """Returns what CAST does, or None if it is not possible. `source` is None for a null."""
    if source is None or source == target:
        return _same
    if target.name == "STRING":
        return None if source.name == "BYTES" else lambda value: shown(value, source)
    if not source.is_primitive:
        return _collection_cast(source, target)
    if source.is_numeric and target.is_numeric:
        return _to_number(target)
    if source.name == "STRING":
        return _from_text(target)
    times: dict[tuple[str, str], Cast] = {
        ("TIMESTAMP", "DATE"): lambda value: value // DAY_MS,
        ("TIMESTAMP", "TIME"): lambda value: value % DAY_MS,
        ("DATE", "TIMESTAMP"): lambda value: value * DAY_MS,
    }
    return times.get((source.name, target.name))


def _collection_cast(source: SqlType, target: SqlType) -> Cast | None:
    if isinstance(target, ArrayType) and isinstance(source, ArrayType):
        return _array_cast(source, target)
    if isinstance(target, MapType) and isinstance(source, MapType):
        return _map_cast(source, target)
    if isinstance(target, StructType) and isinstance(source, StructType):
        return _struct_cast(source, target)
    return None


def _to_number(target: SqlType) -> Cast:
    if isinstance(target, DecimalType):
        return lambda value: decimal_of(value, target)
    if target.name == "DOUBLE":
        return float
    bits = _BITS[target.name]

    def whole(value: Any) -> int:
        if isinstance(value, float):
            return _saturated(value, bits)
        return wrapped(int(value), bits)

    return whole


def _saturated(value: float, bits: int) -> int:
    """Returns the whole number that Java makes of a DOUBLE: the nearest there is, 0 for NaN."""
    half = 1 << bits - 1
    if math.isnan(value):
        return 0
    if math.isinf(value):
        return half - 1 if value > 0 else -half
    return max(-half, min(half - 1, int(value)))


def wrapped(value: int, bits: int) -> int:
    """Returns a number as a Java number of so many bits, which wraps around."""
    half = 1 << bits - 1
    return (value + half) % (1 << bits) - half


def _from_text(target: SqlType) -> Cast | None:
    if target.name == "BOOLEAN":
        return lambda text: _begins(text.strip(), _BOOLEANS)
    if isinstance(target, DecimalType):
        return lambda text: decimal_of(_trimmed(text), target)
    if target.name == "BYTES":
        return _bytes_of_text
    if target.name == "DOUBLE":
        return lambda text: _number(_finite, text, target)
    if target.name in _BITS:
        limit = 1 << _BITS[target.name] - 1

        def whole(text: str) -> int:
            number: int = _number(int, text, target)
            if not -limit <= number < limit:
                raise ValueError(f"{text} is too large for {target}")
            return number

        return whole
    return _READERS.get(target.name)


def _begins(text: str, words: tuple[str, ...]) -> bool:
    """Returns whether a text is the beginning of a word."""
    return bool(text) and any(word.startswith(text.lower()) for word in words)


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is not a finite number")
    return number


def _trimmed(text: str) -> str:
    """Returns a text without what Java's trim takes away. Python's numbers may have other spaces
    around them."""
    trimmed = text.strip("".join(map(chr, range(33))))
    return trimmed if trimmed.strip() == trimmed else "?"


def _number(read: Callable[[str], Any], text: str, target: SqlType) -> Any:
    try:
        # Python allows underscores in numbers.
        return read(_trimmed(text).replace("_", "?"))
    except ValueError:
        raise ValueError(f"'{text}' is no {target}") from None


def _array_cast(source: ArrayType, target: ArrayType) -> Cast | None:
    one = cast(source.element, target.element)
    if one is None:
        return None
    return lambda values: [None if value is None else one(value) for value in values]


def _map_cast(source: MapType, target: MapType) -> Cast | None:
    keys, values = cast(source.key, target.key), cast(source.value, target.value)
    if keys is None or values is None:
        return None

    def convert(given: dict[Any, Any]) -> dict[Any, Any]:
        return {
            None if key is None else keys(key): None if value is None else values(value)
            for key, value in given.items()
        }

    return convert


def _struct_cast(source: StructType, target: StructType) -> Cast | None:
    casts: dict[str, Cast | None] = {}
    for name, kind in target.fields:
        given = source.field_type(name)
        casts[name] = None if given is None else cast(given, kind)
        if given is not None and casts[name] is None:
            return None

    def convert(given: dict[str, Any]) -> dict[str, Any]:
        converted = {}
        for name, one in casts.items():
            value = given.get(name)
            converted[name] = None if value is None or one is None else one(value)
        return converted

    return convert


def shown(value: Any, kind: SqlType) -> str:
    """Returns a value as CAST AS STRING does."""
    if value is None:
        return "null"
    if kind.name in _READERS:
        return iso_text(value, kind)
    if isinstance(kind, ArrayType):
        return f"[{', '.join(shown(one, kind.element) for one in value)}]"
    if isinstance(kind, MapType):
        pairs = (f"{shown(k, kind.key)}={shown(v, kind.value)}" for k, v in value.items())
        return f"{{{', '.join(pairs)}}}"
    if isinstance(kind, StructType):
        fields = (f"{name}={shown(value.get(name), one)}" for name, one in kind.fields)
        return f"Struct{{{','.join(fields)}}}"
    return text_of(value, kind)


# What is done without being asked


def implicit(source: SqlType | None, target: SqlType) -> Cast | None:
    """Returns the conversion to a type that holds every value of the source, or None."""
    if source is None or source == target:
        return _same
    if source.is_numeric and target.is_numeric:
        return _to_number(target) if wider(source, target) == target else None
    pairs: list[tuple[SqlType, SqlType]] = []
    if isinstance(source, ArrayType) and isinstance(target, ArrayType):
        pairs = [(source.element, target.element)]
    elif isinstance(source, MapType) and isinstance(target, MapType):
        pairs = [(source.key, target.key), (source.value, target.value)]
    elif isinstance(source, StructType) and isinstance(target, StructType):
        kinds = dict(source.fields)
        pairs = [(kinds[name], kind) for name, kind in target.fields if name in kinds]
        if not pairs:
            return None
    if pairs and all(implicit(one, other) is not None for one, other in pairs):
        return cast(source, target)
    return None


def inserted(source: SqlType | None, target: SqlType) -> Cast | None:
    """Returns what makes a value that is inserted, or a part of one, be of the type of its column:
    more than `implicit`, as times may be texts. None if the types do not fit."""
    convert = implicit(source, target)
    if convert is not None or source is None:
        return convert
    if source.name == "STRING":
        return _bytes_of_text if target.name == "BYTES" else _READERS.get(target.name)
    if isinstance(source, StructType) and isinstance(target, StructType):
        return _inserted_struct(source, target)
    return _inserted_collection(source, target)


def _bytes_of_text(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


def _inserted_collection(source: SqlType, target: SqlType) -> Cast | None:
    if isinstance(source, ArrayType) and isinstance(target, ArrayType):
        one = inserted(source.element, target.element)
        return None if one is None else lambda values: [_given(one, value) for value in values]
    if not isinstance(source, MapType) or not isinstance(target, MapType):
        return None
    of_key, of_value = inserted(source.key, target.key), inserted(source.value, target.value)
    if of_key is None or of_value is None:
        return None
    return lambda values: {
        _given(of_key, key): _given(of_value, value) for key, value in values.items()
    }


def _given(convert: Cast, value: Any) -> Any:
    return None if value is None else convert(value)


def _inserted_struct(source: StructType, target: StructType) -> Cast | None:
    converts: dict[str, Cast] = {}
    for name, kind in source.fields:
        wanted = target.field_type(name)
        convert = None if wanted is None else inserted(kind, wanted)
        if convert is None:
            return None
        converts[name] = convert
    missing = {name: None for name, _ in target.fields}
    return lambda value: {
        **missing,
        **{name: _given(convert, value[name]) for name, convert in converts.items()},
    }


def common(one: SqlType | None, other: SqlType | None) -> SqlType | None:
    """Returns the type that holds the values of both; None if there is none, or both are null."""
    if one is None or other is None or one == other:
        return other if one is None else one
    if one.is_numeric and other.is_numeric:
        return wider(one, other)
    if isinstance(one, ArrayType) and isinstance(other, ArrayType):
        element = common(one.element, other.element)
        return None if element is None else ArrayType(element)
    if isinstance(one, MapType) and isinstance(other, MapType):
        key, value = common(one.key, other.key), common(one.value, other.value)
        return None if key is None or value is None else MapType(key, value)
    if isinstance(one, StructType) and isinstance(other, StructType):
        return _common_struct(one, other)
    return None


def _common_struct(one: StructType, other: StructType) -> SqlType | None:
    fields = dict(one.fields)
    for name, kind in other.fields:
        merged = common(fields.get(name), kind)
        if merged is None:
            return None
        fields[name] = merged
    return StructType(tuple(fields.items()))


def literal(text: str, target: SqlType) -> Any:
    """Returns the value that a text literal stands for, where another type is expected. Raises
    `ValueError` if it stands for none."""
    text = text.strip()
    if target.name == "STRING":
        return text
    if target.name == "BOOLEAN":
        for words, value in ((_BOOLEANS, True), (_NOT_BOOLEANS, False)):
            if _begins(text, words):
                return value
        raise ValueError(f"'{text}' is not a BOOLEAN")
    reader = _from_text(target)
    if reader is None:
        raise ValueError(f"'{text}' is no {target}")
    try:
        return reader(text)
    except BadRow as error:
        raise ValueError(str(error)) from None


def number_in_text(text: str) -> tuple[Any, SqlType] | None:
    """Returns the number that a text stands for, with the narrowest type, or None."""
    from odradek.streams.plan.types import BIGINT, DOUBLE, INTEGER  # noqa: PLC0415

    text = text.strip()
    try:
        if text.lstrip("+-").isdigit():
            number = int(text)
            if -(1 << 31) <= number < 1 << 31:
                return number, INTEGER
            if -(1 << 63) <= number < 1 << 63:
                return number, BIGINT
        if "e" in text.lower():
            return float(text), DOUBLE
        exact = Decimal(text)
    except (ValueError, InvalidOperation):
        return None
    if not exact.is_finite():
        return None
    digits = exact.as_tuple()
    scale = max(0, -int(digits.exponent))
    precision = max(len(digits.digits), scale)
    return exact, DecimalType(precision, scale)


def rounded(value: Decimal, kind: DecimalType) -> Decimal:
    """Returns a decimal number with the scale of its type. Raises if it has too many digits."""
    result = value.quantize(Decimal(1).scaleb(-kind.scale), ROUND_HALF_UP)
    if result and result.adjusted() >= kind.precision - kind.scale:
        raise ValueError(f"{value} does not fit into {kind}")
    return result
