"""Descriptors of Protobuf schemas.

Our own compiler (`proto_compiling`) compiles most `.proto` texts within the process, in a hundredth
of the time that a process of protoc takes. protoc of grpcio-tools compiles what ours leaves out or
does not know: fields that extend messages, editions, and messages whose order is not known any more
(`_has_unknown_order`). It also has the last word on texts that our compiler refuses.

A schema may also be a serialized file descriptor in base64, which is what serializers register that
have only the generated classes.
"""

import base64
import binascii
import importlib.util
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool
from google.protobuf.descriptor import Descriptor, FieldDescriptor, FileDescriptor
from google.protobuf.message import DecodeError

from odradek.schemas import proto_compiling, proto_file
from odradek.schemas.errors import BadPayload, BadSchema, InvalidSchema
from odradek.schemas.proto_for_protoc import for_protoc, missing_imports, restore_order
from odradek.schemas.proto_model import Message, ProtoFile
from odradek.world.installing import install_line

_MAIN: Final = "odradek-main.proto"
_COMPILING_S: Final = 60
WELL_KNOWN: Final = "google/protobuf/"
# Our compiler holds the interpreter's lock, so brokers would wait for larger texts.
_MAX_CHARACTERS_HERE: Final = 64_000
# An option that changes the wire format, of the oldest messages.
_MESSAGE_SET: Final = "message_set_wire_format"


class ProtobufSchema:
    """A file of messages."""

    def __init__(self, files: descriptor_pb2.FileDescriptorSet) -> None:
        self._file = _linked(files)

    @classmethod
    def from_text(cls, text: str, imports: Iterable[tuple[str, str]] = ()) -> "ProtobufSchema":
        """Reads `.proto` text, or a file descriptor in base64."""
        given = dict(imports)
        return cls(_compiled_here(text, given) or _compiled(text, given))

    @classmethod
    def from_descriptor_set(cls, data: bytes) -> "ProtobufSchema":
        """Reads the output of `protoc --include_imports --descriptor_set_out`. The last file in it
        is the schema."""
        try:
            return cls(descriptor_pb2.FileDescriptorSet.FromString(data))
        except DecodeError:
            raise BadSchema("this is not a set of Protobuf descriptors") from None

    def message(self, name: str | None = None) -> Descriptor:
        """Returns a message by its name, with or without its package; by default the file's first
        message."""
        first = next(iter(self._file.message_types_by_name.values()), None)
        if first is None:
            raise BadSchema("the Protobuf schema has no message")
        if name is None:
            return first
        bare = name.removeprefix(f"{self._file.package}.")
        found: Descriptor | FileDescriptor = self._file
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
        return found

    def message_at(self, indexes: tuple[int, ...]) -> Descriptor:
        """Returns a message by its path of indexes, as a frame names it."""
        try:
            if min(indexes) < 0:
                raise IndexError
            found = list(self._file.message_types_by_name.values())[indexes[0]]
            for index in indexes[1:]:
                found = found.nested_types[index]
        except IndexError:
            raise BadPayload(f"the Protobuf schema has no message at {list(indexes)}") from None
        return found


def indexes_of(message: Descriptor) -> tuple[int, ...]:
    """Returns the path of indexes to a message in its file."""
    path: list[int] = []
    found = message
    while found.containing_type is not None:
        names = [nested.name for nested in found.containing_type.nested_types]
        path.insert(0, names.index(found.name))
        found = found.containing_type
    return (list(found.file.message_types_by_name).index(found.name), *path)


def in_base64(file: FileDescriptor) -> str:
    """Returns a file as a schema's text: its descriptor in base64."""
    return base64.b64encode(file.serialized_pb).decode()


def _decoded(text: str) -> descriptor_pb2.FileDescriptorProto | None:
    """Returns the descriptor that a text is; None for `.proto` text."""
    try:
        data = base64.b64decode(text, validate=True)
        return descriptor_pb2.FileDescriptorProto.FromString(data) if data else None
    except (binascii.Error, ValueError, DecodeError):
        return None


def _compiled_here(text: str, imports: Mapping[str, str]) -> Any:
    """Returns a set of descriptors, which decode what those of protoc decode; None if protoc is
    needed for that."""
    size = sum(map(len, (text, *imports.values())))
    if (
        size > _MAX_CHARACTERS_HERE
        or _decoded(text) is not None
        or any(_MESSAGE_SET in each for each in (text, *imports.values()))
    ):
        return None
    try:
        schema = proto_file.parse(text, (), imports, is_new=True)
        files = (schema.file, *schema.imports.values())
        if any(_has_extensions(file) or _has_unknown_order(file) for file in files):
            return None
        return proto_compiling.compile_schema(schema, _MAIN)
    except InvalidSchema:
        if importlib.util.find_spec("grpc_tools") is None:
            raise
        return None


