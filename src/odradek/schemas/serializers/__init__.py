"""Serializers and deserializers of Avro, JSON Schema and Protobuf with a schema registry.

    from odradek.schemas.serializers import AvroSerializer, SchemaRegistryClient

They are used by our clients, which call them without blocking, by name or by properties
(`value.serializer=avro`), and by programs that were written for confluent-kafka: its classes are
here by their names, with the same arguments. docs/serializers.md is the guide.

    serializer, deserializer   which schema a value is written or read with; for all formats
    avro, json_schema, protobuf
                               the formats
    record_classes, class_to_avro, class_to_json
                               dataclasses, pydantic models and attrs classes
    settings, subjects         what can be set
    thrift, capnp              two formats without a registry, as plug-ins
"""

from typing import TYPE_CHECKING

from odradek.lazy_names import lazy_names

if TYPE_CHECKING:
    from odradek.schemas.registry_client import RegistryClient
    from odradek.schemas.serializers.avro import AvroDeserializer, AvroSerializer
    from odradek.schemas.serializers.class_to_avro import AvroType
    from odradek.schemas.serializers.confluent_errors import (
        SchemaRegistryError,
        SerializationError,
    )
    from odradek.schemas.serializers.context import MessageField, SerializationContext
    from odradek.schemas.serializers.json_schema import JSONDeserializer, JSONSerializer
    from odradek.schemas.serializers.own_schema import (
        Schema,
        SchemaReference,
        SchemaRegistryClient,
    )
    from odradek.schemas.serializers.protobuf import ProtobufDeserializer, ProtobufSerializer
    from odradek.schemas.serializers.settings import (
        header_schema_id_serializer,
        prefix_schema_id_serializer,
    )
    from odradek.schemas.serializers.subjects import (
        record_subject_name_strategy,
        topic_record_subject_name_strategy,
        topic_subject_name_strategy,
    )

_ROOM = "odradek.schemas.serializers"
_HOMES = {
    "AvroDeserializer": f"{_ROOM}.avro",
    "AvroSerializer": f"{_ROOM}.avro",
    "AvroType": f"{_ROOM}.class_to_avro",
    "JSONDeserializer": f"{_ROOM}.json_schema",
    "JSONSerializer": f"{_ROOM}.json_schema",
    "MessageField": f"{_ROOM}.context",
    "ProtobufDeserializer": f"{_ROOM}.protobuf",
    "ProtobufSerializer": f"{_ROOM}.protobuf",
    "RegistryClient": "odradek.schemas.registry_client",
    "Schema": f"{_ROOM}.own_schema",
    "SchemaReference": f"{_ROOM}.own_schema",
    "SchemaRegistryClient": f"{_ROOM}.own_schema",
    "SchemaRegistryError": f"{_ROOM}.confluent_errors",
    "SerializationContext": f"{_ROOM}.context",
    "SerializationError": f"{_ROOM}.confluent_errors",
    "header_schema_id_serializer": f"{_ROOM}.settings",
    "prefix_schema_id_serializer": f"{_ROOM}.settings",
    "record_subject_name_strategy": f"{_ROOM}.subjects",
    "topic_record_subject_name_strategy": f"{_ROOM}.subjects",
    "topic_subject_name_strategy": f"{_ROOM}.subjects",
}

__all__ = [
    "AvroDeserializer",
    "AvroSerializer",
    "AvroType",
    "JSONDeserializer",
    "JSONSerializer",
    "MessageField",
    "ProtobufDeserializer",
    "ProtobufSerializer",
    "RegistryClient",
    "Schema",
    "SchemaReference",
    "SchemaRegistryClient",
    "SchemaRegistryError",
    "SerializationContext",
    "SerializationError",
    "header_schema_id_serializer",
    "prefix_schema_id_serializer",
    "record_subject_name_strategy",
    "topic_record_subject_name_strategy",
    "topic_subject_name_strategy",
]

if not TYPE_CHECKING:
    __getattr__ = lazy_names(__name__, _HOMES)
