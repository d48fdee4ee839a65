"""Plans and progress as tables for people and as JSON for programs."""

from collections.abc import Sequence
from typing import Any

from odradek.ops.balance.execution import Options, Progress, divided
from odradek.ops.balance.goals import LEAVING_BROKERS
from odradek.ops.balance.model import Resource
from odradek.ops.balance.plan import Move, Plan, expected_s, shown_bytes
from odradek.wording import counted

_KEYS = {
    Resource.REPLICAS: "replicas",
    Resource.LEADERS: "leaders",
    Resource.RATE: "bytesInPerSecond",
    Resource.LEADER_RATE: "leaderBytesInPerSecond",
    Resource.DISK: "diskBytes",
}
_SHOWN_MOVES = 20


def plan_json(plan: Plan, options: Options) -> dict[str, Any]:
    """Returns a plan with everything that moves."""
    before, after = plan.before.current_loads(), plan.after.current_loads()
    waves = divided(plan, options)
    return {
        "brokers": [
            {
                "broker": broker.id,
                "rack": broker.rack,
                "alive": broker.is_alive,
                "before": loads_json(before[broker.id]),
                "after": loads_json(after[broker.id]),
            }
            for broker in plan.before.brokers.values()
        ],
        "goals": [
            {
                "goal": goal.name,
                "hard": goal.is_hard,
                "before": goal.before,
                "after": goal.after,
                "met": goal.is_met,
            }
            for goal in plan.goals
        ],
        "moves": [move_json(move) for move in plan.moves],
        "elections": [str(partition) for partition in plan.elections],
        "replicasMoved": plan.replicas_moved,
        "bytesToMove": plan.bytes_to_move,
        "waves": len(waves),
        "throttleBytesPerSecond": options.throttle if options.throttle >= 0 else None,
        "expectedSeconds": (
            round(expected_s(waves, options.throttle), 1) if options.throttle > 0 else None
        ),
        "ratesKnown": plan.before.rates_known,
        "warnings": [*plan.warnings, *throttle_warnings(plan, options)],
    }


def loads_json(loads: Sequence[float]) -> dict[str, float]:
    return {key: round(loads[resource]) for resource, key in _KEYS.items()}


def move_json(move: Move) -> dict[str, Any]:
    return {
        "topic": move.partition.topic,
        "partition": move.partition.partition,
        "before": list(move.before),
        "after": list(move.after),
        "bytes": move.bytes_to_move,
    }


def throttle_warnings(plan: Plan, options: Options) -> list[str]:
    """Returns a warning if producers write faster to what moves than the throttle allows: such a
    move never ends."""
    if options.throttle < 0 or not plan.before.rates_known:
        return []
    for wave in divided(plan, options):
        rates: dict[int, float] = {}
        for move in wave:
            for broker in move.adding:
                rates[broker] = rates.get(broker, 0.0) + move.rate
        worst = max(rates.values(), default=0.0)
        if worst >= options.throttle:
            return [
                (
                    f"producers write {worst:,.0f} bytes a second to partitions that move to one"
                    " broker together; with this throttle they would never be in sync: raise"
                    " --throttle or lower --max-moves"
                )
            ]
    return []


def plan_lines(plan: Plan, options: Options) -> list[str]:
    """Returns a plan as text: brokers before and after, goals, what moves, and what it costs."""
    lines = [*_table(_broker_rows(plan)), ""]
    rows = [["GOAL", "BEFORE", "AFTER", ""]]
    for goal in plan.goals:
        verdict = "met" if goal.is_met else "not met"
        rows.append([goal.name, f"{goal.before:,.0f}", f"{goal.after:,.0f}", verdict])
    lines += _table(rows)
    if not plan.before.rates_known:
        lines.append("Byte rates were not measured (--measure 30s), so no goal uses them.")
    lines.append("")
    if plan.is_empty:
        lines.append("Nothing to do: no move makes the cluster more even.")
    else:
        lines += [_cost(plan, options), *_moves(plan)]
    lines += [
        f"warning: {warning}" for warning in (*plan.warnings, *throttle_warnings(plan, options))
    ]
    return lines