def _has_extensions(part: ProtoFile | Message) -> bool:
    """Returns whether fields extend messages other than Google's options, which no data has."""
    names = [extend.name.lstrip(".") for extend in part.extends]
    return any(not name.startswith("google.protobuf.") for name in names) or any(
        _has_extensions(message) for message in part.messages
    )


def _has_unknown_order(part: ProtoFile | Message) -> bool:
    """Returns whether our model of a text has lost an order that descriptors have: that of fields
    within and beside a oneof, which is that of columns; or of messages beside maps and groups,
    whose places are in the frames of values."""
    for message in part.messages:
        grouped = message.groups or any(oneof.groups for oneof in message.oneofs)
        has_map = any(field.map_types is not None for field in message.fields)
        parts = len(message.oneofs) + bool(message.fields)
        if grouped or parts > 1 or (has_map and message.messages):
            return True
    return any(_has_unknown_order(message) for message in part.messages)


def _compiled(text: str, imports: Mapping[str, str]) -> descriptor_pb2.FileDescriptorSet:
    main = _decoded(text)
    if main is None:
        return _run_protoc(text, imports)
    files = descriptor_pb2.FileDescriptorSet()
    for name, imported in imports.items():
        descriptor = _decoded(imported)
        if descriptor is None:
            descriptor = _run_protoc(imported, imports).file[-1]
        descriptor.name = name
        files.file.append(descriptor)
    files.file.append(main)
    return files


def _run_protoc(text: str, imports: Mapping[str, str]) -> descriptor_pb2.FileDescriptorSet:
    if importlib.util.find_spec("grpc_tools") is None:
        raise BadSchema(f"this Protobuf schema needs protoc: {install_line('schemas')}")
    # protoc reads files only.
    with tempfile.TemporaryDirectory() as where:
        root = Path(where).resolve()
        compiled = descriptor_pb2.FileDescriptorSet()
        for name, imported in _complete({**imports, _MAIN: text}).items():
            path = (root / name).resolve()
            if not path.is_relative_to(root):
                raise BadSchema(f"a Protobuf schema cannot be imported as {name}")
            if (descriptor := _decoded(imported)) is not None:
                descriptor.name = name
                compiled.file.append(descriptor)
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(imported)
        out = root / "descriptors"
        arguments = [f"-I{root}", "--include_imports", f"--descriptor_set_out={out}", _MAIN]
        if compiled.file:
            given = root / "compiled"
            given.write_bytes(compiled.SerializeToString())
            arguments.insert(0, f"--descriptor_set_in={given}")
        # Run as a process, because protoc reports errors only on standard error.
        done = subprocess.run(  # noqa: S603 - our own Python, and paths of our own
            [sys.executable, "-m", "grpc_tools.protoc", *arguments],
            cwd=root,
            capture_output=True,
            text=True,
            check=False,
            timeout=_COMPILING_S,
        )
        if done.returncode:
            said = " ".join(done.stderr.split()).replace(f"{_MAIN}:", "line ")
            raise BadSchema(f"this is not a Protobuf schema: {said}")
        made = descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes())
    for file in made.file:
        source = text if file.name == _MAIN else imports.get(file.name, "")
        if _decoded(source) is None:
            restore_order(source, file)
    return made


def _complete(texts: Mapping[str, str]) -> dict[str, str]:
    """Returns the files that protoc gets: those given, and those that everybody knows."""
    written = {}
    for name, text in texts.items():
        is_text = _decoded(text) is None
        try:
            written[name] = for_protoc(text) if is_text else text
        except InvalidSchema:
            written[name] = text  # protoc says what is wrong with it.
    try:
        return {**missing_imports(written), **written}
    except InvalidSchema:
        return written


def compiled_file(text: str, imports: Iterable[tuple[str, str]] = ()) -> bytes:
    """Returns the serialized descriptor of a file, without those that it imports."""
    files = _compiled(text, dict(imports)).file
    found = next((file for file in files if file.name == _MAIN), files[-1])
    serialized: bytes = found.SerializeToString()
    return serialized


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


def is_map(field: FieldDescriptor) -> bool:
    message = field.message_type
    return message is not None and bool(message.GetOptions().map_entry)


def is_repeated(field: FieldDescriptor) -> bool:
    # Newer versions of protobuf deprecate `label`; older ones have no other way.
    found = getattr(field, "is_repeated", None)
    return bool(field.label == FieldDescriptor.LABEL_REPEATED if found is None else found)
