"""JSON values with a JSON Schema: dicts, and objects of classes.

JSONSerializer(SCHEMA, client)             what JSON has, checked with the schema
JSONSerializer(Click, client)              objects of a class; the schema is derived from it
JSONDeserializer(SCHEMA)                   without a registry: the frame is skipped
JSONDeserializer(None, schema_registry_client=client)
JSONDeserializer(None, schema_registry_client=client, record_class=Click)
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from odradek.schemas.errors import BadPayload
from odradek.schemas.framing import Identified
from odradek.schemas.json_schema import JsonCodec
from odradek.schemas.parsed import SchemaType
from odradek.schemas.registry_client import RegistryClient
from odradek.schemas.registry_client import Schema as KnownSchema
from odradek.schemas.serializers.class_to_json import json_maker, json_plainer, json_schema_of
from odradek.schemas.serializers.deserializer import Read, RegistryDeserializer
from odradek.schemas.serializers.own_schema import Schema, given_schema
from odradek.schemas.serializers.serializer import OwnSchema, RegistrySerializer, Write


class JSONSerializer(RegistrySerializer):
    kind: ClassVar[SchemaType] = "JSON"

    def __init__(
        self,
        schema_str: "str | Schema | type | None" = None,
        schema_registry_client: RegistryClient | None = None,
        to_dict: Callable[..., Any] | None = None,
        conf: Mapping[str, object] | None = None,
        *,
        json_encode: Callable[[Any], str | bytes] | None = None,
    ) -> None:
        given = schema_str if isinstance(schema_str, type) else given_schema("JSON", schema_str)
        super().__init__(schema_registry_client, given, to_dict, conf)
        self._encode = json_encode or _dumped
        if isinstance(given, Schema) and not given.references:
            JsonCodec(given.schema_str)  # A mistake in it is an error here.
        elif isinstance(given, type):
            json_schema_of(given)

    def _own_schema(self, kind: type) -> OwnSchema | None:
        given = self._given_or(kind)
        if given is None:
            return None
        schema = Schema(json_schema_of(given), "JSON") if isinstance(given, type) else given
        imports = self._imports(schema)
        codec = JsonCodec(schema.schema_str, imports)
        return OwnSchema(schema, imports, codec.title, codec)

    def _codec(self, schema: KnownSchema, own: OwnSchema | None) -> JsonCodec:
        return JsonCodec(schema.text, schema.imports)

    def _encoder(self, codec: JsonCodec, prefix: bytes) -> Write:
        plain, check, encode = json_plainer.plain, codec.check, self._encode
        validates = self.settings.validate

        def write(value: Any, _: Any) -> bytes:
            if value.__class__ is not dict:
                value = plain(value)
            try:
                if validates:
                    check(value)
                text = encode(value)
            except (BadPayload, TypeError, ValueError, RecursionError):
                text = write_plain(value)
            return prefix + (text.encode() if isinstance(text, str) else text)

        def write_plain(value: Any) -> str | bytes:
            """Does the same for a dict with objects in it, or says what is wrong with it."""
            try:
                value = plain(value)
                if validates:
                    check(value)
                return encode(value)
            except (TypeError, ValueError, RecursionError) as error:
                raise BadPayload(f"{value!r:.80} cannot be JSON: {error}") from None

        return write


_dumped = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode


class JSONDeserializer(RegistryDeserializer):
    kind: ClassVar[SchemaType] = "JSON"

    def __init__(
        self,
        schema_str: "str | Schema | None" = None,
        from_dict: Callable[..., Any] | None = None,
        schema_registry_client: RegistryClient | None = None,
        conf: Mapping[str, object] | None = None,
        *,
        json_decode: Callable[[bytes], Any] | None = None,
        record_class: type | None = None,
    ) -> None:
        given = given_schema("JSON", schema_str)
        super().__init__(schema_registry_client, given, from_dict, record_class, conf)
        self._decode = json_decode or json.loads
        if given is not None and not given.references:
            JsonCodec(given.schema_str)  # A mistake in it is an error here.

    def _writer(self, found: Identified) -> KnownSchema | None:
        if self._client is None and self._given is not None:
            return None
        return super()._writer(found)

    def _reader(
        self, writer: KnownSchema | None, path: tuple[int, ...], latest: KnownSchema | None
    ) -> Read:
        decode, checks = self._decode, []
        if self.settings.validate:
            if self._given is not None:
                own = JsonCodec(self._given.schema_str, self._imports(self._given))
                checks.append(own.check)
            for schema in (latest or writer,):
                if schema is not None:
                    checks.append(JsonCodec(schema.text, schema.imports).check)
        make = None if self._record_class is None else json_maker.of(self._record_class)

        def read(data: bytes, start: int) -> Any:
            try:
                value = decode(data[start:])
            except (ValueError, RecursionError) as error:
                raise BadPayload(f"a value is not JSON: {error}") from None
            for check in checks:
                check(value)
            return value if make is None else make(value)

        return read

    def _record_name(self, writer: KnownSchema | None, path: tuple[int, ...]) -> str | None:
        return None if writer is None else JsonCodec(writer.text, writer.imports).title
