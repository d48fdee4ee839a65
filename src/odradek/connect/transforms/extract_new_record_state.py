"""ExtractNewRecordState: the row after a change in place of the whole change event."""

from dataclasses import replace
from functools import lru_cache
from typing import Any, ClassVar, Final, NamedTuple

from odradek.config.kinds import boolean, names, string
from odradek.connect.data import schemas
from odradek.connect.data.schemas import Field, Schema
from odradek.connect.data.values import with_defaults
from odradek.connect.errors import DataError
from odradek.connect.records import Header
from odradek.connect.settings import PluginSettings, Problems, invalid
from odradek.connect.transforms.change_events import ChangeEvent, change_event
from odradek.connect.transforms.transform import R

_DROP: Final = "drop"
_TOMBSTONE: Final = "tombstone"
_REWRITE: Final = "rewrite"
_REWRITE_WITH_TOMBSTONE: Final = "rewrite-with-tombstone"
_DELETE_TO_TOMBSTONE: Final = "delete-to-tombstone"
_DELETED: Final = "__deleted"
_OF_TRANSACTION: Final = frozenset({"id", "total_order", "data_collection_order"})
_OF_EVENT: Final = frozenset({"op", "ts_ms", "ts_us", "ts_ns"})


class ExtractNewRecordStateSettings(PluginSettings):
    delete_tombstone_handling_mode = string(
        "delete.tombstone.handling.mode",
        _TOMBSTONE,
        "What becomes of deletes and their tombstones: one tombstone, none, or a row that says"
        " __deleted.",
        choices=(_DROP, _TOMBSTONE, _REWRITE, _REWRITE_WITH_TOMBSTONE, _DELETE_TO_TOMBSTONE),
        folds_case=True,
    )
    route_by_field = string("route.by.field", "", "The column that has the name of the topic.")
    add_fields_prefix = string("add.fields.prefix", "__", "What the names of added fields get.")
    add_fields = names(
        "add.fields", (), "Parts of the event to add to the row, as in op,source.lsn,table:origin."
    )
    add_headers_prefix = string("add.headers.prefix", "__", "What the names of added headers get.")
    add_headers = names("add.headers", (), "Parts of the event to add as headers.")
    drop_fields_header_name = string(
        "drop.fields.header.name", "", "The header with a list of fields to leave out."
    )
    drop_fields_from_key = boolean(
        "drop.fields.from.key", False, "Leave them out of the key as well."
    )
    drop_fields_keep_schema_compatible = boolean(
        "drop.fields.keep.schema.compatible", True, "Leave only optional fields out."
    )
    replace_null_with_default = boolean(
        "replace.null.with.default", True, "Take the default of a field where it is null."
    )

    def wrong_together(self) -> Problems:
        problems: Problems = {}
        for name, given in (("add.fields", self.add_fields), ("add.headers", self.add_headers)):
            for part in given:
                if part.count(":") > 1 or part.partition(":")[0].count(".") > 1:
                    reason = f"{part!r} is not like field, part.field or field:name"
                    problems[name] = [invalid(name, ",".join(given), reason)]
        return problems


class _Reference(NamedTuple):
    """A field of the event, perhaps inside one of its structs, and the name that it gets."""

    part: str | None
    field: str
    name: str

    def schema(self, event: Schema) -> Schema | None:
        inside = event.field(self.part) if self.part else None
        where = event if inside is None else inside.schema
        found = where.field(self.field) or event.field(self.field)
        return None if found is None else replace(found.schema, is_optional=True, default=None)

    def value(self, event: ChangeEvent) -> Any:
        where = event.value.get(self.part) if self.part else event.value
        return None if where is None else where.get(self.field, event.value.get(self.field))


def _reference(text: str, prefix: str) -> _Reference:
    path, _, name = text.partition(":")
    part, point, field = path.rpartition(".")
    if point:
        return _Reference(part, field, prefix + (name or f"{part}_{field}"))
    if path in _OF_TRANSACTION:
        return _Reference("transaction", path, prefix + (name or path))
    return _Reference(None if path in _OF_EVENT else "source", path, prefix + (name or path))