def _broker_rows(plan: Plan) -> list[list[str]]:
    rates = plan.before.rates_known
    header = ["BROKER", "RACK", "REPLICAS", "LEADERS", "DISK"] + (["BYTES IN/S"] if rates else [])
    before, after = plan.before.current_loads(), plan.after.current_loads()
    rows = [header]
    for broker in plan.before.brokers.values():
        old, new = before[broker.id], after[broker.id]
        row = [
            str(broker.id) if broker.is_alive else f"{broker.id} (down)",
            broker.rack or "-",
            _arrow(f"{old[Resource.REPLICAS]:.0f}", f"{new[Resource.REPLICAS]:.0f}"),
            _arrow(f"{old[Resource.LEADERS]:.0f}", f"{new[Resource.LEADERS]:.0f}"),
            _arrow(shown_bytes(old[Resource.DISK]), shown_bytes(new[Resource.DISK])),
        ]
        if rates:
            row.append(_arrow(shown_bytes(old[Resource.RATE]), shown_bytes(new[Resource.RATE])))
        rows.append(row)
    if not any(goal.name == LEAVING_BROKERS for goal in plan.goals):
        rows.append(["furthest from average", "", *_spreads(plan, rates)])
    return rows


def _spreads(plan: Plan, rates: bool) -> list[str]:
    shown_resources = [Resource.REPLICAS, Resource.LEADERS, Resource.DISK]
    shown_resources += [Resource.RATE] if rates else []
    return [
        _arrow(
            f"{plan.spread(plan.before, resource):.0%}", f"{plan.spread(plan.after, resource):.0%}"
        )
        for resource in shown_resources
    ]


def _arrow(before: str, after: str) -> str:
    return before if before == after else f"{before} -> {after}"


def _cost(plan: Plan, options: Options) -> str:
    waves = divided(plan, options)
    leaders = len({move.partition for move in plan.moves if not move.adding} | set(plan.elections))
    text = (
        f"{counted(plan.replicas_moved, 'replica moves', 'replicas move')},"
        f" {shown_bytes(plan.bytes_to_move)} in {counted(len(waves), 'wave')};"
        f" {counted(leaders, 'leader changes', 'leaders change')} without a move."
    )
    if plan.bytes_to_move and options.throttle > 0:
        text += (
            f" About {_duration(expected_s(waves, options.throttle))} at"
            f" {shown_bytes(options.throttle)} a second."
        )
    return text


def _moves(plan: Plan) -> list[str]:
    lines = [
        f"  {move.partition}: {list(move.before)} -> {list(move.after)}"
        + (f" ({shown_bytes(move.bytes_to_move)})" if move.adding else " (leader only)")
        for move in plan.moves[:_SHOWN_MOVES]
    ]
    more = len(plan.moves) - _SHOWN_MOVES
    return lines if more <= 0 else [*lines, f"  and {more} more, which --json shows"]


def _table(rows: list[list[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def _duration(amount_s: float) -> str:
    for unit, name in ((86_400, "d"), (3600, "h"), (60, "min")):
        if amount_s >= 2 * unit:
            return f"{amount_s / unit:.1f} {name}"
    return f"{amount_s:.0f} s"


# Progress


def progress_json(progress: Progress, path: str) -> dict[str, Any]:
    entry = progress.entry
    return {
        "state": progress.state,
        "kind": entry.kind,
        "reason": entry.reason,
        "startedMs": entry.started_ms,
        "throttleBytesPerSecond": entry.throttle if entry.throttle >= 0 else None,
        "throttled": {
            "brokers": sorted(progress.throttles.brokers, key=int),
            "topics": sorted(progress.throttles.topics),
        },
        "partitions": {
            "arrived": progress.arrived,
            "moving": progress.moving,
            "waiting": progress.waiting,
        },
        "journal": path,
    }


def progress_lines(progress: Progress, path: str) -> list[str]:
    entry = progress.entry
    lines = [
        f"{entry.kind}: {progress.state}" + (f" ({entry.reason})" if entry.reason else ""),
        (
            f"partitions: {progress.arrived} arrived, {progress.moving} moving,"
            f" {progress.waiting} waiting"
        ),
    ]
    if not progress.throttles.is_empty:
        brokers = ", ".join(sorted(progress.throttles.brokers, key=int))
        lines.append(f"throttles are set on broker {brokers}")
    if progress.is_interrupted:
        lines.append(
            "The command that carried it out has ended before its time. `odradek balance run` goes"
            " on with it; `odradek balance cancel` stops the moves. Both remove the throttles."
        )
    elif not progress.is_alive and not progress.throttles.is_empty:
        lines.append("`odradek balance cancel` removes them, when these brokers run.")
    lines.append(f"journal: {path}")
    return lines
