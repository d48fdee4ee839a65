"""The actions of `odradek reassign-partitions`, after its flags are parsed."""

import argparse
from collections.abc import Iterable, Mapping, Sequence

from odradek.cli.replicas.replica_plans import (
    PROPOSED,
    Plan,
    joined,
    plan_as_json,
    read_plan,
    read_topics,
    spread,
)
from odradek.cli.replicas.throttles import ThrottleAdmin, lift_throttles, throttle
from odradek.client.admin.partitions import PartitionCalls
from odradek.client.admin.topics import TopicCalls
from odradek.protocol.errors import KafkaError
from odradek.protocol.types import TopicPartition
from odradek.tools.admin_session import checked, open_admin, require_brokers, topics_named
from odradek.tools.failures import CommandFailed
from odradek.tools.files import read_text
from odradek.tools.terminal import print_json


class ReassignmentAdmin(ThrottleAdmin, PartitionCalls, TopicCalls):
    """The admin calls that move partitions."""


async def perform(action: str, arguments: argparse.Namespace) -> int:
    async with open_admin(ReassignmentAdmin, arguments) as admin:
        return await {
            "generate": _generate,
            "execute": _execute,
            "verify": _verify,
            "cancel": _cancel,
            "list": _list,
        }[action](admin, arguments)


async def replicas_of(admin: ReassignmentAdmin, topics: Iterable[str]) -> Plan:
    """Returns the current replicas of the partitions of these topics."""
    described = await topics_named(admin, topics)
    return {
        TopicPartition(name, partition.index): [int(broker) for broker in partition.replicas]
        for name, topic in described.items()
        for partition in topic.partitions.values()
    }


# Plans


async def _generate(admin: ReassignmentAdmin, arguments: argparse.Namespace) -> int:
    topics = list(arguments.topic)
    if arguments.topics_to_move_json_file:
        path = arguments.topics_to_move_json_file
        topics += read_topics(read_text(path), path)
    await require_brokers(admin, arguments.broker_list)
    racks = {int(broker.id): broker.rack for broker in (await admin.describe_cluster()).brokers}
    brokers = {
        broker: None if arguments.disable_rack_aware else racks[broker]
        for broker in arguments.broker_list
    }
    current = await replicas_of(admin, topics)
    replica_count = arguments.replication_factor or max(map(len, current.values()))
    if replica_count > len(brokers):
        raise CommandFailed(
            f"{replica_count} replicas need as many brokers, and --broker-list has {len(brokers)};"
            " list more brokers, or give a lower --replication-factor"
        )
    proposed = spread(current, brokers, replication_factor=arguments.replication_factor)
    if arguments.json:
        print_json({"current": _plan_json(current), "proposed": _plan_json(proposed)})
    else:
        print(f"Current partition replica assignment\n{plan_as_json(current)}\n")
        print(f"{PROPOSED}\n{plan_as_json(proposed)}")
    return 0


def _plan_json(plan: Plan) -> dict[str, object]:
    import json

    content: dict[str, object] = json.loads(plan_as_json(plan))
    return content


async def _execute(admin: ReassignmentAdmin, arguments: argparse.Namespace) -> int:
    plan = read_plan(read_text(arguments.reassignment_json_file), arguments.reassignment_json_file)
    current = await _current(admin, plan)
    if not arguments.additional and await admin.list_partition_reassignments():
        raise CommandFailed(
            "other partitions are moving already; --list shows them, --additional goes ahead,"
            " --cancel stops them"
        )
    await require_brokers(admin, {broker for replicas in plan.values() for broker in replicas})
    if not arguments.json:
        print(f"Current partition replica assignment\n\n{plan_as_json(current)}\n")
        print("Save this to use as the --reassignment-json-file option during rollback")
    if arguments.throttle >= 0:
        await throttle(admin, current, plan, arguments.throttle)
        if not arguments.json:
            print(
                f"The inter-broker throttle limit was set to {arguments.throttle} B/s; run --verify"
                " until everything has arrived: it lifts the throttle"
            )
    answers = await admin.alter_partition_reassignments(plan)
    refused = {partition: error for partition, error in answers.items() if error is not None}
    if refused:
        raise CommandFailed(
            "; ".join(_refusal(partition, error) for partition, error in refused.items())
        )
    if arguments.json:
        print_json(
            {"current": _plan_json(current), "started": [_name(partition) for partition in plan]}
        )
    else:
        noun = "reassignment" if len(plan) == 1 else "reassignments"
        print(f"Successfully started partition {noun} for {joined(plan)}")
    return 0


