"""`odradek rest-start`: the REST proxy in the foreground, from a kafka-rest.properties file."""

import argparse

from odradek.cli.running.options import add_daemon_argument, refuse_daemon
from odradek.cli.services.starting import add_service_arguments, serve_service, settings_of

_EXAMPLES = """\
examples:
  odradek rest-start config/kafka-rest.properties
  odradek rest-start --override bootstrap.servers=broker:9092
  curl http://127.0.0.1:8082/v3/clusters

It logs in to the brokers as its callers, and has no log-in of its own: docs/rest.md.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "odradek rest-start [CONFIG] [--override KEY=VALUE ...]"
    parser.epilog = _EXAMPLES
    add_service_arguments(parser, "kafka-rest.properties")
    add_daemon_argument(parser)


def run(arguments: argparse.Namespace) -> int:
    refuse_daemon(arguments, "rest-start")
    from odradek.cli.web_options import require_web

    require_web()
    from odradek.rest.service import RestService
    from odradek.rest.settings import RestSettings

    settings = settings_of(RestSettings, arguments)
    return serve_service(lambda: RestService(settings), "the REST proxy", arguments)
