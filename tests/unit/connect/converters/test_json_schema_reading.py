"""JSON Schemas that no converter has written."""

from typing import Any

import pytest

from odradek.connect.converters.json_schema_reading import ConnectSchemas
from odradek.connect.converters.json_schema_writing import JsonSchemaConverterSettings
from odradek.connect.data.schemas import Schema
from odradek.connect.errors import DataError


def read(root: Any) -> Schema:
    settings = JsonSchemaConverterSettings.read({"schema.registry.url": "http://127.0.0.1:8081"})
    return ConnectSchemas(root, {}, settings, lambda schema, value: value).schema()


def test_all_of_is_one_struct_with_the_fields_of_its_parts_and_of_theirs() -> None:
    schema = read(
        {
            "allOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}],
            "$defs": {
                "a": {"properties": {"x": {"type": "string"}}},
                "b": {"allOf": [{"$ref": "#/$defs/a"}, {"properties": {"y": {"type": "number"}}}]},
            },
        }
    )
    assert [field.name for field in schema.fields] == ["x", "y"]


@pytest.mark.parametrize(
    "root",
    [
        {"$ref": "#"},
        {"properties": {"next": {"$ref": "#/properties/next"}}},
        {"allOf": [{"$ref": "#"}]},
        {"allOf": [{"$ref": "#/$defs/a"}], "$defs": {"a": {"allOf": [{"$ref": "#/$defs/a"}]}}},
    ],
)
def test_a_schema_that_contains_itself_is_refused(root: Any) -> None:
    with pytest.raises(DataError, match="contains itself"):
        read(root)
