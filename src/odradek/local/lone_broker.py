"""What is known about a single broker before it becomes one of several: its address, and the
settings that it was started with.

`odradek up` writes no settings file for a single broker, so a broker that runs is asked
(DescribeConfigs). For a stopped one the flags of `odradek local grow` say it; only its address is
in its server.log.
"""

import argparse
import sqlite3
import sys
from contextlib import closing

from odradek.client.admin.admin import Admin
from odradek.client.admin.config_types import ConfigResource, ConfigSource, ConfigType
from odradek.client.errors import ClientError
from odradek.client.settings import AdminSettings
from odradek.config import BrokerSettings, InvalidSetting, parse_overrides
from odradek.local.cluster_directory import (
    LOCK_FILE,
    chosen_ports,
    known_address,
    laptop_settings,
    running_broker,
)
from odradek.local.growth import STORE_FILE, Growth
from odradek.local.securing import SecuredDirectory
from odradek.metadata.node_values import LastRegistration
from odradek.metadata.paths import broker_epoch_path
from odradek.protocol.errors import KafkaError
from odradek.protocol.types import BrokerId
from odradek.tools.client_properties import read_properties, with_secrets
from odradek.tools.failures import CommandFailed
from odradek.world.disk import OsDisk

_FIRST_ID = 1
_BY_HAND = 'docs/operations.md says what to do, in "From one broker to three"'
# Settings that differ from broker to broker, or that a cluster decides.
_OWN = frozenset(
    {
        "node.id",
        "broker.id",
        "listeners",
        "advertised.listeners",
        "log.dirs",
        "management.listener",
        "log.dir",
        "odradek.metadata.store",
        "odradek.metadata.path",
        "odradek.logs.directory",
        "zookeeper.connect",
        "process.roles",
        "controller.quorum.voters",
        "controller.quorum.bootstrap.servers",
        "controller.listener.names",
    }
)


async def decide(arguments: argparse.Namespace, data: str) -> Growth:
    """Returns the cluster that a single broker becomes. Raises if it cannot. Changes nothing."""
    disk = OsDisk()
    growth = Growth(data, arguments.brokers, arguments.host, arguments.port or 0)
    _require_store(disk, data)
    _require_settled(disk, data)
    if running_broker(disk, data) is not None:
        await _ask_broker(growth, _address(disk, arguments, data))
    else:
        host, port = _address(disk, arguments, data)
        growth.host, growth.port = host, port
        growth.settings = dict(arguments.defaults)
        _require_one_directory(data)
    growth.settings |= _overrides(arguments.override)
    _require_valid(growth)
    require_ports(growth, is_running=running_broker(disk, data) is not None)
    return growth


def _require_settled(disk: OsDisk, data: str) -> None:
    """A broker that starts or stops holds the lock of its directory, but is in no pid file."""
    if running_broker(disk, data) is not None:
        return
    try:
        disk.lock(f"{data}/{LOCK_FILE}").release()
    except BlockingIOError:
        raise CommandFailed(
            f"a broker in {data} is starting or stopping just now; try again in a moment"
        ) from None


def _overrides(typed: list[str]) -> dict[str, str]:
    try:
        overrides = parse_overrides(typed)
    except InvalidSetting as problem:
        raise CommandFailed(str(problem)) from None
    for name in sorted(_OWN & overrides.keys()):
        raise CommandFailed(
            f"--override {name} would be the same for every broker; edit the server.properties of"
            " one broker afterwards"
        )
    return overrides


def _require_valid(growth: Growth) -> None:
    """Reads the settings as the brokers will, so that an invalid one is reported before anything
    has stopped."""
    try:
        BrokerSettings.from_properties(
            with_secrets(growth.settings) | laptop_settings(growth.brokers)
        )
    except InvalidSetting as problem:
        raise CommandFailed(str(problem)) from None


def _require_store(disk: OsDisk, data: str) -> None:
    known = read_properties(f"{data}/meta.properties")
    number = known.get("node.id", known.get("broker.id", str(_FIRST_ID)))
    if number != str(_FIRST_ID):
        raise CommandFailed(
            f"the broker in {data} has the id {number}, and `odradek up --brokers` counts from"
            f" {_FIRST_ID}; {_BY_HAND}"
        )
    if not disk.exists(f"{data}/{STORE_FILE}"):
        raise CommandFailed(
            f"the broker in {data} does not keep its metadata in {data}/{STORE_FILE}; if it uses"
            " ZooKeeper, start more brokers with the same zookeeper.connect and then give topics"
            " copies with `odradek reassign-partitions --generate --replication-factor 3`"
        )


