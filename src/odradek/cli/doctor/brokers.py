"""Checks the brokers: ports, advertised addresses, partitions, disks, settings, clocks, and the
ZooKeeper ensemble that they name."""

import argparse
import asyncio
from typing import TYPE_CHECKING

from odradek.cli.doctor.certificates import check_certificates
from odradek.cli.doctor.ensemble import check_ensemble
from odradek.cli.doctor.findings import Findings
from odradek.cli.doctor.settings import check_described
from odradek.cli.quantities import shown_bytes
from odradek.client.admin.broker_types import ClusterDescription, LogDirectory
from odradek.client.admin.brokers import BrokerCalls
from odradek.client.admin.config_types import ConfigResource, ConfigType
from odradek.client.admin.configs import ConfigCalls
from odradek.client.admin.records import RecordCalls
from odradek.client.admin.topics import TopicCalls
from odradek.client.cluster_view import Broker, Topic
from odradek.client.errors import ClientError
from odradek.client.leader_requests import MAX_TIMESTAMP, ListedOffset
from odradek.protocol.errors import KafkaError
from odradek.protocol.types import BrokerId, TopicPartition
from odradek.tools.admin_session import open_admin
from odradek.tools.broker_addresses import LOOPBACK, host_of
from odradek.tools.client_properties import DEFAULT_BOOTSTRAP, bootstrap_servers
from odradek.wording import counted
from odradek.world import SystemClock
from odradek.world.sockets import why_not_connected

if TYPE_CHECKING:
    from odradek.config import BrokerSettings

_CONNECT_S = 3.0
_MINIMUM = "min.insync.replicas"
_FULL_SHARE = 0.95
_NEARLY_FULL_SHARE = 0.85
# Records of these topics have the time of the broker that coordinates.
_COORDINATED = ("__consumer_offsets", "__transaction_state")
_MAX_SKEW_MS = 5_000
_ADVERTISE = (
    "advertised.listeners=PLAINTEXT://NAME:PORT   # in its server.properties; then restart it"
)


class _DoctorAdmin(BrokerCalls, ConfigCalls, RecordCalls, TopicCalls):
    """The admin calls of this tool."""


async def check_brokers(
    findings: Findings,
    arguments: argparse.Namespace,
    settings: "BrokerSettings | None" = None,
) -> None:
    """Checks the brokers, and the ensemble that they name, or that the settings of one name."""
    named = await _check_cluster(findings, arguments)
    connect = named if settings is None else settings.zookeeper_connect or named
    if connect:
        await check_ensemble(findings, connect, settings)


async def _check_cluster(findings: Findings, arguments: argparse.Namespace) -> str | None:
    """Returns the `zookeeper.connect` of the brokers, if they have one and say it."""
    servers, named_by = bootstrap_servers(arguments)
    reached = [
        address
        for address in servers.split(",")
        if await _check_port(address, findings, is_named=named_by is not None)
    ]
    if not reached:
        return None
    try:
        async with open_admin(_DoctorAdmin, arguments) as admin:
            described = await admin.describe_cluster()
            findings.add(
                "cluster",
                "ok",
                f"{described.cluster_id}, {counted(len(described.brokers), 'broker')}",
            )
            await _check_advertised(findings, described, servers)
            await check_certificates(findings, admin.settings, described.brokers)
            await _check_partitions(findings, admin, described)
            await _check_clocks(findings, admin)
            return await _check_each(findings, admin, described)
    except (ClientError, KafkaError) as error:
        findings.add("cluster", "wrong", f"{servers} does not answer as a broker: {error}")
    return None


async def _check_port(address: str, findings: Findings, *, is_named: bool) -> bool:
    host, _, port = address.strip().rpartition(":")
    try:
        problem = await _connect(host.strip("[]"), int(port))
    except ValueError:
        findings.add("broker", "wrong", f"{address!r} is not of the form HOST:PORT")
        return False
    if problem is None:
        return True
    if is_named:
        findings.add(
            "broker", "wrong", f"{address} cannot be reached: {problem}",
            "systemctl status odradek   # on that machine; or: odradek local status",
        )  # fmt: skip
    else:
        findings.add("port", "ok", f"nothing listens at {DEFAULT_BOOTSTRAP}: free for a broker")
    return False


async def _connect(host: str, port: int) -> str | None:
    """Returns None if the address accepts a connection, else the reason why not."""
    try:
        async with asyncio.timeout(_CONNECT_S):
            _, writer = await asyncio.open_connection(host, port)
    except TimeoutError:
        return f"no answer within {_CONNECT_S:.0f} s"
    except OSError as error:
        return why_not_connected(error)
    writer.close()
    return None


async def _check_advertised(
    findings: Findings, described: ClusterDescription, servers: str
) -> None:
    """Checks the advertised addresses, which clients use after the first connection."""
    from_afar = not any(host_of(address) in LOOPBACK for address in servers.split(","))
    for broker in sorted(described.brokers, key=lambda broker: broker.id):
        address = f"{broker.host}:{broker.port}"
        check = f"broker {broker.id}"
        problem = await _connect(broker.host, broker.port)
        if problem is not None:
            findings.add(check, "wrong", _unreachable(broker, problem), _ADVERTISE)
        elif from_afar and broker.host in LOOPBACK:
            findings.add(
                check, "wrong",
                f"advertises {address}, which other machines take for themselves; set"
                " advertised.listeners to a name that they know",
                _ADVERTISE,
            )  # fmt: skip
        else:
            findings.add(check, "ok", f"advertises {address}, which answers")


