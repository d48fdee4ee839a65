"""`odradek jmx`: the figures of a broker by the names of Kafka's MBeans, as kafka-jmx does."""

import argparse
import os
import re

from odradek.cli.connection_options import add_json_argument
from odradek.tools.failures import UsageError

DEFAULT_URL = "http://127.0.0.1:9192"
# How far above the port of a broker `odradek up` puts its management port.
_ABOVE = 100
_EXAMPLES = f"""\
reads the management port of a broker (management.listener), by default {DEFAULT_URL},
or a hundred above the port of the broker in $ODRADEK_BOOTSTRAP, where `odradek up` has it

examples:
  odradek jmx --names                                   # every MBean, one name a line
  odradek jmx --object-name kafka.server:type=BrokerTopicMetrics,name=BytesInPerSec
  odradek jmx --object-name 'kafka.server:type=ReplicaManager,name=*' --attributes Value --one-time
  odradek jmx --jmx-url service:jmx:rmi:///jndi/rmi://host:9999/jmxrmi --one-time

as a check of Nagios or Icinga (exit code 0 ok, 1 warning, 2 critical, 3 unknown); a threshold is
MAX, MIN: or MIN:MAX, and a value outside of it alerts:
  odradek jmx --object-name kafka.server:type=ReplicaManager,name=UnderReplicatedPartitions \\
      --attributes Value --warn 0 --crit 10
"""
# service:jmx:rmi:///jndi/rmi://host:9999/jmxrmi
_SERVICE = re.compile(r"service:jmx:\w+://(?:/jndi/rmi://)?([^/:]*):(\d+)(?:/\w*)?")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EXAMPLES
    parser.add_argument(
        "--jmx-url",
        metavar="URL",
        help="the management port, as http://host:port, or as the address of JMX that scripts for"
        f" Kafka have (default: {DEFAULT_URL})",
    )
    parser.add_argument("--bootstrap-server", help=argparse.SUPPRESS)
    parser.add_argument(
        "--object-name",
        metavar="NAME",
        action="append",
        default=[],
        help="an MBean, or a pattern with *; may be repeated (default: all)",
    )
    parser.add_argument(
        "--attributes", metavar="NAME,...", help="only these attributes (default: all)"
    )
    parser.add_argument("--names", action="store_true", help="print the names of the MBeans")
    parser.add_argument(
        "--reporting-interval",
        metavar="MS",
        type=int,
        default=2000,
        help="the time between two lines; -1: one line (default: 2000)",
    )
    parser.add_argument(
        "--one-time",
        metavar="true|false",
        nargs="?",
        const="true",
        default="false",
        choices=("true", "false"),
        help="one line alone",
    )
    parser.add_argument(
        "--report-format",
        metavar="FORMAT",
        choices=("original", "properties", "csv", "tsv"),
        default="original",
        help="original: a line of names, then a line of values each time; or one line for each"
        " value: properties, csv, tsv (default: original)",
    )
    parser.add_argument("--wait", action="store_true", help="wait until the MBeans are there")
    parser.add_argument(
        "--warn", metavar="RANGE", help="as a check: exit code 1 for a value outside"
    )
    parser.add_argument(
        "--crit", metavar="RANGE", help="as a check: exit code 2 for a value outside"
    )
    add_json_argument(parser)
    for flag in ("--date-format", "--jmx-auth-prop", "--jmx-ssl-enable"):
        parser.add_argument(flag, nargs="?", help=argparse.SUPPRESS)


def address(url: str | None) -> tuple[str, int]:
    """Returns host and port of a management port, which may be written as an address of JMX."""
    text = (url or _default_url()).strip()
    service = _SERVICE.fullmatch(text)
    plain = re.fullmatch(r"(?:http://)?(\[[^\]]+\]|[^/:]*):(\d+)/?", text)
    found = service or plain
    if found is None or int(found[2]) > 65535:
        raise UsageError(f"--jmx-url {text} is not an address; write it as {DEFAULT_URL}")
    return found[1].strip("[]") or "127.0.0.1", int(found[2])


def _default_url() -> str:
    """Returns where `odradek up` puts the management port of the broker in $ODRADEK_BOOTSTRAP."""
    first = os.environ.get("ODRADEK_BOOTSTRAP", "").partition(",")[0].strip()
    host, _, port = first.rpartition(":")
    if not host or not port.isdecimal() or int(port) + _ABOVE > 65535:
        return DEFAULT_URL
    return f"http://{host}:{int(port) + _ABOVE}"


def run(arguments: argparse.Namespace) -> int:
    from odradek.cli.cluster.jmx_actions import check, print_names, report

    if arguments.bootstrap_server is not None:
        raise UsageError(
            "--bootstrap-server: a management port is asked, not a broker; name it with --jmx-url"
            f" http://host:port (of `odradek up` it is {_ABOVE} above the port of the broker)"
        )
    where = address(arguments.jmx_url)
    if arguments.warn is not None or arguments.crit is not None:
        return check(arguments, where)
    return print_names(arguments, where) if arguments.names else report(arguments, where)
