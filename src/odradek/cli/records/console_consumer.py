"""`odradek console-consumer`: print the records of a topic, as kafka-console-consumer does.

Without `--group` it reads all partitions and commits no offsets.
"""

import argparse
import re
from typing import Any

from odradek.cli.connection_options import add_connection_arguments, add_new_consumer
from odradek.cli.parser import OlderSpelling, key_and_value, whole_number
from odradek.cli.records.output_options import (
    add_output_arguments,
    make_formatter,
    refuse_with_json,
)
from odradek.tools.client_properties import client_properties
from odradek.tools.failures import MissingFlag, UsageError
from odradek.tools.registry_session import client_of, registry_properties

# What shows the records of Kafka's own topics, for which Kafka has formatters.
_INSTEAD_OF_FORMATTERS = {
    "OffsetsMessageFormatter": "odradek consumer-groups --describe --group ID shows offsets",
    "GroupMetadataMessageFormatter": "odradek consumer-groups --describe --group ID --members"
    " shows groups",
    "TransactionLogMessageFormatter": "odradek transactions list shows transactions",
}
_JSON_INSTEAD = "--json prints records as JSON"

_EXAMPLES = """\
examples:
  odradek console-consumer --topic greetings --from-beginning
  odradek console-consumer --topic orders --group billing --from-beginning
  odradek console-consumer --topic orders --partition 0 --offset 100 --max-messages 10 \\
      --formatter-property print.key=true --formatter-property print.offset=true

formatter properties: print.timestamp, print.partition, print.offset, print.epoch, print.headers,
  print.key, print.value (true), key.separator (tab), line.separator (newline),
  headers.separator (,), null.literal (null), key.deserializer, value.deserializer
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EXAMPLES
    parser.add_argument("--topic", metavar="NAME", help="the topic to read")
    parser.add_argument(
        "--include", metavar="PATTERN", help="instead of --topic: a regular expression for several"
    )
    parser.add_argument(
        "--group",
        metavar="ID",
        help="share the records with other consumers of this group, and go on where it stopped;"
        " --from-beginning is for a group that is new",
    )
    start = parser.add_argument_group("where to start and stop")
    start.add_argument(
        "--from-beginning", action="store_true", help="start at the first record, not at the end"
    )
    start.add_argument("--partition", metavar="N", type=whole_number, help="only this partition")
    start.add_argument(
        "--offset", metavar="OFFSET", help="with --partition: a number, earliest or latest"
    )
    start.add_argument(
        "--max-messages",
        metavar="N",
        type=whole_number,
        help="stop after this many records; -1 for no limit (default: -1)",
    )
    start.add_argument(
        "--timeout-ms", metavar="MS", type=whole_number, help="stop when none came for this long"
    )
    start.add_argument(
        "--isolation-level",
        metavar="LEVEL",
        choices=("read_committed", "read_uncommitted"),
        help="read_committed hides records of uncommitted transactions (default: read_uncommitted)",
    )
    _add_output_arguments(parser)
    parser.add_argument("--enable-systest-events", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--formatter", metavar="CLASS", help=argparse.SUPPRESS)
    parser.add_argument("--whitelist", dest="include", action=OlderSpelling, instead="--include")
    add_new_consumer(parser)
    add_connection_arguments(parser, older_role="consumer")


def _add_output_arguments(parser: argparse.ArgumentParser) -> None:
    output = add_output_arguments(parser)
    output.add_argument(
        "--formatter-config", metavar="FILE", help="a file of formatter properties; not with --json"
    )
    output.add_argument(
        "--skip-message-on-error",
        action="store_true",
        help="leave out a record that cannot be printed instead of stopping",
    )
    output.add_argument(
        "--property",
        dest="formatter_property",
        type=key_and_value,
        action=OlderSpelling,
        instead="--formatter-property",
        appends=True,
    )


def starting_offset(arguments: argparse.Namespace) -> int:
    """Returns an offset, or as in ListOffsets -2 for the beginning and -1 for the end."""
    if arguments.offset is None:
        return -2 if arguments.from_beginning else -1
    if arguments.partition is None:
        raise MissingFlag("--offset needs --partition N")
    if arguments.from_beginning:
        raise UsageError("give --offset or --from-beginning, not both")
    if arguments.offset in {"earliest", "latest"}:
        return -2 if arguments.offset == "earliest" else -1
    if not arguments.offset.isdecimal():
        raise UsageError(f"--offset takes a number, earliest or latest, not {arguments.offset!r}")
    return int(arguments.offset)


def consumer_properties(arguments: argparse.Namespace) -> dict[str, str]:
    properties = client_properties(arguments, client_id="console-consumer")
    if arguments.isolation_level is not None:
        properties["isolation.level"] = arguments.isolation_level
    if arguments.from_beginning and properties.get("auto.offset.reset", "earliest") != "earliest":
        reset = properties["auto.offset.reset"]
        raise UsageError(f"--from-beginning and auto.offset.reset={reset} contradict")
    if arguments.from_beginning:
        # Also for a topic that is deleted and created again while it is read.
        properties["auto.offset.reset"] = "earliest"
    group = arguments.group or properties.get("group.id")
    if properties.get("group.id", group) != group:
        raise UsageError(f"--group {group} and group.id={properties['group.id']} contradict")
    if group:
        properties["group.id"] = group
        if arguments.partition is not None:
            raise UsageError(
                "--partition cannot be used with --group: the group assigns partitions"
            )
    return properties


def check_arguments(arguments: argparse.Namespace) -> None:
    """Raises `UsageError` if flags contradict each other, or would have no effect."""
    if (arguments.topic is None) == (arguments.include is None):
        raise UsageError("give --topic NAME, or --include PATTERN for several")
    if "," in (arguments.topic or ""):
        raise UsageError(f"--topic takes one topic; for several: --include {arguments.topic!r}")
    if re.search(r"[][*+?()|^$\\{}]", arguments.topic or ""):
        raise UsageError(
            f"--topic takes the name of one topic; for a pattern: --include {arguments.topic!r}"
        )
    if arguments.group is not None and not arguments.group.strip():
        raise UsageError("--group needs the name of a group; without --group none is joined")
    if arguments.partition is not None and arguments.topic is None:
        raise MissingFlag("--partition needs --topic NAME")
    if arguments.max_messages is not None and arguments.max_messages < -1:
        raise UsageError(
            f"--max-messages {arguments.max_messages}: give a number of records; -1 means no limit"
        )
    formatter = (arguments.formatter or "DefaultMessageFormatter").rpartition(".")[2]
    if formatter != "DefaultMessageFormatter":
        # `kafka.coordinator.group.GroupMetadataManager$OffsetsMessageFormatter`, before Kafka 4.
        instead = _INSTEAD_OF_FORMATTERS.get(formatter.rpartition("$")[2], _JSON_INSTEAD)
        raise UsageError(
            f"--formatter {arguments.formatter}: only DefaultMessageFormatter is there; {instead}"
        )
    refuse_with_json(arguments)


def run(arguments: argparse.Namespace) -> int:
    check_arguments(arguments)
    # Values with a schema are decoded if the user has said where the registry is.
    found = registry_properties(arguments)
    if "schema.registry.url" not in found:
        return run_with(arguments, {})
    from odradek.cli.schemas.consoles import shown_by

    with client_of(found) as client:
        return run_with(arguments, shown_by(client, arguments))


def run_with(arguments: argparse.Namespace, deserializers: dict[str, Any]) -> int:
    """Does the work; `deserializers` are settings of the consumer."""
    check_arguments(arguments)
    offset = starting_offset(arguments)
    properties = consumer_properties(arguments)
    import asyncio

    from odradek.cli.records.console_consumer_actions import print_records

    formatter: Any = make_formatter(arguments)
    if deserializers:
        from odradek.cli.schemas.shown_values import CheckedFormatter

        formatter = CheckedFormatter(formatter)
    return asyncio.run(print_records(arguments, formatter, offset, properties, deserializers))
