"""`odradek up`: a broker or a cluster in the foreground, with nothing to configure."""

import argparse

from odradek.cli.parser import positive_number, whole_number
from odradek.cli.running.options import add_input_argument, add_serving_arguments
from odradek.tools.failures import CommandFailed, UsageError

DEFAULT_PORT = 9092

_EXAMPLES = """\
examples:
  odradek up                                        # 127.0.0.1:9092, data in ./odradek-data
  odradek up --memory --port 0                      # any free port, nothing kept
  odradek up --override num.partitions=3 --override log.retention.ms=3600000
  odradek up --brokers 3                            # ports 9092 to 9094, odradek-data/broker-1 ...
  odradek broker odradek-data/broker-2/server.properties       # restart a broker that died

Metrics and health are served on 127.0.0.1, a hundred above the port of each broker, or where
JMX_PORT says; --override management.listener= turns that off (docs/monitoring.md).

With several brokers, topics have a copy on each (at most three), and acks=all means on two of
them (min.insync.replicas=2 from three brokers on): one may die and nothing is lost or refused.
Three brokers on one machine still share one power supply.

A new group waits for no further members (group.initial.rebalance.delay.ms=0), so a consumer
reads at once, and members of the new protocol hear of changes within half a second
(group.consumer.heartbeat.interval.ms=500). `odradek broker` takes 3 and 5 seconds, as Kafka does
in production.
"""

# Settings of a broker that nobody has configured. For laptops and CI, where groups are small and
# start-up should be fast.
DEFAULTS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.consumer.min.heartbeat.interval.ms": "500",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EXAMPLES
    parser.add_argument(
        "--port",
        metavar="PORT",
        type=port_number,
        default=DEFAULT_PORT,
        help=f"where to listen; 0 takes any free port (default: {DEFAULT_PORT})",
    )
    parser.add_argument(
        "--host",
        metavar="HOST",
        default="127.0.0.1",
        help="the address to listen on, and to tell clients (default: 127.0.0.1)",
    )
    parser.add_argument(
        "--data",
        metavar="DIR",
        default="./odradek-data",
        help="where records and metadata are kept; created if missing (default: ./odradek-data)",
    )
    parser.add_argument("--memory", action="store_true", help="keep nothing on disk")
    add_serving_arguments(parser)
    add_input_argument(parser)
    parser.add_argument(
        "--brokers",
        metavar="N",
        type=positive_number,
        default=1,
        help="how many; broker i listens on PORT+i-1 and keeps its data in DIR/broker-i"
        " (default: 1)",
    )
    parser.add_argument(
        "--zookeeper",
        metavar="HOST:PORT/CHROOT",
        help="with --brokers: keep metadata in this ensemble, not in DIR",
    )


def port_number(text: str) -> int:
    port = whole_number(text)
    if not 0 <= port <= 65535:
        raise argparse.ArgumentTypeError(f"{port} is not a port; ports go from 0 to 65535")
    return port


def properties_for(arguments: argparse.Namespace) -> dict[str, str]:
    if "," in arguments.data:
        raise UsageError("--data takes one directory; give several with --override log.dirs=A,B")
    host = arguments.host
    if ":" in host and not host.startswith("["):
        host = f"[{host}]"
    from odradek.local.management_ports import SETTING, management_listeners

    return DEFAULTS | {
        SETTING: management_listeners([arguments.port])[0],
        "listeners": f"PLAINTEXT://{host}:{arguments.port}",
        "log.dirs": arguments.data,
    }


def run(arguments: argparse.Namespace) -> int:
    properties = properties_for(arguments)
    if arguments.brokers > 1 or arguments.zookeeper is not None:
        return _run_cluster(arguments)
    from odradek.local.cluster_directory import require_lone_directory
    from odradek.local.serving import serve, settings_from
    from odradek.world.disk import OsDisk

    if not arguments.memory:
        require_lone_directory(OsDisk(), arguments.data)
    settings = settings_from(properties, arguments.override, in_memory=arguments.memory)
    try:
        return serve(
            settings,
            log_level=arguments.log_level,
            in_memory=arguments.memory,
            until_input_closes=arguments.until_input_closes,
        )
    except CommandFailed as failure:
        if not str(failure).startswith(f"port {arguments.port} is in use"):
            raise
        from odradek.local.busy_ports import port_in_use

        raise CommandFailed(port_in_use(arguments.host, arguments.port)) from None


def _run_cluster(arguments: argparse.Namespace) -> int:
    from odradek.local.cluster_directory import PortInUse, temporary_directory
    from odradek.local.cluster_serving import LocalCluster

    try:
        if not arguments.memory:
            cluster = LocalCluster(arguments, DEFAULTS)
            return cluster.run(until_input_closes=arguments.until_input_closes)
        with temporary_directory() as arguments.data:
            cluster = LocalCluster(arguments, DEFAULTS)
            return cluster.run(until_input_closes=arguments.until_input_closes)
    except PortInUse as failure:
        from odradek.local.busy_ports import port_in_use

        raise CommandFailed(port_in_use(arguments.host, failure.port, arguments.brokers)) from None
