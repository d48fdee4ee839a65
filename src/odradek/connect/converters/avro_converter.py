"""Avro with a schema registry: `io.confluent.connect.avro.AvroConverter`."""

from collections.abc import Mapping
from typing import ClassVar

from odradek.connect.converters.avro_names import AvroConverterSettings
from odradek.connect.converters.avro_reading import AvroReader
from odradek.connect.converters.avro_writing import avro_text, writer
from odradek.connect.converters.registry_converter import Format, Reading, Writing
from odradek.connect.data.schemas import Schema
from odradek.schemas.parsed import SchemaType
from odradek.schemas.registry_client import RegistryClient
from odradek.schemas.registry_client import Schema as KnownSchema
from odradek.schemas.serializers.avro import AvroSerializer


class Avro(Format):
    kind: ClassVar[SchemaType] = "AVRO"

    def __init__(self, settings: AvroConverterSettings) -> None:
        self._settings = settings

    def writing(
        self, schema: Schema | None, client: RegistryClient, conf: Mapping[str, object]
    ) -> Writing:
        text = avro_text(schema, self._settings)
        return Writing(AvroSerializer(client, text, None, conf), writer(schema, self._settings))

    def reading(self, known: KnownSchema, path: tuple[int, ...]) -> Reading:
        reader = AvroReader(known.text, known.imports, self._settings)
        return Reading(reader.schema, reader.read, reader.record_name)
