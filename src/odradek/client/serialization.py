"""Serializers and deserializers of keys and values.

A serializer is one of these; deserializers likewise, with `deserialize`:

    json.dumps                                   a function of the value
    def avro(value, context): ...                ... and of the topic, the field and the headers
    class Avro:                                  a class, or an object of one
        def configure(self, settings, is_key)    optional: called once, with all settings
        def serialize(self, value, context)      or (value), or Kafka's (topic, headers, data)
        def close(self)                          optional: called when the client is closed
    "string", "json", "mymodule:Avro"            a name, which properties files can have too

A class that must ask a server now and then may have `without_blocking()`, which returns an object
for the event loop: what it raises as `world.blocking_calls.MustBlock` is done in a thread, and the
record is serialized again. `serializers_with_schemas` names those that use a schema registry.

Those of Kafka's clients are here by name and give the same bytes. None stays None: it is a missing
key or a tombstone. Serializers of confluent-kafka, `(value, ctx)`, can be used as they are.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from struct import Struct
from struct import error as StructError  # noqa: N812 - it is a class
from typing import Any, Final, Literal, NamedTuple, NoReturn, Protocol

from odradek.client.calling import positional_parameters
from odradek.client.errors import SettingsError
from odradek.client.named_classes import is_named_class, load, made_of
from odradek.client.serializers_with_schemas import NAMES, home_of
from odradek.config.spelling import did_you_mean
from odradek.wording import kind_of

Field = Literal["key", "value"]


@dataclass(frozen=True, slots=True)
class SerializationContext:
    """Where a key or value belongs to.

    A serializer may append to `headers`, and what it adds is sent with the record.
    """

    topic: str
    field: Field
    headers: list[tuple[str, bytes | None]]


class SerializerClass(Protocol):
    """A class whose objects serialize; see this module for the forms that `serialize` may have."""

    @property
    def serialize(self) -> Callable[..., bytes | None]: ...


class DeserializerClass(Protocol):
    """A class whose objects deserialize; see this module for the forms of `deserialize`."""

    @property
    def deserialize(self) -> Callable[..., Any]: ...


Serializer = (
    Callable[[Any], bytes | None]
    | Callable[[Any, SerializationContext], bytes | None]
    | SerializerClass
    | type[SerializerClass]
)
Deserializer = (
    Callable[[bytes], Any]
    | Callable[[bytes, SerializationContext], Any]
    | DeserializerClass
    | type[DeserializerClass]
)

_INTEGER = Struct(">i")
_LONG = Struct(">q")
_SHORT = Struct(">h")
_FLOAT = Struct(">f")
_DOUBLE = Struct(">d")


def _to_json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


_PAIRS: dict[str, tuple[Callable[[Any], bytes] | None, Callable[[bytes], Any] | None]] = {
    "bytes": (None, None),
    "string": (str.encode, lambda data: str(data, "utf-8")),
    "integer": (_INTEGER.pack, lambda data: _INTEGER.unpack(data)[0]),
    "long": (_LONG.pack, lambda data: _LONG.unpack(data)[0]),
    "short": (_SHORT.pack, lambda data: _SHORT.unpack(data)[0]),
    "float": (_FLOAT.pack, lambda data: _FLOAT.unpack(data)[0]),
    "double": (_DOUBLE.pack, lambda data: _DOUBLE.unpack(data)[0]),
    "json": (_to_json, json.loads),
}

# What the serializers above raise for other values; the message does not say of what.
_UNCLEAR_ERRORS: Final = (TypeError, StructError)
_TAKEN: Final[dict[str, tuple[type | tuple[type, ...], str]]] = {
    "string": (str, "a str"),
    "integer": (int, "an int of 32 bits"),
    "long": (int, "an int of 64 bits"),
    "short": (int, "an int of 16 bits"),
    "float": ((int, float), "a float"),
    "double": ((int, float), "a float"),
}


def serialize(function: Callable[[Any], Any], field: Field, given: Any) -> Any:
    """Calls the serializer of a field. If it fails with an error that does not say why, the error
    says what the serializer takes."""
    try:
        return function(given)
    except _UNCLEAR_ERRORS as error:
        _raise_clearer(error, function, field, given)


def _raise_clearer(
    error: Exception, function: Callable[..., Any], field: Field, given: object
) -> NoReturn:
    """Raises the error of a serializer; one of the serializers above says what it takes."""
    name = next((name for name, pair in _PAIRS.items() if pair[0] is function), None)
    setting = f'{field}_serializer="{name}"'
    if name == "json":
        raise TypeError(f"{setting} cannot write this {field}: {error}") from None
    if name not in _TAKEN:
        raise error
    accepted, taken = _TAKEN[name]
    if isinstance(given, accepted):
        raise ValueError(f"{setting} takes {taken}: {given!r:.50} does not fit") from None
    raise TypeError(f"{setting} takes {taken}, not {kind_of(given)}") from None


_JAVA_PREFIX = "org.apache.kafka.common.serialization."


def serializer_named(name: str) -> Serializer | None:
    home = name if is_named_class(name) else home_of(name, "Serializer")
    if home is not None:
        return checked_serializer(_loaded(home, "serialize"))
    return _pair(name, "Serializer")[0]


def deserializer_named(name: str) -> Deserializer | None:
    home = name if is_named_class(name) else home_of(name, "Deserializer")
    if home is not None:
        return checked_deserializer(_loaded(home, "deserialize"))
    return _pair(name, "Deserializer")[1]


def _loaded(name: str, method: str) -> Any:
    found = load(name)
    if isinstance(found, type) and not hasattr(found, method):
        raise SettingsError(f"class {name} has no {method}()")
    return found


def _pair(
    name: str, suffix: str
) -> tuple[Callable[[Any], bytes] | None, Callable[[bytes], Any] | None]:
    """Finds a pair by our name or by Kafka's class name: `string`, `org...StringSerializer`."""
    short = name.removeprefix(_JAVA_PREFIX).removesuffix(suffix).lower()
    pair = _PAIRS.get("bytes" if short in {"bytearray", "bytebuffer"} else short)
    if pair is None:
        raise SettingsError(
            f"must be a function, or one of {', '.join((*_PAIRS, *NAMES))}, or a class as"
            f" module:Class{did_you_mean(short, (*_PAIRS, *NAMES))}"
        )
    return pair


