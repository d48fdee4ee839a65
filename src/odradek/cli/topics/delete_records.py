"""`odradek delete-records`: delete records below an offset, as kafka-delete-records does."""

import argparse
import json

from odradek.cli.connection_options import add_connection_arguments, add_json_argument
from odradek.tools.failures import CommandFailed

_EXAMPLE = """\
the file:
  {"partitions": [{"topic": "orders", "partition": 0, "offset": 100}], "version": 1}
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


def parse_offsets(text: str) -> dict[tuple[str, int], int]:
    """Reads the first offset to keep for each (topic, partition)."""
    try:
        content = json.loads(text)
        version = content.get("version", 1)
        partitions = [
            (str(entry["topic"]), int(entry["partition"]), int(entry["offset"]))
            for entry in content["partitions"]
        ]
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        raise CommandFailed(
            f"the offset file is not like {_EXAMPLE.splitlines()[1].strip()}: {problem!r}"
        ) from None
    if version != 1:
        raise CommandFailed(f"the offset file has version {version}; version 1 is understood")
    offsets: dict[tuple[str, int], int] = {}
    for topic, partition, offset in partitions:
        if (topic, partition) in offsets:
            raise CommandFailed(f"the offset file names {topic}-{partition} twice")
        offsets[topic, partition] = offset
    if not offsets:
        raise CommandFailed("the offset file names no partitions")
    return offsets


def run(arguments: argparse.Namespace) -> int:
    from odradek.world.disk import OsDisk

    content = OsDisk().read(arguments.offset_json_file)
    offsets = parse_offsets(content.decode("utf-8", errors="replace"))
    import asyncio

    from odradek.cli.topics.partition_actions import delete_records

    return asyncio.run(delete_records(arguments, offsets))
