"""`odradek balance`: moves replicas and leaders so that all brokers are loaded evenly."""

import argparse

from odradek.cli.connection_options import (
    add_connection_arguments,
    add_json_argument,
    add_watch_argument,
)
from odradek.cli.parser import positive_number
from odradek.cli.quantities import duration_s, size_bytes
from odradek.cli.web_options import add_web_arguments
from odradek.tools.failures import MissingFlag, UsageError

_RUNNING = ("run", "add-broker", "remove-broker", "demote-broker")
_ABOUT_BROKERS = _RUNNING[1:]
ACTIONS = ("plan", *_RUNNING, "status", "cancel", "serve")

_EXAMPLES = """\
examples:
  odradek balance plan                              # before and after, and what moves
  odradek balance run --throttle 10MB               # makes the plan and carries it out
  odradek balance status                            # how far it is, also if it was killed
  odradek balance cancel                            # stops it and removes the throttles
  odradek balance remove-broker --id 3 --dry-run    # what it takes to empty broker 3
  odradek balance demote-broker --id 3              # broker 3 leads nothing, before a restart
  odradek balance serve                             # Cruise Control's REST calls, port 9090

Goals, in order: rack awareness, replica and disk capacity, then an even spread of replicas,
leaders, byte rates and disk use (each broker within 10 % of the average), preferred leaders.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = f"odradek balance {'|'.join(ACTIONS)} [flags]"
    parser.epilog = _EXAMPLES
    parser.add_argument("action", choices=ACTIONS, help="what to do")
    parser.add_argument(
        "--id",
        metavar="IDS",
        type=_broker_ids,
        help="with add-broker, remove-broker and demote-broker: which, as 3 or 3,4",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="show the plan and change nothing, as plan does"
    )
    _add_planning_arguments(parser)
    _add_running_arguments(parser)
    add_web_arguments(parser, 9090, "serve")
    add_json_argument(parser)
    add_watch_argument(parser, changing=(*_RUNNING, "cancel", "serve"))
    add_connection_arguments(parser)


def _add_planning_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("the plan")
    group.add_argument(
        "--measure",
        metavar="DURATION",
        type=duration_s,
        default=5.0,
        help="how long byte rates are measured, by the growth of logs; 0s measures none"
        " (default: 5s)",
    )
    group.add_argument(
        "--rates",
        metavar="FILE",
        help='byte rates from elsewhere, in place of --measure, as {"orders-0": 12000}',
    )
    group.add_argument(
        "--exclude-topics", metavar="REGEX", help="topics that stay as they are, by their names"
    )
    group.add_argument(
        "--tolerance",
        metavar="PERCENT",
        type=_percent,
        default=10.0,
        help="how far from the average a broker may be (default: 10)",
    )
    group.add_argument(
        "--max-replicas",
        metavar="N",
        type=positive_number,
        default=10_000,
        help="the most replicas of a broker (default: 10000)",
    )
    group.add_argument(
        "--max-disk",
        metavar="PERCENT",
        type=_percent,
        default=80.0,
        help="how much of its disks a broker may use (default: 80)",
    )


def _add_running_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("carrying it out")
    group.add_argument(
        "--throttle",
        metavar="BYTES",
        type=_throttle,
        default=50_000_000,
        help="at most so many bytes a second to and from each broker, as in 10MB; -1 means no limit"
        " (default: 50MB)",
    )
    group.add_argument(
        "--max-moves",
        metavar="N",
        type=positive_number,
        default=5,
        help="the most replicas that a broker sends or receives at once (default: 5)",
    )
    group.add_argument(
        "--max-wave-bytes",
        metavar="BYTES",
        type=size_bytes,
        default=10_000_000_000,
        help="the most bytes that move in one wave (default: 10GB)",
    )
    group.add_argument(
        "--stalled",
        metavar="DURATION",
        type=duration_s,
        default=600.0,
        help="give up if nothing moves for so long (default: 10m)",
    )
    group.add_argument(
        "--journal",
        metavar="FILE",
        help="where the run is written down (default: in ~/.local/state/odradek, by cluster)",
    )


def _broker_ids(text: str) -> frozenset[int]:
    try:
        return frozenset(int(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not broker ids with commas between, like 3,4"
        ) from None


def _percent(text: str) -> float:
    try:
        value = float(text.removesuffix("%"))
    except ValueError:
        value = -1.0
    if not 0 < value <= 100:
        raise argparse.ArgumentTypeError(f"{text!r} is not a percentage from 0 to 100")
    return value


def _throttle(text: str) -> int:
    rate = -1 if text == "-1" else size_bytes(text)
    if 0 <= rate < 1000:
        raise argparse.ArgumentTypeError("below 1000 bytes a second it would never get done")
    return rate


def check(arguments: argparse.Namespace) -> None:
    """Raises if flags are missing or contradict the action."""
    if arguments.action in _ABOUT_BROKERS and not arguments.id:
        raise MissingFlag(f"{arguments.action} needs --id ID")
    if arguments.action not in _ABOUT_BROKERS and arguments.id:
        raise UsageError(
            f"{arguments.action} is about all brokers; --id belongs to {', '.join(_ABOUT_BROKERS)}"
        )


def run(arguments: argparse.Namespace) -> int:
    check(arguments)
    import asyncio

    from odradek.cli.balance.balance_actions import perform

    return asyncio.run(perform(arguments))
