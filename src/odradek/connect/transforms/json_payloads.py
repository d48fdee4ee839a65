"""Schemas for payloads of JSON: what their values are, field by field."""

from typing import Any

from odradek.connect.data import schemas
from odradek.connect.data.schemas import Field, Schema, array, struct
from odradek.connect.errors import DataError

_INT32 = schemas.INT32.optional()
_INT64 = schemas.INT64.optional()


class PayloadSchemas:
    """`keeps_null` makes null a field of bytes, `keeps_empty` an empty list one of texts; without
    them such fields are left out, because their type cannot be known."""

    def __init__(self, *, keeps_null: bool, keeps_empty: bool) -> None:
        self._of_null = schemas.BYTES.optional() if keeps_null else None
        self._of_empty = array(schemas.OPTIONAL_STRING, is_optional=True) if keeps_empty else None

    def schema_of(self, value: Any, name: str) -> Schema | None:
        """Returns the schema of a value; None for one that is left out. Raises `DataError`."""
        if isinstance(value, list):
            return self._of_list(value, name)
        if isinstance(value, dict):
            return self._of_object(value, name)
        if isinstance(value, bool):
            return schemas.BOOLEAN.optional()
        if isinstance(value, int):
            return _INT32 if -(1 << 31) <= value < 1 << 31 else _INT64
        if isinstance(value, float):
            return schemas.FLOAT64.optional()
        return schemas.OPTIONAL_STRING if isinstance(value, str) else self._of_null

    def _of_object(self, value: dict[str, Any], name: str) -> Schema:
        made = {field: self.schema_of(part, f"{name}.{field}") for field, part in value.items()}
        fields = [Field(field, schema) for field, schema in made.items() if schema is not None]
        return struct(*fields, name=name, is_optional=True)

    def _of_list(self, value: list[Any], name: str) -> Schema | None:
        if not value:
            return self._of_empty
        found = [self.schema_of(part, f"{name}.element") for part in value]
        kinds = {schema for schema in found if schema is not None}
        if len(kinds) == 1:
            return array(kinds.pop(), is_optional=True)
        if kinds and all(schema.type == "struct" for schema in kinds):
            fields = {field.name: field for schema in kinds for field in schema.fields}
            item = struct(*fields.values(), name=f"{name}.element", is_optional=True)
            return array(item, is_optional=True)
        if kinds and kinds <= {_INT32, _INT64}:
            return array(_INT64, is_optional=True)
        raise DataError(f"the elements of {name} have different types, so they have no schema")


def fitting(schema: Schema, value: Any) -> Any:
    """Returns the value without what its schema leaves out."""
    if value is None:
        return None
    if schema.type == "struct":
        return {field.name: fitting(field.schema, value.get(field.name)) for field in schema.fields}
    if schema.type == "array":
        return [fitting(schema.elements, part) for part in value]
    return value
