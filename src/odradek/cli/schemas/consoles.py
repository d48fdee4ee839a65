"""The consoles of the three formats: what `avro-console-producer`, `avro-console-consumer` and
their kin share. They have the flags of `console-producer` and `console-consumer`, and Confluent's
properties for schemas beside those."""

import argparse
from typing import TYPE_CHECKING, Any, Final

from odradek.cli.records import console_consumer, console_producer
from odradek.tools.client_properties import read_properties
from odradek.tools.failures import MissingFlag, UsageError
from odradek.tools.registry_session import (
    DEFAULT_REGISTRY,
    client_of,
    registry_properties,
    reported,
)

if TYPE_CHECKING:
    from odradek.schemas.parsed import SchemaType
    from odradek.schemas.registry_client import RegistryClient

_OF_REGISTRY: Final = ("schema.registry.", "basic.auth.", "bearer.auth.")
_OF_SCHEMAS: Final = (
    *("auto.register.schemas", "normalize.schemas", "use.latest.version", "schema.id.serializer"),
    *("subject.name.strategy", "key.subject.name.strategy", "value.subject.name.strategy"),
    *(f"{field}.schema{end}" for field in ("key", "value") for end in ("", ".file", ".id")),
    *("key.refs", "value.refs", "key.serializer"),
    *("print.schema.ids", "schema.id.separator"),
)


def add_producer_arguments(parser: argparse.ArgumentParser, command: str, schema: str) -> None:
    console_producer.add_arguments(parser)
    parser.epilog = f"""\
examples:
  odradek {command} --topic orders --reader-property schema.registry.url=http://localhost:8081 \\
      --reader-property value.schema='{schema}'
  odradek {command} --topic orders --reader-property value.schema.file=order.schema \\
      --reader-property parse.key=true --reader-property key.schema='...'

Each line is JSON. Properties: schema.registry.url (default: $ODRADEK_SCHEMA_REGISTRY, the profile,
  or {DEFAULT_REGISTRY}), basic.auth.user.info, value.schema, value.schema.file, value.schema.id,
  key.schema, key.schema.file, key.schema.id (without one a key is text), value.refs, key.refs,
  auto.register.schemas, use.latest.version, normalize.schemas, subject.name.strategy,
  schema.id.serializer, and those of console-producer: parse.key, key.separator, null.marker, ...
"""


def add_consumer_arguments(parser: argparse.ArgumentParser, command: str) -> None:
    console_consumer.add_arguments(parser)
    parser.epilog = f"""\
examples:
  odradek {command} --topic orders --from-beginning \\
      --formatter-property schema.registry.url=http://localhost:8081
  odradek {command} --topic orders --from-beginning --formatter-property print.key=true \\
      --formatter-property key.deserializer=StringDeserializer \\
      --formatter-property print.schema.ids=true

Properties: schema.registry.url (default: $ODRADEK_SCHEMA_REGISTRY, the profile, or
  {DEFAULT_REGISTRY}), basic.auth.user.info, print.schema.ids, schema.id.separator (tab), and those
  of console-consumer: print.key, print.timestamp, key.separator, ... A key.deserializer is for keys
  that have no schema.
"""


def run_producer(arguments: argparse.Namespace, kind: "SchemaType") -> int:
    properties = read_properties(arguments.reader_config) if arguments.reader_config else {}
    properties |= dict(arguments.reader_property)
    of_lines = {
        name: text
        for name, text in properties.items()
        if name not in _OF_SCHEMAS and not name.startswith(_OF_REGISTRY)
    }
    import asyncio

    from odradek.cli.records.console_producer_actions import produce_lines
    from odradek.cli.schemas.typed_lines import TypedLineReader, field_of
    from odradek.schemas.errors import SchemaError

    with _client(arguments, properties) as client:
        try:
            key = field_of(kind, client, properties, "key")
            value = field_of(kind, client, properties, "value")
            if value is None:
                raise MissingFlag(
                    "give the schema of values: --reader-property value.schema='...',"
                    " value.schema.file or value.schema.id"
                )
            serializers = {"value_serializer": value.serializer}
            if key is not None:
                serializers["key_serializer"] = key.serializer
            return asyncio.run(
                produce_lines(
                    arguments.topic,
                    TypedLineReader(of_lines, key, value),
                    console_producer.producer_properties(arguments),
                    sync=arguments.sync,
                    serializers=serializers,
                )
            )
        except SchemaError as error:
            raise reported(error) from None


def run_consumer(arguments: argparse.Namespace, kind: "SchemaType") -> int:
    properties = read_properties(arguments.formatter_config) if arguments.formatter_config else {}
    properties |= dict(arguments.formatter_property)
    arguments.formatter_property = [
        (name, text)
        for name, text in arguments.formatter_property
        if name not in _OF_SCHEMAS and not name.startswith(_OF_REGISTRY)
    ]
    separator = None
    if properties.get("print.schema.ids", "false").lower() == "true":
        separator = properties.get("schema.id.separator", "\t").encode()
    with _client(arguments, properties) as client:
        return console_consumer.run_with(arguments, shown_by(client, arguments, kind, separator))


def _client(arguments: argparse.Namespace, own: dict[str, str]) -> "RegistryClient":
    found = registry_properties(arguments, own)
    return client_of({"schema.registry.url": DEFAULT_REGISTRY, **found})


def shown_by(
    client: "RegistryClient",
    arguments: argparse.Namespace,
    kind: "SchemaType | None" = None,
    id_separator: bytes | None = None,
) -> dict[str, Any]:
    """Returns the deserializers of a console, as settings of a consumer. Keys or values for which
    the user names a deserializer are left to that."""
    try:
        from odradek.cli.schemas.shown_values import ShownValues
    except ModuleNotFoundError as error:
        raise UsageError(str(error)) from None
    given = dict(arguments.formatter_property)
    # A key that is not printed need not be readable.
    shows_key = kind is None or arguments.json or given.get("print.key", "false").lower() == "true"
    return {
        f"{field}_deserializer": ShownValues(client, kind, id_separator)
        for field in (("key", "value") if shows_key else ("value",))
        if not getattr(arguments, f"{field}_deserializer") and f"{field}.deserializer" not in given
    }
