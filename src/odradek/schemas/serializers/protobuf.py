"""Protobuf messages: objects of generated classes, and dicts.

    ProtobufSerializer(Click, client)                    messages of a generated class
    ProtobufSerializer(PROTO, client, message="Click")   dicts, and the text of a `.proto` file
    ProtobufDeserializer(Click)                          messages; no registry is needed
    ProtobufDeserializer(None, schema_registry_client=client)                dicts

The files that a generated class imports are registered as well, under their names, and the schema
refers to them. The frame says which message of the file a value is.
"""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from google.protobuf.descriptor import FileDescriptor
from google.protobuf.message import Message

from odradek.schemas import framing
from odradek.schemas.errors import BadPayload, BadSchema, BadSetting
from odradek.schemas.framing import Identified
from odradek.schemas.parsed import Reference, SchemaType
from odradek.schemas.protobuf import ProtobufCodec, serialized
from odradek.schemas.protobuf_descriptors import WELL_KNOWN, ProtobufSchema, in_base64
from odradek.schemas.registry_client import RegistryClient
from odradek.schemas.registry_client import Schema as KnownSchema
from odradek.schemas.serializers.class_to_json import json_maker
from odradek.schemas.serializers.deserializer import Read, RegistryDeserializer
from odradek.schemas.serializers.own_schema import Schema, given_schema
from odradek.schemas.serializers.record_classes import Plainer, is_record_class
from odradek.schemas.serializers.serializer import OwnSchema, RegistrySerializer, Write

# Files that every registry and every protoc know.
_KNOWN_FILES = (WELL_KNOWN, "google/type/", "confluent/")
_plainer = Plainer({}, names_records=False)


class ProtobufSerializer(RegistrySerializer):
    kind: ClassVar[SchemaType] = "PROTOBUF"

    def __init__(
        self,
        msg_type: "type[Message] | str | Schema | None" = None,
        schema_registry_client: RegistryClient | None = None,
        conf: Mapping[str, object] | None = None,
        *,
        to_dict: Callable[..., Any] | None = None,
        message: str | None = None,
    ) -> None:
        given = _given(msg_type)
        super().__init__(schema_registry_client, given, to_dict, conf)
        self._message = message

    def configure(self, properties: Mapping[str, Any], is_key: bool) -> None:
        name = f"{'key' if is_key else 'value'}.message"
        self._message = self._message or properties.get(name)
        super().configure(properties, is_key)
        self._given = _given(self._given)

    def _own_schema(self, kind: type) -> OwnSchema | None:
        given = self._given
        if given is None:
            if not issubclass(kind, Message):
                return None
            given = kind
        if isinstance(given, type):
            codec = ProtobufCodec(_descriptor(given))
            schema = Schema(in_base64(codec.descriptor.file), "PROTOBUF")
            return OwnSchema(schema, (), codec.name, codec)
        imports = self._imports(given)
        file = ProtobufSchema.from_text(given.schema_str, imports)
        codec = ProtobufCodec(file.message(self._message))
        return OwnSchema(given, imports, codec.name, codec)

    def _references(self, own: OwnSchema, context: Any) -> tuple[Reference, ...]:
        if not isinstance(self._given, type) and self._given is not None:
            return ()
        return self._registered_imports(own.codec.descriptor.file, context)

    def _registered_imports(self, file: FileDescriptor, context: Any) -> tuple[Reference, ...]:
        """Registers the files that a file imports, dependencies first, or looks them up."""
        found = []
        for imported in file.dependencies:
            if self.settings.skip_known_types and imported.name.startswith(_KNOWN_FILES):
                continue
            references = self._registered_imports(imported, context)
            name_of = self.settings.reference_strategy
            subject = imported.name if name_of is None else name_of(context, imported)
            if not subject:
                raise BadSchema(f"reference.subject.name.strategy names {imported.name} nothing")
            text, normalize = in_base64(imported), self.settings.normalize
            if self.settings.auto_register:
                self.client.register(subject, self.kind, text, references, normalize=normalize)
            known = self.client.lookup(subject, self.kind, text, references, normalize=normalize)
            found.append(Reference(imported.name, subject, known.version))
        return tuple(found)

    def _codec(self, schema: KnownSchema, own: OwnSchema | None) -> ProtobufCodec:
        name = self._message if own is None else own.record_name
        file = ProtobufSchema.from_text(schema.text, schema.imports)
        return ProtobufCodec(file.message(name))

    def _path(self, codec: ProtobufCodec) -> bytes:
        zigzag = not self.settings.deprecated_format
        return framing.message_path(codec.indexes, zigzag=zigzag)

    def _encoder(self, codec: ProtobufCodec, prefix: bytes) -> Write:
        encode, name, plain = codec.encode, codec.name, _plainer.plain

        def write(value: Any, _: Any) -> bytes:
            if isinstance(value, Message):
                if value.DESCRIPTOR.full_name != name:
                    raise BadPayload(f"a value is a {value.DESCRIPTOR.full_name}, not a {name}")
                return prefix + serialized(value)
            return prefix + encode(plain(value))

        return write


