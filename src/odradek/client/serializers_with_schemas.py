"""The serializers that are classes elsewhere, by name: those with a schema registry, and plug-ins.

`avro`, `json_schema` and `protobuf` are in `odradek.schemas.serializers`, and so are Confluent's
Java classes, so that properties files need no change. Any installed package may add names: it
declares entry points of the groups `odradek_serializers` and `odradek_deserializers`, such as

    [project.entry-points.odradek_serializers]
    thrift = "odradek.schemas.serializers.thrift:ThriftSerializer"

This package only knows where they are, and imports them when a setting names one.
"""

from typing import Final

_ROOM: Final = "odradek.schemas.serializers"
_CLASSES: Final = {
    "avro": f"{_ROOM}.avro:Avro",
    "json_schema": f"{_ROOM}.json_schema:JSON",
    "protobuf": f"{_ROOM}.protobuf:Protobuf",
}
_JAVA_PREFIX: Final = "io.confluent.kafka.serializers."
_JAVA: Final = {
    "KafkaAvro": "avro",
    "json.KafkaJsonSchema": "json_schema",
    "protobuf.KafkaProtobuf": "protobuf",
}
NAMES: Final = tuple(_CLASSES)
# What their settings begin with; a test compares it with what they declare.
_SETTINGS: Final = (
    "schema.registry.",
    "basic.auth.",
    "bearer.auth.",
    *("auto.register.schemas", "normalize.schemas", "skip.known.types"),
    *("use.latest.", "use.schema.id", "use.deprecated.format", "validate", "json.fail."),
    "odradek.ignore.rules",
    *("subject.name.", "reference.subject.name.", "schema.id.", "latest.cache.ttl.sec"),
    *(f"{field}.{part}" for field in ("key", "value") for part in ("schema", "message", "record.")),
    *(
        f"{field}.{part}"
        for field in ("key", "value")
        for part in ("subject.", "use.", "thrift.", "capnp.")
    ),
)


def is_their_setting(name: str) -> bool:
    """Returns whether a name that no client knows is a setting of these serializers."""
    return name.replace("_", ".").startswith(_SETTINGS)


def home_of(name: str, suffix: str) -> str | None:
    """Returns `module:Class` of a serializer that a setting names. `suffix` is Serializer or
    Deserializer. None means that it is not of these."""
    short = name.strip()
    if short.startswith(_JAVA_PREFIX):
        java = short.removeprefix(_JAVA_PREFIX).removesuffix(suffix)
        short = _JAVA.get(java, short)
    home = _CLASSES.get(short.lower().replace("-", "_"))
    if home is not None:
        return home + suffix
    return _plugin(short, f"odradek_{suffix.lower()}s")


def _plugin(name: str, group: str) -> str | None:
    if not name.isidentifier() or name.lower() in _OF_KAFKA:
        return None
    from importlib.metadata import entry_points  # noqa: PLC0415 - reads a file for each package

    for found in entry_points(group=group, name=name):
        return found.value
    return None


# The names of `serialization`, which need no search among packages.
_OF_KAFKA: Final = frozenset(
    {"bytes", "string", "integer", "long", "short", "float", "double", "json", "bytearray"}
)
