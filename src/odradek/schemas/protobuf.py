"""Protobuf: Google's protobuf package handles messages, and protoc of grpcio-tools compiles
`.proto` texts.

Types are those of Spark's own Protobuf functions where it has them: an enum is its name, a
`google.protobuf.Timestamp` a timestamp; an unsigned 64-bit number is a decimal of 20 digits. A
field with presence is null if it is not set; a field without presence has its default.
"""

import base64
import binascii
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from datetime import UTC
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor, FileDescriptor
from google.protobuf.message import DecodeError

from odradek.schemas.errors import BadPayload, BadSchema
from odradek.schemas.shape import column_name

_MAIN: Final = "odradek-main.proto"
_COMPILING_S: Final = 60
_TIMESTAMP: Final = "google.protobuf.Timestamp"
_SCALARS: Final = {
    FieldDescriptor.TYPE_DOUBLE: "double",
    FieldDescriptor.TYPE_FLOAT: "float",
    FieldDescriptor.TYPE_INT64: "bigint",
    FieldDescriptor.TYPE_SINT64: "bigint",
    FieldDescriptor.TYPE_SFIXED64: "bigint",
    FieldDescriptor.TYPE_UINT64: "decimal(20, 0)",
    FieldDescriptor.TYPE_FIXED64: "decimal(20, 0)",
    FieldDescriptor.TYPE_INT32: "int",
    FieldDescriptor.TYPE_SINT32: "int",
    FieldDescriptor.TYPE_SFIXED32: "int",
    FieldDescriptor.TYPE_UINT32: "bigint",
    FieldDescriptor.TYPE_FIXED32: "bigint",
    FieldDescriptor.TYPE_BOOL: "boolean",
    FieldDescriptor.TYPE_STRING: "string",
    FieldDescriptor.TYPE_BYTES: "binary",
    FieldDescriptor.TYPE_ENUM: "string",
}
_UNSIGNED: Final = {FieldDescriptor.TYPE_UINT64, FieldDescriptor.TYPE_FIXED64}


class ProtobufSchema:
    """A file of messages: `.proto` text, or a serialised file descriptor in base64."""

    def __init__(self, text: str, imports: Iterable[tuple[str, str]] = ()) -> None:
        self._file = _linked(_compiled(text, dict(imports)))

    @classmethod
    def from_descriptor_set(cls, data: bytes) -> "ProtobufSchema":
        """Reads the output of `protoc --include_imports --descriptor_set_out`. The last file in it
        is the schema."""
        made = cls.__new__(cls)
        try:
            made._file = _linked(descriptor_pb2.FileDescriptorSet.FromString(data))
        except DecodeError:
            raise BadSchema("this is not a set of Protobuf descriptors") from None
        return made

    def message(self, name: str | None = None) -> "ProtobufCodec":
        """Returns a message by its name, with or without its package; by default the file's first
        message."""
        first = next(iter(self._file.message_types_by_name.values()), None)
        if first is None:
            raise BadSchema("the Protobuf schema has no message")
        if name is None:
            return ProtobufCodec(first)
        bare = name.removeprefix(f"{self._file.package}.")
        found: Any = self._file
        for part in bare.split("."):
            inner = (
                found.message_types_by_name
                if isinstance(found, FileDescriptor)
                else found.nested_types_by_name
            )
            if part not in inner:
                known = ", ".join(self._file.message_types_by_name)
                raise BadSchema(f"the Protobuf schema has no message {name}, but {known}")
            found = inner[part]
        return ProtobufCodec(found)

    def message_at(self, indexes: tuple[int, ...]) -> "ProtobufCodec":
        """Returns a message by its path of indexes, as a frame names it."""
        try:
            found = list(self._file.message_types_by_name.values())[indexes[0]]
            for index in indexes[1:]:
                found = found.nested_types[index]
        except IndexError:
            raise BadPayload(f"the Protobuf schema has no message at {list(indexes)}") from None
        return ProtobufCodec(found)


