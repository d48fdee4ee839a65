"""Compiles `proto_model` to descriptors (`FileDescriptorProto`), from which protobuf makes classes.

What protoc would set and readers of data need is set: full names of types, messages of maps,
oneofs of optional fields, defaults, packing. Options that do not change the wire format are left
out.
"""

import re
from collections.abc import Iterable
from typing import Any, Final

from google.protobuf import descriptor_pb2

from odradek.schemas.errors import InvalidSchema
from odradek.schemas.proto_file import ProtobufSchema
from odradek.schemas.proto_model import (
    SCALARS,
    Enum,
    Field,
    Group,
    Message,
    Option,
    ProtoFile,
    Range,
    Value,
)
from odradek.schemas.proto_types import TypeTable

_Field: Final = descriptor_pb2.FieldDescriptorProto
_LABELS: Final = {
    "": _Field.LABEL_OPTIONAL,
    "optional": _Field.LABEL_OPTIONAL,
    "required": _Field.LABEL_REQUIRED,
    "repeated": _Field.LABEL_REPEATED,
}
_TYPES: Final = {name: _Field.Type.Value(f"TYPE_{name.upper()}") for name in SCALARS}


def compile_schema(schema: ProtobufSchema, name: str) -> descriptor_pb2.FileDescriptorSet:
    """Returns the descriptors of a schema under a file name of its own. Each file comes after
    those that it imports."""
    files: dict[str, Any] = {}
    waiting = dict(schema.imports)

    def add(imported: str) -> None:
        file = waiting.pop(imported, None)
        if file is not None:
            for needed in _imports(file):
                add(needed)
            files[imported] = _file(file, imported, schema.types, set(schema.imports))

    for imported in list(waiting):
        add(imported)
    files[name] = _file(schema.file, name, schema.types, set(schema.imports))
    return descriptor_pb2.FileDescriptorSet(file=files.values())


def _imports(file: ProtoFile) -> tuple[str, ...]:
    return (*file.imports, *file.public_imports, *file.weak_imports)


def _file(file: ProtoFile, name: str, table: TypeTable, known: set[str]) -> Any:
    """`known` has the imports that there are: a file of options only may be missing."""
    imports = [imported for imported in _imports(file) if imported in known]
    compiled = descriptor_pb2.FileDescriptorProto(
        name=name,
        package=file.package,
        syntax=file.syntax or "proto2",
        dependency=imports,
        public_dependency=[
            index for index, each in enumerate(imports) if each in file.public_imports
        ],
    )
    scope = tuple(file.package.split(".")) if file.package else ()
    compiler = _Compiler(table, is_proto3=file.is_proto3)
    for message in file.messages:
        compiler.message(message, compiled.message_type.add(), scope)
    for enum in file.enums:
        _enum(enum, compiled.enum_type.add())
    for service in file.services:
        into = compiled.service.add(name=service.name)
        for rpc in service.rpcs:
            into.method.add(
                name=rpc.name,
                input_type=compiler.full(rpc.request, scope),
                output_type=compiler.full(rpc.response, scope),
                client_streaming=rpc.is_request_stream,
                server_streaming=rpc.is_response_stream,
            )
    return compiled


