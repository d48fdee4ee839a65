"""Avro's JSON encoding, in which a value of a union has the name of its type: `{"string": "x"}`.

The console producer and the REST proxy read what users write by hand, so a field that the schema
does not have is refused, as Avro's Java library refuses it: it is a misspelt name, or data that
would be lost without a word.
"""

import io
import json
from typing import Any

import fastavro

from odradek.schemas.avro import AvroCodec
from odradek.schemas.errors import BadPayload


class UnknownField(BadPayload):
    """A value has a field that its schema does not have."""


def read_avro_json(codec: AvroCodec, text: str) -> Any:
    """Returns the value that a text in Avro's JSON encoding stands for. Raises `UnknownField` if
    something of the text is not in the value, and `BadPayload` for every other mistake."""
    kept = io.StringIO()
    try:
        (value,) = fastavro.json_reader(io.StringIO(text), codec.schema)
        fastavro.json_writer(kept, codec.schema, [value])
    except Exception as error:  # noqa: BLE001 - see below
        # fastavro raises exceptions of many types for values that do not fit.
        raise BadPayload(f"a value does not fit its Avro schema: {error!r}") from None
    lost = _lost(json.loads(text), json.loads(kept.getvalue()))
    if lost:
        raise UnknownField(
            f"a value does not fit its Avro schema: the schema has no field {lost}; correct the"
            " name, or add the field to the schema"
        )
    return value


def _lost(given: Any, kept: Any) -> str:
    """Returns the path of a member of `given` that `kept` does not have; empty if it has all."""
    if isinstance(given, dict) and isinstance(kept, dict):
        for name, value in given.items():
            if name not in kept:
                return str(name)
            below = _lost(value, kept[name])
            if below:
                return f"{name}.{below}"
    elif isinstance(given, list) and isinstance(kept, list):
        for one, other in zip(given, kept, strict=False):
            below = _lost(one, other)
            if below:
                return below
    return ""
