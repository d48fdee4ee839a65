"""The action of `consumer-groups --reset-offsets`: plans new offsets and commits them."""

import argparse
import shlex
import sys
from collections.abc import Iterable

from odradek.cli.groups.group_actions import (
    GroupAdmin,
    group_ids,
    no_such_group,
    open_group_admin,
)
from odradek.cli.groups.group_names import who_is_active
from odradek.cli.groups.offset_plans import Plan, duration_ms, moment_ms, read_plans, write_plans
from odradek.cli.groups.tables import reset_table
from odradek.client.admin.group_types import GroupDescription
from odradek.client.leader_requests import EARLIEST, LATEST, ListedOffset
from odradek.config.spelling import did_you_mean
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.types import TopicPartition
from odradek.tools.admin_session import named_partitions
from odradek.tools.failures import CommandFailed
from odradek.tools.files import read_text
from odradek.tools.hints import hint
from odradek.tools.terminal import print_json
from odradek.world import SystemClock


async def reset(arguments: argparse.Namespace) -> int:
    target = _Target(arguments)
    rows: list[tuple[str, TopicPartition, int]] = []
    refusals: list[str] = []
    new: list[str] = []
    async with open_group_admin(arguments) as admin:
        ids = await group_ids(admin, arguments)
        groups = await admin.describe_groups(ids)
        for group_id, group in groups.items():
            if isinstance(group, KafkaError):
                # The group need not exist: committing its first offsets creates it.
                if group.code != ErrorCode.GROUP_ID_NOT_FOUND:
                    raise await no_such_group(admin, group_id, group)
                new.append(group_id)
            elif group.is_active:
                refusals.append(_active(group))
                continue
            plan = await target.plan(admin, group_id)
            if arguments.execute and plan:
                await _move(admin, group_id, plan)
            rows += [(group_id, partition, plan[partition]) for partition in sorted(plan)]
        if new:
            await _hint_at_new(admin, new, is_done=arguments.execute)
    _report(arguments, rows, is_refused=bool(refusals))
    if refusals:
        sys.stdout.flush()
        raise CommandFailed("; ".join(refusals))
    return 0


async def _hint_at_new(admin: GroupAdmin, new: list[str], *, is_done: bool) -> None:
    """Says that groups did not exist before: a name may be misspelt, and its offsets are stored."""
    known = [
        listing.group_id for listing in await admin.list_groups() if listing.group_id not in new
    ]
    for group_id in new:
        state = "did not exist and is new" if is_done else "does not exist; --execute makes it"
        undo = f" (odradek consumer-groups --delete --group {shlex.quote(group_id)} removes it)"
        hint(f"group {group_id} {state}{undo if is_done else ''}{did_you_mean(group_id, known)}")


def _active(group: GroupDescription) -> str:
    members = [(member.client_id, member.host, len(member.assignment)) for member in group.members]
    who = who_is_active(members) or "members are just leaving"
    return (
        f"group {group.group_id!r} is active ({group.state}): {who}; stop these consumers, wait"
        f" until `odradek consumer-groups --describe --group {group.group_id} --state` says"
        " Empty, then try again"
    )


async def _move(admin: GroupAdmin, group_id: str, plan: Plan) -> None:
    answers = await admin.alter_group_offsets(group_id, plan, may_create=True)
    for partition, answer in sorted(answers.items()):
        if not isinstance(answer, KafkaError):
            continue
        if answer.code == ErrorCode.UNKNOWN_MEMBER_ID:
            raise CommandFailed(
                f"group {group_id!r} was not moved: a consumer has joined meanwhile; stop it"
            )
        raise CommandFailed(f"group {group_id!r} was not moved in {partition}: {answer.message}")


def _report(
    arguments: argparse.Namespace,
    rows: list[tuple[str, TopicPartition, int]],
    *,
    is_refused: bool,
) -> None:
    if arguments.json:
        if rows or not is_refused:
            print_json(
                [
                    {
                        "group": group,
                        "topic": partition.topic,
                        "partition": partition.partition,
                        "newOffset": offset,
                    }
                    for group, partition, offset in rows
                ]
            )
    elif arguments.export:
        sys.stdout.write(write_plans(rows, with_group=len(arguments.group) != 1))
    elif rows or not is_refused:
        print(reset_table(rows))
    if rows and not (arguments.execute or arguments.dry_run):
        hint("nothing was changed; add --execute to move the group, or --dry-run to only look")


