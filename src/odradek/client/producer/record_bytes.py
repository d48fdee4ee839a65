"""Key, value and headers of a record on their way to bytes, and how many bytes they may take.

What a program gives to `send` is checked here, so that a mistake is an error of `send`, with the
name of the argument, and not one of a batch that holds other records too.
"""

from collections.abc import Collection, Iterable, Mapping
from inspect import CO_COROUTINE, iscoroutinefunction
from types import MethodType
from typing import Any, Final

from odradek.client import arguments
from odradek.client.calling import positional_parameters
from odradek.client.producer.accumulator import RECORD_OVERHEAD
from odradek.client.serialization import (
    Bound,
    Field,
    SerializationContext,
    serialize,
)
from odradek.protocol.record_parser import MAX_TIMESTAMP
from odradek.protocol.records import HEADER_SIZE, Headers
from odradek.wording import kind_of

# The most bytes that the lengths of a header's name and value take.
_HEADER_OVERHEAD: Final = 10
# The header of a batch: a record must fit a request even if it is alone in its batch.
EMPTY_RECORD_BYTES: Final = RECORD_OVERHEAD + HEADER_SIZE

# How callbacks of confluent-kafka call their first argument.
_ERROR_NAMES: Final = frozenset({"e", "err", "error", "errors", "exc", "exception"})

GivenHeaders = Headers | Mapping[str, bytes | None]


def as_headers(given: Any) -> Headers:
    """Returns headers as a sequence of pairs; other clients take a dict, or None."""
    if isinstance(given, list | tuple):
        return given
    if isinstance(given, Mapping):
        return list(given.items())
    if given is None:
        return ()
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise TypeError(
            f'headers must be pairs like [("name", b"value")], or a dict, not {kind_of(given)}'
        )
    return list(given)


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
    return serialize(bound.function, field, given)


def size_of(
    key: bytes | None, value: bytes | None, headers: Headers, serialized_fields: Collection[Field]
) -> int:
    """Returns the most bytes that a record can take; raises unless all of it are bytes.

    `serialized_fields` are those that have a serializer, for the error.
    """
    size = EMPTY_RECORD_BYTES
    if value is not None:
        if type(value) is not bytes:
            raise TypeError(_not_bytes("value", value, serialized_fields))
        size += len(value)
    if key is not None:
        if type(key) is not bytes:
            raise TypeError(_not_bytes("key", key, serialized_fields))
        size += len(key)
    for header in headers or ():
        try:
            name, content = header
        except (TypeError, ValueError):
            raise TypeError(
                f'a header must be a pair like ("name", b"value"), not {header!r:.50}'
            ) from None
        if type(name) is not str:
            raise TypeError(f"the name of a header must be str, not {kind_of(name)}")
        size += _HEADER_OVERHEAD + 4 * len(name)
        if content is not None:
            if content.__class__ is not bytes and not isinstance(content, bytes):
                raise TypeError(_not_a_header_value(name, content))
            size += len(content)
    return size


def checked_timestamp(given: object) -> int:
    """Returns a record's time; raises unless it is an integer that a batch can have."""
    return arguments.timestamp(given, "send()", at_most=MAX_TIMESTAMP)


def is_callback(given: Any) -> bool:
    """Returns whether it can be called with (metadata, error); fast, for `send`."""
    code = getattr(given, "__code__", None)
    if code is None:
        return callable(given)
    first = 1 if given.__class__ is MethodType else 0
    if code.co_flags & CO_COROUTINE:
        return False
    if code.co_argcount == first + 2:
        return code.co_varnames[first] not in _ERROR_NAMES
    parameters = positional_parameters(given)
    return parameters is None or parameters.can_take(2)


def check_callback(on_delivery: object) -> None:
    """Raises unless it is None, or can be called with what a delivery has."""
    if on_delivery is None or is_callback(on_delivery):
        return
    line = "on_delivery must be a function of (metadata, error)"
    if not callable(on_delivery):
        raise TypeError(f"{line}, not {kind_of(on_delivery)}")
    if iscoroutinefunction(on_delivery):
        raise TypeError(
            f"{line}, and not `async def`, which nobody would await: start what it is to do with"
            " asyncio.create_task(), or await send_and_wait()"
        )
    parameters = positional_parameters(on_delivery)
    names = ", ".join(parameters.names if parameters is not None else ())
    raise TypeError(
        f"{line}, in this order, not of ({names}): write `def delivered(metadata, error):`; one of"
        " them is None"
    )


def _not_bytes(field: Field, given: object, serialized_fields: Collection[Field]) -> str:
    if field in serialized_fields:
        return f"{field}_serializer returned {kind_of(given)}: it must return bytes, or None"
    if isinstance(given, bytearray | memoryview):
        return f"a {field} must be bytes, not {kind_of(given)}: write bytes({field})"
    fitting = "string" if isinstance(given, str) else "json"
    return (
        f"a {field} must be bytes, not {kind_of(given)}: set {field}_serializer,"
        f' for example {field}_serializer="{fitting}"'
    )


def _not_a_header_value(name: str, given: object) -> str:
    hint = ""
    if isinstance(given, str):
        hint = ": write it with .encode()"
    elif isinstance(given, bytearray | memoryview):
        hint = ": write bytes(...)"
    return f"the value of header {name!r} must be bytes, not {kind_of(given)}{hint}"
