"""`odradek up`: a broker or a cluster in the foreground, with nothing to configure."""

import argparse
import os
from typing import TYPE_CHECKING

from odradek.cli.parser import directory_name, positive_number, whole_number
from odradek.cli.running.options import (
    PLATFORM_PORTS,
    add_input_argument,
    add_platform_arguments,
    add_secure_argument,
    add_serving_arguments,
)
from odradek.tools.failures import CommandFailed, UsageError

DEFAULT_PORT = 9092
DEFAULT_DATA = "./odradek-data"

if TYPE_CHECKING:
    from odradek.config import BrokerSettings
    from odradek.local.securing import SecuredDirectory

_EXAMPLES = """\
examples:
  odradek up                                        # 127.0.0.1:9092, data in ./odradek-data
  odradek up --memory --port 0                      # any free port, nothing kept
  odradek up --override num.partitions=3 --override log.retention.ms=3600000
  odradek up --brokers 3                            # ports 9092 to 9094, odradek-data/broker-1 ...
  odradek broker odradek-data/broker-2/server.properties       # restart a broker that died
  odradek up --secure --brokers 3                   # TLS, log-ins and ACLs (docs/security.md)
  odradek up --platform --secure                    # with registry, REST proxy, console, by https

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
        type=directory_name,
        default=DEFAULT_DATA,
        help="where records and metadata are kept; created if missing (default: ./odradek-data)",
    )
    parser.add_argument("--memory", action="store_true", help="keep nothing on disk")
    add_secure_argument(parser)
    add_platform_arguments(parser)
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
    _hint_at_unused(arguments)
    if arguments.platform:
        return _run_platform(arguments)
    return _run_brokers(arguments)


def _hint_at_unused(arguments: argparse.Namespace) -> None:
    """Says which flags have no effect beside the others."""
    from odradek.tools.hints import hint

    if arguments.memory and arguments.data != DEFAULT_DATA:
        hint(f"--memory keeps nothing on disk: --data {arguments.data} is not used")
    if not arguments.platform:
        for service, port in PLATFORM_PORTS:
            if getattr(arguments, f"{service}_port") != port:
                hint(f"--{service}-port has no effect without --platform")


def _run_platform(arguments: argparse.Namespace) -> int:
    """Runs brokers and services; brokers as if the flag were not given."""
    if not arguments.port:
        raise UsageError("--platform needs the port of the brokers: --port 9092")
    from odradek.cli.web_options import require_web

    require_web("platform")
    if arguments.secure and arguments.memory:
        from odradek.local.cluster_directory import temporary_directory

        # The services need the files of a secured cluster as much as its clients do.
        with temporary_directory() as directory:
            arguments.data, arguments.memory = directory, False
            return _run_platform(arguments)
    from odradek.local.platform import Platform

    brokers = argparse.Namespace(**vars(arguments))
    brokers.until_input_closes = True
    platform = Platform(arguments, lambda: _run_brokers(brokers))
    return platform.run(until_input_closes=arguments.until_input_closes)


def _run_brokers(arguments: argparse.Namespace) -> int:
    properties = properties_for(arguments)
    is_cluster = arguments.brokers > 1 or arguments.zookeeper is not None
    if arguments.zookeeper is not None:
        from odradek.cli.cluster.metadata_stores import why_unreachable
        from odradek.tools.hints import hint

        # It may be started together with the brokers, so they wait for it; the user should know.
        if why := why_unreachable(arguments.zookeeper):
            hint(f"no ZooKeeper server answers at {arguments.zookeeper} yet ({why}); waiting")
    # The files of a secured broker in memory are in a temporary directory, as those of a cluster.
    if is_cluster or (arguments.secure and arguments.memory):
        return _run_cluster(arguments)
    from odradek.local.cluster_directory import require_lone_directory
    from odradek.local.serving import serve, settings_from
    from odradek.world.disk import OsDisk

    secured: SecuredDirectory | None = None
    if not arguments.memory:
        require_lone_directory(OsDisk(), arguments.data)
        secured = _secured(arguments, properties)
    settings = settings_from(properties, arguments.override, in_memory=arguments.memory)
    if secured is not None:
        _write_users(secured, settings, properties["advertised.listeners"])
    try:
        return serve(
            settings,
            log_level=arguments.log_level,
            in_memory=arguments.memory,
            until_input_closes=arguments.until_input_closes,
            announcement=None if secured is None else secured.announcement(),
        )
    except CommandFailed as failure:
        if not str(failure).startswith(f"port {arguments.port} is in use"):
            raise
        raise CommandFailed(_port_in_use(arguments, arguments.port)) from None


def _secured(
    arguments: argparse.Namespace, properties: dict[str, str]
) -> "SecuredDirectory | None":
    """Returns the security of the single broker's directory, if it has one, after its settings were
    added to `properties`. Raises if the directory or its port is used, before anything is made."""
    from odradek.local.cluster_directory import (
        PortInUse,
        chosen_ports,
        require_usable_directory,
    )
    from odradek.local.securing import (
        LISTENER,
        SecuredDirectory,
        advertised_host,
        secured_directory,
    )
    from odradek.tools.client_properties import with_secrets
    from odradek.world.disk import OsDisk

    data = os.path.abspath(arguments.data)
    if not arguments.secure and not SecuredDirectory(OsDisk(), data).is_made:
        return None
    require_usable_directory(OsDisk(), data)
    try:
        (port,) = chosen_ports(arguments.host, arguments.port, 1)
    except PortInUse as failure:
        raise CommandFailed(_port_in_use(arguments, failure.port)) from None
    secured = secured_directory(OsDisk(), data, arguments.host, 1, is_asked=True)
    assert secured is not None  # It is asked for.
    host = properties["listeners"].partition("://")[2].rpartition(":")[0]
    properties["listeners"] = f"{LISTENER}://{host}:{port}"
    properties["advertised.listeners"] = f"{LISTENER}://{advertised_host(host)}:{port}"
    properties |= with_secrets(secured.broker_settings(1))
    return secured


def _write_users(secured: "SecuredDirectory", settings: "BrokerSettings", listeners: str) -> None:
    if secured.needs_users:
        from odradek.local.first_users import write_first_passwords

        path = f"{settings.data_directories[0]}/metadata.sqlite"
        write_first_passwords(path, None, settings, secured.first_passwords())
    secured.write_client_files(listeners.partition("://")[2])


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
        raise CommandFailed(_port_in_use(arguments, failure.port)) from None


def _port_in_use(arguments: argparse.Namespace, port: int) -> str:
    from odradek.local.busy_ports import port_in_use

    given = [name for name in ("secure", "platform") if getattr(arguments, name)]
    flags = "".join(f" --{name}" for name in given)
    return port_in_use(arguments.host, port, arguments.brokers or 1, flags)
