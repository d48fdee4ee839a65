"""DropHeaders, HeaderFrom and InsertHeader: the transforms that work on headers."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from odradek.config.kinds import boolean, names, string
from odradek.config.setting import Importance
from odradek.connect.data.literals import parse_literal
from odradek.connect.data.schemas import Field, Schema
from odradek.connect.data.values import with_defaults
from odradek.connect.errors import DataError
from odradek.connect.records import Header
from odradek.connect.settings import REQUIRED, PluginSettings, Problems, invalid, not_empty
from odradek.connect.transforms.transform import R, Side, as_map, as_struct
from odradek.connect.transforms.with_headers import with_headers


class DropHeadersSettings(PluginSettings):
    headers = names(
        "headers",
        REQUIRED,
        "The names of the headers to remove.",
        check=not_empty,
        importance=Importance.HIGH,
    )


class DropHeaders:
    """Removes all headers with one of the given names."""

    settings_class: ClassVar = DropHeadersSettings

    def __init__(self, settings: DropHeadersSettings) -> None:
        self._names = frozenset(settings.headers)

    def apply(self, record: R) -> R | None:
        return with_headers(
            record, [header for header in record.headers if header.name not in self._names]
        )


class HeaderFromSettings(PluginSettings):
    fields = names(
        "fields",
        REQUIRED,
        "The fields whose values become headers.",
        check=not_empty,
        importance=Importance.HIGH,
    )
    headers = names(
        "headers",
        REQUIRED,
        "The names of the headers, in the order of `fields`.",
        check=not_empty,
        importance=Importance.HIGH,
    )
    operation = string(
        "operation",
        REQUIRED,
        "`copy` leaves the fields where they are, `move` removes them.",
        choices=("move", "copy"),
        importance=Importance.HIGH,
    )
    replace_null_with_default = boolean(
        "replace.null.with.default", True, "Take the default of a field where it is null."
    )

    def wrong_together(self) -> Problems:
        if len(self.fields) == len(self.headers):
            return {}
        reason = f"`fields` has {len(self.fields)} names and `headers` {len(self.headers)}"
        return {"headers": [invalid("headers", ",".join(self.headers), reason)]}


class HeaderFrom:
    """Copies or moves fields of the key or the value into headers."""

    settings_class: ClassVar = HeaderFromSettings

    def __init__(self, settings: HeaderFromSettings, side: Side) -> None:
        self._side = side
        self._names = dict(zip(settings.fields, settings.headers, strict=True))
        self._moves = settings.operation == "move"
        self._replaces_null = settings.replace_null_with_default

    def apply(self, record: R) -> R | None:
        schema, value = self._side.schema(record), self._side.content(record)
        headers: list[Header] = [*record.headers]
        if schema is None:
            fields = as_map(value, "HeaderFrom")
            headers += [
                Header(name, None, fields.get(field)) for field, name in self._names.items()
            ]
        else:
            fields = as_struct(schema, value, "HeaderFrom")
            headers += [
                self._header(schema, field, name, fields) for field, name in self._names.items()
            ]
        changed = with_headers(record, headers)
        if not self._moves:
            return changed
        if schema is None:
            rest = {field: part for field, part in fields.items() if field not in self._names}
            return self._side.replaced(changed, None, rest)
        parts = tuple(part for part in schema.fields if part.name not in self._names)
        rest = {part.name: self._value(part, fields) for part in parts}
        # As in Kafka, the struct that remains is not optional and has no default.
        schema_of_rest = replace(schema, is_optional=False, default=None, fields=parts)
        return self._side.replaced(changed, schema_of_rest, rest)

    def _header(self, schema: Schema, field: str, name: str, fields: Any) -> Header:
        part = schema.field(field)
        if part is None:
            raise DataError(f"Unknown field: {field}")
        return Header(name, part.schema, self._value(part, fields))

    def _value(self, part: Field, fields: Mapping[str, Any]) -> Any:
        value = fields.get(part.name)
        return with_defaults(part.schema, value) if self._replaces_null else value


class InsertHeaderSettings(PluginSettings):
    header = string("header", REQUIRED, "The name of the header.", importance=Importance.HIGH)
    value_literal = string(
        "value.literal",
        REQUIRED,
        "The value. Its type is guessed from the text: 1 is a number, true a boolean.",
        importance=Importance.HIGH,
    )


class InsertHeader:
    """Adds a header with a fixed value to each record."""

    settings_class: ClassVar = InsertHeaderSettings

    def __init__(self, settings: InsertHeaderSettings) -> None:
        schema, value = parse_literal(settings.value_literal)
        self._header = Header(settings.header, schema, value)

    def apply(self, record: R) -> R | None:
        return with_headers(record, [*record.headers, self._header])
