"""The actions of `broker-api-versions` and `cluster`; `decommission` has the rest."""

import argparse

from odradek.client.admin.brokers import BrokerCalls
from odradek.client.api_versions import ApiVersions
from odradek.client.errors import ClientError
from odradek.protocol.apis import find_api
from odradek.tools.admin_session import open_admin
from odradek.tools.failures import CommandFailed
from odradek.tools.terminal import print_json, table

# APIs that other brokers may offer and that Odradek does not declare.
_OTHER_NAMES = {
    34: "AlterReplicaLogDirs",
    38: "CreateDelegationToken",
    39: "RenewDelegationToken",
    40: "ExpireDelegationToken",
    41: "DescribeDelegationToken",
    55: "DescribeQuorum",
    57: "UpdateFeatures",
    64: "UnregisterBroker",
    71: "GetTelemetrySubscriptions",
    72: "PushTelemetry",
    76: "ShareGroupHeartbeat",
    77: "ShareGroupDescribe",
    78: "ShareFetch",
    79: "ShareAcknowledge",
    80: "AddRaftVoter",
    81: "RemoveRaftVoter",
    83: "InitializeShareGroupState",
    84: "ReadShareGroupState",
    85: "WriteShareGroupState",
    86: "DeleteShareGroupState",
    87: "ReadShareGroupStateSummary",
    88: "StreamsGroupHeartbeat",
    89: "StreamsGroupDescribe",
    90: "DescribeShareGroupOffsets",
    91: "AlterShareGroupOffsets",
    92: "DeleteShareGroupOffsets",
}


def api_name(key: int) -> str:
    api = find_api(key)
    return api.name if api is not None else _OTHER_NAMES.get(key, "UNKNOWN")


def usable_version(key: int, lowest: int, highest: int) -> int | None:
    """Returns the newest version that both sides support."""
    api = find_api(key)
    if api is None or api.max_version < lowest or api.min_version > highest:
        return None
    return min(api.max_version, highest)


def api_lines(versions: ApiVersions) -> list[str]:
    lines = []
    for key, (lowest, highest) in sorted(versions.items()):
        offered = f"{lowest} to {highest}" if lowest != highest else f"{lowest}"
        usable = usable_version(key, lowest, highest)
        shown = "[usable: UNSUPPORTED]" if usable is None else f"[usable: {usable}]"
        lines.append(f"\t{api_name(key)}({key}): {offered} {shown}")
    return lines


async def print_api_versions(arguments: argparse.Namespace) -> int:
    async with open_admin(BrokerCalls, arguments) as admin:
        brokers = {broker.id: broker for broker in (await admin.describe_cluster()).brokers}
        answers = await admin.api_versions()
    if arguments.json:
        print_json([_as_json(broker_id, answer) for broker_id, answer in answers.items()])
    failed = False
    for broker_id, answer in answers.items():
        failed = failed or isinstance(answer, ClientError)
        if arguments.json:
            continue
        broker = brokers[broker_id]
        rack = broker.rack or "null"
        shown = f"{broker.host}:{broker.port} (id: {broker.id} rack: {rack} isFenced: false)"
        if isinstance(answer, ClientError):
            print(f"{shown} -> ERROR: {answer}")
        else:
            print(f"{shown} -> (\n" + ",\n".join(api_lines(answer)) + "\n)")
    return 1 if failed else 0


def _as_json(broker_id: int, answer: ApiVersions | ClientError) -> dict[str, object]:
    if isinstance(answer, ClientError):
        return {"broker": broker_id, "error": str(answer)}
    return {
        "broker": broker_id,
        "apis": [
            {
                "key": key,
                "name": api_name(key),
                "min": lowest,
                "max": highest,
                "usable": usable_version(key, lowest, highest),
            }
            for key, (lowest, highest) in sorted(answer.items())
        ],
    }


async def print_cluster_id(arguments: argparse.Namespace) -> int:
    async with open_admin(BrokerCalls, arguments) as admin:
        described = await admin.describe_cluster()
    if arguments.json:
        print_json({"clusterId": described.cluster_id})
    else:
        print(f"Cluster ID: {described.cluster_id}")
    return 0


async def print_endpoints(arguments: argparse.Namespace) -> int:
    async with open_admin(BrokerCalls, arguments) as admin:
        described = await admin.describe_cluster(include_fenced=arguments.include_fenced_brokers)
    rows = [
        {
            "id": broker.id,
            "host": broker.host,
            "port": broker.port,
            "rack": broker.rack,
            "state": "fenced" if broker.id in described.fenced else "unfenced",
            "type": "broker",
            "controller": "yes" if broker.id == described.controller else "no",
        }
        for broker in sorted(described.brokers, key=lambda broker: broker.id)
    ]
    if arguments.json:
        print_json(rows)
    else:
        cells = [[str("null" if cell is None else cell) for cell in row.values()] for row in rows]
        headers = ["ID", "HOST", "PORT", "RACK", "STATE", "ENDPOINT_TYPE", "CONTROLLER"]
        print(table(headers, cells))
    return 0


async def unregister(arguments: argparse.Namespace) -> int:
    """Explains what to do instead: a broker of Odradek is registered by its session, so there is
    nothing to unregister."""
    async with open_admin(BrokerCalls, arguments) as admin:
        known = {int(broker.id) for broker in (await admin.describe_cluster()).brokers}
    if arguments.id in known:
        raise CommandFailed(
            f"broker {arguments.id} is running; empty it with `odradek cluster decommission"
            f" --id {arguments.id}`, then stop it"
        )
    if arguments.json:
        print_json({"broker": arguments.id, "registered": False})
    else:
        print(f"Broker {arguments.id} is not registered: a broker is known only while it runs.")
    return 0
