"""The media types of version 2, and what they say about keys and values."""

from typing import Final

V2: Final = "application/vnd.kafka.v2+json"
PLAIN: Final = "application/json"
FORMATS: Final = ("binary", "json", "avro", "jsonschema", "protobuf")
OF_FORMAT: Final = {name: f"application/vnd.kafka.{name}.v2+json" for name in FORMATS}
FORMAT_OF: Final = {kind: name for name, kind in OF_FORMAT.items()}
ANSWERS: Final = (V2, PLAIN)
REQUESTS: Final = (V2, PLAIN)
"""What a request may be that has no records."""
WITH_SCHEMA: Final = frozenset({"avro", "jsonschema", "protobuf"})
SCHEMA_KIND: Final = {"avro": "AVRO", "jsonschema": "JSONSCHEMA", "protobuf": "PROTOBUF"}
