"""Statuses of groups for people, as tables that fit the terminal, and for programs, as JSON with
the names that Burrow uses."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from odradek.ops.lag.evaluation import (
    QUERY,
    Commit,
    GroupStatus,
    PartitionStatus,
    PartitionWindow,
)

WIDE: Final = 120
"""From so many columns on, tables show more."""
_SHORTEST: Final = 12


def group_lines(groups: Iterable[GroupStatus], columns: int | None, *, judged: bool) -> list[str]:
    """Returns a line for each group and query; with queries a column says which is what. `columns`
    is the width of the terminal, None for no limit. Without `judged` there is no
    status: one sample shows the lag, but not how it moves."""
    is_wide = columns is None or columns >= WIDE
    groups = list(groups)
    has_queries = any(group.kind == QUERY for group in groups)
    headers = ["GROUP", "STATUS", "LAG", "PARTITIONS", "WORST PARTITION"]
    if is_wide:
        headers += ["OFFSET", "END", "COMPLETE", "CLIENT"]
    if has_queries:
        headers.append("KIND")
    rows = []
    for group in groups:
        worst = group.worst
        row = [
            group.group,
            group.status.name if judged else "-",
            f"{group.total_lag}",
            f"{len(group.partitions)}",
            "-" if worst is None else _worst(worst, judged),
        ]
        if is_wide:
            row += _details(worst)
        if has_queries:
            row.append(group.kind)
        rows.append(row)
    return fitted(headers, rows, columns, (0, 4))


def _worst(partition: PartitionStatus, judged: bool) -> str:
    topic, index = partition.partition
    status = f" {partition.status.name}" if judged else ""
    return f"{topic}-{index}{status} {partition.current_lag}"


def _details(partition: PartitionStatus | None) -> list[str]:
    if partition is None:
        return ["-"] * 4
    window = partition.window
    return [
        _last(window.commits, "-"),
        f"{window.ends[-1]}" if window.ends else "-",
        f"{partition.complete:.0%}",
        window.client_id or "-",
    ]


def _last(commits: Sequence[Commit], otherwise: str) -> str:
    return f"{commits[-1].offset}" if commits else otherwise


def partition_lines(group: GroupStatus, columns: int | None, *, judged: bool) -> list[str]:
    """Returns a line for each partition of a group, after one line about the group."""
    is_wide = columns is None or columns >= WIDE
    headers = ["TOPIC", "PARTITION", "STATUS", "LAG", "OFFSET", "END"]
    if is_wide:
        headers += ["COMPLETE", "OWNER", "CLIENT"]
    rows = []
    for found in group.partitions:
        window = found.window
        row = [
            found.partition.topic,
            f"{found.partition.partition}",
            found.status.name if judged else "-",
            f"{found.current_lag}",
            _last(window.commits, "-"),
            f"{window.ends[-1]}" if window.ends else "-",
        ]
        if is_wide:
            row += [f"{found.complete:.0%}", window.owner or "-", window.client_id or "-"]
        rows.append(row)
    status = group.status.name if judged else "-"
    kind = " (query)" if group.kind == QUERY else ""
    first = f"{group.group}{kind}: {status}, {group.total_lag} records behind"
    return [first, "", *fitted(headers, rows, columns, (0,))]


def fitted(
    headers: list[str], rows: list[list[str]], columns: int | None, names: Sequence[int]
) -> list[str]:
    """Returns a table. If it is wider than the terminal, the columns `names` give way: the widest
    first, and a cut name ends with a dot."""
    widths = [max(map(len, column)) for column in zip(headers, *rows, strict=True)]
    if columns is not None:
        beyond = sum(widths) + 2 * (len(widths) - 1) - columns
        while beyond > 0:
            widest = max(names, key=lambda index: widths[index])
            if widths[widest] <= _SHORTEST:
                break
            widths[widest] -= 1
            beyond -= 1
    lines = []
    for row in [headers, *rows]:
        cells = [_cut(cell, width).ljust(width) for cell, width in zip(row, widths, strict=True)]
        lines.append("  ".join(cells).rstrip())
    return lines


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}."


def commit_json(commit: Commit | None) -> dict[str, Any] | None:
    if commit is None:
        return None
    return {
        "offset": commit.offset,
        "timestamp": commit.timestamp_ms,
        "observedAt": commit.timestamp_ms,
        "lag": commit.lag,
    }


def partition_json(one: PartitionStatus) -> dict[str, Any]:
    commits = one.window.commits
    return {
        "topic": one.partition.topic,
        "partition": one.partition.partition,
        "owner": one.window.owner,
        "client_id": one.window.client_id,
        "status": one.status.name,
        "start": commit_json(commits[0] if commits else None),
        "end": commit_json(commits[-1] if commits else None),
        "current_lag": one.current_lag,
        "complete": one.complete,
    }


def status_json(cluster: str, group: GroupStatus, *, all_partitions: bool) -> dict[str, Any]:
    """Returns a group as Burrow does, with all partitions or with those that are not OK."""
    return {
        "cluster": cluster,
        "group": group.group,
        "kind": group.kind,
        "status": group.status.name,
        "complete": group.complete,
        "partitions": [
            partition_json(found)
            for found in group.partitions
            if all_partitions or found.status.name != "OK"
        ],
        "partition_count": len(group.partitions),
        "maxlag": None if group.max_lag is None else partition_json(group.max_lag),
        "totallag": group.total_lag,
    }


def window_json(window: PartitionWindow, intervals: int) -> dict[str, Any]:
    """Returns the window of a partition. As in Burrow, places that are not filled yet are null and
    come first."""
    empty: list[dict[str, Any] | None] = [None] * (intervals - len(window.commits))
    return {
        "offsets": [*empty, *map(commit_json, window.commits)],
        "owner": window.owner,
        "client_id": window.client_id,
        "current-lag": window.current_lag,
    }
