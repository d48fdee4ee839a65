"""`odradek sizing`: what a cluster needs for a load, each figure with its formula."""

import argparse
from math import inf

from odradek.cli.connection_options import add_json_argument
from odradek.cli.parser import positive_number, whole_number
from odradek.cli.quantities import duration_s, size_bytes
from odradek.tools.failures import UsageError
from odradek.tools.hints import hint

_EXAMPLES = """\
examples:
  odradek sizing --rate 10MB --retention 7d --partitions 100 --brokers 3
  odradek sizing --rate 200KB --retention 30d --replication-factor 1 --brokers 1 --partitions 12
  odradek sizing --rate 1MB --compacted --keys 20000000 --record-bytes 500 --partitions 24

Sizes: 10MB counts by thousands, 10MiB by 1024. Rates are what producers send, compressed, of all
topics together. docs/sizing.md says where the constants come from.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EXAMPLES
    parser.usage = "odradek sizing --rate SIZE [--retention TIME] [--partitions N] [flags]"
    _add_load_arguments(parser)
    _add_retention_arguments(parser)
    _add_cluster_arguments(parser)
    add_json_argument(parser)


def _add_load_arguments(parser: argparse.ArgumentParser) -> None:
    load = parser.add_argument_group("the load")
    load.add_argument(
        "--rate", metavar="SIZE", type=size_bytes, required=True, help="written in a second"
    )
    load.add_argument(
        "--partitions",
        metavar="N",
        type=positive_number,
        help="of all topics together (default: 12)",
    )
    load.add_argument(
        "--consumers",
        metavar="N",
        type=_count,
        default=1,
        help="how often each record is read, by consumer groups (default: 1)",
    )
    load.add_argument(
        "--clients",
        metavar="N",
        type=_count,
        default=50,
        help="connected producers and consumers (default: 50)",
    )
    load.add_argument(
        "--record-bytes",
        metavar="SIZE",
        type=size_bytes,
        default=1000,
        help="of a record, with --compacted (default: 1KB)",
    )
    load.add_argument(
        "--batch-bytes",
        metavar="SIZE",
        type=size_bytes,
        default=16_384,
        help="of a batch that a producer sends to a partition (default: 16KiB)",
    )


def _add_retention_arguments(parser: argparse.ArgumentParser) -> None:
    kept = parser.add_argument_group("what is kept")
    kept.add_argument(
        "--retention",
        metavar="TIME",
        type=_retention,
        help="retention.ms, or forever (default: 7d)",
    )
    kept.add_argument(
        "--retention-bytes", metavar="SIZE", type=size_bytes, help="of each partition"
    )
    kept.add_argument(
        "--compacted", action="store_true", help="keep the newest record of each key instead"
    )
    kept.add_argument(
        "--keys", metavar="N", type=_count, default=0, help="with --compacted: how many keys"
    )
    kept.add_argument(
        "--segment-bytes",
        metavar="SIZE",
        type=size_bytes,
        default=1 << 30,
        help="segment.bytes (default: 1GiB)",
    )
    kept.add_argument(
        "--segment-time",
        metavar="TIME",
        type=duration_s,
        default=7 * 86_400.0,
        help="segment.ms (default: 7d)",
    )


def _add_cluster_arguments(parser: argparse.ArgumentParser) -> None:
    cluster = parser.add_argument_group("the cluster")
    cluster.add_argument(
        "--brokers", metavar="N", type=positive_number, help="how many brokers (default: 3)"
    )
    cluster.add_argument(
        "--replication-factor",
        metavar="N",
        type=positive_number,
        help="copies of each partition (default: 3, or as many as there are brokers)",
    )
    cluster.add_argument(
        "--hot",
        metavar="TIME",
        type=duration_s,
        default=600.0,
        help="how far readers usually lag: these records should stay in memory (default: 10m)",
    )
    cluster.add_argument(
        "--network",
        metavar="SIZE",
        type=size_bytes,
        default=125_000_000,
        help="what a broker's network carries in a second (default: 125MB, a gigabit)",
    )
    cluster.add_argument(
        "--free-percent",
        metavar="N",
        type=_percent,
        default=30,
        help="of the disk that stays free (default: 30)",
    )


def _count(text: str) -> int:
    number = whole_number(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"{text} is less than 0")
    return number


def _percent(text: str) -> int:
    number = whole_number(text)
    if not 0 <= number < 100:
        raise argparse.ArgumentTypeError(f"{text} is not a percentage from 0 to 99")
    return number


def _retention(text: str) -> float:
    return inf if text == "forever" else duration_s(text)


# What is assumed if the user does not say it, by its flag, as the user would type it.
_ASSUMED = {"partitions": "12", "retention": "7d", "brokers": "3"}


def assume(arguments: argparse.Namespace) -> list[str]:
    """Sets what the user has not given, and returns these flags with their values: all other
    figures follow from them, so the user should know."""
    types = {"partitions": positive_number, "retention": _retention, "brokers": positive_number}
    assumed = []
    for name, text in _ASSUMED.items():
        if getattr(arguments, name) is None:
            setattr(arguments, name, types[name](text))
            if not (name == "retention" and arguments.compacted):
                assumed.append(f"--{name} {text}")
    if arguments.replication_factor is None:
        arguments.replication_factor = min(3, arguments.brokers)
        assumed.append(f"--replication-factor {arguments.replication_factor}")
    return assumed


def run(arguments: argparse.Namespace) -> int:
    assumed = assume(arguments)
    for flag in ("segment_bytes", "record_bytes", "network"):
        if not getattr(arguments, flag):
            raise UsageError(f"--{flag.replace('_', '-')} must be more than 0")
    if not arguments.segment_time:
        raise UsageError("--segment-time must be more than 0")
    if arguments.replication_factor > arguments.brokers:
        raise UsageError(
            f"{arguments.replication_factor} copies need {arguments.replication_factor} brokers;"
            f" there are {arguments.brokers}"
        )
    from odradek.cli.sizing.report import report

    if assumed and not arguments.json:
        hint(f"assumed are {', '.join(assumed)}; give your own for figures that fit")
    return report(arguments, assumed)
