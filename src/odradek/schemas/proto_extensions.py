"""A Protobuf file without its extensions, as clients ask a registry for it: no `extend`, no numbers
reserved for extensions, and of the options with a name in parentheses only those of Confluent."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from odradek.schemas.proto_model import (
    Enum,
    Field,
    Group,
    Message,
    OneOf,
    Option,
    ProtoFile,
    Service,
)

_CONFLUENT: Final = "confluent."


def without_extensions(file: ProtoFile) -> ProtoFile:
    return replace(
        file,
        messages=tuple(map(_message, file.messages)),
        enums=tuple(map(_enum, file.enums)),
        services=tuple(map(_service, file.services)),
        extends=(),
        options=_kept(file.options),
    )


def _kept(options: Iterable[Option]) -> tuple[Option, ...]:
    return tuple(one for one in options if not one.is_extension or one.name.startswith(_CONFLUENT))


def _message(message: Message) -> Message:
    return replace(
        message,
        fields=_fields(message.fields),
        oneofs=tuple(map(_oneof, message.oneofs)),
        groups=_groups(message.groups),
        messages=tuple(map(_message, message.messages)),
        enums=tuple(map(_enum, message.enums)),
        extends=(),
        extensions=(),
        options=_kept(message.options),
    )


def _fields(fields: Iterable[Field]) -> tuple[Field, ...]:
    return tuple(replace(field, options=_kept(field.options)) for field in fields)


def _groups(groups: Iterable[Group]) -> tuple[Group, ...]:
    return tuple(replace(group, message=_message(group.message)) for group in groups)


def _oneof(oneof: OneOf) -> OneOf:
    return replace(
        oneof,
        fields=_fields(oneof.fields),
        groups=_groups(oneof.groups),
        options=_kept(oneof.options),
    )


def _enum(enum: Enum) -> Enum:
    values = tuple(replace(value, options=_kept(value.options)) for value in enum.values)
    return replace(enum, values=values, options=_kept(enum.options))


def _service(service: Service) -> Service:
    rpcs = tuple(replace(rpc, options=_kept(rpc.options)) for rpc in service.rpcs)
    return replace(service, rpcs=rpcs, options=_kept(service.options))
