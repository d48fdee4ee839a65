"""The names and properties by which an Avro schema says what it was in Kafka Connect.

They are those of Confluent's AvroConverter, so that either reads what the other has written.
"""

import re
from typing import Final
from urllib.parse import quote_plus

from odradek.config.kinds import boolean
from odradek.connect.converters.registry_converter import RegistryConverterSettings
from odradek.connect.data import schemas

NAMESPACE: Final = "io.confluent.connect.avro"
DEFAULT_NAME: Final = "ConnectDefault"
MAP_ENTRY: Final = "MapEntry"
ANYTHING: Final = f"{NAMESPACE}.Anything"
UNION: Final = f"{NAMESPACE}.Union"
ENUM: Final = f"{NAMESPACE}.Enum"
ENUM_DOC: Final = f"{NAMESPACE}.enum.doc."
ENUM_DEFAULT: Final = f"{NAMESPACE}.enum.default."
RECORD_DOC: Final = f"{NAMESPACE}.record.doc"
FIELD_DOC: Final = f"{NAMESPACE}.field.doc."
FIELD_DEFAULT: Final = f"{NAMESPACE}.field.default"
INTERNAL_TYPE: Final = "connect.internal.type"
FIXED_SIZE: Final = "connect.fixed.size"
PRECISION: Final = "connect.decimal.precision"
DEFAULT_PRECISION: Final = 64
LOGICAL: Final = {
    schemas.DECIMAL: "decimal",
    schemas.DATE: "date",
    schemas.TIME: "time-millis",
    schemas.TIMESTAMP: "timestamp-millis",
}
# Parameters of this kind are properties of the Avro schema itself.
OWN_PROPERTIES: Final = "avro"
_VALID: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class AvroConverterSettings(RegistryConverterSettings):
    enhanced_avro_schema_support = boolean(
        "enhanced.avro.schema.support",
        False,
        "Keep enums as enums, and write the whole name of a record for a field of a union.",
    )
    scrub_invalid_names = boolean(
        "scrub.invalid.names", False, "Replace characters that Avro does not allow in names by _."
    )
    connect_meta_data = boolean(
        "connect.meta.data",
        True,
        "Keep in the Avro schema what only Kafka Connect knows: names, versions, parameters.",
    )
    allow_optional_map_keys = boolean(
        "allow.optional.map.keys", False, "Write a map with optional keys of text as a map."
    )


def scrubbed(name: str) -> str:
    if _VALID.fullmatch(name):
        return name
    # What URLs escape is escaped, and every other sign becomes an underscore, as Confluent does.
    encoded = quote_plus(name, safe="*-._")
    if encoded[:1].isdigit():
        encoded = f"x{encoded}"
    return re.sub(r"[^A-Za-z0-9_]", "_", encoded)
