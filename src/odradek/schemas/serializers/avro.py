"""The Avro serializer and deserializer. Records are dicts, or objects of record classes:
dataclasses, pydantic models and attrs classes.

AvroSerializer(client, SCHEMA)                 takes dicts
AvroSerializer(client, Click)                  takes objects; the schema is derived from the class
AvroDeserializer(client)                       returns dicts, with the writer's schema
AvroDeserializer(client, SCHEMA)               returns dicts, resolved to this schema
AvroDeserializer(client, record_class=Click)   returns objects of this class
"""

from collections.abc import Callable, Mapping
from datetime import date, datetime, time
from decimal import Decimal
from functools import cached_property
from typing import Any, ClassVar
from uuid import UUID

from odradek.schemas.avro import AvroCodec
from odradek.schemas.errors import BadPayload, BadSchema
from odradek.schemas.parsed import SchemaType
from odradek.schemas.registry_client import RegistryClient
from odradek.schemas.registry_client import Schema as KnownSchema
from odradek.schemas.serializers.class_to_avro import avro_plainer, avro_schema_of
from odradek.schemas.serializers.deserializer import Read, RegistryDeserializer
from odradek.schemas.serializers.own_schema import Schema, given_schema
from odradek.schemas.serializers.record_classes import (
    Maker,
    has_union_of_records,
    is_record_class,
)
from odradek.schemas.serializers.serializer import OwnSchema, RegistrySerializer, Write

# Makes objects from decoded dicts. The codec already returns values of these types.
_maker = Maker(
    {
        kind: lambda value: value
        for kind in (bool, int, float, str, bytes, date, time, datetime, UUID, Decimal)
    }
)
# Types that the codec encodes. Values of other classes are converted before.
_PLAIN = frozenset({dict, str, int, float, bool, bytes, list, tuple, date, datetime, Decimal, UUID})


class AvroSerializer(RegistrySerializer):
    kind: ClassVar[SchemaType] = "AVRO"

    def __init__(
        self,
        schema_registry_client: RegistryClient | None = None,
        schema_str: "str | Schema | type | None" = None,
        to_dict: Callable[..., Any] | None = None,
        conf: Mapping[str, object] | None = None,
    ) -> None:
        given = schema_str if isinstance(schema_str, type) else given_schema("AVRO", schema_str)
        super().__init__(schema_registry_client, given, to_dict, conf)
        if isinstance(given, Schema) and not given.references:
            AvroCodec(given.schema_str)  # A mistake in it is an error here.
        elif isinstance(given, type):
            avro_schema_of(given)

    def _own_schema(self, kind: type) -> OwnSchema | None:
        given = self._given_or(kind)
        if given is None:
            return None
        schema = Schema(avro_schema_of(given)) if isinstance(given, type) else given
        imports = self._imports(schema)
        codec = self._codec_of(schema.schema_str, imports)
        return OwnSchema(schema, imports, codec.record_name, codec)

    def _codec(self, schema: KnownSchema, own: OwnSchema | None) -> AvroCodec:
        return self._codec_of(schema.text, schema.imports)

    def _codec_of(self, text: str, imports: tuple[tuple[str, str], ...]) -> AvroCodec:
        settings = self.settings
        return AvroCodec(
            text,
            imports,
            strict=settings.strict,
            strict_allow_default=settings.strict_allow_default,
        )

    def _encoder(self, codec: AvroCodec, prefix: bytes) -> Write:
        encode, plain = codec.encode, avro_plainer.plain
        if codec.is_bytes:
            return lambda value, _: prefix + _as_bytes(value)

        def write(value: Any, _: Any) -> bytes:
            return encode(value if value.__class__ in _PLAIN else plain(value), prefix)

        return write


def _as_bytes(value: Any) -> bytes:
    if not isinstance(value, bytes):
        raise BadPayload(f"the schema is bytes, and the value is {value!r:.80}")
    return value


class AvroDeserializer(RegistryDeserializer):
    kind: ClassVar[SchemaType] = "AVRO"

    def __init__(
        self,
        schema_registry_client: RegistryClient | None = None,
        schema_str: "str | Schema | None" = None,
        from_dict: Callable[..., Any] | None = None,
        return_record_name: bool = False,
        conf: Mapping[str, object] | None = None,
        *,
        record_class: type | None = None,
    ) -> None:
        given = given_schema("AVRO", schema_str)
        super().__init__(schema_registry_client, given, from_dict, record_class, conf)
        self._names_records = return_record_name
        if given is not None and not given.references:
            AvroCodec(given.schema_str)  # A mistake in it is an error here.

    @cached_property
    def _own_reader(self) -> AvroCodec | None:
        if self._given is not None:
            return AvroCodec(self._given.schema_str, self._imports(self._given))
        if self._record_class is not None and is_record_class(self._record_class):
            try:
                return AvroCodec(avro_schema_of(self._record_class))
            except BadSchema:
                return None  # Not all types can be derived: records keep the writer's schema.
        return None

    def _reader(
        self, writer: KnownSchema | None, path: tuple[int, ...], latest: KnownSchema | None
    ) -> Read:
        assert writer is not None
        reader = self._own_reader
        if reader is None and latest is not None:
            reader = AvroCodec(latest.text, latest.imports)
        kind = self._record_class
        names_records = self._names_records or (
            kind is not None and is_record_class(kind) and has_union_of_records(kind)
        )
        codec = AvroCodec(writer.text, writer.imports, reader=reader, names_records=names_records)
        if codec.is_bytes:
            return lambda data, start: data[start:]
        if kind is None:
            return codec.decode
        if not is_record_class(kind):
            raise BadSchema(
                f"{kind!r} is not a record class: use a dataclass, a pydantic model or attrs"
            )
        decode, make = codec.decode, _maker.of(kind)
        assert make is not None
        return lambda data, start: make(decode(data, start))

    def _record_name(self, writer: KnownSchema | None, path: tuple[int, ...]) -> str | None:
        assert writer is not None
        return AvroCodec(writer.text, writer.imports).record_name
