"""Headers as text from which their types are guessed: Kafka Connect's SimpleHeaderConverter."""

import base64
import json
from collections.abc import Mapping
from typing import Any

from odradek.connect.converters.primitives import java_string
from odradek.connect.data.literals import parse_literal
from odradek.connect.data.schemas import Schema, Type
from odradek.connect.records import Header


class SimpleHeaders:
    def from_connect(self, header: Header) -> bytes | None:
        value: Any = header.value
        if value is None:
            return None
        if isinstance(value, bytes | bytearray | memoryview):
            return bytes(value)
        if isinstance(value, Mapping | list | tuple):
            return _nested(value, header.schema).encode("utf-8", "replace")
        return java_string(value, header.schema).encode("utf-8", "replace")

    def to_connect(self, name: str, data: bytes | None) -> Header:
        if data is None:
            return Header(name, None, None)
        schema, value = parse_literal(data.decode("utf-8", "replace"))
        return Header(name, schema, value)


def _nested(value: Any, schema: Schema | None) -> str:
    """Returns a value as it stands inside of structs, maps and lists: those are JSON here."""
    if value is None:
        return "null"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, bytes | bytearray | memoryview):
        return f'"{base64.b64encode(value).decode()}"'
    item = None if schema is None else schema.item
    if isinstance(value, list | tuple):
        return f"[{','.join(_nested(part, item) for part in value)}]"
    if not isinstance(value, Mapping):
        return java_string(value, schema)
    if schema is not None and schema.type is Type.STRUCT:
        parts: list[tuple[str, Any, Schema | None]] = [
            (part.name, value.get(part.name), part.schema) for part in schema.fields
        ]
    else:
        parts = [(name, part, item) for name, part in value.items()]
    inside = (f"{_nested(name, None)}:{_nested(part, of)}" for name, part, of in parts)
    return f"{{{','.join(inside)}}}"
