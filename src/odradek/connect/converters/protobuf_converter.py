"""Protobuf with a schema registry: `io.confluent.connect.protobuf.ProtobufConverter`."""

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Final

from odradek.connect.converters.protobuf_names import ProtobufConverterSettings
from odradek.connect.converters.protobuf_reading import Params, ProtobufReader
from odradek.connect.converters.protobuf_writing import ProtobufText, ProtobufValues
from odradek.connect.converters.registry_converter import Format, Reading, Writing
from odradek.connect.data.schemas import Schema
from odradek.connect.errors import DataError
from odradek.schemas import framing, proto_compiling, proto_file
from odradek.schemas.framing import Identified
from odradek.schemas.parsed import SchemaType
from odradek.schemas.proto_model import Field, Message, ProtoFile
from odradek.schemas.protobuf import ProtobufCodec
from odradek.schemas.protobuf_descriptors import ProtobufSchema
from odradek.schemas.registry_client import RegistryClient
from odradek.schemas.registry_client import Schema as KnownSchema
from odradek.schemas.serializers.own_schema import Schema as OwnText
from odradek.schemas.serializers.protobuf import ProtobufSerializer
from odradek.schemas.serializers.serializer import OwnSchema

_FILE: Final = "connect-main.proto"
_META: Final = ("confluent.field_meta", ".confluent.field_meta")


class Protobuf(Format):
    kind: ClassVar[SchemaType] = "PROTOBUF"

    def __init__(self, settings: ProtobufConverterSettings) -> None:
        self._settings = settings

    def writing(
        self, schema: Schema | None, client: RegistryClient, conf: Mapping[str, object]
    ) -> Writing:
        if schema is None:
            raise DataError("the value has no schema, and Protobuf needs one")
        made = ProtobufText(schema, self._settings)
        serializer = _MessageSerializer(made.text, client, conf, message=made.message)
        return Writing(serializer, ProtobufValues(self._settings).writer(schema))

    def reading(self, known: KnownSchema, path: tuple[int, ...]) -> Reading:
        file = proto_file.parse(known.text, (), dict(known.imports), is_new=False)
        if len(path) == 1:
            codec = ProtobufCodec(_compiled(file).message_at(path))
        else:
            found = ProtobufSchema.from_text(known.text, known.imports)
            codec = ProtobufCodec(found.message_at(path))
        params: Params = {}
        for each in (*file.imports.values(), file.file):
            params |= _params(each)
        schema, convert = ProtobufReader(self._settings, params).reader(codec.descriptor)

        def read(data: bytes, start: int) -> Any:
            return convert(codec.parse(data[start:]))

        return Reading(schema, read, codec.name)

    def path(self, found: Identified) -> tuple[tuple[int, ...], int]:
        path, end = framing.read_message_path(found.path_in, found.path_start)
        return path, end if found.start else 0


def _compiled(file: proto_file.ProtobufSchema) -> ProtobufSchema:
    """Compiles within the process. The order of a file's own messages is known always, and that of
    fields does not matter here."""
    return ProtobufSchema(proto_compiling.compile_schema(file, _FILE))


def codec_of(text: str, message: str | None) -> ProtobufCodec:
    """Returns the codec of a message of a text that was written here."""
    file = _compiled(proto_file.parse(text, (), {}, is_new=True))
    return ProtobufCodec(file.message(message))


class _MessageSerializer(ProtobufSerializer):
    """Takes dicts of a schema that was written here."""

    def _own_schema(self, kind: type) -> OwnSchema:
        given = self._given
        assert isinstance(given, OwnText)
        codec = codec_of(given.schema_str, self._message)
        return OwnSchema(given, (), codec.name, codec)


def _params(file: ProtoFile) -> Params:
    """Returns what `confluent.field_meta` says of the fields of a file."""
    found: Params = {}
    scope = f"{file.package}." if file.package else ""
    for message in file.messages:
        for name, field in _fields(message, scope):
            own = _meta(field)
            if own:
                found[name] = own
    return found


def _fields(message: Message, scope: str) -> Iterator[tuple[str, Field]]:
    own = f"{scope}{message.name}."
    for field, _ in message.all_fields():
        yield f"{own}{field.name}", field
    for nested in message.messages:
        yield from _fields(nested, own)


def _meta(field: Field) -> dict[str, str]:
    """Returns the parameters of a field: a list of maps with a key and a value."""
    found: dict[str, str] = {}
    for option in field.options:
        if not option.is_extension or option.name not in _META:
            continue
        value = option.value
        if value.kind == "option":
            value = value.content.value if value.content.name == "params" else value
            entries = [value]
        else:
            entries = [part for name, part in value.content if _text(name) == "params"]
        for entry in entries:
            maps = entry.content if entry.kind == "list" else (entry,)
            for one in maps:
                pair = {_text(name): _text(part) for name, part in one.content}
                found[pair.get("key", "")] = pair.get("value", "")
    return found


def _text(value: Any) -> str:
    return str(getattr(value, "content", value))
