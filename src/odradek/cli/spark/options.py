"""What all tools that start Spark share: its flags, and the first line that they show."""

import argparse
import sys
from collections.abc import Callable, Iterable, Mapping

from odradek.cli.parser import key_and_value
from odradek.config.spelling import did_you_mean


def one_of(
    kind: str, names: Iterable[str], same_meaning: Mapping[str, str] | None = None
) -> Callable[[str], str]:
    """Returns a type for an argument that is one of a few names. For another name, the error has
    the nearest one; `same_meaning` has names that other tools use."""
    known = tuple(names)

    def checked(text: str) -> str:
        if text in known:
            return text
        meant = (same_meaning or {}).get(text)
        near = f"; did you mean {meant}?" if meant else did_you_mean(text, known)
        hint = near or f"; there are {', '.join(known)}"
        raise argparse.ArgumentTypeError(f"there is no {kind} {text}{hint}")

    return checked


def add_spark_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("Spark")
    group.add_argument(
        "--master", metavar="URL", help="the cluster to run on (default: local[*], this machine)"
    )
    group.add_argument(
        "--spark-property",
        metavar="KEY=VALUE",
        type=key_and_value,
        action="append",
        default=[],
        help="one setting of Spark, spark.hadoop.* for filesystems; may be repeated",
    )


def announce_spark() -> None:
    """Tells a person at a terminal at once that the work has begun: Spark takes seconds to start,
    and before that flags, files, topics and brokers are checked."""
    if sys.stderr.isatty():
        print("checking, then starting Spark ...", file=sys.stderr, flush=True)