class _Compiler:
    def __init__(self, table: TypeTable, *, is_proto3: bool) -> None:
        self._table = table
        self._is_proto3 = is_proto3

    def full(self, name: str, scope: tuple[str, ...]) -> str:
        found = self._table.resolve(name, scope)
        if found is None:
            raise InvalidSchema(f"{'.'.join(scope)} uses the type {name}, which is not defined")
        return f".{found}"

    def message(self, message: Message, into: Any, outside: tuple[str, ...]) -> None:
        into.name = message.name
        scope = (*outside, message.name)
        if message.is_map_entry:
            into.options.map_entry = True
        self._fields(message.fields, into, scope)
        self._groups(message.groups, into, scope)
        for oneof in message.oneofs:
            index = len(into.oneof_decl)
            into.oneof_decl.add(name=oneof.name)
            self._fields(oneof.fields, into, scope, oneof=index)
            self._groups(oneof.groups, into, scope, oneof=index)
        self._optional(message.fields, into)
        for nested in message.messages:
            self.message(nested, into.nested_type.add(), scope)
        for enum in message.enums:
            _enum(enum, into.enum_type.add())
        for extensions in message.extensions:
            for one in extensions.ranges:
                into.extension_range.add(start=one.first, end=one.last + 1)
        for reserved in (each for several in message.reserved for each in several):
            if isinstance(reserved, Range):
                into.reserved_range.add(start=reserved.first, end=reserved.last + 1)
            else:
                into.reserved_name.append(reserved)

    def _optional(self, fields: Iterable[Field], into: Any) -> None:
        """In proto3, an optional field is in a oneof of its own, after all others."""
        if not self._is_proto3:
            return
        by_name = {field.name: field for field in into.field}
        for field in fields:
            if field.label == "optional":
                compiled = by_name[field.name]
                compiled.proto3_optional = True
                compiled.oneof_index = len(into.oneof_decl)
                into.oneof_decl.add(name=f"_{field.name}")

    def _groups(
        self, groups: Iterable[Group], into: Any, scope: tuple[str, ...], oneof: int | None = None
    ) -> None:
        for group in groups:
            self.message(group.message, into.nested_type.add(), scope)
            made = into.field.add(
                name=group.message.name.lower(),
                number=group.tag,
                label=_LABELS[group.label],
                type=_Field.TYPE_GROUP,
                type_name="." + ".".join((*scope, group.message.name)),
            )
            if oneof is not None:
                made.oneof_index = oneof

    def _fields(
        self, fields: Iterable[Field], into: Any, scope: tuple[str, ...], oneof: int | None = None
    ) -> None:
        for field in fields:
            made = into.field.add(name=field.name, number=field.tag, label=_LABELS[field.label])
            if oneof is not None:
                made.oneof_index = oneof
            kinds = field.map_types
            if kinds is None:
                self._type(field.type, made, scope)
            else:
                self._map(field, kinds, made, into, scope)
            if field.default is not None:
                made.default_value = _default(field.default, made)
            if field.json_name is not None:
                made.json_name = field.json_name
            packed = _option(field.options, "packed")
            if packed is not None:
                made.options.packed = packed.content == "true"

    def _type(self, name: str, made: Any, scope: tuple[str, ...]) -> None:
        if name in _TYPES:
            made.type = _TYPES[name]
            return
        made.type_name = self.full(name, scope)
        info = self._table.types[made.type_name[1:]]
        made.type = _Field.TYPE_ENUM if info.is_enum else _Field.TYPE_MESSAGE

    def _map(
        self, field: Field, kinds: tuple[str, str], made: Any, into: Any, scope: tuple[str, ...]
    ) -> None:
        """A map is repeated messages of a type that is declared for it."""
        words = re.split(r"_+", field.name)
        name = "".join(word[:1].upper() + word[1:] for word in words) + "Entry"
        entry = into.nested_type.add(name=name)
        entry.options.map_entry = True
        for number, (part, kind) in enumerate(zip(("key", "value"), kinds, strict=True), 1):
            self._type(
                kind,
                entry.field.add(name=part, number=number, label=_Field.LABEL_OPTIONAL),
                scope,
            )
        made.label = _Field.LABEL_REPEATED
        made.type = _Field.TYPE_MESSAGE
        made.type_name = "." + ".".join((*scope, name))


def _enum(enum: Enum, into: Any) -> None:
    into.name = enum.name
    for value in enum.values:
        into.value.add(name=value.name, number=value.tag)
    alias = _option(enum.options, "allow_alias")
    if alias is not None and alias.content == "true":
        into.options.allow_alias = True


def _option(options: Iterable[Option], name: str) -> Value | None:
    return next(
        (option.value for option in options if option.name == name and not option.is_extension),
        None,
    )


def _default(value: Value, field: Any) -> str:
    """Returns a default as descriptors have it: text, with escapes for bytes."""
    text = str(value.content)
    if value.kind == "number" and field.type not in {_Field.TYPE_FLOAT, _Field.TYPE_DOUBLE}:
        sign = "-" if text.startswith("-") else ""
        digits = text.removeprefix("-")
        is_octal = len(digits) > 1 and digits[0] == "0" and digits.isdigit()
        return f"{sign}{int(digits, 8 if is_octal else 0)}"
    if field.type == _Field.TYPE_BYTES:
        return "".join(
            letter if " " <= letter <= "~" and letter not in "\\'\"" else f"\\{ord(letter):03o}"
            for letter in text
        )
    return text
