"""`odradek delete-records`: delete records below an offset, as kafka-delete-records does."""

import argparse

from odradek.cli.connection_options import add_connection_arguments, add_json_argument
from odradek.tools.failures import CommandFailed
from odradek.tools.files import entry_number, entry_text, json_entries, read_text

_FILE = '{"partitions": [{"topic": "orders", "partition": 0, "offset": 100}], "version": 1}'
_EXAMPLE = f"""\
the file:
  {_FILE}
deletes offsets 0 to 99 of partition 0; offset -1 deletes all there is.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EXAMPLE
    parser.add_argument(
        "--offset-json-file",
        metavar="FILE",
        required=True,
        help="JSON that names topics, partitions and the first offset to keep",
    )
    add_json_argument(parser)
    add_connection_arguments(parser)


def parse_offsets(text: str, source: str) -> dict[tuple[str, int], int]:
    """Reads the first offset to keep for each (topic, partition). `source` is the file's name."""
    offsets: dict[tuple[str, int], int] = {}
    for entry in json_entries(text, source, "partitions", _FILE):
        topic = entry_text(entry, "topic", source)
        partition = entry_number(entry, "partition", source)
        if (topic, partition) in offsets:
            raise CommandFailed(f"{source} has {topic}-{partition} twice")
        offset = entry_number(entry, "offset", source)
        if offset < -1:
            raise CommandFailed(
                f"{source}: {topic}-{partition} has no offset {offset}; -1 deletes all there is"
            )
        offsets[topic, partition] = offset
    return offsets


def run(arguments: argparse.Namespace) -> int:
    path = arguments.offset_json_file
    offsets = parse_offsets(read_text(path), path)
    import asyncio

    from odradek.cli.topics.partition_actions import delete_records

    return asyncio.run(delete_records(arguments, offsets))
