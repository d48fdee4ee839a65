"""The actions of `consumer-groups` and `groups`: list, describe, delete. Resets are in
`reset_actions`."""

import argparse
import sys
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from odradek.cli.groups.group_names import GROUP_TYPES, parse_states, parse_types
from odradek.cli.groups.named_topics import NamedTopics, no_group_in
from odradek.cli.groups.tables import (
    OffsetRow,
    deleted_offsets_table,
    every_group_table,
    listing_table,
    members_table,
    offsets_table,
    state_table,
)
from odradek.client.admin.group_offsets import GroupOffsetCalls
from odradek.client.admin.group_types import (
    GroupDescription,
    GroupListing,
    GroupMember,
    GroupOffset,
)
from odradek.client.admin.groups import GroupCalls
from odradek.client.admin.records import RecordCalls
from odradek.client.admin.topics import TopicCalls
from odradek.client.leader_requests import LATEST, Answers
from odradek.config.spelling import did_you_mean
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.types import TopicPartition
from odradek.tools.admin_session import named_partitions, open_admin
from odradek.tools.failures import CommandFailed
from odradek.tools.hints import hint_if_none
from odradek.tools.terminal import print_json

_DEFAULT_TIMEOUT_MS = 30_000
_REBALANCING = frozenset({"PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"})


class GroupAdmin(GroupOffsetCalls, RecordCalls, TopicCalls):
    """The admin calls about groups, their offsets and the ends of logs."""


@asynccontextmanager
async def open_group_admin(arguments: argparse.Namespace) -> AsyncIterator[GroupAdmin]:
    timeout_ms = str(arguments.timeout or _DEFAULT_TIMEOUT_MS)
    if arguments.timeout:
        arguments.command_property.append(("default.api.timeout.ms", timeout_ms))
    async with open_admin(GroupAdmin, arguments, default_api_timeout_ms=timeout_ms) as admin:
        yield admin


async def perform(action: str, arguments: argparse.Namespace) -> int:
    async with open_group_admin(arguments) as admin:
        if action == "list":
            return await _list(admin, arguments)
        if action == "describe":
            return await _describe(admin, arguments)
        if action == "delete":
            return await _delete(admin, arguments)
        return await _delete_offsets(admin, arguments)


# Lists


async def _list(admin: GroupAdmin, arguments: argparse.Namespace) -> int:
    listings = await consumer_groups(
        admin, parse_states(arguments.state), parse_types(arguments.type)
    )
    if arguments.json:
        print_json([_listing_json(listing) for listing in listings])
    elif arguments.state is None and arguments.type is None:
        for listing in listings:
            print(listing.group_id)
    else:
        types, states = arguments.type is not None, arguments.state is not None
        print(listing_table(listings, types=types, states=states))
    if not arguments.json:
        hint_if_none(listings, "there is no such group; a consumer with a group.id makes one")
    return 0


async def consumer_groups(
    admin: GroupAdmin, states: Iterable[str] = (), types: Iterable[str] = ()
) -> list[GroupListing]:
    listings = await admin.list_groups(states=states, types=types)
    return sorted(
        (listing for listing in listings if listing.is_of_consumers),
        key=lambda listing: listing.group_id,
    )


async def list_every_group(arguments: argparse.Namespace) -> int:
    """`odradek groups --list`."""
    types = parse_types(arguments.group_type, GROUP_TYPES)
    async with open_admin(GroupCalls, arguments) as admin:
        listings = sorted(
            await admin.list_groups(types=types), key=lambda listing: listing.group_id
        )
    if arguments.protocol is not None:
        listings = [listing for listing in listings if listing.protocol_type == arguments.protocol]
    if arguments.consumer:
        listings = [listing for listing in listings if listing.is_of_consumers]
    for flag, kind in ((arguments.share, "Share"), (arguments.streams, "Streams")):
        if flag:
            listings = [listing for listing in listings if listing.type == kind]
    if arguments.json:
        print_json([_listing_json(listing) for listing in listings])
    else:
        print(every_group_table(listings))
    return 0


def _listing_json(listing: GroupListing) -> dict[str, object]:
    return {
        "group": listing.group_id,
        "type": listing.type,
        "protocol": listing.protocol_type,
        "state": listing.state,
        "coordinator": listing.coordinator.id,
    }


# Descriptions


async def group_ids(admin: GroupAdmin, arguments: argparse.Namespace) -> list[str]:
    if arguments.all_groups:
        return [listing.group_id for listing in await consumer_groups(admin)]
    return sorted(set(arguments.group))


