"""`odradek sql-server`: the SQL server in the foreground, from a ksql-server.properties file."""

import argparse

from odradek.cli.running.options import add_daemon_argument, refuse_daemon
from odradek.cli.services.starting import add_service_arguments, serve_service, settings_of

_EXAMPLES = """\
examples:
  odradek sql-server config/ksql-server.properties
  odradek sql-server --override bootstrap.servers=broker:9092
  curl http://127.0.0.1:8088/info

It speaks ksqlDB's language and has its REST interface: docs/sql.md.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "odradek sql-server [CONFIG] [--override KEY=VALUE ...]"
    parser.epilog = _EXAMPLES
    add_service_arguments(parser, "ksql-server.properties")
    add_daemon_argument(parser)


def run(arguments: argparse.Namespace) -> int:
    refuse_daemon(arguments, "sql-server")
    from odradek.cli.web_options import require_web
    from odradek.tools.failures import CommandFailed
    from odradek.world.installing import install_line

    require_web()
    try:
        from odradek.sql.api.service import SqlService
    except ImportError as error:
        raise CommandFailed(f"{error.name} is not installed: {install_line('sql')}") from None
    from odradek.sql.settings import SqlSettings

    settings = settings_of(SqlSettings, arguments)
    return serve_service(lambda: SqlService(settings), "the SQL server", arguments)
