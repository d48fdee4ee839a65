"""Whether a value fits its schema, the forms of logical types on the way, and inferred schemas."""

from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Final

from odradek.connect.data import schemas
from odradek.connect.data.schemas import INTEGERS, Schema, Type
from odradek.connect.errors import DataError

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_DAY: Final = _EPOCH.date()
_DAY_MS: Final = 86_400_000

_LOGICAL: Final[dict[str, type]] = {
    schemas.DECIMAL: Decimal,
    schemas.DATE: date,
    schemas.TIME: time,
    schemas.TIMESTAMP: datetime,
}
_PLAIN: Final[dict[Type, tuple[type, ...]]] = {
    Type.FLOAT32: (float,),
    Type.FLOAT64: (float,),
    Type.BOOLEAN: (bool,),
    Type.STRING: (str,),
    Type.BYTES: (bytes, bytearray, memoryview),
    Type.ARRAY: (list, tuple),
    Type.MAP: (dict,),
    Type.STRUCT: (dict,),
}


def check(schema: Schema, value: Any, where: str = "the value") -> None:
    """Raises `DataError` if the value does not fit its schema. `where` names it in the message."""
    if value is None:
        if not schema.is_optional:
            raise DataError(f"{where} is null, and its schema does not allow that")
        return
    logical = _LOGICAL.get(schema.name or "")
    if logical is not None:
        is_fit = isinstance(value, logical)
        if logical is date and isinstance(value, datetime):
            is_fit = False
        if not is_fit:
            raise DataError(f"{where} is {_kind(value)}, where {schema.name} needs {logical}")
    elif schema.type in INTEGERS:
        limit = 1 << INTEGERS[schema.type] - 1
        if not isinstance(value, int) or isinstance(value, bool) or not -limit <= value < limit:
            raise DataError(f"{where} is {_shown(value)}, which is no {schema.type}")
    elif not isinstance(value, _PLAIN[schema.type]):
        raise DataError(f"{where} is {_kind(value)}, which is no {schema.type}")
    else:
        _check_parts(schema, value, where)


def _check_parts(schema: Schema, value: Any, where: str) -> None:
    if schema.type is Type.STRUCT:
        for part in schema.fields:
            check(part.schema, value.get(part.name), f"field {part.name} of {where}")
        if unknown := value.keys() - {part.name for part in schema.fields}:
            raise DataError(f"{where} has no field {sorted(unknown)[0]} in its schema")
    elif schema.type is Type.ARRAY:
        for element in value:
            check(schema.elements, element, f"an element of {where}")
    elif schema.type is Type.MAP:
        assert schema.key is not None
        for key, element in value.items():
            check(schema.key, key, f"a key of {where}")
            check(schema.elements, element, f"the value of {key!r} in {where}")


def _kind(value: Any) -> str:
    return type(value).__name__


def _shown(value: Any) -> str:
    return repr(value)[:60]


def with_defaults(schema: Schema, value: Any) -> Any:
    """Returns the default of the schema in place of null, if it has one."""
    return schema.default if value is None and schema.default is not None else value


def infer(value: Any) -> Schema | None:
    """Returns the schema of a value that has none, or None if it cannot be known. As Kafka Connect
    does, whole numbers are int64 here."""
    plain: list[tuple[type | tuple[type, ...], Schema]] = [
        (bool, schemas.BOOLEAN),
        (int, schemas.INT64),
        (float, schemas.FLOAT64),
        (str, schemas.STRING),
        ((bytes, bytearray, memoryview), schemas.BYTES),
        (datetime, schemas.timestamp()),
        (date, schemas.date()),
        (time, schemas.time()),
    ]
    for kind, schema in plain:
        if isinstance(value, kind):
            return schema
    if isinstance(value, Decimal):
        return schemas.decimal(decimal_scale(value))
    if isinstance(value, list | tuple):
        item = _common(value)
        return None if item is None else schemas.array(item)
    if isinstance(value, dict):
        key, item = _common(value.keys()), _common(value.values())
        return None if key is None or item is None else schemas.map_of(key, item)
    return None


