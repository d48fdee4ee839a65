"""Checks the ZooKeeper ensemble: which servers answer, whether they have a quorum, and their clock.

Each server is asked for `srvr`, the one command that ZooKeeper answers without being configured for
it. The clock is compared without a write: a broker writes its own time into its registration, and
ZooKeeper notes its time when it creates the node.
"""

import asyncio
import json
import re
from typing import TYPE_CHECKING, NamedTuple

from odradek.cli.doctor.findings import Findings
from odradek.tools.broker_addresses import host_of
from odradek.wording import counted
from odradek.world.sockets import why_not_connected

if TYPE_CHECKING:
    import ssl

    from odradek.config import BrokerSettings
    from odradek.metadata.zookeeper_security import ZookeeperSecurity

_ANSWER_S = 3.0
_MODE = re.compile(r"^Mode: (\w+)", re.MULTILINE)
# Sessions and retention bear more; people who compare the logs of two brokers do not.
_MAX_SKEW_MS = 1_000
_DEFAULT_PORT = 2181


class Server(NamedTuple):
    """A server of the ensemble. `mode` is leader, follower, standalone or the like; None if it does
    not serve, and then `problem` says why."""

    address: str
    mode: str | None
    problem: str = ""


async def check_ensemble(
    findings: Findings, connect: str, settings: "BrokerSettings | None" = None
) -> None:
    """Checks the ensemble of a `zookeeper.connect`. With the settings of a broker it talks to the
    ensemble as that broker does."""
    from odradek.cli.cluster.zookeeper_connection import security_of
    from odradek.metadata.zookeeper_security import OPEN

    security = OPEN if settings is None else security_of(settings)
    context = security.tls_context()
    addresses = [
        address if ":" in address else f"{address}:{_DEFAULT_PORT}"
        for address in connect.partition("/")[0].split(",")
        if address
    ]
    servers = list(await asyncio.gather(*(_ask(address, context) for address in addresses)))
    add_quorum(findings, servers)
    if any(server.mode for server in servers):
        skews = await asyncio.to_thread(_skews_ms, connect, security)
        add_skews(findings, skews)


async def _ask(address: str, context: "ssl.SSLContext | None") -> Server:
    host, port = host_of(address), int(address.rpartition(":")[2])
    try:
        async with asyncio.timeout(_ANSWER_S):
            reader, writer = await asyncio.open_connection(host, port, ssl=context)
            try:
                writer.write(b"srvr")
                answer = (await reader.read()).decode("utf-8", "replace")
            finally:
                writer.close()
    except TimeoutError:
        return Server(address, None, f"no answer within {_ANSWER_S:.0f} s")
    except OSError as error:
        return Server(address, None, why_not_connected(error))
    mode = _MODE.search(answer)
    if mode is None:
        # It is up, and has not found enough others: "This ZooKeeper instance is not currently
        # serving requests".
        return Server(address, None, "it runs and does not serve, for want of a quorum")
    return Server(address, mode[1])


def add_quorum(findings: Findings, servers: list[Server]) -> None:
    """Adds what the servers' answers say together."""
    serving = [server for server in servers if server.mode is not None]
    for server in servers:
        if server.mode is None:
            findings.add(
                "zookeeper",
                "warning",
                f"{server.address} does not serve: {server.problem}",
                f"echo srvr | nc {server.address.replace(':', ' ')}",
            )
    if not serving:
        findings.add(
            "zookeeper",
            "wrong",
            f"none of {counted(len(servers), 'server')} serves as seen from here: brokers go on"
            " with what they know, and no leader, topic or setting can change; run this on the"
            " machine of a broker before you believe it",
            "systemctl status zookeeper",
        )
        return
    spare = len(serving) - (len(servers) // 2 + 1)
    modes = ", ".join(f"{server.address} is {server.mode}" for server in serving)
    if spare < 0:
        findings.add(
            "zookeeper",
            "warning",
            f"{modes}; of {len(servers)} a majority is needed, so the others are there and cannot"
            " be reached from here, or zookeeper.connect names servers that are no more",
        )
    elif not spare and len(servers) > 1:
        findings.add(
            "zookeeper",
            "warning",
            f"{modes}; if one more is lost, no leader, topic or setting can change",
            "systemctl start zookeeper   # where it does not run",
        )
    else:
        findings.add("zookeeper", "ok", f"{modes}; {spare} more may be lost")


def _skews_ms(connect: str, security: "ZookeeperSecurity") -> dict[str, int]:
    """Returns by how much the clock of each broker was ahead of ZooKeeper's when it registered.
    Called in a thread, because kazoo's calls block."""
    from kazoo.exceptions import KazooException

    from odradek.metadata.kazoo_client import make_client

    client = make_client(connect, _ANSWER_S, security, read_only=True)
    skews: dict[str, int] = {}
    try:
        client.start(timeout=_ANSWER_S)
        for broker in client.get_children("/brokers/ids"):
            value, status = client.get(f"/brokers/ids/{broker}")
            skews[broker] = int(json.loads(value)["timestamp"]) - status.ctime
    except (KazooException, client.handler.timeout_exception, ValueError, KeyError):
        return skews
    finally:
        client.stop()
        client.close()
    return skews


def add_skews(findings: Findings, skews_ms: dict[str, int]) -> None:
    for broker, skew_ms in sorted(skews_ms.items()):
        if abs(skew_ms) > _MAX_SKEW_MS:
            way = "ahead of" if skew_ms > 0 else "behind"
            findings.add(
                "clock",
                "warning",
                f"that of broker {broker} was {abs(skew_ms) / 1000:.1f} s {way} ZooKeeper's when"
                " the broker registered; synchronise both machines",
                "timedatectl set-ntp true",
            )
    if skews_ms and all(abs(skew) <= _MAX_SKEW_MS for skew in skews_ms.values()):
        findings.add(
            "clock", "ok", f"{counted(len(skews_ms), 'broker')} and ZooKeeper agree within 1 s"
        )
