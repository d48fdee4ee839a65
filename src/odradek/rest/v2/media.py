"""The media types of version 2, and what they say about keys and values."""

from typing import Final

V2: Final = "application/vnd.kafka.v2+json"
ANY_VERSION: Final = "application/vnd.kafka+json"
PLAIN: Final = "application/json"
UNSAID: Final = "application/octet-stream"
"""What a request without a content type is said to have."""
NOT_DECODED: Final = 40801
"""The code of a schema that could not be registered or read, or of a value that has another one."""
FORMATS: Final = ("binary", "json", "avro", "jsonschema", "protobuf")
OF_FORMAT: Final = {name: f"application/vnd.kafka.{name}.v2+json" for name in FORMATS}
FORMAT_OF: Final = {kind: name for name, kind in OF_FORMAT.items()}
ANSWERS: Final = (V2, ANY_VERSION, PLAIN)
CONSUMER_ANSWERS: Final = (*ANSWERS, *OF_FORMAT.values())
CONSUMER_REQUESTS: Final = (*CONSUMER_ANSWERS, UNSAID)
"""What requests about consumer instances may be: clients may send the media type of the records
with all of them."""
WITH_SCHEMA: Final = frozenset({"avro", "jsonschema", "protobuf"})
SCHEMA_KIND: Final = {"avro": "AVRO", "jsonschema": "JSONSCHEMA", "protobuf": "PROTOBUF"}