def _compiled(text: str, imports: Mapping[str, str]) -> descriptor_pb2.FileDescriptorSet:
    try:
        data = base64.b64decode(text, validate=True)
        only = descriptor_pb2.FileDescriptorProto.FromString(data)
        return descriptor_pb2.FileDescriptorSet(file=[only])
    except (binascii.Error, ValueError, DecodeError):
        # Not base64, so it is `.proto` text.
        pass
    # protoc reads files only.
    with tempfile.TemporaryDirectory() as where:
        for name, imported in {**imports, _MAIN: text}.items():
            path = (Path(where) / name).resolve()
            if not path.is_relative_to(Path(where).resolve()):
                raise BadSchema(f"a Protobuf schema cannot be imported as {name}")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(imported)
        out = Path(where) / "descriptors"
        # Run as a process, because protoc reports errors only on standard error.
        done = subprocess.run(  # noqa: S603 - our own Python, and paths of our own
            [
                sys.executable,
                "-m",
                "grpc_tools.protoc",
                f"-I{where}",
                "--include_imports",
                f"--descriptor_set_out={out}",
                _MAIN,
            ],
            cwd=where,
            capture_output=True,
            text=True,
            check=False,
            timeout=_COMPILING_S,
        )
        if done.returncode:
            said = " ".join(done.stderr.split()).replace(f"{_MAIN}:", "line ")
            raise BadSchema(f"this is no Protobuf schema: {said}")
        return descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes())


def _linked(files: descriptor_pb2.FileDescriptorSet) -> FileDescriptor:
    """Returns the last of the files. It gets its own descriptor pool, because another schema may
    have messages of the same name."""
    pool = descriptor_pool.DescriptorPool()
    if not files.file:
        raise BadSchema("there is no file in this set of Protobuf descriptors")
    known = {file.name for file in files.file}
    try:
        for file in files.file:
            for needed in file.dependency:
                if needed not in known and needed.startswith("google/protobuf/"):
                    _add_well_known(pool, needed)
                    known.add(needed)
            pool.AddSerializedFile(file.SerializeToString())
        return pool.FindFileByName(_MAIN if _MAIN in known else files.file[-1].name)
    except (TypeError, KeyError) as error:
        raise BadSchema(f"the Protobuf schema does not hold together: {error}") from None


def _add_well_known(pool: descriptor_pool.DescriptorPool, name: str) -> None:
    """Adds one of Google's own files, which a descriptor set may leave out."""
    from importlib import import_module  # noqa: PLC0415 - seldom

    try:
        module = import_module(name.removesuffix(".proto").replace("/", ".") + "_pb2")
    except ModuleNotFoundError:
        raise BadSchema(f"the Protobuf schema imports {name}, which is not known") from None
    pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)


class ProtobufCodec:
    """Encodes and decodes payloads of one message, without their frame."""

    def __init__(self, descriptor: Descriptor) -> None:
        self.descriptor = descriptor
        self._class = message_factory.GetMessageClass(descriptor)

    @property
    def name(self) -> str:
        return str(self.descriptor.full_name)

    @property
    def indexes(self) -> tuple[int, ...]:
        """The path of indexes to the message in its file."""
        path: list[int] = []
        found = self.descriptor
        while found.containing_type is not None:
            names = [nested.name for nested in found.containing_type.nested_types]
            path.insert(0, names.index(found.name))
            found = found.containing_type
        return (list(found.file.message_types_by_name).index(found.name), *path)

    def decode(self, payload: bytes) -> dict[str, Any]:
        message = self._class()
        try:
            message.ParseFromString(payload)
        except DecodeError as error:
            raise BadPayload(f"a value is no {self.name}: {error}") from None
        row: dict[str, Any] = _row(message)
        return row

    def encode(self, value: Mapping[str, Any]) -> bytes:
        message = self._class()
        try:
            _fill(message, value)
        except (TypeError, ValueError, AttributeError) as error:
            raise BadPayload(f"{value!r} is no {self.name}: {error}") from None
        return bytes(message.SerializeToString())

    def column_type(self) -> str:
        return _type_of(self.descriptor, ())


