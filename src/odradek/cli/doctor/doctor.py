"""`odradek doctor`: finds problems of this machine and of the connection to the brokers."""

import argparse

from odradek.cli.connection_options import (
    add_connection_arguments,
    add_json_argument,
    add_watch_argument,
)

_EXAMPLES = """\
examples:
  odradek doctor                          # this machine, and the brokers if there are any
  odradek doctor --data /var/lib/odradek --bootstrap-server broker-1:9092
  odradek doctor --config /etc/odradek/server.properties      # before a broker starts with it

A line after -> is what to type. If the brokers keep their metadata in ZooKeeper, its servers are
asked too. Ends with 1 if something is wrong; warnings and information are no
failure. Brokers are looked for only where one is named, or answers at 127.0.0.1:9092.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "odradek doctor [flags]"
    parser.epilog = _EXAMPLES
    parser.add_argument(
        "--data",
        metavar="DIR",
        default="./odradek-data",
        help="where a broker keeps or shall keep its data (default: ./odradek-data)",
    )
    parser.add_argument(
        "--config",
        metavar="FILE",
        help="a broker's settings file: says which of its lines have no effect here",
    )
    add_json_argument(parser)
    add_watch_argument(parser)
    add_connection_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    import asyncio

    from odradek.cli.doctor.brokers import check_brokers
    from odradek.cli.doctor.findings import Findings
    from odradek.cli.doctor.machine import check_machine
    from odradek.cli.doctor.processes import check_processes
    from odradek.cli.doctor.settings import check_file

    findings = Findings()
    settings = None if arguments.config is None else check_file(findings, arguments)
    check_machine(findings, arguments.data)
    check_processes(findings, arguments.data)
    asyncio.run(check_brokers(findings, arguments, settings))
    return findings.report(as_json=arguments.json)
