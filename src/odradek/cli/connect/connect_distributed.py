"""`odradek connect-distributed`: a worker that shares connectors with others of its group."""

import argparse

from odradek.cli.connect.worker_options import add_worker_arguments
from odradek.cli.running.options import refuse_daemon

_EXAMPLES = """\
examples:
  odradek connect-distributed config/connect-distributed.properties
  odradek connect create my-connector.json

Connectors, their offsets and their states are in three topics, in the format of Apache Kafka
Connect, so its connectors can be taken over, and given back. docs/connect.md
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "odradek connect-distributed WORKER.properties"
    parser.epilog = _EXAMPLES
    add_worker_arguments(parser, "connect-distributed.properties")


def run(arguments: argparse.Namespace) -> int:
    refuse_daemon(arguments, "connect-distributed")
    from odradek.cli.web_options import require_web

    require_web()
    from odradek.cli.connect.worker_actions import run_worker, worker_settings
    from odradek.connect.worker.settings import DistributedSettings

    return run_worker(worker_settings(DistributedSettings, arguments), arguments.log_level, ())
