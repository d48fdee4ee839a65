"""`odradek connect-standalone`: one worker, with the connectors of the files that are named."""

import argparse

from odradek.cli.connect.worker_options import add_worker_arguments
from odradek.cli.running.options import refuse_daemon

_EXAMPLES = """\
examples:
  odradek connect-standalone config/connect-standalone.properties \\
      config/connect-file-source.properties config/connect-file-sink.properties
  odradek connect status

A file of a connector has Kafka Connect's properties, or is JSON as `POST /connectors` takes it.
Without one the worker waits for connectors by REST. docs/connect.md
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "odradek connect-standalone WORKER.properties [CONNECTOR.properties ...]"
    parser.epilog = _EXAMPLES
    add_worker_arguments(parser, "connect-standalone.properties")
    parser.add_argument(
        "connectors", metavar="CONNECTOR", nargs="*", help="a file with a connector's properties"
    )


def run(arguments: argparse.Namespace) -> int:
    refuse_daemon(arguments, "connect-standalone")
    from odradek.cli.web_options import require_web

    require_web()
    from odradek.cli.connect.worker_actions import connector_files, run_worker, worker_settings
    from odradek.connect.worker.settings import StandaloneSettings

    settings = worker_settings(StandaloneSettings, arguments)
    return run_worker(settings, arguments.log_level, connector_files(arguments.connectors))
