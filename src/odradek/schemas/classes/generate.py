"""Writes Python classes for a schema of any format."""

from odradek.schemas.classes.model import Module, Style
from odradek.schemas.classes.writing import write
from odradek.schemas.parsed import ParsedSchema


def generate(schema: ParsedSchema, style: Style, name: str, title: str) -> str:
    """Returns the text of a Python module. `name` is that of the class of a schema which has no
    name itself, `title` the first line of the module's docstring."""
    return write(_module(schema, name), style, title)


def _module(schema: ParsedSchema, name: str) -> Module:
    # Each format is imported when it is used: Protobuf alone takes 50 ms.
    match schema.schema_type:
        case "AVRO":
            from odradek.schemas.avro_schema import AvroSchema  # noqa: PLC0415
            from odradek.schemas.classes.from_avro import avro_module  # noqa: PLC0415

            assert isinstance(schema, AvroSchema)
            return avro_module(schema, name)
        case "JSON":
            from odradek.schemas.classes.from_json_schema import json_module  # noqa: PLC0415
            from odradek.schemas.json_schema_document import JsonSchema  # noqa: PLC0415

            assert isinstance(schema, JsonSchema)
            return json_module(schema, name)
    from odradek.schemas.classes.from_protobuf import protobuf_module  # noqa: PLC0415
    from odradek.schemas.proto_file import ProtobufSchema  # noqa: PLC0415

    assert isinstance(schema, ProtobufSchema)
    return protobuf_module(schema)
