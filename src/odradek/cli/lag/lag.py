"""`odradek lag`: says of each consumer group and Spark query whether it keeps up, without
thresholds."""

import argparse

from odradek.cli.connection_options import (
    add_connection_arguments,
    add_json_argument,
    add_watch_argument,
)
from odradek.cli.lag.query_options import add_query_arguments
from odradek.cli.parser import flag_of, positive_number, used_flags, whole_number
from odradek.cli.quantities import duration_s
from odradek.tools.failures import MissingFlag, UsageError

_SERVING = (
    "listen", "name", "interval", "allowed_host", "users", "tokens", "webhook", "webhook_template",
    "smtp", "smtp_user", "mail_from", "mail_to", "mail_template", "confirm",
)  # fmt: skip
_EXAMPLES = """\
statuses of a partition, as Burrow has them:
  OK      read to the end lately, or the lag shrinks
  WARN    offsets move, but the lag never shrinks: the consumer is too slow
  STALL   offsets do not move, though a member owns the partition
  STOP    nobody has committed for longer than the window lasts
  REWIND  the offset went back, and has not come back to where it was
A group is OK, WARN or, with one of the last three, ERR: as its worst partition.

examples:
  odradek lag                                       # watches all groups for 10 seconds
  odradek lag --group billing                       # its partitions
  odradek lag --group spark:clicks.totals           # a query of a pipeline, from its checkpoint
  odradek lag --watch                               # again and again, with a window that grows
  odradek lag serve --listen 127.0.0.1:8000         # Burrow's HTTP API, with notifications
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "odradek lag [serve] [flags]"
    parser.epilog = _EXAMPLES
    parser.add_argument(
        "action",
        nargs="?",
        choices=("show", "serve"),
        default="show",
        help="show: a table (default); serve: an HTTP service",
    )
    parser.add_argument(
        "--group", metavar="GROUP", help="the partitions of this group or query, instead of all"
    )
    parser.add_argument(
        "--measure",
        metavar="DURATION",
        type=duration_s,
        default=10.0,
        help="how long commits are watched before groups are judged, at least twice the time"
        " between two commits; 0s shows the lag alone (default: 10s)",
    )
    parser.add_argument(
        "--allowed-lag",
        metavar="RECORDS",
        type=whole_number,
        default=0,
        help="a partition that is no further behind is OK (default: 0)",
    )
    parser.add_argument(
        "--intervals",
        metavar="N",
        type=positive_number,
        default=10,
        help="how many commits of a partition are the window (default: 10)",
    )
    add_query_arguments(parser)
    _add_serving_arguments(parser)
    add_json_argument(parser)
    add_watch_argument(parser)
    add_connection_arguments(parser)


def _add_serving_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("serve")
    group.add_argument(
        "--listen", metavar="HOST:PORT", help="where it listens (default: 127.0.0.1:8000)"
    )
    group.add_argument(
        "--name", metavar="NAME", help="the cluster's name in the API (default: the cluster's id)"
    )
    group.add_argument(
        "--interval",
        metavar="DURATION",
        type=duration_s,
        help="how often brokers are asked (default: 10s)",
    )
    group.add_argument(
        "--allowed-host",
        metavar="NAME",
        action="append",
        help="a name by which clients call the service; may be repeated",
    )
    group.add_argument("--users", metavar="FILE", help="who may log in, as `name: CREDENTIAL`")
    group.add_argument("--tokens", metavar="FILE", help="bearer tokens, as `name: SHA256`")
    _add_notification_arguments(parser)


def _add_notification_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("notifications of serve, when a group's status changes")
    group.add_argument(
        "--confirm",
        metavar="N",
        type=positive_number,
        help="a status counts when it was the same so many times (default: 3)",
    )
    group.add_argument("--webhook", metavar="URL", help="POST there")
    group.add_argument(
        "--webhook-template",
        metavar="FILE",
        help="the body, with $group, $status, ... (default: JSON with all of them)",
    )
    group.add_argument("--smtp", metavar="HOST:PORT", help="send e-mail by this server")
    group.add_argument(
        "--smtp-user",
        metavar="NAME",
        help="log in there, after STARTTLS, with the password in $ODRADEK_SMTP_PASSWORD",
    )
    group.add_argument("--mail-from", metavar="ADDRESS", help="the sender")
    group.add_argument(
        "--mail-to", metavar="ADDRESS", action="append", help="who gets it; may be repeated"
    )
    group.add_argument(
        "--mail-template",
        metavar="FILE",
        help="a line `Subject: ...`, an empty line, the text; with $group, $status, ...",
    )


def check(arguments: argparse.Namespace) -> None:
    """Raises if flags contradict each other."""
    if arguments.action == "serve":
        if arguments.watch is not None or arguments.json:
            raise UsageError("serve answers over HTTP; --watch and --json belong to the table")
        if (arguments.smtp is None) != (arguments.mail_to is None):
            raise MissingFlag("e-mail needs both --smtp HOST:PORT and --mail-to ADDRESS")
        return
    given = used_flags(arguments, _SERVING)
    if given:
        raise UsageError(f"{flag_of(given[0])} belongs to odradek lag serve")


def run(arguments: argparse.Namespace) -> int:
    check(arguments)
    import asyncio

    if arguments.action == "serve":
        from odradek.cli.lag.lag_service import serve_lag

        try:
            return asyncio.run(serve_lag(arguments))
        except KeyboardInterrupt:
            return 0
    from odradek.cli.lag.lag_actions import show

    return asyncio.run(show(arguments))
