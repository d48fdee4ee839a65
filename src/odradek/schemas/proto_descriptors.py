"""Compiled Protobuf files (`FileDescriptorProto`) as `proto_model`.

Clients may register a schema as a serialised descriptor in base64 instead of text, and the files
that everybody imports, such as `google/protobuf/timestamp.proto`, are known as descriptors.
"""

import base64
import binascii
import re
from collections.abc import Iterable
from functools import cache
from importlib import import_module
from typing import Any, Final

from odradek.schemas.errors import InvalidSchema
from odradek.schemas.proto_model import (
    Enum,
    EnumValue,
    Extend,
    Extensions,
    Field,
    Message,
    OneOf,
    Option,
    ProtoFile,
    Range,
    Rpc,
    Service,
    Value,
)

_BASE64: Final = re.compile(r"[A-Za-z0-9+/\s]+={0,2}\s*", re.ASCII)
_LABELS: Final = {1: "optional", 2: "required", 3: "repeated"}
_WELL_KNOWN: Final = ("google/protobuf/", "google/type/")
# Confluent's only type of its own: a decimal number as converters write it.
_DECIMAL_NAME: Final = "confluent/type/decimal.proto"
_DECIMAL: Final = ProtoFile(
    "proto3",
    "confluent.type",
    messages=(
        Message(
            "Decimal",
            (
                Field("value", 1, "bytes"),
                Field("precision", 2, "uint32"),
                Field("scale", 3, "int32"),
            ),
        ),
    ),
)


def is_encoded(text: str) -> bool:
    """Returns whether a text can be a descriptor in base64. No `.proto` text with a declaration
    can: it has quotes, braces or semicolons."""
    return len(text) > 3 and _BASE64.fullmatch(text) is not None


def decode(text: str) -> ProtoFile:
    from google.protobuf.message import DecodeError  # noqa: PLC0415 - see parsed

    from odradek.schemas.proto_meta import descriptor_class  # noqa: PLC0415 - it imports this

    try:
        return _file(descriptor_class().FromString(base64.b64decode("".join(text.split()))))
    except (binascii.Error, DecodeError, ValueError) as error:
        raise InvalidSchema(
            f"this is neither a .proto text nor a file descriptor in base64: {error}"
        ) from None


@cache
def well_known(name: str) -> ProtoFile | None:
    """Returns a file that is known without a reference, or None."""
    if name == _DECIMAL_NAME:
        return _DECIMAL
    if not name.startswith(_WELL_KNOWN) or not re.fullmatch(r"[a-z0-9_/]+\.proto", name):
        return None
    from google.protobuf.descriptor_pb2 import FileDescriptorProto  # noqa: PLC0415 - see parsed

    try:
        module = import_module(name.removesuffix(".proto").replace("/", ".") + "_pb2")
    except ImportError:
        return None
    return _file(FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb))


def _file(file: Any) -> ProtoFile:
    if file.syntax not in {"", "proto2", "proto3"}:
        raise InvalidSchema("editions are not supported: use proto2 or proto3")
    is_proto3 = file.syntax == "proto3"
    public, weak = set(file.public_dependency), set(file.weak_dependency)
    imports = list(enumerate(file.dependency))
    return ProtoFile(
        file.syntax,
        file.package,
        tuple(name for index, name in imports if index not in public | weak),
        tuple(name for index, name in imports if index in public),
        tuple(name for index, name in imports if index in weak),
        tuple(_message(message, is_proto3=is_proto3) for message in file.message_type),
        tuple(map(_enum, file.enum_type)),
        _extends(file.extension, is_proto3=is_proto3),
        tuple(map(_service, file.service)),
        _options(file.options),
    )


def _message(message: Any, *, is_proto3: bool) -> Message:
    fields: list[Field] = []
    members: list[list[Field]] = [[] for _ in message.oneof_decl]
    for field in message.field:
        in_oneof = field.HasField("oneof_index") and not field.proto3_optional
        if in_oneof and not 0 <= field.oneof_index < len(members):
            raise InvalidSchema(f"{message.name}.{field.name} is in a oneof that is not there")
        made = _field(field, is_proto3=is_proto3, in_oneof=in_oneof)
        (members[field.oneof_index] if in_oneof else fields).append(made)
    return Message(
        message.name,
        tuple(fields),
        tuple(
            OneOf(oneof.name, tuple(inside), (), _options(oneof.options))
            for oneof, inside in zip(message.oneof_decl, members, strict=True)
            if inside
        ),
        (),
        tuple(_message(nested, is_proto3=is_proto3) for nested in message.nested_type),
        tuple(map(_enum, message.enum_type)),
        _extends(message.extension, is_proto3=is_proto3),
        tuple(
            Extensions((Range(one.start, one.end - 1),), _options(one.options))
            for one in message.extension_range
        ),
        (
            *((Range(one.start, one.end - 1),) for one in message.reserved_range),
            *((name,) for name in message.reserved_name),
        ),
        _options(message.options),
    )