def _type_of(message: Descriptor, within: tuple[str, ...]) -> str:
    if message.full_name == _TIMESTAMP:
        return "timestamp"
    if message.full_name in within:
        raise BadSchema(f"{message.full_name} contains itself, which a column's type cannot")
    inner = (*within, message.full_name)
    fields = [f"{column_name(field.name)}: {_field_type(field, inner)}" for field in message.fields]
    return f"struct<{', '.join(fields)}>"


def _field_type(field: FieldDescriptor, within: tuple[str, ...]) -> str:
    if _is_map(field):
        key, value = field.message_type.fields
        return f"map<{_field_type(key, within)}, {_field_type(value, within)}>"
    kind = (
        _type_of(field.message_type, within)
        if field.message_type is not None
        else _SCALARS[field.type]
    )
    return f"array<{kind}>" if _is_repeated(field) else kind


def _is_map(field: FieldDescriptor) -> bool:
    message = field.message_type
    return message is not None and bool(message.GetOptions().map_entry)


def _is_repeated(field: FieldDescriptor) -> bool:
    # Newer versions of protobuf deprecate `label`; older ones have no other way.
    found = getattr(field, "is_repeated", None)
    return bool(field.label == FieldDescriptor.LABEL_REPEATED if found is None else found)


# Decoding: messages to values for Arrow


def _row(message: Any) -> Any:
    descriptor = message.DESCRIPTOR
    if descriptor.full_name == _TIMESTAMP:
        return message.ToDatetime(tzinfo=UTC)
    row: dict[str, Any] = {}
    for field in descriptor.fields:
        value = getattr(message, field.name)
        if _is_map(field):
            key, item = field.message_type.fields
            row[field.name] = [
                (_value(key, map_key), _value(item, value[map_key])) for map_key in value
            ]
        elif _is_repeated(field):
            row[field.name] = [_value(field, element) for element in value]
        elif field.has_presence and not message.HasField(field.name):
            row[field.name] = None
        else:
            row[field.name] = _value(field, value)
    return row


def _value(field: FieldDescriptor, value: Any) -> Any:
    if field.message_type is not None:
        return _row(value)
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return str(value) if known is None else known.name
    return Decimal(value) if field.type in _UNSIGNED else value


# Encoding: rows to messages


def _fill(message: Any, row: Any) -> None:
    descriptor = message.DESCRIPTOR
    if descriptor.full_name == _TIMESTAMP:
        message.FromDatetime(row)
        return
    unknown = set(row) - set(descriptor.fields_by_name)
    if unknown:
        raise ValueError(f"there is no field {sorted(unknown)[0]}")
    for name, value in row.items():
        if value is None:
            continue
        field = descriptor.fields_by_name[name]
        if _is_map(field):
            _fill_map(getattr(message, name), field, value)
        elif _is_repeated(field):
            many = getattr(message, name)
            for element in value:
                if field.message_type is not None:
                    _fill(many.add(), element)
                else:
                    many.append(_scalar(field, element))
        elif field.message_type is not None:
            inner = getattr(message, name)
            inner.SetInParent()
            _fill(inner, value)
        else:
            setattr(message, name, _scalar(field, value))


def _fill_map(entries: Any, field: FieldDescriptor, value: Any) -> None:
    key, item = field.message_type.fields
    for map_key, content in value.items() if isinstance(value, Mapping) else value:
        if item.message_type is not None:
            _fill(entries[_scalar(key, map_key)], content)
        else:
            entries[_scalar(key, map_key)] = _scalar(item, content)


def _scalar(field: FieldDescriptor, value: Any) -> Any:
    if field.enum_type is not None and isinstance(value, str):
        known = field.enum_type.values_by_name.get(value)
        if known is not None:
            return known.number
        if value.lstrip("-").isdigit():
            return int(value)
        raise ValueError(f"{field.enum_type.name} has no {value}")
    return int(value) if field.type in _UNSIGNED else value
