"""Finds the class that a configuration names: a connector, converter, transform or predicate.

The names are those of Apache Kafka and of other products, such as
`org.apache.kafka.connect.transforms.Cast$Value`, or only the last part. A transform that works on
keys or on values has two names. A module is imported when its class is first needed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final, cast

from odradek import __version__
from odradek.config.spelling import did_you_mean, nearest
from odradek.connect.converters.converter import Converter
from odradek.connect.converters.with_registry import CONVERTER_TYPE
from odradek.connect.errors import InvalidConfig
from odradek.connect.settings import PluginSettings
from odradek.connect.transforms.transform import Predicate, Side, Transform

TRANSFORMS_PACKAGE: Final = "org.apache.kafka.connect.transforms."
PREDICATES_PACKAGE: Final = f"{TRANSFORMS_PACKAGE}predicates."
_TRANSFORMS: Final = "odradek.connect.transforms."


@dataclass(frozen=True, slots=True)
class Plugin:
    """An available class, by its name in configurations. `side` is set for transforms that work on
    the key or on the value."""

    name: str
    module: str
    class_name: str
    side: Side | None = None
    version: str = __version__

    def load(self) -> Any:
        return getattr(import_module(self.module), self.class_name)

    @property
    def settings_class(self) -> type[PluginSettings]:
        found: type[PluginSettings] = self.load().settings_class
        return found


def _of_both_sides(module: str, name: str, package: str = TRANSFORMS_PACKAGE) -> dict[str, Plugin]:
    return {
        f"{package}{name}${side.value}": Plugin(
            f"{package}{name}${side.value}", f"{_TRANSFORMS}{module}", name, side
        )
        for side in Side
    }


def _of_records(package: str, module: str, name: str) -> dict[str, Plugin]:
    return {f"{package}{name}": Plugin(f"{package}{name}", f"{_TRANSFORMS}{module}", name)}


_OWN: Final = "odradek.connect."
_OF_DEBEZIUM: Final = "io.debezium.transforms."
TRANSFORMS: Final[Mapping[str, Plugin]] = {
    # This is before Apache's Filter: if two names have the same last part, the later one gets it.
    **_of_records(_OF_DEBEZIUM, "by_content", "ContentBasedRouter"),
    f"{_OF_DEBEZIUM}Filter": Plugin(
        f"{_OF_DEBEZIUM}Filter", f"{_TRANSFORMS}by_content", "ContentFilter"
    ),
    f"{_OF_DEBEZIUM}ByLogicalTableRouter": Plugin(
        f"{_OF_DEBEZIUM}ByLogicalTableRouter",
        f"{_TRANSFORMS}logical_table_router",
        "LogicalTableRouter",
    ),
    **_of_both_sides("sql", "Sql", f"{_OWN}transforms."),
    **_of_both_sides("cast", "Cast"),
    **_of_records(TRANSFORMS_PACKAGE, "headers", "DropHeaders"),
    **_of_both_sides("extract_field", "ExtractField"),
    **_of_records(TRANSFORMS_PACKAGE, "drop_records", "Filter"),
    **_of_both_sides("flatten", "Flatten"),
    **_of_both_sides("headers", "HeaderFrom"),
    **_of_both_sides("hoist_field", "HoistField"),
    **_of_both_sides("insert_field", "InsertField"),
    **_of_records(TRANSFORMS_PACKAGE, "headers", "InsertHeader"),
    **_of_both_sides("mask_field", "MaskField"),
    **_of_records(TRANSFORMS_PACKAGE, "routing", "RegexRouter"),
    **_of_both_sides("replace_field", "ReplaceField"),
    **_of_both_sides("set_schema_metadata", "SetSchemaMetadata"),
    **_of_both_sides("timestamp_converter", "TimestampConverter"),
    **_of_records(TRANSFORMS_PACKAGE, "routing", "TimestampRouter"),
    **_of_records(TRANSFORMS_PACKAGE, "value_to_key", "ValueToKey"),
    **_of_records(_OF_DEBEZIUM, "extract_new_record_state", "ExtractNewRecordState"),
    **_of_records(f"{_OF_DEBEZIUM}outbox.", "outbox_event_router", "EventRouter"),
}
PREDICATES: Final[Mapping[str, Plugin]] = {
    **_of_records(PREDICATES_PACKAGE, "predicates", "HasHeaderKey"),
    **_of_records(PREDICATES_PACKAGE, "predicates", "RecordIsTombstone"),
    **_of_records(PREDICATES_PACKAGE, "predicates", "TopicNameMatches"),
}


_CONVERTER_CLASSES: Final = {
    "org.apache.kafka.connect.json.JsonConverter": "json_converter",
    "org.apache.kafka.connect.storage.StringConverter": "string_converter",
    "org.apache.kafka.connect.converters.ByteArrayConverter": "bytes_converter",
    "org.apache.kafka.connect.converters.BooleanConverter": "boolean_converter",
    "org.apache.kafka.connect.converters.ShortConverter": "short_converter",
    "org.apache.kafka.connect.converters.IntegerConverter": "integer_converter",
    "org.apache.kafka.connect.converters.LongConverter": "long_converter",
    "org.apache.kafka.connect.converters.FloatConverter": "float_converter",
    "org.apache.kafka.connect.converters.DoubleConverter": "double_converter",
}
# Those with a schema registry, which need the extra `schemas`.
_REGISTRY_CONVERTER_CLASSES: Final = {
    "io.confluent.connect.avro.AvroConverter": "avro_converter",
    "io.confluent.connect.json.JsonSchemaConverter": "json_schema_converter",
    "io.confluent.connect.protobuf.ProtobufConverter": "protobuf_converter",
}
CONVERTERS: Final[Mapping[str, Plugin]] = {
    name: Plugin(name, f"odradek.connect.converters.{module}", function)
    for module, functions in (
        ("making", _CONVERTER_CLASSES),
        ("with_registry", _REGISTRY_CONVERTER_CLASSES),
    )
    for name, function in functions.items()
}
SIMPLE_HEADERS: Final = "org.apache.kafka.connect.storage.SimpleHeaderConverter"
HEADER_CONVERTERS: Final = (SIMPLE_HEADERS, *CONVERTERS)
_DEBEZIUM: Final = "io.debezium.connector."
_FILES: Final = "org.apache.kafka.connect.file.FileStream"
_JDBC: Final = ("io.aiven.connect.jdbc.Jdbc", "io.confluent.connect.jdbc.Jdbc")


def _jdbc(kind: str) -> dict[str, Plugin]:
    return {
        f"{package}{kind}Connector": Plugin(
            f"{package}{kind}Connector",
            f"odradek.connect.connectors.jdbc.{kind.lower()}",
            f"Jdbc{kind}",
        )
        for package in _JDBC
    }


_SPOOL_DIR: Final = "com.github.jcustenborder.kafka.connect.spooldir.SpoolDir"
_SPOOL_FORMATS: Final = {
    "Csv": "CsvSource",
    "LineDelimited": "LineSource",
    "Json": "JsonSource",
    "SchemaLessJson": "SchemaLessJsonSource",
    "BinaryFile": "BinaryFileSource",
}
_AIVEN: Final = "io.aiven.kafka.connect."


def _connector(name: str, module: str, class_name: str) -> dict[str, Plugin]:
    return {name: Plugin(name, f"odradek.connect.connectors.{module}", class_name)}


SOURCES: Final[Mapping[str, Plugin]] = {
    **{
        f"{_SPOOL_DIR}{name}SourceConnector": Plugin(
            f"{_SPOOL_DIR}{name}SourceConnector",
            "odradek.connect.connectors.spool_dir.source",
            class_name,
        )
        for name, class_name in _SPOOL_FORMATS.items()
    },
    **_jdbc("Source"),
    f"{_FILES}SourceConnector": Plugin(
        f"{_FILES}SourceConnector", "odradek.connect.connectors.file_source", "FileSource"
    ),
    f"{_DEBEZIUM}postgresql.PostgresConnector": Plugin(
        f"{_DEBEZIUM}postgresql.PostgresConnector",
        "odradek.connect.connectors.postgres.connector",
        "PostgresConnector",
    ),
    **_connector(f"{_OWN}HttpSourceConnector", "http_source", "HttpSource"),
    **_connector(f"{_OWN}WebhookSourceConnector", "webhook_source", "WebhookSource"),
    **_connector(
        "io.confluent.connect.syslog.SyslogSourceConnector", "syslog_source", "SyslogSource"
    ),
    **_connector(f"{_OWN}FluentSourceConnector", "fluent_source", "FluentSource"),
    f"{_DEBEZIUM}mysql.MySqlConnector": Plugin(
        f"{_DEBEZIUM}mysql.MySqlConnector",
        "odradek.connect.connectors.mysql.connector",
        "MySqlConnector",
    ),
    f"{_DEBEZIUM}mariadb.MariaDbConnector": Plugin(
        f"{_DEBEZIUM}mariadb.MariaDbConnector",
        "odradek.connect.connectors.mysql.connector",
        "MariaDbConnector",
    ),
    f"{_DEBEZIUM}mongodb.MongoDbConnector": Plugin(
        f"{_DEBEZIUM}mongodb.MongoDbConnector",
        "odradek.connect.connectors.mongodb.connector",
        "MongoDbConnector",
    ),
    **_connector(
        "com.mongodb.kafka.connect.MongoSourceConnector",
        "mongodb.event_connector",
        "MongoEventConnector",
    ),
}
_OBJECTS: Final = {
    "io.confluent.connect.s3.S3SinkConnector": "ObjectSink",
    "io.aiven.kafka.connect.s3.AivenKafkaConnectS3SinkConnector": "AivenObjectSink",
    "odradek.connect.ObjectSinkConnector": "ObjectSink",
}
SINKS: Final[Mapping[str, Plugin]] = {
    **{
        name: Plugin(name, "odradek.connect.connectors.object_sink.sink", class_name)
        for name, class_name in _OBJECTS.items()
    },
    **_jdbc("Sink"),
    f"{_FILES}SinkConnector": Plugin(
        f"{_FILES}SinkConnector", "odradek.connect.connectors.file_sink", "FileSink"
    ),
    **_connector("com.mongodb.kafka.connect.MongoSinkConnector", "mongodb.sink", "MongoSink"),
    **_connector(f"{_AIVEN}http.HttpSinkConnector", "http_sink", "HttpSink"),
    **_connector(f"{_AIVEN}opensearch.OpenSearchSinkConnector", "search_sink", "SearchSink"),
    **_connector(
        "io.confluent.connect.elasticsearch.ElasticsearchSinkConnector",
        "search_sink",
        "ElasticsearchSink",
    ),
    **_connector(
        "io.aiven.connect.elasticsearch.ElasticsearchSinkConnector", "search_sink", "SearchSink"
    ),
}
CONNECTORS: Final[Mapping[str, Plugin]] = {**SOURCES, **SINKS}
_TABLES: Final = (TRANSFORMS, PREDICATES, CONVERTERS, SOURCES, SINKS, CONNECTORS)


def find_connector(name: str) -> Plugin:
    """Returns the connector with a name. The last part of the name is enough, also without
    `Connector` at its end. Raises `InvalidConfig`."""
    for full, plugin in CONNECTORS.items():
        short = full.rpartition(".")[2]
        if name in {full, short, short.removesuffix("Connector")}:
            return plugin
    available = ", ".join(CONNECTORS)
    raise InvalidConfig(
        "Failed to find any class that implements Connector and which name matches"
        f" {name}, available connectors are: {available}{near_connector(name)}"
    )


def near_connector(name: str) -> str:
    """Returns the end of a message about an unknown connector: `; did you mean X?`, or nothing."""
    short = [full.rpartition(".")[2].removesuffix("Connector") for full in CONNECTORS]
    return did_you_mean(name, [*CONNECTORS] if "." in name else short)


def tables() -> list[dict[str, Plugin]]:
    """Returns all available classes, for `install` in another process."""
    return [dict(table) for table in _TABLES]


def install(tables: Sequence[Mapping[str, Plugin]]) -> None:
    """Adds the classes that are available in another process. It imports none of them."""
    for table, found in zip(_TABLES, tables, strict=True):
        cast("dict[str, Plugin]", table).update(found)


def find(plugins: Mapping[str, Plugin], name: str) -> Plugin:
    """Returns the class with a name, of which the last part is enough. Raises `InvalidConfig`."""
    found = plugins.get(name)
    if found is not None:
        return found
    short = {known.rpartition(".")[2]: known for known in plugins}
    if name in short:
        return plugins[short[name]]
    near = nearest(name, plugins) or nearest(name, short)
    hint = "" if near is None else f" Did you mean {near}?"
    raise InvalidConfig(f"Class {name} could not be found.{hint}")


def make_converter(
    name: str, properties: Mapping[str, str | None], field: str = "value"
) -> Converter:
    """Returns a converter. `field` says whether it is for a `key` or a `value`. Raises
    `InvalidConfig`."""
    found: Converter = find(CONVERTERS, name).load()({**properties, CONVERTER_TYPE: field})
    return found


def converter_settings(name: str) -> type[PluginSettings]:
    """Returns the class of a converter's settings. It has no settings if the converter checks its
    own, as those with a schema registry do. Raises `InvalidConfig`."""
    plugin = find(CONVERTERS, name)
    if plugin.class_name not in _CONVERTER_CLASSES.values():
        return PluginSettings
    found: type[PluginSettings] = import_module(plugin.module).settings_of(plugin.class_name)
    return found


def make_transform(name: str, properties: Mapping[str, str | None]) -> Transform:
    """Returns a transform. Raises `InvalidConfig`."""
    plugin = find(TRANSFORMS, name)
    settings = plugin.settings_class.read(properties)
    made: Transform = (
        plugin.load()(settings) if plugin.side is None else plugin.load()(settings, plugin.side)
    )
    return made


def make_predicate(name: str, properties: Mapping[str, str | None]) -> Predicate:
    """Returns a predicate. Raises `InvalidConfig`."""
    plugin = find(PREDICATES, name)
    made: Predicate = plugin.load()(plugin.settings_class.read(properties))
    return made
