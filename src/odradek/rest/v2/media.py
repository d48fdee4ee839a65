"""The media types of version 2, and what they say about keys and values."""

from typing import Final

V2: Final = "application/vnd.kafka.v2+json"
PLAIN: Final = "application/json"
FORMATS: Final = ("binary", "json", "avro", "jsonschema", "protobuf")
OF_FORMAT: Final = {name: f"application/vnd.kafka.{name}.v2+json" for name in FORMATS}
FORMAT_OF: Final = {kind: name for name, kind in OF_FORMAT.items()}
ANSWERS: Final = (V2, PLAIN)
CONSUMER_TYPES: Final = (V2, PLAIN, *OF_FORMAT.values())
"""What requests about consumer instances and their answers may be: clients may send the media type
of the records with all of them."""
WITH_SCHEMA: Final = frozenset({"avro", "jsonschema", "protobuf"})
SCHEMA_KIND: Final = {"avro": "AVRO", "jsonschema": "JSONSCHEMA", "protobuf": "PROTOBUF"}
