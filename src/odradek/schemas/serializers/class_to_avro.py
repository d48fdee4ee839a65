"""The Avro schema of a record class.

    int           long                       date        int, date
    float         double                     time        long, time-micros
    str           string                     datetime    long, timestamp-micros
    bytes         bytes                      UUID        string, uuid
    bool          boolean                    Enum        enum, also a Literal of text
    list[T]       array                      Optional    union with null, null as the default
    dict[str, T]  map                        a class     record

`Annotated[T, AvroType(...)]` gives any other type, and must for a Decimal:

    price: Annotated[Decimal, AvroType.decimal(10, 2)]
    count: Annotated[int, AvroType("int")]
"""

import json
from collections.abc import Hashable, Mapping
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from functools import cache
from typing import Annotated, Any, Final, get_args, get_origin
from uuid import UUID

from odradek.schemas.errors import BadSchema
from odradek.schemas.serializers.record_classes import (
    MISSING,
    Plainer,
    RecordField,
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

_LEAVES: Final[dict[Any, Any]] = {
    type(None): "null",
    None: "null",
    bool: "boolean",
    int: "long",
    float: "double",
    str: "string",
    bytes: "bytes",
    date: {"type": "int", "logicalType": "date"},
    time: {"type": "long", "logicalType": "time-micros"},
    datetime: {"type": "long", "logicalType": "timestamp-micros"},
    UUID: {"type": "string", "logicalType": "uuid"},
}
avro_plainer: Final = Plainer({}, names_records=True)
"""Turns objects into what fastavro takes."""


class AvroType:
    """The Avro type of a field, for `Annotated`."""

    def __init__(self, schema: str | Mapping[str, Any]) -> None:
        self.schema = schema if isinstance(schema, str) else dict(schema)

    @classmethod
    def decimal(cls, precision: int, scale: int) -> "AvroType":
        kind = {"type": "bytes", "logicalType": "decimal"}
        return cls({**kind, "precision": precision, "scale": scale})


@cache
def avro_schema_of(kind: type) -> str:
    """Returns the schema of a class as text. Raises `BadSchema`."""
    return json.dumps(_Schemas().of(kind, kind.__name__))


class _Schemas:
    def __init__(self) -> None:
        self._named: set[str] = set()

    def of(self, hint: Any, where: str) -> Any:
        if get_origin(hint) is Annotated:
            for extra in get_args(hint)[1:]:
                if isinstance(extra, AvroType):
                    return self._optional(hint, extra.schema)
        hint = bare(hint)
        members = members_of(hint)
        if len(members) > 1:
            return [self.of(member, where) for member in self._null_first(members)]
        if isinstance(hint, Hashable) and hint in _LEAVES:
            return _LEAVES[hint]
        return self._of_several(hint, where)

    def _of_several(self, hint: Any, where: str) -> Any:
        if (item := item_of(hint)) is not None:
            return {"type": "array", "items": self.of(item, where)}
        if (value := value_of(hint)) is not None:
            return {"type": "map", "values": self.of(value, where)}
        if is_record_class(hint):
            return self._record(hint)
        return self._enum(hint, where)

    def _optional(self, hint: Any, schema: Any) -> Any:
        members = members_of(hint)
        return ["null", schema] if type(None) in members else schema

    @staticmethod
    def _null_first(members: tuple[Any, ...]) -> list[Any]:
        return sorted(members, key=lambda member: member is not type(None))

    def _enum(self, hint: Any, where: str) -> Any:
        values = literal_values(hint)
        if values and all(isinstance(value, str) for value in values):
            name = "".join(part.capitalize() for part in where.replace(".", "_").split("_"))
            return self._once(name, {"type": "enum", "name": name, "symbols": list(values)})
        if isinstance(hint, type) and issubclass(hint, Enum):
            symbols = list(symbols_of(hint).values())
            name = full_name(hint)
            return self._once(name, {"type": "enum", "name": name, "symbols": symbols})
        said = getattr(hint, "__name__", str(hint))
        if hint is Decimal:
            said += " without digits: write Annotated[Decimal, AvroType.decimal(10, 2)]"
        raise BadSchema(f"{where} has no Avro type: it is {said}")

    def _once(self, name: str, schema: dict[str, Any]) -> Any:
        if name in self._named:
            return name
        self._named.add(name)
        return schema

    def _record(self, kind: type) -> Any:
        name = full_name(kind)
        if name in self._named:
            return name
        self._named.add(name)
        return {
            "type": "record",
            "name": name,
            **_documented(kind),
            "fields": [self._field(kind, field) for field in fields_of(kind)],
        }

    def _field(self, kind: type, field: RecordField) -> dict[str, Any]:
        made: dict[str, Any] = {
            "name": field.name,
            "type": self.of(field.hint, f"{kind.__name__}.{field.name}"),
        }
        if field.default is MISSING:
            return made
        default = avro_plainer.plain(field.default() if field.makes_default else field.default)
        if default is None and isinstance(made["type"], list):
            made["default"] = None
        elif isinstance(default, bool | int | float | str) and not isinstance(made["type"], dict):
            if isinstance(made["type"], list):
                # The default of a union is a value of its first member.
                made["type"] = [*made["type"][1:], made["type"][0]]
            made["default"] = default
        elif isinstance(default, str) or (not default and isinstance(default, list | dict)):
            made["default"] = default
        return made


def _documented(kind: type) -> dict[str, str]:
    doc = (kind.__doc__ or "").strip()
    # Python gives dataclasses a docstring with their signature.
    return {"doc": doc} if doc and not doc.startswith(f"{kind.__name__}(") else {}
