"""`odradek console-producer`: send lines from standard input, as kafka-console-producer does."""

import argparse

from odradek.cli.connection_options import add_connection_arguments
from odradek.cli.parser import OlderSpelling, key_and_value
from odradek.tools.client_properties import client_properties, read_properties
from odradek.tools.failures import UsageError

_EXAMPLES = """\
examples:
  echo hello | odradek console-producer --topic greetings
  odradek console-producer --topic orders --reader-property parse.key=true \\
      --reader-property key.separator=:

reader properties: parse.key, key.separator (tab), parse.headers, headers.delimiter (tab),
  headers.separator (,), headers.key.separator (:), null.marker, ignore.error
"""

# Flags that set one client property each: flag, property, metavar, what it does.
_CLIENT_FLAGS = (
    ("--request-required-acks", "acks", "ACKS", "all (-1), 1 or 0 replicas must have a record"),
    ("--batch-size", "batch.size", "BYTES", "records are sent together up to this size"),
    ("--timeout", "linger.ms", "MS", "how long a record waits for its batch to fill"),
    ("--message-send-max-retries", "retries", "N", "how often a failed send is repeated"),
    ("--retry-backoff-ms", "retry.backoff.ms", "MS", "pause before a repeat"),
    ("--request-timeout-ms", "request.timeout.ms", "MS", "how long to wait for an answer"),
    ("--max-block-ms", "max.block.ms", "MS", "how long a send waits for buffer space or metadata"),
    (
        "--max-memory-bytes",
        "buffer.memory",
        "BYTES",
        "memory for records that are not acknowledged yet",
    ),
    ("--metadata-expiry-ms", "metadata.max.age.ms", "MS", "how long metadata counts as fresh"),
    ("--socket-buffer-size", "send.buffer.bytes", "BYTES", "size of the socket's buffer"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EXAMPLES
    parser.add_argument("--topic", metavar="NAME", required=True, help="where the lines go")
    parser.add_argument(
        "--reader-property",
        metavar="KEY=VALUE",
        type=key_and_value,
        action="append",
        default=[],
        help="how a line becomes a record, see below; may be repeated",
    )
    parser.add_argument("--reader-config", metavar="FILE", help="the same from a properties file")
    parser.add_argument(
        "--sync", action="store_true", help="wait for each record before sending the next"
    )
    parser.add_argument(
        "--compression-codec",
        metavar="CODEC",
        nargs="?",
        const="gzip",
        choices=("none", "gzip", "snappy", "lz4", "zstd"),
        help="none, gzip, snappy, lz4 or zstd; gzip when given without a value",
    )
    for flag, name, metavar, text in _CLIENT_FLAGS:
        parser.add_argument(flag, metavar=metavar, help=f"{text} ({name})")
    parser.add_argument("--line-reader", metavar="CLASS", help=argparse.SUPPRESS)
    parser.add_argument(
        "--property",
        dest="reader_property",
        type=key_and_value,
        action=OlderSpelling,
        instead="--reader-property",
        appends=True,
    )
    parser.add_argument(
        "--max-partition-memory-bytes",
        dest="batch_size",
        action=OlderSpelling,
        instead="--batch-size",
    )
    add_connection_arguments(parser, older_role="producer")


def producer_properties(arguments: argparse.Namespace) -> dict[str, str]:
    """Returns the client properties. A property that the user sets by name overrides a flag of this
    tool."""
    values = {
        name: getattr(arguments, flag[2:].replace("-", "_")) for flag, name, *_ in _CLIENT_FLAGS
    }
    flags = {name: value for name, value in values.items() if value is not None}
    if arguments.compression_codec is not None:
        flags["compression.type"] = arguments.compression_codec
    if arguments.sync:
        flags.setdefault("linger.ms", "0")
    flags.setdefault("client.id", "console-producer")
    return flags | client_properties(arguments)


def run(arguments: argparse.Namespace) -> int:
    reader_class = (arguments.line_reader or "LineMessageReader").rpartition(".")[2]
    if reader_class != "LineMessageReader":
        raise UsageError(f"--line-reader {arguments.line_reader}: only LineMessageReader is there")
    properties = read_properties(arguments.reader_config) if arguments.reader_config else {}
    properties |= dict(arguments.reader_property)

    from odradek.cli.records.line_reader import NEEDS, LineReader
    from odradek.cli.records.separators import hint_without_effect

    reader = LineReader(properties)
    hint_without_effect("--reader-property", properties, NEEDS)
    import asyncio

    from odradek.cli.records.console_producer_actions import produce_lines
    from odradek.client.errors import SettingsError

    lines = produce_lines(
        arguments.topic, reader, producer_properties(arguments), sync=arguments.sync
    )
    try:
        return asyncio.run(lines)
    except SettingsError as error:
        raise UsageError(_by_its_flag(str(error), arguments)) from None


def _by_its_flag(text: str, arguments: argparse.Namespace) -> str:
    """Returns a text about an invalid property with the flag by which the user has set it."""
    for flag, name, *_ in _CLIENT_FLAGS:
        if text.startswith(f"{name}=") and getattr(arguments, flag[2:].replace("-", "_")):
            return f"{flag} {text.removeprefix(f'{name}=')}"
    return text
