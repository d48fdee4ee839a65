"""The table of `odradek lag`, after its flags are parsed."""

import argparse
import asyncio
import sys
from typing import Final

from odradek.cli.lag.query_options import queries_of
from odradek.cli.parser import terminal_columns
from odradek.config.spelling import did_you_mean
from odradek.ops.lag.evaluation import QUERY_PREFIX, Rules, Status
from odradek.ops.lag.history import REPEAT_MS, LagHistory, Sample
from odradek.ops.lag.report import group_lines, partition_lines, status_json
from odradek.ops.lag.sampling import LagAdmin, take_sample
from odradek.tools.admin_session import open_admin
from odradek.tools.failures import CommandFailed
from odradek.tools.hints import hint
from odradek.tools.terminal import print_json
from odradek.world.clock import SystemClock

# Commits come seconds apart, so asking more often than this shows nothing new.
_SAMPLE_S: Final = 1.0
_LISTED: Final = "; `odradek lag --measure 0s` lists the groups and queries"


def rules_of(arguments: argparse.Namespace) -> Rules:
    return Rules(intervals=arguments.intervals, allowed_lag=arguments.allowed_lag)


async def show(arguments: argparse.Namespace) -> int:
    """Prints the groups, or the partitions of one. With `--watch` it is called again and again with
    the same arguments, where it keeps what it has seen; each call takes one sample then."""
    is_watched = arguments.watch is not None
    history: LagHistory | None = getattr(arguments, "history", None)
    if history is None:
        history = LagHistory(rules_of(arguments), repeat_ms=_repeat(arguments))
        arguments.history = history
    async with open_admin(LagAdmin, arguments) as admin:
        await _fill(admin, history, arguments, 0.0 if is_watched else arguments.measure)
    return _print(history, arguments)


def _repeat(arguments: argparse.Namespace) -> int:
    """A measure that is shorter than usual still needs two commits of a group that is stuck."""
    if arguments.watch is not None or not arguments.measure:
        return REPEAT_MS
    measure_s: float = arguments.measure
    return min(REPEAT_MS, round(measure_s * 1000 / 2))


async def _fill(
    admin: LagAdmin, history: LagHistory, arguments: argparse.Namespace, measure_s: float
) -> None:
    clock = SystemClock()
    loop = asyncio.get_running_loop()
    queries = queries_of(arguments)
    groups = None if arguments.group is None else [arguments.group]
    if queries is not None and arguments.group is not None:
        is_query = arguments.group.startswith(QUERY_PREFIX)
        groups, queries = ([], queries) if is_query else (groups, None)
    ends_s = loop.time() + measure_s
    if measure_s and sys.stderr.isatty():
        hint(f"watching commits for {measure_s:g} s (--measure)")
    while True:
        sample = await take_sample(admin, clock, groups, queries)
        history.add(sample)
        if arguments.group in sample.unreadable:
            raise CommandFailed(sample.unreadable[arguments.group])
        if groups and arguments.group not in sample.groups:
            await _require_group(admin, arguments.group, sample)
        remaining_s = ends_s - loop.time()
        if remaining_s <= 0:
            break
        await asyncio.sleep(min(remaining_s, _SAMPLE_S, max(measure_s / 4, 0.05)))
    for group, reason in sample.unreadable.items():
        kind = "query" if group.startswith(QUERY_PREFIX) else "group"
        hint(f"{kind} {group} is left out: {reason}")


async def _require_group(admin: LagAdmin, group: str, sample: Sample) -> None:
    """Raises if there is no such group. One that exists may commit while it is watched."""
    known = [listing.group_id for listing in await admin.list_groups()]
    if group not in known:
        near = did_you_mean(group, [*known, *sample.queries])
        raise CommandFailed(f"group {group!r} does not exist{near or _LISTED}")


def _print(history: LagHistory, arguments: argparse.Namespace) -> int:
    now_ms = SystemClock().now_ms()
    judged = history.samples > 1
    columns = terminal_columns() if sys.stdout.isatty() else None
    if arguments.group is not None:
        status = history.evaluate(arguments.group, now_ms)
        if status.status is Status.NOTFOUND:
            raise CommandFailed(
                f"group {arguments.group!r} has committed nothing, or does not exist{_LISTED}"
            )
        if arguments.json:
            print_json(status_json("", status, all_partitions=True))
        else:
            print("\n".join(partition_lines(status, columns, judged=judged)))
        return 0
    statuses = history.evaluate_all(now_ms)
    if arguments.json:
        print_json([status_json("", status, all_partitions=True) for status in statuses])
    elif statuses:
        print("\n".join(group_lines(statuses, columns, judged=judged)))
    else:
        print("No consumer group has committed an offset, and no Spark query.")
    return 0
