"""The parts of an offset reset that need no broker: times, durations, CSV files."""

import csv
import io
from collections.abc import Iterable

from odradek.cli.quantities import time_since_1970_ms
from odradek.config.values import InvalidValue, parse_iso_duration_ms
from odradek.protocol.types import TopicPartition
from odradek.tools.failures import CommandFailed, UsageError

Plan = dict[TopicPartition, int]


def moment_ms(text: str) -> int:
    """Parses a time such as `2026-03-01T12:00:00.000`, in UTC unless a zone is given."""
    try:
        return time_since_1970_ms(text)
    except ValueError:
        raise UsageError(
            f"--to-datetime {text!r} is not like 2026-03-01T12:00:00.000 or 2026-03-01T12:00:00Z"
        ) from None


def duration_ms(text: str) -> int:
    """Parses an ISO 8601 duration of days, hours, minutes and seconds: `P1DT2H30M`, `PT0.5S`."""
    try:
        return parse_iso_duration_ms(text)
    except InvalidValue as error:
        raise UsageError(f"--by-duration {error}") from None


def read_plans(text: str, source: str, groups: list[str]) -> dict[str, Plan]:
    """Reads the new offsets of each group. Lines without a group belong to the single group of the
    flags. `source` is the file's name."""
    plans: dict[str, Plan] = {}
    try:
        rows = list(csv.reader(io.StringIO(text)))
    except csv.Error as error:
        raise CommandFailed(f"{source} is not CSV: {error}") from None
    for number, cells in enumerate(rows, 1):
        words = [cell.strip() for cell in cells]
        if not any(words):
            continue
        if len(words) == 3 and len(groups) == 1:
            words = [groups[0], *words]
        try:
            group, topic, partition, offset = words
            topic_partition, to = TopicPartition(topic, int(partition)), int(offset)
        except ValueError:
            raise CommandFailed(
                f"{source}: line {number}, {','.join(cells)!r}, is not topic,partition,offset"
                " (with one --group) or group,topic,partition,offset"
            ) from None
        plan = plans.setdefault(group, {})
        if topic_partition in plan:
            raise CommandFailed(
                f"{source}: line {number} names {topic_partition} of {group!r} again"
            )
        plan[topic_partition] = to
    if not plans:
        raise CommandFailed(f"{source} names no partitions")
    return plans


def write_plans(rows: Iterable[tuple[str, TopicPartition, int]], *, with_group: bool) -> str:
    """Writes CSV for `read_plans`. The group is the first column if there may be several groups."""
    output = io.StringIO()
    writer = csv.writer(output, lineterminator="\n")
    for group, partition, offset in rows:
        writer.writerow([*([group] if with_group else []), *partition, offset])
    return output.getvalue()