def _field(field: Any, *, is_proto3: bool, in_oneof: bool = False) -> Field:
    label = _LABELS[field.label]
    if in_oneof or (is_proto3 and label != "repeated" and not field.proto3_optional):
        label = ""
    default = None
    if field.HasField("default_value") and not is_proto3:
        default = Value(_default_kind(field), field.default_value)
    return Field(
        field.name,
        field.number,
        field.type_name or field.Type.Name(field.type).removeprefix("TYPE_").lower(),
        label,
        default,
        field.json_name if field.HasField("json_name") else None,
        _options(field.options),
    )


def _default_kind(field: Any) -> Any:
    if field.type in {field.TYPE_STRING, field.TYPE_BYTES}:
        return "string"
    if field.type in {field.TYPE_BOOL, field.TYPE_ENUM}:
        return "boolean" if field.type == field.TYPE_BOOL else "enum"
    return "number"


def _enum(enum: Any) -> Enum:
    return Enum(
        enum.name,
        tuple(EnumValue(one.name, one.number, _options(one.options)) for one in enum.value),
        _options(enum.options),
        (
            *((Range(one.start, one.end),) for one in enum.reserved_range),
            *((name,) for name in enum.reserved_name),
        ),
    )


def _extends(fields: Iterable[Any], *, is_proto3: bool) -> tuple[Extend, ...]:
    extended: dict[str, list[Field]] = {}
    for field in fields:
        extended.setdefault(field.extendee, []).append(_field(field, is_proto3=is_proto3))
    return tuple(Extend(name, tuple(inside)) for name, inside in extended.items())


def _service(service: Any) -> Service:
    return Service(
        service.name,
        tuple(
            Rpc(
                rpc.name,
                rpc.input_type,
                rpc.output_type,
                rpc.client_streaming,
                rpc.server_streaming,
                _options(rpc.options),
            )
            for rpc in service.method
        ),
        _options(service.options),
    )


def _options(options: Any) -> tuple[Option, ...]:
    """The options that are set. Those of extensions that are not known here are lost, because a
    descriptor has only their numbers; known are Confluent's."""
    found = []
    for field, value in options.ListFields():
        if field.name == "uninterpreted_option":
            continue
        is_list = hasattr(value, "append")
        for element in value if is_list else [value]:
            found.append(
                Option(
                    field.full_name if field.is_extension else field.name,
                    field.is_extension,
                    _value(field, element),
                )
            )
    return tuple(found)


def _value(field: Any, value: Any) -> Value:
    if field.message_type is not None:
        is_meta = field.is_extension
        pairs = [
            pair
            for one, inner in value.ListFields()
            for pair in (_listed(one, inner) if is_meta else _pairs(one, inner))
        ]
        return Value("map", tuple(pairs))
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return Value("enum", str(value) if known is None else known.name)
    if isinstance(value, bool):
        return Value("boolean", "true" if value else "false")
    if isinstance(value, bytes):
        return Value("string", value.decode("latin-1"))
    return Value("string", value) if isinstance(value, str) else Value("number", str(value))


def _pairs(field: Any, value: Any) -> Iterable[tuple[str, Value]]:
    for element in value if hasattr(value, "append") else [value]:
        yield field.name, _value(field, element)


def _listed(field: Any, value: Any) -> Iterable[tuple[str, Value]]:
    """A member of one of Confluent's options, as its registry prints it: several values are a
    list, and a map is a list of keys and values."""
    if hasattr(value, "items"):
        entries = (
            Value("map", (("key", Value("string", key)), ("value", Value("string", inner))))
            for key, inner in value.items()
        )
        yield field.name, Value("list", tuple(entries))
    elif hasattr(value, "append"):
        yield field.name, Value("list", tuple(_value(field, one) for one in value))
    else:
        yield field.name, _value(field, value)