class _Target:
    """The target of a reset. The constructor raises if the flags are invalid."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._arguments = arguments
        self._timestamp_ms: int | None = None
        self._plans: dict[str, Plan] | None = None
        if arguments.to_datetime is not None:
            self._timestamp_ms = moment_ms(arguments.to_datetime)
        elif arguments.by_duration is not None:
            ago_ms = duration_ms(arguments.by_duration)
            self._timestamp_ms = SystemClock().now_ms() - ago_ms
        elif arguments.from_file is not None:
            path = arguments.from_file
            self._plans = read_plans(read_text(path), path, arguments.group)

    async def plan(self, admin: GroupAdmin, group_id: str) -> Plan:
        arguments = self._arguments
        if self._plans is not None:
            if group_id not in self._plans:
                raise CommandFailed(f"{arguments.from_file} has no line for group {group_id!r}")
            await named_partitions(admin, (f"{t}:{p}" for t, p in self._plans[group_id]))
            return await _within_log(admin, self._plans[group_id])
        if arguments.all_topics:
            partitions = sorted(await admin.list_group_offsets(group_id))
        else:
            partitions = await named_partitions(admin, arguments.topic)
        if arguments.to_offset is not None:
            return await _within_log(admin, dict.fromkeys(partitions, arguments.to_offset))
        if arguments.to_earliest:
            return await _listed(admin, partitions, EARLIEST)
        if arguments.to_latest:
            return await _listed(admin, partitions, LATEST)
        if self._timestamp_ms is not None:
            return await _by_time(admin, partitions, self._timestamp_ms)
        return await self._from_current(admin, group_id, partitions)

    async def _from_current(
        self, admin: GroupAdmin, group_id: str, partitions: list[TopicPartition]
    ) -> Plan:
        current: Plan = {}
        for partition, position in (await admin.list_group_offsets(group_id)).items():
            if isinstance(position, KafkaError):
                raise CommandFailed(f"{partition}: {position.message}")
            current[partition] = position.offset
        missing = [partition for partition in partitions if partition not in current]
        kept = {partition: current[partition] for partition in partitions if partition in current}
        if self._arguments.to_current:
            return kept | await _listed(admin, missing, LATEST)
        if missing:
            raise CommandFailed(
                f"group {group_id!r} has no position in {missing[0]} to shift; set one with"
                " --to-earliest, --to-latest or --to-offset"
            )
        shift = self._arguments.shift_by
        return await _within_log(
            admin, {partition: offset + shift for partition, offset in kept.items()}
        )


async def _ask(
    admin: GroupAdmin, partitions: Iterable[TopicPartition], timestamp_ms: int
) -> dict[TopicPartition, ListedOffset]:
    answers = await admin.list_offsets(dict.fromkeys(partitions, timestamp_ms))
    offsets: dict[TopicPartition, ListedOffset] = {}
    for partition, answer in answers.items():
        if isinstance(answer, KafkaError):
            raise CommandFailed(f"{partition}: {answer.message}")
        offsets[partition] = answer
    return offsets


async def _listed(admin: GroupAdmin, partitions: list[TopicPartition], timestamp_ms: int) -> Plan:
    if not partitions:
        return {}
    answers = await _ask(admin, partitions, timestamp_ms)
    return {partition: answers[partition].offset for partition in partitions}


async def _by_time(admin: GroupAdmin, partitions: list[TopicPartition], timestamp_ms: int) -> Plan:
    offsets = await _listed(admin, partitions, max(timestamp_ms, 0))
    without = [partition for partition, offset in offsets.items() if offset < 0]
    for partition in without:
        hint(f"{partition} has no record of that time or later; its end is taken")
    return offsets | await _listed(admin, without, LATEST)


async def _within_log(admin: GroupAdmin, requested: Plan) -> Plan:
    """Limits offsets to the log: an offset before its start becomes the start, and an offset after
    its end becomes the end."""
    if not requested:
        return {}
    first = await _ask(admin, requested, EARLIEST)
    end = await _ask(admin, requested, LATEST)
    plan: Plan = {}
    for partition, offset in requested.items():
        low, high = first[partition].offset, end[partition].offset
        plan[partition] = max(low, min(offset, high))
        if offset > high:
            hint(f"{offset} is after the end of {partition}; {high} is taken")
        elif offset < low:
            hint(f"{offset} is before the first record of {partition}; {low} is taken")
    return plan