class ProtobufDeserializer(RegistryDeserializer):
    kind: ClassVar[SchemaType] = "PROTOBUF"

    def __init__(
        self,
        message_type: "type[Message] | None" = None,
        conf: Mapping[str, object] | None = None,
        schema_registry_client: RegistryClient | None = None,
        *,
        from_dict: Callable[..., Any] | None = None,
        record_class: type | None = None,
    ) -> None:
        super().__init__(schema_registry_client, None, from_dict, record_class, conf)
        if message_type is not None:
            _descriptor(message_type)
        self._message_type = message_type

    def configure(self, properties: Mapping[str, Any], is_key: bool) -> None:
        super().configure(properties, is_key)
        if self._message_type is None and hasattr(self._record_class, "DESCRIPTOR"):
            self._message_type, self._record_class = self._record_class, None

    def _path(self, found: Identified) -> tuple[tuple[int, ...], int]:
        zigzag = not self.settings.deprecated_format
        path, end = framing.read_message_path(found.path_in, found.path_start, zigzag=zigzag)
        return path, end if found.start else 0

    def _writer(self, found: Identified) -> KnownSchema | None:
        # Protobuf identifies fields by number: a generated class reads values of every version.
        return None if self._message_type is not None else super()._writer(found)

    def _reader(
        self, writer: KnownSchema | None, path: tuple[int, ...], latest: KnownSchema | None
    ) -> Read:
        if self._message_type is not None:
            parse = ProtobufCodec(_descriptor(self._message_type), self._message_type).parse
            return lambda data, start: parse(data[start:])
        assert writer is not None
        codec = _message_of(writer, path)
        if latest is not None:
            file = ProtobufSchema.from_text(latest.text, latest.imports)
            codec = ProtobufCodec(file.message(codec.name))
        decode = codec.decode
        if self._record_class is None:
            return lambda data, start: decode(data[start:])
        if not is_record_class(self._record_class):
            raise BadSchema(f"{self._record_class!r} is not a record class")
        make = json_maker.of(self._record_class)
        assert make is not None
        return lambda data, start: make(decode(data[start:]))

    def _record_name(self, writer: KnownSchema | None, path: tuple[int, ...]) -> str | None:
        if self._message_type is not None:
            return str(_descriptor(self._message_type).full_name)
        return None if writer is None else _message_of(writer, path).name


def _message_of(schema: KnownSchema, path: tuple[int, ...]) -> ProtobufCodec:
    return ProtobufCodec(ProtobufSchema.from_text(schema.text, schema.imports).message_at(path))


def _given(msg_type: Any) -> "Schema | type | None":
    if not isinstance(msg_type, type):
        return given_schema("PROTOBUF", msg_type)
    _descriptor(msg_type)
    return msg_type


def _descriptor(kind: Any) -> Any:
    descriptor = getattr(kind, "DESCRIPTOR", None)
    if descriptor is None:
        name = getattr(kind, "__name__", kind)
        raise BadSetting(
            f"{name} is not a class that protoc generated: give such a class, or the text of a"
            " .proto file and the name of a message"
        )
    return descriptor
