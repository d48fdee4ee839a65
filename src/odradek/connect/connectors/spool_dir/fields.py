"""Schemas as the settings write them, and text as values that fit them.

A schema is JSON such as

    {"name": "com.example.User", "type": "STRUCT", "isOptional": false,
     "fieldSchemas": {"id": {"type": "INT64", "isOptional": false},
                      "seen": {"name": "org.apache.kafka.connect.data.Timestamp", "type": "INT64",
                               "version": 1, "isOptional": true}}}
"""

import base64
import binascii
import json
import re
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, time, tzinfo
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from odradek.connect.data import schemas, values
from odradek.connect.data.schemas import INTEGERS, Field, Schema, Type
from odradek.connect.errors import DataError
from odradek.connect.transforms.java_dates import JavaDateFormat

_TYPES: Final = {
    **{kind.name: kind for kind in Type},
    "FLOAT": Type.FLOAT32,
    "DOUBLE": Type.FLOAT64,
}
_QUOTED: Final = re.compile(r"'[^']*'")
_ZONE_LETTER: Final = re.compile("[XZz]")
_TRUE: Final = {"true", "t", "yes", "y", "1"}
_FALSE: Final = {"false", "f", "no", "n", "0"}


def schema_of(text: str) -> Schema:
    """Raises `DataError`."""
    try:
        found = json.loads(text)
    except ValueError as error:
        raise DataError(f"the schema is not JSON: {error}") from None
    return _schema(found)


def _schema(found: Any) -> Schema:
    kind = _TYPES.get(str(found.get("type")).upper()) if isinstance(found, dict) else None
    if kind is None:
        raise DataError(
            'a schema is {"type": "STRUCT", "isOptional": false, "fieldSchemas": {...}} with types'
            f" such as {', '.join(sorted(_TYPES))}"
        )
    parts = found.get("fieldSchemas") or {}
    return Schema(
        kind,
        bool(found.get("isOptional")),
        found.get("name"),
        found.get("version"),
        found.get("doc"),
        parameters=found.get("parameters") or {},
        fields=tuple(Field(name, _schema(part)) for name, part in parts.items()),
        key=_schema(found["keySchema"]) if found.get("keySchema") else None,
        item=_schema(found["valueSchema"]) if found.get("valueSchema") else None,
    )


class Parser:
    """Makes values from text and from JSON."""

    def __init__(self, date_formats: Sequence[str], zone: tzinfo) -> None:
        self._formats = [JavaDateFormat(pattern) for pattern in date_formats]
        self._zone = zone

    def of_text(self, schema: Schema) -> Callable[[str], Any]:
        """Returns what makes a value of a text. It raises `DataError`."""
        logical: dict[str | None, Callable[[str], Any]] = {
            schemas.TIMESTAMP: self._moment,
            schemas.DATE: self._day,
            schemas.TIME: _time_of_day,
            schemas.DECIMAL: lambda text: _decimal(text, schema),
        }
        if schema.name in logical:
            return logical[schema.name]
        if schema.type in INTEGERS:
            return lambda text: _integer(text, schema)
        plain: dict[Type, Callable[[str], Any]] = {
            Type.FLOAT32: _number,
            Type.FLOAT64: _number,
            Type.BOOLEAN: _boolean,
            Type.STRING: str,
            Type.BYTES: _bytes,
        }
        found = plain.get(schema.type)
        if found is None:
            raise DataError(f"a text cannot be a {schema.type}")
        return found

    def of_json(self, schema: Schema, found: Any) -> Any:
        """Raises `DataError`."""
        if found is None:
            return None
        if schema.type is Type.STRUCT and isinstance(found, dict):
            return {
                field.name: self.of_json(field.schema, found.get(field.name))
                for field in schema.fields
            }
        if schema.type is Type.ARRAY and isinstance(found, list):
            return [self.of_json(schema.elements, element) for element in found]
        if schema.type is Type.MAP and isinstance(found, dict):
            return {name: self.of_json(schema.elements, item) for name, item in found.items()}
        if schema.type is Type.STRING:
            return found if isinstance(found, str) else json.dumps(found, separators=(",", ":"))
        if isinstance(found, dict | list):
            raise DataError(f"{json.dumps(found)[:40]} is no {schema.type}")
        return self.of_text(schema)(found if isinstance(found, str) else json.dumps(found))

    def _moment(self, text: str) -> datetime:
        for known in self._formats:
            try:
                found = known.parse(text)
            except DataError:
                continue
            if _ZONE_LETTER.search(_QUOTED.sub("", known.pattern)):
                return found
            return found.replace(tzinfo=self._zone).astimezone(UTC)
        patterns = ", ".join(known.pattern for known in self._formats)
        raise DataError(f"{text!r} is not a time as parser.timestamp.date.formats say: {patterns}")

    def _day(self, text: str) -> date:
        try:
            return date.fromisoformat(text)
        except ValueError:
            return self._moment(text).astimezone(self._zone).date()


def _integer(text: str, schema: Schema) -> int:
    try:
        found = int(text)
    except ValueError:
        raise DataError(f"{text!r} is not a whole number") from None
    values.check(schema, found)
    return found


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise DataError(f"{text!r} is not a number") from None


def _boolean(text: str) -> bool:
    lowered = text.strip().lower()
    if lowered in _TRUE or lowered in _FALSE:
        return lowered in _TRUE
    raise DataError(f"{text!r} is neither true nor false")


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise DataError(f"{text[:40]!r} is not Base64") from None


def _decimal(text: str, schema: Schema) -> Decimal:
    try:
        found = Decimal(text.strip())
        shown = found.quantize(Decimal((0, (1,), -schema.scale)))
    except InvalidOperation:
        raise DataError(f"{text!r} is not a decimal number") from None
    if shown != found:
        raise DataError(f"{text!r} has more than {schema.scale} digits after the decimal point")
    return shown


def _time_of_day(text: str) -> time:
    try:
        return time.fromisoformat(text.strip())
    except ValueError:
        raise DataError(f"{text!r} is not a time of day such as 12:00:00") from None
