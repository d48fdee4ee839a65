"""The names by which a Protobuf schema says what it was in Kafka Connect, and the settings.

They are those of Confluent's ProtobufConverter, so that either reads what the other has written.
"""

from typing import Final

from odradek.config.kinds import boolean
from odradek.connect.converters.registry_converter import RegistryConverterSettings
from odradek.connect.data import schemas

NAMESPACE: Final = "io.confluent.connect.protobuf"
DEFAULT_NAME: Final = "ConnectDefault"
ENUM: Final = f"{NAMESPACE}.Enum"
UNION: Final = f"{NAMESPACE}.Union"
TAG: Final = f"{NAMESPACE}.Tag"
TYPE: Final = f"{NAMESPACE}.Type"
WRAPPER: Final = f"{NAMESPACE}.Wrapper"
PRECISION: Final = "connect.decimal.precision"
META: Final = "confluent/meta.proto"
DECIMAL: Final = "confluent.type.Decimal"
DATE: Final = "google.type.Date"
TIME: Final = "google.type.TimeOfDay"
TIMESTAMP: Final = "google.protobuf.Timestamp"
LOGICAL: Final = {
    schemas.DECIMAL: DECIMAL,
    schemas.DATE: DATE,
    schemas.TIME: TIME,
    schemas.TIMESTAMP: TIMESTAMP,
}
FILES: Final = {
    DECIMAL: "confluent/type/decimal.proto",
    DATE: "google/type/date.proto",
    TIME: "google/type/timeofday.proto",
    TIMESTAMP: "google/protobuf/timestamp.proto",
}
WRAPPERS_FILE: Final = "google/protobuf/wrappers.proto"
WRAPPERS: Final = {
    "double": "google.protobuf.DoubleValue",
    "float": "google.protobuf.FloatValue",
    "int64": "google.protobuf.Int64Value",
    "uint64": "google.protobuf.UInt64Value",
    "int32": "google.protobuf.Int32Value",
    "uint32": "google.protobuf.UInt32Value",
    "bool": "google.protobuf.BoolValue",
    "string": "google.protobuf.StringValue",
    "bytes": "google.protobuf.BytesValue",
}


class ProtobufConverterSettings(RegistryConverterSettings):
    enhanced_protobuf_schema_support = boolean(
        "enhanced.protobuf.schema.support", False, "Read names of messages with their package."
    )
    scrub_invalid_names = boolean(
        "scrub.invalid.names",
        False,
        "Replace characters that Protobuf does not allow in names by _.",
    )
    int_for_enums = boolean("int.for.enums", False, "Read enums as their numbers.")
    optional_for_nullables = boolean(
        "optional.for.nullables", False, "Write fields that may be null with the label optional."
    )
    optional_for_proto2 = boolean(
        "optional.for.proto2", True, "Read optional fields of proto2 as null if they are not set."
    )
    wrapper_for_nullables = boolean(
        "wrapper.for.nullables",
        False,
        "Write fields that may be null as Google's wrappers, such as StringValue.",
    )
    wrapper_for_raw_primitives = boolean(
        "wrapper.for.raw.primitives", True, "Read a wrapper that is the whole value as its value."
    )
    generate_struct_for_nulls = boolean(
        "generate.struct.for.nulls", False, "Read a message that is not set as an empty one."
    )
    generate_index_for_unions = boolean(
        "generate.index.for.unions", True, "Add a number to the name of the field of a oneof."
    )
    flatten_unions = boolean("flatten.unions", False, "Read the fields of a oneof as plain fields.")
