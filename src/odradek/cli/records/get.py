"""`odradek get`: the newest value of a key. The broker finds it in an index, or with --scan the
command reads the partition."""

import argparse

from odradek.cli.connection_options import add_connection_arguments
from odradek.cli.parser import positive_number, whole_number
from odradek.cli.records.output_options import (
    add_output_arguments,
    make_formatter,
    refuse_with_json,
)
from odradek.tools.client_properties import client_properties
from odradek.tools.failures import UsageError
from odradek.tools.registry_session import client_of, registry_properties, reported

_EXAMPLES = """\
examples:
  odradek get --topic customers --key 4711
  odradek get --topic customers --key 4711 --stats --formatter-property print.offset=true
  odradek get --topic balances --key 4711 --key-serializer LongSerializer --json

Every partition is looked in, because producers place keys differently. If several partitions have
the key, the record with the latest timestamp is printed, and a hint. If no record has the key, or
the last one is a tombstone, the command prints a message and ends with status 1. Formatter
properties are those of console-consumer: print.timestamp, print.partition, print.offset,
print.headers, print.key, ... Values with a schema are decoded if the registry is known: by
$ODRADEK_SCHEMA_REGISTRY, the profile, or --command-property schema.registry.url=URL.
"""

_WIDTHS = {"ShortSerializer": 2, "IntegerSerializer": 4, "LongSerializer": 8}
_SERIALIZERS = ("StringSerializer", *_WIDTHS, "HexSerializer")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EXAMPLES
    parser.add_argument("--topic", metavar="NAME", required=True, help="the topic to look in")
    parser.add_argument("--key", metavar="KEY", required=True, help="the key to look for")
    parser.add_argument(
        "--key-serializer",
        metavar="CLASS",
        default="StringSerializer",
        help="how the key is serialized: StringSerializer (the default), ShortSerializer,"
        " IntegerSerializer, LongSerializer, or HexSerializer for any bytes in hexadecimal digits",
    )
    where = parser.add_argument_group("where to look")
    where.add_argument(
        "--partition",
        metavar="N",
        type=whole_number,
        help="in this partition only",
    )
    where.add_argument(
        "--all-partitions",
        action="store_true",
        help="with --scan: in every partition, for topics whose producers use another partitioner"
        " (librdkafka's default is CRC32), and not only where Kafka's producer puts the key, by"
        " murmur2; without --scan every partition is looked in anyway",
    )
    where.add_argument(
        "--isolation-level",
        metavar="LEVEL",
        choices=("read_committed", "read_uncommitted"),
        default="read_committed",
        help="read_uncommitted also shows records of uncommitted transactions"
        " (default: read_committed)",
    )
    where.add_argument(
        "--scan",
        action="store_true",
        help="read the partition from its beginning: works with any Kafka broker, and takes longer",
    )
    _add_output_arguments(parser)
    add_connection_arguments(parser)


def _add_output_arguments(parser: argparse.ArgumentParser) -> None:
    output = add_output_arguments(parser)
    output.add_argument(
        "--stats",
        action="store_true",
        help="print on standard error what the broker read, and how long it took",
    )
    output.add_argument(
        "--repeat",
        metavar="N",
        type=positive_number,
        default=1,
        help="number of look-ups, to measure with --stats",
    )


def key_bytes(text: str, serializer: str) -> bytes:
    """Encodes the key as the producer's serializer does. Raises `UsageError` if it cannot."""
    name = serializer.rpartition(".")[2]
    if name not in _SERIALIZERS:
        raise UsageError(f"no serializer {serializer}; there are {', '.join(_SERIALIZERS)}")
    if name == "HexSerializer":
        try:
            return bytes.fromhex(text)
        except ValueError:
            raise UsageError(
                f"--key {text!r} is not hexadecimal (--key-serializer {name})"
            ) from None
    if name in _WIDTHS:
        width = _WIDTHS[name]
        try:
            return int(text).to_bytes(width, "big", signed=True)
        except (ValueError, OverflowError):
            raise UsageError(
                f"--key {text!r} is not an integer of {width} bytes (--key-serializer {name})"
            ) from None
    # Python decodes arguments that are not valid text with this error handler.
    return text.encode(errors="surrogateescape")


def check_arguments(arguments: argparse.Namespace) -> None:
    """Raises `UsageError` if flags contradict each other, or would have no effect."""
    if arguments.partition is not None and arguments.all_partitions:
        raise UsageError("give --partition or --all-partitions, not both")
    if arguments.scan and arguments.repeat > 1:
        raise UsageError("--repeat and --scan cannot be used together")
    refuse_with_json(arguments)


def run(arguments: argparse.Namespace) -> int:
    check_arguments(arguments)
    key = key_bytes(arguments.key, arguments.key_serializer)
    properties = client_properties(arguments, client_id="odradek-get")
    properties["isolation.level"] = arguments.isolation_level
    formatter = make_formatter(arguments)
    import asyncio

    from odradek.cli.records.get_actions import print_newest

    # As in console-consumer, values with a schema are decoded if the registry's address is known.
    found = registry_properties(arguments)
    if "schema.registry.url" not in found:
        return asyncio.run(print_newest(arguments, key, formatter, properties))
    from odradek.cli.schemas.consoles import shown_by
    from odradek.schemas.errors import SchemaError

    with client_of(found) as client:
        deserializers = shown_by(client, arguments)
        from odradek.cli.schemas.shown_values import DecodingFormatter

        decoding = DecodingFormatter(formatter, deserializers)
        try:
            return asyncio.run(print_newest(arguments, key, decoding, properties))
        except SchemaError as error:
            raise reported(error) from None
