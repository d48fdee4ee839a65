"""Schemas in the formats that clients may ask for with `format`.

`serialized` is the descriptor of a Protobuf file, in base64, which clients load without a compiler.
`ignore_extensions` is a Protobuf file without extensions and options of its own, for programs that
do not know them. `resolved` of Avro has no references any more. Any other format is the canonical
text: a registry answers it where a format has no other form. All but the first are made where
schemas are parsed (`ParsedSchema.formatted`).
"""

import asyncio
import base64

from odradek.registry import errors
from odradek.registry.judging import Source
from odradek.schemas.errors import BadSchema


def is_compiled(schema_type: str, format_: str) -> bool:
    """Returns whether the compiler of Protobuf makes a format."""
    return schema_type == "PROTOBUF" and format_ == "serialized"


async def compiled(source: Source) -> str:
    # The compiler is a process of its own, so the thread only waits for it.
    return await asyncio.to_thread(_serialized, source)


def _serialized(source: Source) -> str:
    from odradek.schemas.protobuf_descriptors import compiled_file  # noqa: PLC0415 - seldom

    try:
        return base64.b64encode(compiled_file(source.text, source.resolved)).decode()
    except BadSchema as error:
        raise errors.invalid_schema(str(error)) from None
