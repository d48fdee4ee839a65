"""`odradek dump-log`: print and verify log segments and indexes, as kafka-dump-log does.

It reads files, not a broker, and works on Apache Kafka's files too. Its output is Kafka's,
line by line. Unlike Kafka's tool it ends with exit code 1 if it found something damaged.
"""

import argparse
import os
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING

from odradek.cli.connection_options import add_json_argument
from odradek.cli.parser import positive_number
from odradek.tools.failures import CommandFailed, UsageError

if TYPE_CHECKING:
    from odradek.cli.dump_log.segment_dump import RecordDecoder
    from odradek.world.disk import Disk, OsDisk

_EXAMPLES = """\
examples:
  odradek dump-log --files data/orders-0/00000000000000000000.log --print-data-log
  odradek dump-log --files data/orders-0/00000000000000000000.index --index-sanity-check
  odradek dump-log --files data/__consumer_offsets-7/00000000000000000000.log --offsets-decoder
"""

_STRING_DECODER = "org.apache.kafka.tools.api.StringDecoder"

# Kafka's decoders for other internal topics, and what those topics hold.
_OTHER_DECODERS = {
    "cluster-metadata-decoder": "KRaft metadata",
    "remote-log-metadata-decoder": "tiered storage metadata",
    "share-group-state-decoder": "share groups' state",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "odradek dump-log --files FILE[,FILE...] [flags]"
    parser.epilog = _EXAMPLES
    parser.add_argument(
        "--files",
        metavar="FILES",
        required=True,
        help=".log, .index, .timeindex, .txnindex and .snapshot files, separated by commas",
    )
    parser.add_argument(
        "--print-data-log", action="store_true", help="print the records' keys and values"
    )
    parser.add_argument(
        "--deep-iteration", action="store_true", help="print every record, not only batches"
    )
    parser.add_argument(
        "--skip-record-metadata",
        action="store_true",
        help="of each record print only what --print-data-log adds",
    )
    parser.add_argument(
        "--index-sanity-check",
        action="store_true",
        help="check an index as a starting broker does, print none of it",
    )
    parser.add_argument(
        "--verify-index-only",
        action="store_true",
        help="compare an index with its log, print none of it",
    )
    parser.add_argument(
        "--max-message-size",
        metavar="BYTES",
        type=positive_number,
        default=5 * 1024 * 1024,
        help="the largest batch that an index may point at (default 5242880)",
    )
    parser.add_argument(
        "--max-bytes",
        metavar="BYTES",
        type=positive_number,
        help="read no more than this much of a .log file",
    )
    _add_decoders(parser)
    _add_keys(parser)
    add_json_argument(parser)


def _add_decoders(parser: argparse.ArgumentParser) -> None:
    for part in ("key", "value"):
        parser.add_argument(
            f"--{part}-decoder-class",
            metavar="NAME",
            nargs="?",
            const=_STRING_DECODER,
            help=f"how to show {part}s: StringDecoder (default), IntegerDecoder or LongDecoder",
        )
    parser.add_argument(
        "--offsets-decoder",
        action="store_true",
        help="the files are of __consumer_offsets: print groups and offsets as JSON",
    )
    parser.add_argument(
        "--transaction-log-decoder",
        action="store_true",
        help="the files are of __transaction_state: print transactions as JSON",
    )
    for name in _OTHER_DECODERS:
        parser.add_argument(f"--{name}", action="store_true", help=argparse.SUPPRESS)


def _add_keys(parser: argparse.ArgumentParser) -> None:
    """Adds the flags that name the keys of encrypted segments."""
    parser.add_argument(
        "--key-file", metavar="FILE", help="the keys of encrypted segments, in a key file"
    )
    parser.add_argument(
        "--broker-config",
        metavar="FILE",
        help="the keys of encrypted segments, as the properties file of a broker names them",
    )


def run(arguments: argparse.Namespace) -> int:
    import os
    import sys

    from odradek.cli.dump_log.segment_dump import DumpOptions, SegmentDump
    from odradek.tools.files import not_permitted
    from odradek.world.disk import OsDisk

    for name, records in _OTHER_DECODERS.items():
        if getattr(arguments, name.replace("-", "_")):
            raise UsageError(
                f"--{name} is not supported yet: {records} can be shown as bytes only,"
                " with --print-data-log"
            )
    decoders = (arguments.key_decoder_class, arguments.value_decoder_class)
    show_record = _record_decoder(arguments)
    prints_data = arguments.print_data_log or any(decoders) or show_record is not None
    options = DumpOptions(
        prints_data=prints_data,
        is_deep=prints_data or arguments.deep_iteration,
        index_sanity_only=arguments.index_sanity_check,
        verify_index_only=arguments.verify_index_only,
        skips_metadata=arguments.skip_record_metadata,
        max_message_size=arguments.max_message_size,
        max_bytes=arguments.max_bytes,
        decode_key=decoder_named(decoders[0] or _STRING_DECODER),
        decode_value=decoder_named(decoders[1] or _STRING_DECODER),
        show_record=show_record,
        as_json=arguments.json,
    )
    paths = list(filter(None, arguments.files.split(",")))
    dump = SegmentDump(_disk(arguments, paths), options, os.path.abspath)
    for path in paths:
        if (line := not_permitted(path)) is not None:
            raise CommandFailed(line)
        if os.path.isdir(path):
            raise CommandFailed(f"{path} is a directory; {_files_of(path)}")
        if not os.path.exists(path):
            raise CommandFailed(_no_file(OsDisk(), path))
        try:
            dump.dump(path)
        except BrokenPipeError:
            raise  # It is standard output that was closed, as in `odradek dump-log ... | head`.
        except OSError as error:
            name = error.filename or path
            raise CommandFailed(f"cannot read {name}: {error.strerror or error}") from None
    sys.stdout.flush()
    for line in dump.faults.lines():
        print(line, file=sys.stderr)
    return 1 if dump.faults.is_serious() else 0


def _disk(arguments: argparse.Namespace, paths: list[str]) -> "Disk":
    """The disk, with the keys of encrypted segments if the user names them."""
    from odradek.storage.file_names import ENCRYPTED_FILE
    from odradek.world.disk import OsDisk

    disk = OsDisk()
    if arguments.key_file or arguments.broker_config:
        from odradek.cli.dump_log.encrypted_segments import disk_with_keys

        return disk_with_keys(disk, paths, arguments.key_file, arguments.broker_config)
    for path in paths:
        log = path.rpartition(".")[0] + ".log"
        if os.path.isfile(log):
            with open(log, "rb") as file:
                if file.read(len(ENCRYPTED_FILE)) == ENCRYPTED_FILE:
                    raise CommandFailed(
                        f"{log} is encrypted; name its keys with --key-file or --broker-config"
                    )
    return disk


def _files_of(directory: str) -> str:
    """Returns how to name the files of a partition, or those of one of the partitions if it is the
    data directory of a broker."""
    import glob
    import os

    inside = glob.escape(directory)
    for pattern in ("*.log", "*-*/*.log", "broker-*/*-*/*.log"):
        files = sorted(
            path
            for path in glob.glob(os.path.join(inside, pattern))
            if os.path.basename(path)[:1].isdecimal()
        )
        if files:
            return f"name files in it, as in --files {files[0]}"
    return "and has no segments of a log in it"


def _no_file(disk: "OsDisk", path: str) -> str:
    from odradek.tools.files import no_such_file

    why = _without_index(disk, path)
    return f"there is no file {path}{why}" if why else no_such_file(path)


def _without_index(disk: "OsDisk", path: str) -> str:
    """Returns why an index is missing if its segment is there."""
    stem, _, kind = path.rpartition(".")
    if kind not in {"index", "timeindex"} or disk.exists(path) or not disk.exists(f"{stem}.log"):
        return ""
    return (
        f"; {stem}.log is the active segment, whose indexes are in the broker's memory until it"
        " rolls the segment or stops"
    )


def _record_decoder(arguments: argparse.Namespace) -> "RecordDecoder | None":
    """Returns the decoder for records of an internal topic, whose key says how to read the
    value."""
    if arguments.offsets_decoder and arguments.transaction_log_decoder:
        raise UsageError("--offsets-decoder and --transaction-log-decoder cannot go together")
    if arguments.offsets_decoder or arguments.transaction_log_decoder:
        from odradek.cli.dump_log.state_records import show_group_record, show_transaction_record

        return show_group_record if arguments.offsets_decoder else show_transaction_record
    return None


def decoder_named(name: str) -> Callable[[bytes], str]:
    decoders: dict[str, Callable[[bytes], str]] = {
        "StringDecoder": _text,
        "IntegerDecoder": lambda data: _number(">i", data),
        "LongDecoder": lambda data: _number(">q", data),
    }
    package, _, short_name = name.rpartition(".")
    if package not in ("", "kafka.serializer", "org.apache.kafka.tools.api"):
        raise UsageError(f"{name}: only Kafka's own decoders are known: {', '.join(decoders)}")
    if short_name not in decoders:
        raise UsageError(f"no decoder {name}; there are {', '.join(decoders)}")
    return decoders[short_name]


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        import codecs

        codecs.register_error("as-java-does", _replace_as_java_does)
        return data.decode(errors="as-java-does")


def _replace_as_java_does(error: UnicodeError) -> tuple[str, int]:
    """Decodes as Java does: one replacement character for half a surrogate pair, not one for each
    byte."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    data, start = error.object, error.start
    if data[start] == 0xED and b"\xa0" <= data[start + 1 : start + 2] <= b"\xbf":
        has_third = b"\x80" <= data[start + 2 : start + 3] <= b"\xbf"
        return "\ufffd", start + (3 if has_third else 2)
    return "\ufffd", error.end


def _number(form: str, data: bytes) -> str:
    try:
        return str(struct.unpack_from(form, data)[0])
    except struct.error:
        raise CommandFailed(
            f"{data!r} is shorter than a number; show it with the StringDecoder"
        ) from None
