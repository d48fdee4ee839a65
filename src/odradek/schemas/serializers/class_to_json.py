"""The JSON Schema of a record class, draft 7.

pydantic models say it themselves. For others, what JSON does not have is a string: dates and times
in ISO 8601, a UUID, a Decimal, bytes in base64.
"""

import base64
import json
from collections.abc import Hashable
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from functools import cache
from typing import Any, Final
from uuid import UUID

from odradek.schemas.errors import BadPayload, BadSchema
from odradek.schemas.serializers.record_classes import (
    MISSING,
    Maker,
    Plainer,
    bare,
    fields_of,
    full_name,
    is_record_class,
    item_of,
    literal_values,
    members_of,
    symbols_of,
    value_of,
)

_LEAVES: Final[dict[Any, dict[str, str]]] = {
    type(None): {"type": "null"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    str: {"type": "string"},
    bytes: {"type": "string", "contentEncoding": "base64"},
    date: {"type": "string", "format": "date"},
    time: {"type": "string", "format": "time"},
    datetime: {"type": "string", "format": "date-time"},
    UUID: {"type": "string", "format": "uuid"},
    Decimal: {"type": "string", "format": "decimal"},
    Any: {},
}


def _parsing(kind: type, parse: Any) -> Any:
    def convert(value: Any) -> Any:
        if isinstance(value, kind):
            return value
        try:
            return parse(value)
        except (ValueError, TypeError, ArithmeticError) as error:
            raise BadPayload(f"{value!r:.80} is no {kind.__name__}: {error}") from None

    return convert


json_plainer: Final = Plainer(
    {
        bytes: lambda value: base64.b64encode(value).decode(),
        datetime: datetime.isoformat,
        date: date.isoformat,
        time: time.isoformat,
        UUID: str,
        Decimal: str,
    },
    names_records=False,
)
"""Turns objects into what JSON has."""
json_maker: Final = Maker(
    {
        bytes: _parsing(bytes, base64.b64decode),
        datetime: _parsing(datetime, datetime.fromisoformat),
        date: _parsing(date, date.fromisoformat),
        time: _parsing(time, time.fromisoformat),
        UUID: _parsing(UUID, UUID),
        Decimal: _parsing(Decimal, lambda value: Decimal(str(value))),
        float: lambda value: float(value) if isinstance(value, int) else value,
    }
)


@cache
def json_schema_of(kind: Any) -> str:
    """Returns the schema of a class as text. Raises `BadSchema`."""
    if hasattr(kind, "model_json_schema"):
        return json.dumps(kind.model_json_schema())
    schemas = _Schemas()
    schemas.of(kind, kind.__name__)
    root = schemas.definitions.pop(full_name(kind))
    made = {"$schema": "http://json-schema.org/draft-07/schema#", **root}
    if schemas.definitions:
        made["definitions"] = schemas.definitions
    return json.dumps(made).replace(f'"#/definitions/{full_name(kind)}"', '"#"')


class _Schemas:
    def __init__(self) -> None:
        self.definitions: dict[str, dict[str, Any]] = {}

    def of(self, hint: Any, where: str) -> dict[str, Any]:
        hint = bare(hint)
        members = members_of(hint)
        if len(members) > 1:
            return {"anyOf": [self.of(member, where) for member in members]}
        if isinstance(hint, Hashable) and hint in _LEAVES:
            return _LEAVES[hint]
        return self._of_several(hint, where)

    def _of_several(self, hint: Any, where: str) -> dict[str, Any]:
        if (item := item_of(hint)) is not None:
            return {"type": "array", "items": self.of(item, where)}
        if (value := value_of(hint)) is not None:
            return {"type": "object", "additionalProperties": self.of(value, where)}
        if values := literal_values(hint):
            return {"enum": list(values)}
        if is_record_class(hint):
            return self._record(hint)
        if isinstance(hint, type) and issubclass(hint, Enum):
            return {"type": "string", "enum": list(symbols_of(hint).values())}
        raise BadSchema(f"{where} has no JSON type: it is {getattr(hint, '__name__', hint)}")

    def _record(self, kind: type) -> dict[str, Any]:
        name = full_name(kind)
        reference = {"$ref": f"#/definitions/{name}"}
        if name in self.definitions:
            return reference
        made = self.definitions[name] = {"title": name, "type": "object"}
        properties: dict[str, Any] = {}
        for field in fields_of(kind):
            schema = self.of(field.hint, f"{kind.__name__}.{field.name}")
            if field.default is not MISSING and not field.makes_default:
                schema = {**schema, "default": json_plainer.plain(field.default)}
            properties[field.name] = schema
        required = [field.name for field in fields_of(kind) if field.default is MISSING]
        made.update({"properties": properties, **({"required": required} if required else {})})
        return reference