def _require_one_directory(data: str) -> None:
    """Refuses a broker with several log directories. The metadata store knows how many it had; a
    stopped broker does not lock it."""
    path = broker_epoch_path(_FIRST_ID)
    try:
        with closing(sqlite3.connect(f"file:{data}/{STORE_FILE}?mode=ro", uri=True)) as store:
            row = store.execute("select value from node where path = ?", (path,)).fetchone()
    except sqlite3.Error as error:
        raise CommandFailed(f"cannot read {data}/{STORE_FILE}: {error}") from None
    if row is not None and len(LastRegistration.decode(path, row[0]).log_directories) > 1:
        raise _several_directories(data)


def _several_directories(data: str) -> CommandFailed:
    return CommandFailed(
        f"the broker in {data} has several log directories (log.dirs), and a cluster of"
        f" `odradek up` has one for each broker; {_BY_HAND}"
    )


# Addresses


def _address(disk: OsDisk, arguments: argparse.Namespace, data: str) -> tuple[str, int]:
    """Returns where the broker listens: what the flags say, or else its log."""
    if arguments.port:
        return arguments.host, arguments.port
    address = known_address(disk, data)
    if address is None:
        raise CommandFailed(
            f"it is not known where the broker in {data} listens; say it with --port (and --host)"
        )
    host, _, port = address.rpartition(":")
    return host, int(port)


def require_ports(growth: Growth, *, is_running: bool) -> None:
    """Raises if a port of a broker is in use. The port of broker 1 is its own while it runs."""
    if is_running:
        if growth.brokers > 1:
            chosen_ports(growth.host, growth.port + 1, growth.brokers - 1)
    else:
        chosen_ports(growth.host, growth.port, growth.brokers)


# A broker that runs


async def _ask_broker(growth: Growth, address: tuple[str, int]) -> None:
    """Fills in what a running broker says about itself."""
    at = f"{address[0]}:{address[1]}"
    secured = SecuredDirectory(OsDisk(), growth.data)
    settings = AdminSettings.from_properties(
        {**secured.login(), "bootstrap.servers": at, "client.id": "odradek-grow", "retries": "1"}
    )
    resource = ConfigResource(ConfigType.BROKER, str(_FIRST_ID))
    try:
        async with Admin(settings) as admin:
            cluster = await admin.describe_cluster()
            described = (await admin.describe_configs([resource], include_synonyms=True))[resource]
            directories = (await admin.describe_log_dirs([_FIRST_ID]))[BrokerId(_FIRST_ID)]
    except (ClientError, KafkaError) as error:
        raise CommandFailed(
            f"cannot ask the broker at {at}: {str(error).rstrip('.')}; say where it listens with"
            " --port and --host"
        ) from None
    cluster_id = read_properties(f"{growth.data}/meta.properties").get("cluster.id")
    if cluster_id != cluster.cluster_id:
        raise CommandFailed(
            f"the broker at {at} is not the one that uses {growth.data}; say where that one listens"
            " with --port and --host"
        )
    if isinstance(described, KafkaError):
        raise CommandFailed(f"cannot read the settings of the broker at {at}: {described.message}")
    if len(directories) > 1:
        raise _several_directories(growth.data)
    static = {
        synonym.name: (synonym.value, entry.is_sensitive)
        for entry in described.values()
        for synonym in entry.synonyms
        if synonym.source is ConfigSource.STATIC_BROKER_CONFIG
    }
    (broker,) = cluster.brokers
    growth.port = broker.port
    listeners = static.get("listeners", ("", False))[0] or ""
    growth.host = _listening_host(listeners, at, secured.listener)
    growth.advertised = broker.host if broker.host != growth.host.strip("[]") else None
    known = _OWN | laptop_settings(growth.brokers).keys()
    if secured.is_made:
        known |= secured.broker_settings(_FIRST_ID).keys()
    for name, (value, is_sensitive) in static.items():
        if name in known:
            continue
        if value is None or is_sensitive:
            _warn_of_secret(name)
            continue
        growth.settings[name] = value


def _warn_of_secret(name: str) -> None:
    print(
        f"warning: the broker does not tell its {name}; give it with --override {name}=...",
        file=sys.stderr,
    )


def _listening_host(listeners: str, at: str, listener: str) -> str:
    if "," in listeners or not listeners.startswith(f"{listener}://"):
        raise CommandFailed(
            f"the broker at {at} listens at {listeners}, and a cluster of `odradek up` has one"
            f" {listener} listener for each broker; {_BY_HAND}"
        )
    return listeners.removeprefix(f"{listener}://").rpartition(":")[0] or "0.0.0.0"  # noqa: S104
