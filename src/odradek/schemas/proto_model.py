"""A `.proto` file as data: what `proto_parsing` reads, and `proto_printing` writes.

It keeps what the text said: names as they were written, options as they were given. Documentation
is not kept, as in Confluent's registry.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

MAX_TAG: Final = 2**29 - 1
SCALARS: Final = frozenset(
    {
        "double", "float", "int32", "int64", "uint32", "uint64", "sint32", "sint64",
        "fixed32", "fixed64", "sfixed32", "sfixed64", "bool", "string", "bytes",
    }
)  # fmt: skip

ValueKind = Literal["string", "boolean", "enum", "number", "list", "map", "option"]


class Value(NamedTuple):
    """The value of an option. `content` is text for the first four kinds, a tuple of values for
    `list`, a tuple of (key, value) for `map`, an `Option` for `option`: `(name).inner = 1`."""

    kind: ValueKind
    content: Any


class Option(NamedTuple):
    """An option. `is_extension` says that its name was written in parentheses."""

    name: str
    is_extension: bool
    value: Value


class Range(NamedTuple):
    """Numbers from `first` to `last`, both included."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Field:
    """A field. `label` is optional, required, repeated or nothing. `type` is a scalar, a name as
    it was written, or `map<K, V>`."""

    name: str
    tag: int
    type: str
    label: str = ""
    default: Value | None = None
    json_name: str | None = None
    options: tuple[Option, ...] = ()

    @property
    def map_types(self) -> tuple[str, str] | None:
        """The types of key and value if this is a map."""
        if not self.type.startswith("map<"):
            return None
        key, _, value = self.type[len("map<") : -1].partition(",")
        return key.strip(), value.strip()


@dataclass(frozen=True, slots=True)
class OneOf:
    name: str
    fields: tuple[Field, ...]
    groups: tuple["Group", ...] = ()
    options: tuple[Option, ...] = ()


@dataclass(frozen=True, slots=True)
class EnumValue:
    name: str
    tag: int
    options: tuple[Option, ...] = ()


@dataclass(frozen=True, slots=True)
class Enum:
    name: str
    values: tuple[EnumValue, ...]
    options: tuple[Option, ...] = ()
    reserved: tuple[tuple[Range | str, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Extend:
    """Fields added to another message, or options if it is one of Google's option messages."""

    name: str
    fields: tuple[Field, ...]


@dataclass(frozen=True, slots=True)
class Extensions:
    """Numbers that `extend` in other files may use."""

    ranges: tuple[Range, ...]
    options: tuple[Option, ...] = ()


@dataclass(frozen=True, slots=True)
class Message:
    name: str
    fields: tuple[Field, ...] = ()
    oneofs: tuple[OneOf, ...] = ()
    groups: tuple["Group", ...] = ()
    messages: tuple["Message", ...] = ()
    enums: tuple[Enum, ...] = ()
    extends: tuple[Extend, ...] = ()
    extensions: tuple[Extensions, ...] = ()
    reserved: tuple[tuple[Range | str, ...], ...] = ()
    options: tuple[Option, ...] = ()

    @property
    def is_map_entry(self) -> bool:
        """Whether this is the message that a compiled schema has for each map."""
        return any(
            option.name == "map_entry" and option.value.content == "true" for option in self.options
        )

    def all_fields(self) -> Iterator[tuple[Field, OneOf | None]]:
        """Yields each field with the oneof that it belongs to."""
        for field in self.fields:
            yield field, None
        for oneof in self.oneofs:
            for field in oneof.fields:
                yield field, oneof


@dataclass(frozen=True, slots=True)
class Group:
    """A field of proto2 that is a message declared in place."""

    label: str
    tag: int
    message: Message


@dataclass(frozen=True, slots=True)
class Rpc:
    name: str
    request: str
    response: str
    is_request_stream: bool = False
    is_response_stream: bool = False
    options: tuple[Option, ...] = ()


@dataclass(frozen=True, slots=True)
class Service:
    name: str
    rpcs: tuple[Rpc, ...]
    options: tuple[Option, ...] = ()


@dataclass(frozen=True, slots=True)
class ProtoFile:
    """A file. `syntax` is empty if the text stated none, which means proto2."""

    syntax: str = ""
    package: str = ""
    imports: tuple[str, ...] = ()
    public_imports: tuple[str, ...] = ()
    weak_imports: tuple[str, ...] = ()
    messages: tuple[Message, ...] = ()
    enums: tuple[Enum, ...] = ()
    extends: tuple[Extend, ...] = ()
    services: tuple[Service, ...] = ()
    options: tuple[Option, ...] = ()

    @property
    def is_proto3(self) -> bool:
        return self.syntax == "proto3"