# Functions of users


class Bound(NamedTuple):
    """A serializer or deserializer as a client calls it."""

    function: Callable[..., Any]
    takes_context: bool
    owner: Any
    """What may have a `close`."""


_CONTEXT_NAMES: Final = ("context", "ctx")
_VALUE_NAMES: Final = ("data", "value")


def checked_serializer(given: Any) -> Serializer | None:
    checked: Serializer | None = _checked(given, "serialize")
    return checked


def checked_deserializer(given: Any) -> Deserializer | None:
    checked: Deserializer | None = _checked(given, "deserialize")
    return checked


def _checked(given: Any, method: str) -> Any:
    """Returns what was given if a client can call it; else raises `SettingsError`."""
    if given is None:
        return None
    function = getattr(given, method, given)
    if not callable(function):
        raise SettingsError(f"must be a function, a class with {method}(), or a name of one")
    if not isinstance(given, type):
        _adapted(function, method)
    return given


def bind_serializer(given: Any, settings: Mapping[str, Any], field: Field) -> Bound | None:
    """Returns a client's own serializer, made and configured."""
    return _bind(given, settings, field, "serialize")


def bind_deserializer(given: Any, settings: Mapping[str, Any], field: Field) -> Bound | None:
    """Returns a client's own deserializer, made and configured."""
    return _bind(given, settings, field, "deserialize")


def _bind(given: Any, settings: Mapping[str, Any], field: Field, method: str) -> Bound | None:
    if given is None:
        return None
    if not hasattr(given, method):
        function, takes_context = _adapted(given, method)
        return Bound(function, takes_context, None)
    owner = made_of(given)
    configure = getattr(owner, "configure", None)
    if callable(configure):
        configure(settings, field == "key")
    on_loop = getattr(owner, "without_blocking", None)
    called = on_loop() if callable(on_loop) else owner
    function, takes_context = _adapted(getattr(called, method), method)
    return Bound(function, takes_context, owner)


def _adapted(function: Callable[..., Any], method: str) -> tuple[Callable[..., Any], bool]:
    """Returns a function of the value, or of the value and its context, and which of them it is."""
    parameters = positional_parameters(function)
    if parameters is None or not parameters.names:
        # Functions in C and those with *arguments get the value alone.
        return function, False
    names = parameters.names
    if names[0] == "topic" and parameters.can_take(3) and parameters.wants(2, *_VALUE_NAMES):
        return lambda value, context: function(context.topic, context.headers, value), True
    if names[0] == "topic" and parameters.can_take(2) and parameters.wants(1, *_VALUE_NAMES):
        return lambda value, context: function(context.topic, value), True
    if parameters.can_take(2) and parameters.wants(1, *_CONTEXT_NAMES):
        return function, True
    if not parameters.can_take(1):
        raise SettingsError(
            f"{method}({', '.join(names)}) must take the value, or the value and a"
            " SerializationContext"
        )
    return function, False
