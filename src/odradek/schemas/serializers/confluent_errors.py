"""The errors of serializers by confluent-kafka's names."""

from odradek.schemas.errors import RegistryFailed, SchemaError

SerializationError = SchemaError
SchemaRegistryError = RegistryFailed
