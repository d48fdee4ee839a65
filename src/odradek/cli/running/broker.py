"""`odradek broker`: a broker in the foreground, from a server.properties file."""

import argparse
import os
from typing import Final

from odradek.cli.running.options import (
    add_daemon_argument,
    add_input_argument,
    add_serving_arguments,
    refuse_daemon,
)
from odradek.tools.client_properties import read_properties
from odradek.tools.failures import CommandFailed
from odradek.tools.hints import hint

_EXAMPLES = """\
examples:
  odradek broker config/server.properties
  odradek broker config/server.properties --override log.dirs=/var/lib/odradek
  odradek broker config/server.properties --log-directory /var/log/odradek
"""

# Variables of Kafka's start script, and where to find what they were for.
_JVM_VARIABLES: Final = {
    "KAFKA_HEAP_OPTS": "a broker takes the memory that it needs; odradek sizing says how much",
    "KAFKA_JMX_OPTS": "a broker has no JMX; JMX_PORT opens its management port, with the MBeans",
    "KAFKA_LOG4J_OPTS": "see odradek.logs.level and --log-directory",
    "KAFKA_OPTS": "except for the JAAS file and krb5.conf: a broker has no JVM",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "odradek broker CONFIG [--override KEY=VALUE ...]"
    parser.epilog = _EXAMPLES
    parser.add_argument(
        "config", metavar="CONFIG", help="a properties file with Kafka's names of settings"
    )
    add_serving_arguments(parser)
    parser.add_argument(
        "--log-directory",
        metavar="DIR",
        help="the directory of the broker's own log files, server.log and others (default: what"
        " odradek.logs.directory says, or else a directory `logs` in the first of log.dirs); none"
        " to write no such files",
    )
    parser.add_argument(
        "--log-file",
        metavar="FILE",
        help="write all log lines to this file, and nothing to stderr",
    )
    add_input_argument(parser)
    add_daemon_argument(parser)


def _require_file(path: str) -> None:
    if os.path.exists(path):
        return
    from odradek.tools.files import no_such_file, not_permitted

    if (denied := not_permitted(path)) is not None:
        raise CommandFailed(denied)
    line = no_such_file(path)
    advice = "; name one with a broker's settings, or type `odradek up`, which needs none"
    raise CommandFailed(line if line.endswith("?") else line + advice)


def require_settings(properties: dict[str, str], path: str) -> None:
    """Raises if a broker knows none of the settings in the file: it is another file, and a broker
    with defaults would start in its place."""
    from odradek.config.broker_settings import BROKER_DECLARED
    from odradek.config.without_effect import reason

    if properties and not any(name in BROKER_DECLARED or reason(name) for name in properties):
        raise CommandFailed(
            f"{path} has no setting that a broker knows, such as log.dirs; is it the right file?"
        )


def run(arguments: argparse.Namespace) -> int:
    refuse_daemon(arguments, "broker")
    _require_file(arguments.config)
    properties = read_properties(arguments.config)
    require_settings(properties, arguments.config)
    from odradek.local.cluster_directory import require_lone_directory
    from odradek.local.management_ports import with_jmx_port
    from odradek.local.serving import serve, settings_from
    from odradek.world.disk import OsDisk

    for name in filter(os.environ.get, _JVM_VARIABLES):
        hint(f"{name} has no effect: {_JVM_VARIABLES[name]}")
    if arguments.log_directory is not None:
        properties["odradek.logs.directory"] = arguments.log_directory
    settings = settings_from(with_jmx_port(properties), arguments.override)
    for directory in settings.data_directories:
        require_lone_directory(OsDisk(), directory)
    return serve(
        settings,
        log_level=arguments.log_level,
        log_path=arguments.log_file,
        until_input_closes=arguments.until_input_closes,
    )