async def _describe(admin: GroupAdmin, arguments: argparse.Namespace) -> int:
    ids = await group_ids(admin, arguments)
    answers = await admin.describe_groups(ids)
    named = NamedTopics(arguments.topic)
    shown = 0
    documents: list[dict[str, object]] = []
    for group_id, group in answers.items():
        if isinstance(group, KafkaError):
            raise await no_such_group(admin, group_id, group)
        rows: list[OffsetRow] = []
        if not (arguments.members or arguments.state is not None):
            rows = await offset_rows(admin, group, named, is_every=not arguments.all_groups)
            if named.topics and not rows and arguments.all_groups:
                continue
        shown += 1
        if arguments.json:
            documents.append(_group_json(group, arguments, rows))
            continue
        _remark_on_state(group)
        if arguments.members:
            print(members_table(group, verbose=arguments.verbose))
        elif arguments.state is not None:
            print(state_table(group, verbose=arguments.verbose))
        elif rows:
            print(offsets_table(rows, verbose=arguments.verbose))
    if named.topics and not shown:
        raise no_group_in(named.topics)
    if arguments.json:
        print_json(documents)
    return 0


async def no_such_group(admin: GroupAdmin, group_id: str, error: KafkaError) -> CommandFailed:
    if error.code != ErrorCode.GROUP_ID_NOT_FOUND:
        return CommandFailed(f"group {group_id!r}: {error.message}")
    known = [listing.group_id for listing in await admin.list_groups()]
    near = did_you_mean(group_id, known)
    return CommandFailed(
        f"group {group_id!r} does not exist{near or '; odradek consumer-groups --list shows all'}"
    )


def _remark_on_state(group: GroupDescription) -> None:
    # Flushed, so that the order stays right if stdout and stderr go to the same file.
    sys.stdout.flush()
    if group.state == "Empty":
        print(f"\nConsumer group '{group.group_id}' has no active members.", file=sys.stderr)
    elif group.state in _REBALANCING:
        print(f"\nWarning: Consumer group '{group.group_id}' is rebalancing.", file=sys.stderr)
    sys.stderr.flush()


async def offset_rows(
    admin: GroupAdmin, group: GroupDescription, named: NamedTopics, *, is_every: bool
) -> list[OffsetRow]:
    """Returns the assigned partitions, those of members with the most partitions first, then
    partitions that have offsets but no member; only of `named` topics, if there are any.

    `is_every` says that the group must have partitions of every named topic.
    """
    committed = await admin.list_group_offsets(group.group_id)
    owners: list[tuple[TopicPartition, GroupMember | None]] = []
    for member in sorted(group.members, key=lambda member: -len(member.assignment)):
        owners += [(partition, member) for partition in sorted(member.assignment)]
    assigned = {partition for partition, _ in owners}
    owners += [(partition, None) for partition in sorted(committed) if partition not in assigned]
    every = [partition for partition, _ in owners]
    if is_every:
        named.require(group.group_id, every)
    selected = set(named.select(every))
    owners = [(partition, member) for partition, member in owners if partition in selected]
    if not owners:
        return []
    ends = await admin.list_offsets(dict.fromkeys((partition for partition, _ in owners), LATEST))
    rows = []
    for partition, owner in owners:
        position, end = _committed_offset(committed, partition), ends[partition]
        rows.append(
            OffsetRow(
                group.group_id,
                partition.topic,
                partition.partition,
                None if position is None or position.leader_epoch < 0 else position.leader_epoch,
                None if position is None else position.offset,
                None if isinstance(end, KafkaError) else end.offset,
                owner,
            )
        )
    return rows


def _committed_offset(
    committed: Answers[GroupOffset], partition: TopicPartition
) -> GroupOffset | None:
    position = committed.get(partition)
    if isinstance(position, KafkaError):
        raise CommandFailed(f"{partition}: {position.message}")
    return position


def _group_json(
    group: GroupDescription, arguments: argparse.Namespace, rows: list[OffsetRow]
) -> dict[str, object]:
    described: dict[str, object] = {
        "group": group.group_id,
        "type": group.type,
        "state": group.state,
        "assignor": group.assignor,
        "coordinator": group.coordinator.id,
        "epoch": group.group_epoch,
        "targetAssignmentEpoch": group.target_assignment_epoch,
    }
    if arguments.members:
        described["members"] = [_member_json(member) for member in group.members]
    elif arguments.state is not None:
        described["memberCount"] = len(group.members)
    else:
        described["offsets"] = [_row_json(row) for row in rows]
    return described