def _common(values: Any) -> Schema | None:
    """Returns the schema that all values have."""
    found = {infer(value) for value in values}
    return found.pop() if len(found) == 1 else None


# Logical types on the way


def decimal_scale(value: Decimal) -> int:
    exponent = value.as_tuple().exponent
    if not isinstance(exponent, int):
        raise DataError(f"{value} is not a decimal number")
    return -exponent


def decimal_to_bytes(value: Decimal, scale: int) -> bytes:
    """Returns the unscaled number in two's complement, the highest byte first."""
    sign, digits, exponent = value.as_tuple()
    if exponent != -scale:
        found = decimal_scale(value)
        raise DataError(f"{value} has the scale {found}, its schema {scale}")
    # Through a Decimal, because a text of more than 4,300 digits is refused as a number.
    unscaled = int(Decimal((sign, digits, 0)))
    length = (unscaled if unscaled >= 0 else ~unscaled).bit_length() // 8 + 1
    return unscaled.to_bytes(length, "big", signed=True)


def bytes_to_decimal(data: bytes, scale: int) -> Decimal:
    unscaled = int.from_bytes(data, "big", signed=True)
    sign, digits, _ = Decimal(unscaled).as_tuple()
    return Decimal((sign, digits, -scale))


class FarDate(date):
    """A day beyond the years 1 to 9999, which Python's dates do not have: for those who look at it
    as a date it is the first or the last one; converters write `days`, those since 1970."""

    days: int


class FarTimestamp(datetime):
    """A time beyond the years 1 to 9999, like `FarDate`."""

    milliseconds: int


class EndOfDay(time):
    """24:00:00, which databases have; for those who look at it as a time it is the last of the
    day."""


def any_date(days: int) -> date:
    """Returns a date that may be beyond Python's."""
    try:
        return _FIRST_DAY + timedelta(days=days)
    except OverflowError:
        limit = date.max if days > 0 else date.min
        far = FarDate(limit.year, limit.month, limit.day)
        far.days = days
        return far


def any_timestamp(milliseconds: int) -> datetime:
    """Returns a time that may be beyond Python's."""
    try:
        return _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        is_late = milliseconds > 0
        day, moment = (date.max, time.max) if is_late else (date.min, time.min)
        far = FarTimestamp.combine(day, moment, UTC)
        far.milliseconds = milliseconds
        return far


def any_time(milliseconds: int) -> time:
    """Returns a time of day, or its end."""
    if milliseconds == _DAY_MS:
        return EndOfDay(23, 59, 59, 999_999)
    return ms_to_time(milliseconds)


def date_to_days(value: date) -> int:
    return value.days if isinstance(value, FarDate) else (value - _FIRST_DAY).days


def days_to_date(days: int) -> date:
    try:
        return _FIRST_DAY + timedelta(days=days)
    except OverflowError:
        raise DataError(f"{days} days since 1970 are beyond the years 1 to 9999") from None


def time_to_ms(value: time) -> int:
    if isinstance(value, EndOfDay):
        return _DAY_MS
    seconds = (value.hour * 60 + value.minute) * 60 + value.second
    return seconds * 1000 + value.microsecond // 1000


def ms_to_time(milliseconds: int) -> time:
    if not 0 <= milliseconds < _DAY_MS:
        raise DataError(f"{milliseconds} ms are not a time of day")
    return (_EPOCH + timedelta(milliseconds=milliseconds)).time()


def timestamp_to_ms(value: datetime) -> int:
    """A time without a zone is taken for UTC."""
    if isinstance(value, FarTimestamp):
        return value.milliseconds
    if value.tzinfo is None:
        value = value.replace(tzinfo=UTC)
    return (value - _EPOCH) // timedelta(milliseconds=1)


def ms_to_timestamp(milliseconds: int) -> datetime:
    try:
        return _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        raise DataError(f"{milliseconds} ms since 1970 are beyond the years 1 to 9999") from None