async def _current(admin: ReassignmentAdmin, plan: Mapping[TopicPartition, Sequence[int]]) -> Plan:
    known = await replicas_of(admin, sorted({partition.topic for partition in plan}))
    missing = [partition for partition in plan if partition not in known]
    if missing:
        raise CommandFailed(f"there is no partition {joined(missing)}")
    return {partition: known[partition] for partition in plan}


def _name(partition: TopicPartition) -> str:
    return f"{partition.topic}-{partition.partition}"


def _refusal(partition: TopicPartition, error: KafkaError) -> str:
    return f"{_name(partition)}: {error.message}"


# Progress


async def _verify(admin: ReassignmentAdmin, arguments: argparse.Namespace) -> int:
    plan = read_plan(read_text(arguments.reassignment_json_file), arguments.reassignment_json_file)
    moving = await admin.list_partition_reassignments()
    current = await _current(admin, plan)
    states: dict[TopicPartition, str] = {}
    for partition, target in sorted(plan.items()):
        if partition in moving:
            states[partition] = "in progress"
        else:
            states[partition] = "completed" if current[partition] == target else "different"
    lifted = not moving and not arguments.preserve_throttles
    if lifted:
        await lift_throttles(admin, {partition.topic for partition in plan})
    if arguments.json:
        shown = {_name(partition): state for partition, state in states.items()}
        print_json({"partitions": shown, "throttlesLifted": lifted})
    else:
        _print_states(plan, current, states)
        if lifted:
            print("\nThrottles of brokers and topics are lifted, if there were any.")
    return 0


def _print_states(plan: Plan, current: Plan, states: Mapping[TopicPartition, str]) -> None:
    print("Status of partition reassignment:")
    for partition, state in states.items():
        if state == "completed":
            print(f"Reassignment of partition {_name(partition)} is completed.")
        elif state == "in progress":
            print(f"Reassignment of partition {_name(partition)} is still in progress.")
        else:
            print(
                f"There is no active reassignment of partition {_name(partition)}, but replica set"
                f" is {_ids(current[partition])} rather than {_ids(plan[partition])}."
            )


def _ids(brokers: Sequence[int]) -> str:
    return ",".join(map(str, brokers))


async def _cancel(admin: ReassignmentAdmin, arguments: argparse.Namespace) -> int:
    plan = read_plan(read_text(arguments.reassignment_json_file), arguments.reassignment_json_file)
    await _current(admin, plan)
    active = [
        partition for partition in await admin.list_partition_reassignments() if partition in plan
    ]
    checked(await admin.cancel_partition_reassignments(active) if active else {})
    if not arguments.preserve_throttles:
        await lift_throttles(admin, {partition.topic for partition in plan})
    if arguments.json:
        print_json({"cancelled": [_name(partition) for partition in sorted(active)]})
    elif active:
        noun = "reassignment" if len(active) == 1 else "reassignments"
        print(f"Successfully cancelled partition {noun} for: {joined(active)}")
    else:
        print("None of the specified partition reassignments are active.")
    return 0


async def _list(admin: ReassignmentAdmin, arguments: argparse.Namespace) -> int:
    moving = await admin.list_partition_reassignments()
    if arguments.json:
        print_json(
            [
                {
                    "topic": partition.topic,
                    "partition": partition.partition,
                    "replicas": list(move.replicas),
                    "adding": list(move.adding),
                    "removing": list(move.removing),
                }
                for partition, move in sorted(moving.items())
            ]
        )
        return 0
    print("Current partition reassignments:" if moving else "No partition reassignments found.")
    for partition, move in sorted(moving.items()):
        adding = f" adding: {_ids(move.adding)}." if move.adding else ""
        removing = f" removing: {_ids(move.removing)}." if move.removing else ""
        print(f"{_name(partition)}: replicas: {_ids(move.replicas)}.{adding}{removing}")
    return 0
