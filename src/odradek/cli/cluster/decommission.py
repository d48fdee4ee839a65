"""Moves all replicas away from a broker, so that it can be removed: `odradek cluster
decommission`."""

import argparse
import asyncio
from collections import Counter

from odradek.cli.replicas.reassign_actions import ReassignmentAdmin, replicas_of
from odradek.cli.replicas.replica_plans import Plan, without
from odradek.tools.admin_session import checked, open_admin, require_brokers
from odradek.tools.failures import CommandFailed
from odradek.tools.terminal import Progress, print_json
from odradek.wording import counted

_LOOK_AGAIN_S = 0.1


async def decommission(arguments: argparse.Namespace) -> int:
    leaver = arguments.id
    async with open_admin(ReassignmentAdmin, arguments, retries="10") as admin:
        await require_brokers(admin, [leaver])
        moved = await _start(admin, leaver, lower=arguments.lower_replication_factor)
        try:
            async with asyncio.timeout(arguments.timeout):
                await _until_empty(admin, leaver)
        except TimeoutError:
            left = len(await _assigned_to(admin, leaver))
            raise CommandFailed(
                f"broker {leaver} still holds {counted(left, 'partition')} after"
                f" {arguments.timeout} s; they keep moving: odradek reassign-partitions --list"
            ) from None
    if arguments.json:
        print_json({"broker": leaver, "moved": moved})
    else:
        print(
            f"Moved {counted(moved, 'partition')}."
            f" Broker {leaver} holds nothing now and may be stopped."
        )
    return 0


async def _start(admin: ReassignmentAdmin, leaver: int, *, lower: bool) -> int:
    """Starts every reassignment that is not in progress yet. Returns how many partitions have to
    move."""
    brokers = {
        int(broker.id): broker.rack
        for broker in (await admin.describe_cluster()).brokers
        if broker.id != leaver
    }
    everything = await replicas_of(admin, await admin.list_topics(include_internal=True))
    assigned = {
        partition: replicas for partition, replicas in everything.items() if leaver in replicas
    }
    _require_room(assigned, len(brokers), lower=lower)
    moving = await admin.list_partition_reassignments()
    to_move = {
        partition: replicas
        for partition, replicas in assigned.items()
        if partition not in moving or leaver not in moving[partition].removing
    }
    if to_move:
        others = Counter(
            broker
            for partition, replicas in everything.items()
            if partition not in to_move
            for broker in replicas
        )
        plan = without(leaver, to_move, brokers, others)
        checked(await admin.alter_partition_reassignments(plan))
    return len(assigned)


def _require_room(assigned: Plan, brokers: int, *, lower: bool) -> None:
    too_many = sorted(
        {partition.topic for partition, replicas in assigned.items() if len(replicas) > brokers}
    )
    if brokers == 0:
        raise CommandFailed("this is the only broker; what it holds has nowhere to go")
    if too_many and not lower:
        names = ", ".join(too_many[:3]) + (" and others" if len(too_many) > 3 else "")
        raise CommandFailed(
            f"{names} would have more copies than the"
            f" {counted(brokers, 'broker that is', 'brokers that are')} left; add a"
            " broker first, or accept fewer copies with --lower-replication-factor"
        )


async def _assigned_to(admin: ReassignmentAdmin, leaver: int) -> Plan:
    everything = await replicas_of(admin, await admin.list_topics(include_internal=True))
    return {partition: replicas for partition, replicas in everything.items() if leaver in replicas}


async def _until_empty(admin: ReassignmentAdmin, leaver: int) -> None:
    loop = asyncio.get_running_loop()
    total = len(await _assigned_to(admin, leaver))
    progress = Progress("partitions have moved", total)
    while True:
        left = len(await _assigned_to(admin, leaver))
        progress.update(total - left, loop.time())
        if not left:
            progress.clear()
            return
        await asyncio.sleep(_LOOK_AGAIN_S)