def _member_json(member: GroupMember) -> dict[str, object]:
    target = member.target_assignment
    return {
        "memberId": member.member_id,
        "groupInstanceId": member.group_instance_id,
        "clientId": member.client_id,
        "host": member.host.removeprefix("/"),
        "epoch": member.member_epoch,
        "assignment": _partitions_json(member.assignment),
        "targetAssignment": None if target is None else _partitions_json(target),
    }


def _partitions_json(partitions: Iterable[TopicPartition]) -> list[dict[str, object]]:
    return [
        {"topic": partition.topic, "partition": partition.partition}
        for partition in sorted(partitions)
    ]


def _row_json(row: OffsetRow) -> dict[str, object]:
    member = row.member
    return {
        "topic": row.topic,
        "partition": row.partition,
        "leaderEpoch": row.leader_epoch,
        "offset": row.offset,
        "logEndOffset": row.log_end_offset,
        "lag": row.lag,
        "memberId": None if member is None else member.member_id,
        "host": None if member is None else member.host.removeprefix("/"),
        "clientId": None if member is None else member.client_id,
    }


# Deletions


async def _delete(admin: GroupAdmin, arguments: argparse.Namespace) -> int:
    answers = await admin.delete_groups(await group_ids(admin, arguments))
    deleted = [group for group, answer in answers.items() if not isinstance(answer, KafkaError)]
    failed = [
        (group, answer) for group, answer in answers.items() if isinstance(answer, KafkaError)
    ]
    if arguments.json:
        print_json(
            {"deleted": deleted, "failed": {group: error.message for group, error in failed}}
        )
    elif deleted:
        names = ", ".join(f"'{group}'" for group in deleted)
        print(f"Deletion of requested consumer groups ({names}) was successful.")
    if not failed:
        return 0
    reasons = [await _why_it_stays(admin, group, error) for group, error in failed]
    raise CommandFailed("; ".join(reasons))


async def _why_it_stays(admin: GroupAdmin, group_id: str, error: KafkaError) -> str:
    if error.code == ErrorCode.GROUP_ID_NOT_FOUND:
        return str(await no_such_group(admin, group_id, error))
    if error.code == ErrorCode.NON_EMPTY_GROUP:
        return (
            f"group {group_id!r} still has members and is not deleted: stop its consumers first"
            f" (odradek consumer-groups --describe --group {group_id} --members shows them)"
        )
    return f"group {group_id!r} is not deleted: {error.message}"


async def _partitions_to_forget(
    admin: GroupAdmin, group_id: str, texts: list[str]
) -> list[TopicPartition]:
    """Returns the partitions that `--topic` names. The group may have offsets of a topic that was
    deleted; of any other topic that does not exist there is nothing to forget."""
    answer = (await admin.describe_groups([group_id]))[group_id]
    if isinstance(answer, KafkaError):
        raise await no_such_group(admin, group_id, answer)
    existing = await admin.list_topics(include_internal=True)
    there = [text for text in texts if text.partition(":")[0] in existing]
    partitions = await named_partitions(admin, there) if there else []
    if gone := NamedTopics(text for text in texts if text not in there):
        committed = await admin.list_group_offsets(group_id)
        gone.require(group_id, committed)
        partitions += gone.select(committed)
    return sorted(partitions)


async def _delete_offsets(admin: GroupAdmin, arguments: argparse.Namespace) -> int:
    (group_id,) = arguments.group
    partitions = await _partitions_to_forget(admin, group_id, arguments.topic)
    try:
        answers = await admin.delete_group_offsets(group_id, partitions)
    except KafkaError as error:
        raise await no_such_group(admin, group_id, error) from None
    failed = [answer for answer in answers.values() if isinstance(answer, KafkaError)]
    if arguments.json:
        print_json(
            [
                {
                    "topic": partition.topic,
                    "partition": partition.partition,
                    "error": answer.message if isinstance(answer, KafkaError) else None,
                }
                for partition, answer in sorted(answers.items())
            ]
        )
    else:
        if not failed:
            print(f"Request succeeded for deleting offsets from group {group_id}.")
        statuses = [
            (
                partition,
                f"Error: {answer.message}" if isinstance(answer, KafkaError) else "Successful",
            )
            for partition, answer in sorted(answers.items())
        ]
        print(deleted_offsets_table(statuses))
    if not failed:
        return 0
    what = failed[0].message.rstrip(".")
    if failed[0].code == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC:
        what = f"{what}; stop its consumers of that topic first"
    raise CommandFailed(f"some offsets of group {group_id!r} were not deleted: {what}")
