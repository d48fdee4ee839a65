"""Checks the connection to the brokers: ports, and the addresses that brokers advertise."""

import argparse
import asyncio

from odradek.cli.doctor.findings import Findings
from odradek.client.admin.broker_types import ClusterDescription
from odradek.client.admin.brokers import BrokerCalls
from odradek.client.admin.config_types import ConfigResource, ConfigType
from odradek.client.admin.configs import ConfigCalls
from odradek.client.admin.topics import TopicCalls
from odradek.client.cluster_view import Broker, Topic
from odradek.client.errors import ClientError
from odradek.protocol.errors import KafkaError
from odradek.protocol.types import BrokerId
from odradek.tools.admin_session import open_admin
from odradek.tools.broker_addresses import LOOPBACK, host_of
from odradek.tools.client_properties import DEFAULT_BOOTSTRAP, bootstrap_servers
from odradek.wording import counted
from odradek.world.sockets import why_not_connected

_CONNECT_S = 3.0
_MINIMUM = "min.insync.replicas"


class _DoctorAdmin(BrokerCalls, ConfigCalls, TopicCalls):
    """The admin calls of this tool."""


async def check_brokers(findings: Findings, arguments: argparse.Namespace) -> None:
    servers, named_by = bootstrap_servers(arguments)
    reached = [
        address
        for address in servers.split(",")
        if await _check_port(address, findings, is_named=named_by is not None)
    ]
    if not reached:
        return
    try:
        async with open_admin(_DoctorAdmin, arguments) as admin:
            described = await admin.describe_cluster()
            findings.add(
                "cluster",
                "ok",
                f"{described.cluster_id}, {counted(len(described.brokers), 'broker')}",
            )
            await _check_advertised(findings, described, servers)
            await _check_partitions(findings, admin, described)
    except (ClientError, KafkaError) as error:
        findings.add("cluster", "wrong", f"{servers} does not answer as a broker: {error}")


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
        findings.add("broker", "wrong", f"{address} cannot be reached: {problem}")
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
            findings.add(check, "wrong", _unreachable(broker, problem))
        elif from_afar and broker.host in LOOPBACK:
            findings.add(
                check, "wrong",
                f"advertises {address}, which other machines take for themselves; set"
                " advertised.listeners to a name that they know",
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
            " read: odradek topics --describe --unavailable-partitions",
        )  # fmt: skip
    if under_min:
        findings.add(
            "partitions", "wrong",
            f"{under_min} of {len(partitions)} have fewer copies in sync than min.insync.replicas,"
            " and refuse records with acks=all:"
            " odradek topics --describe --under-min-isr-partitions",
        )  # fmt: skip
    elif under_replicated and not leaderless:
        findings.add(
            "partitions", "warning",
            f"{under_replicated} of {len(partitions)} have copies out of sync:"
            " odradek topics --describe --under-replicated-partitions",
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