class ExtractNewRecordState:
    settings_class: ClassVar = ExtractNewRecordStateSettings

    def __init__(self, settings: ExtractNewRecordStateSettings) -> None:
        self._settings = settings
        self._mode = settings.delete_tombstone_handling_mode
        self._fields = [
            _reference(text, settings.add_fields_prefix) for text in settings.add_fields
        ]
        self._headers = [
            _reference(text, settings.add_headers_prefix) for text in settings.add_headers
        ]
        self._extended = lru_cache(1000)(self._extended_schema)
        self._without = lru_cache(1000)(_without_fields)

    def apply(self, record: R) -> R | None:
        if record.value is None:
            if self._mode != _REWRITE_WITH_TOMBSTONE:
                return None
            return _with_headers(record, self._headers_of_tombstone())
        event = change_event(record)
        if event is None:
            return record
        if event.operation == "t":
            return None
        changed = _with_headers(record, self._headers_of(event))
        return self._deleted(changed, event) if event.after is None else self._row(changed, event)

    def _row(self, record: R, event: ChangeEvent) -> R:
        row = self._with_defaults(event.row_schema, event.after)
        routed = self._routed(record, row)
        deleted = "false" if self._mode in {_REWRITE, _REWRITE_WITH_TOMBSTONE} else None
        return self._with_row(routed, event, row, deleted)

    def _deleted(self, record: R, event: ChangeEvent) -> R | None:
        if self._mode == _DROP:
            return None
        row = self._with_defaults(event.row_schema, event.before)
        routed = self._routed(record, row or {})
        if self._mode == _TOMBSTONE:
            return self._dropped(replace(routed, value=None, value_schema=event.row_schema))
        if self._mode == _DELETE_TO_TOMBSTONE:
            return self._dropped(replace(routed, value=None, value_schema=None))
        return self._with_row(routed, event, row or {}, "true")

    def _with_row(
        self, record: R, event: ChangeEvent, row: dict[str, Any], deleted: str | None
    ) -> R:
        row = dict(row)
        if deleted is not None:
            row[_DELETED] = deleted
        for reference in self._fields:
            row[reference.name] = reference.value(event)
        if event.schema is None:
            return self._dropped(replace(record, value=row, value_schema=None))
        schema = self._extended(event.schema, deleted is not None)
        wanted = {field.name for field in schema.fields}
        value = {name: part for name, part in row.items() if name in wanted}
        return self._dropped(replace(record, value=value, value_schema=schema))

    def _extended_schema(self, event: Schema, has_deleted: bool) -> Schema:
        row = event.field("after") or event.field("before")
        assert row is not None
        added = []
        if has_deleted:
            added.append(Field(_DELETED, schemas.OPTIONAL_STRING))
        for reference in self._fields:
            schema = reference.schema(event)
            if schema is not None:
                added.append(Field(reference.name, schema))
        if not added:
            return row.schema
        return replace(row.schema, is_optional=False, fields=(*row.schema.fields, *added))

    def _with_defaults(self, schema: Schema | None, row: Any) -> dict[str, Any]:
        if row is None:
            return {}
        if schema is None or not self._settings.replace_null_with_default:
            return dict(row)
        return {part.name: with_defaults(part.schema, row.get(part.name)) for part in schema.fields}

    def _routed(self, record: R, row: dict[str, Any]) -> R:
        field = self._settings.route_by_field
        if not field:
            return record
        topic = row.get(field)
        if not topic:
            raise DataError(f"route.by.field names {field}, and this row has no text in it")
        return replace(record, topic=str(topic))

    # Headers

    def _headers_of(self, event: ChangeEvent) -> tuple[Header, ...]:
        found = []
        for reference in self._headers:
            schema = None if event.schema is None else reference.schema(event.schema)
            if schema is not None or event.schema is None:
                found.append(Header(reference.name, schema, reference.value(event)))
        return tuple(found)

    def _headers_of_tombstone(self) -> tuple[Header, ...]:
        return tuple(
            Header(reference.name, schemas.STRING, "d")
            for reference in self._headers
            if reference.field == "op"
        )

    # Fields to drop

    def _dropped(self, record: R) -> R:
        name = self._settings.drop_fields_header_name
        given = next((header.value for header in record.headers if header.name == name), None)
        if not name or not given:
            return record
        fields = tuple(map(str, given))
        if self._settings.drop_fields_from_key and isinstance(record.key, dict):
            record = record.with_key(*self._left(record.key_schema, record.key, fields))  # type: ignore[assignment]
        if isinstance(record.value, dict):
            record = record.with_value(*self._left(record.value_schema, record.value, fields))  # type: ignore[assignment]
        return record

    def _left(
        self, schema: Schema | None, value: dict[str, Any], fields: tuple[str, ...]
    ) -> tuple[Schema | None, dict[str, Any]]:
        changed = None
        if schema is not None:
            is_strict = self._settings.drop_fields_keep_schema_compatible
            changed = self._without(schema, fields, is_strict)
            kept = {field.name for field in changed.fields}
            return changed, {name: part for name, part in value.items() if name in kept}
        return None, {name: part for name, part in value.items() if name not in fields}


def _without_fields(schema: Schema, names_: tuple[str, ...], only_optional: bool) -> Schema:
    return schema.with_fields(
        tuple(
            field
            for field in schema.fields
            if field.name not in names_ or (only_optional and not field.schema.is_optional)
        )
    )


def _with_headers(record: R, headers: tuple[Header, ...]) -> R:
    return replace(record, headers=(*record.headers, *headers)) if headers else record