def _unreachable(broker: Broker, problem: str) -> str:
    return (
        f"advertises {broker.host}:{broker.port}, which cannot be reached from here ({problem});"
        " set its advertised.listeners"
    )


async def _check_partitions(
    findings: Findings, admin: _DoctorAdmin, described: ClusterDescription
) -> None:
    topics = await admin.list_topics(include_internal=True)
    partitions = [partition for topic in topics.values() for partition in topic.partitions.values()]
    live = {broker.id for broker in described.brokers}
    leaderless = sum(partition.leader not in live for partition in partitions)
    under_min = await _count_under_min(admin, topics, live)
    under_replicated = sum(
        len(partition.in_sync) < len(partition.replicas) for partition in partitions
    )
    if leaderless:
        findings.add(
            "partitions", "wrong",
            f"{leaderless} of {len(partitions)} have no leader, and can be neither written nor"
            " read",
            "odradek topics --describe --unavailable-partitions",
        )  # fmt: skip
    if under_min:
        findings.add(
            "partitions", "wrong",
            f"{under_min} of {len(partitions)} have fewer copies in sync than min.insync.replicas,"
            " and refuse records with acks=all",
            "odradek topics --describe --under-min-isr-partitions",
        )  # fmt: skip
    elif under_replicated and not leaderless:
        findings.add(
            "partitions", "warning",
            f"{under_replicated} of {len(partitions)} have copies out of sync",
            "odradek topics --describe --under-replicated-partitions",
        )  # fmt: skip
    if not (leaderless or under_min or under_replicated):
        findings.add("partitions", "ok", f"{len(partitions)}, all copies in sync")


async def _count_under_min(
    admin: _DoctorAdmin, topics: dict[str, Topic], live: set[BrokerId]
) -> int:
    """Returns how many partitions with a leader have fewer replicas in sync than
    min.insync.replicas demands. More than all replicas are never demanded."""
    resources = [ConfigResource(ConfigType.TOPIC, name) for name in topics]
    answers = await admin.describe_configs(resources, [_MINIMUM]) if resources else {}
    count = 0
    for resource, entries in answers.items():
        if isinstance(entries, KafkaError):
            continue  # Who may see a topic need not be allowed to see its settings.
        entry = entries.get(_MINIMUM)
        minimum = int(entry.value or 1) if entry is not None else 1
        count += sum(
            partition.leader in live
            and len(partition.in_sync) < min(minimum, len(partition.replicas))
            for partition in topics[resource.name].partitions.values()
        )
    return count


async def _check_clocks(findings: Findings, admin: _DoctorAdmin) -> None:
    """Compares this machine's clock with the newest time that brokers have written.

    Records of the coordinators' topics have the time of a broker. One from the future shows that a
    broker's clock is ahead of this one, or this one behind. The other way round nothing can be
    told: perhaps nobody has written for long."""
    topics = await admin.list_topics(include_internal=True)
    partitions = {
        TopicPartition(name, number): MAX_TIMESTAMP
        for name in _COORDINATED
        if name in topics
        for number in topics[name].partitions
    }
    answers = await admin.list_offsets(partitions) if partitions else {}
    now_ms = SystemClock().now_ms()
    ahead_ms = max(
        (
            answer.timestamp_ms - now_ms
            for answer in answers.values()
            if isinstance(answer, ListedOffset)
        ),
        default=0,
    )
    if ahead_ms > _MAX_SKEW_MS:
        findings.add(
            "clock",
            "warning",
            f"a broker has written a record with a time {ahead_ms / 1000:.0f} s from now: its clock"
            " is ahead of this machine's, or this one is behind",
            "timedatectl   # on this machine and on the brokers'",
        )


async def _check_each(
    findings: Findings, admin: _DoctorAdmin, described: ClusterDescription
) -> str | None:
    """Checks disks and settings of each broker. Returns their `zookeeper.connect`. A broker that
    cannot be asked has been reported before, because its address does not answer."""
    connect = None
    for broker in sorted(described.brokers, key=lambda broker: broker.id):
        try:
            directories = (await admin.describe_log_dirs([broker.id]))[broker.id]
            resource = ConfigResource(ConfigType.BROKER, str(broker.id))
            entries = (await admin.describe_configs([resource]))[resource]
        except (ClientError, KafkaError):
            continue
        for directory in directories:
            add_disk(findings, broker.id, directory)
        if not isinstance(entries, KafkaError):
            check_described(findings, broker.id, entries)
            entry = entries.get("zookeeper.connect")
            connect = connect or (entry.value if entry is not None else None)
    return connect


def add_disk(findings: Findings, broker: BrokerId, directory: LogDirectory) -> None:
    """Adds a finding about a log directory that failed, or whose disk is full or nearly full."""
    look = f"odradek log-dirs --describe --broker-list {broker}"
    check = f"broker {broker}"
    if directory.error_code:
        findings.add(check, "wrong", f"has lost its log directory {directory.path}", look)
        return
    if directory.total_bytes <= 0 or directory.usable_bytes < 0:
        return
    used = 1 - directory.usable_bytes / directory.total_bytes
    text = (
        f"the disk of {directory.path} has {shown_bytes(directory.usable_bytes)} of"
        f" {shown_bytes(directory.total_bytes)} left"
    )
    if used > _FULL_SHARE:
        findings.add(check, "wrong", f"{text}: it will refuse records", look)
    elif used > _NEARLY_FULL_SHARE:
        findings.add(check, "warning", text, look)
