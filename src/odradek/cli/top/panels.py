"""The panels of `odradek top`: which tables there are, and their columns.

A column has an importance: when the terminal is too narrow, the columns with the highest numbers go
first. A value of None is not known; it is shown as `-` and sorted behind the others.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from odradek.cli.quantities import shown_bytes, shown_seconds
from odradek.cli.top.styled import PLAIN, clean
from odradek.ops.top.figures import (
    BrokerFigures,
    ClusterFigures,
    Event,
    GroupFigures,
    PartitionFigures,
    TopicFigures,
)

Value = float | str | None


@dataclass(frozen=True, slots=True)
class Column:
    """`value` is what rows are sorted by, `show` how it is written."""

    header: str
    value: Callable[[Any], Value]
    show: Callable[[Any], str]
    importance: int = 0
    width: int = 0
    """At least so many characters, so that the page does not move when figures do."""
    is_left: bool = False
    style: Callable[[Any], str] = field(default=lambda row: PLAIN)


@dataclass(frozen=True, slots=True)
class Panel:
    name: str
    columns: tuple[Column, ...]
    rows: Callable[[ClusterFigures], Iterable[Any]]
    text_of: Callable[[Any], str]
    """What a filter looks at."""
    sort: str
    """The header of the column by which rows are sorted at first, the largest first."""
    empty: str


def count(number: float | None) -> str:
    """Returns a number in at most six characters."""
    if number is None:
        return "-"
    if 0 < number < 9.95 and number != int(number):
        return f"{number:.1f}"
    if number < 99_999.5:
        return f"{number:.0f}"
    for prefix in ("k", "M", "G"):
        number /= 1000
        if number < 999.5:
            return f"{number:.1f}{prefix}" if number < 99.95 else f"{number:.0f}{prefix}"
    return f"{number / 1000:.0f}T"


def size(amount: float | None) -> str:
    return "-" if amount is None else shown_bytes(amount)


def share(part: float | None) -> str:
    return "-" if part is None else f"{100 * part:.0f}%"


def age(group: GroupFigures) -> str:
    if group.lag_seconds is None:
        return "-"
    return f"{'>' if group.is_older else ''}{shown_seconds(group.lag_seconds)}"


def _number(header: str, name: str, importance: int, width: int = 7) -> Column:
    return Column(
        header,
        lambda row: getattr(row, name),
        lambda row: count(getattr(row, name)),
        importance,
        width,
    )


def _bytes(header: str, name: str, importance: int) -> Column:
    return Column(
        header,
        lambda row: getattr(row, name),
        lambda row: size(getattr(row, name)),
        importance,
        7,
    )


def _name(header: str, name: str, width: int = 12) -> Column:
    return Column(
        header,
        lambda row: getattr(row, name),
        lambda row: clean(str(getattr(row, name))),
        0,
        width,
        is_left=True,
    )


def _warned(header: str, name: str, importance: int, style: str = "warn") -> Column:
    """A number that should be 0."""
    return Column(
        header,
        lambda row: getattr(row, name),
        lambda row: count(getattr(row, name)),
        importance,
        4,
        style=lambda row: style if getattr(row, name) else PLAIN,
    )


_STATES: Final = {"running": "good", "gone": "bad"}
_STATUSES: Final = {"OK": "good", "WARN": "warn", "ERR": "bad"}
_SEVERITIES: Final = {"good": "good", "bad": "bad"}


def _disk_used(broker: BrokerFigures) -> float | None:
    if not broker.disk_total_bytes or broker.disk_free_bytes is None:
        return None
    return 1 - broker.disk_free_bytes / broker.disk_total_bytes


def _fullness(broker: BrokerFigures) -> str:
    used = _disk_used(broker) or 0.0
    return "bad" if used > 0.95 else "warn" if used > 0.85 else PLAIN


def _broker_name(broker: BrokerFigures) -> str:
    return f"{broker.id}{' *' if broker.is_controller else ''}"


BROKERS: Final = Panel(
    "brokers",
    (
        Column("BROKER", lambda one: -one.id, _broker_name, 0, 7, is_left=True),
        Column(
            "STATE",
            lambda one: one.state,
            lambda one: one.state,
            0,
            9,
            is_left=True,
            style=lambda one: _STATES.get(one.state, "warn"),
        ),
        _bytes("IN/s", "bytes_in", 1),
        _bytes("OUT/s", "bytes_out", 1),
        _number("REC/s", "messages_in", 3),
        _number("REQ/s", "requests", 2),
        Column("CPU", lambda one: one.cpu, lambda one: share(one.cpu), 2, 4),
        _bytes("MEMORY", "memory_bytes", 2),
        Column("DISK", _disk_used, lambda one: share(_disk_used(one)), 2, 4, style=_fullness),
        _bytes("LOGS", "log_bytes", 5),
        _number("LEADS", "leaders", 2, 5),
        _number("REPL", "replicas", 6, 5),
        _warned("URP", "under_replicated", 2),
        _number("P99 ms", "produce_p99_ms", 4, 6),
        _number("CONN", "connections", 6, 5),
        Column("ADDRESS", lambda one: one.address, lambda one: one.address, 7, 14, is_left=True),
        Column("RACK", lambda one: one.rack or "", lambda one: one.rack or "-", 8, is_left=True),
        Column("FROM", lambda one: one.figures_from, lambda one: one.figures_from, 9, is_left=True),
    ),
    lambda figures: figures.brokers,
    lambda one: f"{one.id} {one.address} {one.state}",
    "BROKER",
    "no brokers",
)


def _topic_style(topic: TopicFigures) -> str:
    return "bad" if topic.offline else "warn" if topic.under_replicated else PLAIN


TOPICS: Final = Panel(
    "topics",
    (
        Column(
            "TOPIC", lambda one: one.name, lambda one: clean(one.name), 0, 16, True, _topic_style
        ),
        _bytes("IN/s", "bytes_in", 1),
        _number("REC/s", "messages_in", 1),
        _bytes("OUT/s", "bytes_out", 2),
        _number("PARTS", "partitions", 3, 5),
        _warned("URP", "under_replicated", 3),
        _bytes("SIZE", "log_bytes", 4),
        _number("RECORDS", "records", 5),
        _warned("OFFLINE", "offline", 6, "bad"),
        _number("COPIES", "replication_factor", 7, 6),
    ),
    lambda figures: figures.topics,
    lambda one: one.name,
    "REC/s",
    "no topics",
)


def _isr(partition: PartitionFigures) -> str:
    return ",".join(map(str, partition.in_sync))


def _replicas(partition: PartitionFigures) -> str:
    return ",".join(map(str, partition.replicas))


PARTITIONS: Final = Panel(
    "partitions",
    (
        Column(
            "PARTITION",
            lambda one: f"{one.topic}-{one.partition:06}",
            lambda one: clean(f"{one.topic}-{one.partition}"),
            0,
            18,
            is_left=True,
        ),
        _number("REC/s", "messages_in", 1),
        _bytes("IN/s", "bytes_in", 1),
        Column(
            "LEADER",
            lambda one: one.leader,
            lambda one: "none" if one.leader < 0 else str(one.leader),
            2,
            6,
            style=lambda one: "bad" if one.leader < 0 else PLAIN,
        ),
        Column(
            "IN SYNC",
            lambda one: len(one.in_sync) - len(one.replicas),
            _isr,
            3,
            8,
            is_left=True,
            style=lambda one: "warn" if one.is_under_replicated else PLAIN,
        ),
        Column("REPLICAS", _replicas, _replicas, 5, 8, is_left=True),
        _number("END", "end_offset", 4, 8),
        _bytes("SIZE", "log_bytes", 4),
    ),
    lambda figures: figures.partitions,
    lambda one: f"{one.topic}-{one.partition}",
    "REC/s",
    "no partitions",
)

GROUPS: Final = Panel(
    "groups",
    (
        _name("GROUP", "name", 16),
        Column(
            "STATUS",
            lambda one: ("-", "OK", "WARN", "ERR").index(one.status),
            lambda one: one.status,
            1,
            6,
            is_left=True,
            style=lambda one: _STATUSES.get(one.status, PLAIN),
        ),
        _number("LAG", "lag", 0),
        Column("BEHIND", lambda one: one.lag_seconds, age, 1, 8),
        _number("READ/s", "consumed", 2),
        _number("PARTS", "partitions", 4, 5),
        _number("CLIENTS", "clients", 5, 7),
        Column(
            "WORST PARTITION",
            lambda one: one.worst or "",
            lambda one: clean(one.worst or "-"),
            3,
            16,
            is_left=True,
        ),
        Column("KIND", lambda one: one.kind, lambda one: one.kind, 6, 5, is_left=True),
    ),
    lambda figures: figures.groups,
    lambda one: one.name,
    "LAG",
    "no consumer group has committed an offset",
)


def _clock(event: Event) -> str:
    return datetime.fromtimestamp(event.at_ms / 1000).astimezone().strftime("%H:%M:%S")


EVENTS: Final = Panel(
    "events",
    (
        Column("TIME", lambda one: one.at_ms, _clock, 0, 8, is_left=True),
        Column(
            "EVENT",
            lambda one: one.text,
            lambda one: clean(one.text),
            0,
            20,
            is_left=True,
            style=lambda one: _SEVERITIES.get(one.severity, PLAIN),
        ),
    ),
    lambda figures: figures.events,
    lambda one: one.text,
    "TIME",
    "nothing has changed since this page was opened",
)

PANELS: Final = (BROKERS, TOPICS, PARTITIONS, GROUPS, EVENTS)
