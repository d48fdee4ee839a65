"""`odradek sql`: a shell for the SQL server, or for any ksqlDB."""

import argparse
import os
from typing import Final

DEFAULT_SERVER: Final = "http://127.0.0.1:8088"
VARIABLE: Final = "ODRADEK_SQL"
_EXAMPLES = """\
examples:
  odradek sql
  odradek sql --server http://127.0.0.1:8088 -e "SHOW STREAMS;"
  odradek sql -f orders.sql
  odradek sql -e "SELECT * FROM orders EMIT CHANGES LIMIT 3;" --json

A statement ends with a semicolon. Ctrl-C ends a query, Ctrl-D the shell.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "odradek sql [--server URL] [--ca FILE] [-e TEXT | -f FILE] [--json]"
    parser.epilog = _EXAMPLES
    parser.add_argument(
        "--server", metavar="URL", default=os.environ.get(VARIABLE, DEFAULT_SERVER),
        help="where the server listens, as https://user@host:8088 if it asks for a log-in"
        f" (default: ${VARIABLE} or {DEFAULT_SERVER})",
    )  # fmt: skip
    parser.add_argument(
        "--ca", metavar="FILE", help="the authority (PEM) of the server's certificate, for https"
    )
    parser.add_argument("-e", "--execute", metavar="TEXT", help="run these statements, and end")
    parser.add_argument(
        "-f", "--file", metavar="FILE", help="run the statements of a file, and end"
    )
    parser.add_argument(
        "--json", action="store_true", help="print answers as JSON, one a line, as the server says"
    )


def run(arguments: argparse.Namespace) -> int:
    from odradek.cli.parser import exactly_one_of
    from odradek.cli.services.sql_actions import Shell
    from odradek.tools.files import read_text

    if arguments.execute is not None or arguments.file is not None:
        exactly_one_of(arguments, ("execute", "file"))
        text = arguments.execute if arguments.file is None else read_text(arguments.file)
        return Shell(arguments.server, as_json=arguments.json, ca=arguments.ca).run_text(text)
    return Shell(arguments.server, as_json=arguments.json, ca=arguments.ca).interact()
