"""Key, value and headers of a record on their way to bytes, and how many bytes they may take."""

from collections.abc import Mapping
from typing import Any

from odradek.client.producer.accumulator import RECORD_OVERHEAD
from odradek.client.serialization import Bound, Field, SerializationContext
from odradek.protocol.records import HEADER_SIZE, Headers

# The most bytes that the lengths of a header's name and value take.
_HEADER_OVERHEAD = 10
# The header of a batch: a record must fit a request even if it is alone in its batch.
EMPTY_RECORD_BYTES = RECORD_OVERHEAD + HEADER_SIZE


def as_headers(given: Headers | Mapping[str, bytes | None] | None) -> Headers:
    """Returns headers as pairs; other clients take a dict, or None."""
    return list(given.items()) if isinstance(given, Mapping) else given or ()


def serialized(
    bound: Bound | None,
    given: Any,
    topic: str,
    field: Field,
    headers: list[tuple[str, bytes | None]],
) -> Any:
    if bound is None or given is None:
        return given
    if bound.takes_context:
        return bound.function(given, SerializationContext(topic, field, headers))
    return bound.function(given)


def size_of(key: bytes | None, value: bytes | None, headers: Headers) -> int:
    """Returns the most bytes that a record can take; raises unless key and value are bytes."""
    size = EMPTY_RECORD_BYTES
    if value is not None:
        if type(value) is not bytes:
            raise TypeError(_not_bytes("value", value))
        size += len(value)
    if key is not None:
        if type(key) is not bytes:
            raise TypeError(_not_bytes("key", key))
        size += len(key)
    if headers:
        for name, content in headers:
            if type(name) is not str:
                raise TypeError(f"the name of a header must be str, not {_kind(name)}")
            size += _HEADER_OVERHEAD + 4 * len(name) + (0 if content is None else len(content))
    return size


def _not_bytes(field: str, given: object) -> str:
    fitting = "string" if isinstance(given, str) else "json"
    return (
        f"a {field} must be bytes, not {_kind(given)}: set {field}_serializer,"
        f' for example {field}_serializer="{fitting}"'
    )


def _kind(value: object) -> str:
    return type(value).__name__
