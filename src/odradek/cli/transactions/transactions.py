"""`odradek transactions`: show transactions and abort hanging ones, like kafka-transactions."""

import argparse

from odradek.cli.connection_options import (
    add_connection_arguments,
    add_json_argument,
    add_watch_argument,
)
from odradek.cli.parser import flag_of, positive_number, whole_number
from odradek.tools.failures import MissingFlag, UsageError

_ACTIONS = (
    "list",
    "describe",
    "describe-producers",
    "find-hanging",
    "abort",
    "forceTerminateTransaction",
)
# The flags of each action, required ones first.
_NEEDED = {
    "describe": ("transactional_id",),
    "describe-producers": ("topic", "partition"),
    "abort": ("topic", "partition"),
    "forceTerminateTransaction": ("transactional_id",),
}
_ALLOWED = {
    "list": ("duration_filter", "transactional_id_pattern"),
    "describe": (),
    "describe-producers": ("broker_id",),
    "find-hanging": ("broker_id", "max_transaction_timeout", "topic", "partition"),
    "abort": ("start_offset", "producer_id", "producer_epoch", "coordinator_epoch"),
    "forceTerminateTransaction": (),
}
_FLAGS = frozenset(flag for flags in (*_NEEDED.values(), *_ALLOWED.values()) for flag in flags)

_EXAMPLES = """\
actions:
  list                        transactional ids, their producers and states
  describe                    one transactional id and the partitions of its open transaction
  describe-producers          producers that a partition knows
  find-hanging                open transactions that no coordinator will end
  abort                       end a hanging transaction in one partition
  forceTerminateTransaction   end the open transaction of an id, and fence its producer

examples:
  odradek transactions list --duration-filter 60000
  odradek transactions describe --transactional-id billing-1
  odradek transactions find-hanging --topic orders
  odradek transactions abort --topic orders --partition 0 --start-offset 1234
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = f"odradek transactions {'|'.join(_ACTIONS)} [flags]"
    parser.epilog = _EXAMPLES
    parser.add_argument("action", choices=_ACTIONS, nargs="?", help="what to do, see below")
    parser.add_argument(
        "--transactional-id",
        metavar="ID",
        help="with describe and forceTerminateTransaction: the transactional id",
    )
    parser.add_argument("--transactionalId", dest="transactional_id", help=argparse.SUPPRESS)
    parser.add_argument("--topic", metavar="NAME", help="the topic")
    parser.add_argument("--partition", metavar="N", type=whole_number, help="the partition")
    parser.add_argument(
        "--duration-filter",
        metavar="MS",
        type=whole_number,
        help="with list: only transactions that are open for longer than this",
    )
    parser.add_argument(
        "--transactional-id-pattern",
        metavar="PATTERN",
        help="with list: only ids that this regular expression matches",
    )
    parser.add_argument(
        "--broker-id",
        metavar="ID",
        type=whole_number,
        help="with describe-producers and find-hanging: ask this replica, not the leader",
    )
    parser.add_argument(
        "--max-transaction-timeout",
        metavar="MINUTES",
        type=positive_number,
        help="with find-hanging: ignore transactions that are open for less (default: 15)",
    )
    _add_abort_arguments(parser)
    add_json_argument(parser)
    add_watch_argument(parser, changing=("abort", "forceTerminateTransaction"))
    add_connection_arguments(parser)


def _add_abort_arguments(parser: argparse.ArgumentParser) -> None:
    abort = parser.add_argument_group("with abort")
    abort.add_argument(
        "--start-offset",
        metavar="OFFSET",
        type=whole_number,
        help="the transaction's first offset in the partition; see find-hanging",
    )
    abort.add_argument(
        "--producer-id",
        metavar="ID",
        type=whole_number,
        help="instead, for brokers older than Kafka 3.0: the producer",
    )
    abort.add_argument(
        "--producer-epoch", metavar="N", type=whole_number, help="with --producer-id: its epoch"
    )
    abort.add_argument(
        "--coordinator-epoch",
        metavar="N",
        type=whole_number,
        help="with --producer-id: the epoch of its coordinator",
    )


def check(arguments: argparse.Namespace) -> None:
    """Raises unless the flags fit the action."""
    action = arguments.action
    if action is None:
        raise UsageError(f"say what to do: {', '.join(_ACTIONS)}")
    needed = _NEEDED.get(action, ())
    for name in needed:
        if getattr(arguments, name) is None:
            raise MissingFlag(f"{action} needs {' and '.join(map(flag_of, needed))}")
    for name in sorted(_FLAGS - {*needed, *_ALLOWED[action]}):
        if getattr(arguments, name) is not None:
            raise UsageError(f"{flag_of(name)} does not go with {action}")
    if action == "find-hanging":
        if arguments.topic is None and arguments.broker_id is None:
            raise MissingFlag("find-hanging needs --topic NAME or --broker-id ID, to know where")
        if arguments.partition is not None and arguments.topic is None:
            raise MissingFlag("--partition needs --topic NAME")
    if action == "abort":
        _check_abort(arguments)


def _check_abort(arguments: argparse.Namespace) -> None:
    identity = [
        getattr(arguments, name) is None
        for name in ("producer_id", "producer_epoch", "coordinator_epoch")
    ]
    if arguments.start_offset is not None:
        if not all(identity):
            raise UsageError("--start-offset says it all; leave the producer's numbers out")
    elif any(identity):
        raise UsageError(
            "abort needs --start-offset OFFSET; for brokers older than Kafka 3.0 --producer-id,"
            " --producer-epoch and --coordinator-epoch"
        )


def run(arguments: argparse.Namespace) -> int:
    check(arguments)
    import asyncio

    from odradek.cli.transactions.transaction_actions import perform

    return asyncio.run(perform(arguments))
