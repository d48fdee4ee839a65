"""Checks the connection to the brokers: ports, and the addresses that brokers advertise."""

import argparse
import asyncio
import os
import socket

from odradek.cli.doctor.findings import Findings
from odradek.client.admin.broker_types import ClusterDescription
from odradek.client.admin.brokers import BrokerCalls
from odradek.client.admin.topics import TopicCalls
from odradek.client.cluster_view import Broker
from odradek.client.errors import ClientError
from odradek.protocol.errors import KafkaError
from odradek.tools.admin_session import open_admin
from odradek.tools.client_properties import DEFAULT_BOOTSTRAP, client_properties
from odradek.tools.profiles import chosen_profile
from odradek.wording import counted

_CONNECT_S = 3.0
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


class _DoctorAdmin(BrokerCalls, TopicCalls):
    """The admin calls of this tool."""


async def check_brokers(findings: Findings, arguments: argparse.Namespace) -> None:
    servers = client_properties(arguments)["bootstrap.servers"]
    is_named = bool(
        arguments.bootstrap_server
        or arguments.command_config
        or arguments.command_property
        or os.environ.get("ODRADEK_BOOTSTRAP")
        or chosen_profile(arguments.profile).properties
    )
    reached = [
        address for address in servers.split(",") if await _check_port(address, findings, is_named)
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


async def _check_port(address: str, findings: Findings, is_named: bool) -> bool:
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
    except socket.gaierror:
        return f"the name {host} is not known here"
    except OSError as error:
        return error.strerror or str(error)
    writer.close()
    return None


async def _check_advertised(
    findings: Findings, described: ClusterDescription, servers: str
) -> None:
    """Checks the advertised addresses, which clients use after the first connection."""
    from_afar = not any(_host(address) in _LOOPBACK for address in servers.split(","))
    for broker in sorted(described.brokers, key=lambda broker: broker.id):
        address = f"{broker.host}:{broker.port}"
        check = f"broker {broker.id}"
        problem = await _connect(broker.host, broker.port)
        if problem is not None:
            findings.add(check, "wrong", _unreachable(broker, problem))
        elif from_afar and broker.host in _LOOPBACK:
            findings.add(
                check, "wrong",
                f"advertises {address}, which other machines take for themselves; set"
                " advertised.listeners to a name that they know",
            )  # fmt: skip
        else:
            findings.add(check, "ok", f"advertises {address}, which answers")


def _host(address: str) -> str:
    return address.strip().rpartition(":")[0].strip("[]")


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
    under_replicated = sum(
        len(partition.in_sync) < len(partition.replicas) for partition in partitions
    )
    if leaderless:
        findings.add(
            "partitions", "wrong",
            f"{leaderless} of {len(partitions)} have no leader:"
            " odradek topics --describe --unavailable-partitions",
        )  # fmt: skip
    elif under_replicated:
        findings.add(
            "partitions", "warning",
            f"{under_replicated} of {len(partitions)} have copies out of sync:"
            " odradek topics --describe --under-replicated-partitions",
        )  # fmt: skip
    else:
        findings.add("partitions", "ok", f"{len(partitions)}, all copies in sync")
